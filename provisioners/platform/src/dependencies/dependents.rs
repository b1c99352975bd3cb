//! Who needs what is installed. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rukpak_catalog::Bundle;
use rukpak_crds::BundleDeployment;
use rukpak_crds::names::IGNORE_DEPENDENTS;
use rukpak_resolver::Facts;
use rukpak_runtime::lock::lock;

use super::{Dependencies, Dependent, Release};

/// Everything that is installed, with what is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependents(Vec<Known>);

/// What is installed, and what it provides and requires.
#[derive(Clone, Debug)]
struct Known {
    holder: Dependent,
    package: String,
    bundle: String,
    facts: Arc<Facts>,
    /// Whether that is all: a catalog or the inventory has described it.
    is_described: bool,
}

impl Dependencies {
    /// The same as [`Self::dependents`] if something that is installed needs anything; otherwise nothing is looked at.
    pub fn demanding_dependents(&self) -> Dependents {
        let is_told = lock(&self.facts).values().any(|facts| facts.is_demanding());
        let is_demanding = is_told || self.stores.deployments.state().iter().any(|deployment| demands(deployment));
        if is_demanding { self.dependents() } else { Dependents::default() }
    }

    /// The same for one whom they hold up: it is woken by [`Self::changed`] once something else is installed.
    pub fn dependents_for(&self, held: &Dependent) -> Dependents {
        self.installed_for(held);
        self.dependents()
    }

    /// Everything that is installed, as it is known now.
    pub fn dependents(&self) -> Dependents {
        let installed = self.installed();
        let known = |release: Release| {
            let described = self.known(&release);
            let is_described = described.is_some();
            let facts = described.or_else(|| release.facts().map(Arc::new))?;
            Some(Known {
                holder: release.holder,
                package: release.package,
                bundle: release.bundle,
                facts,
                is_described,
            })
        };
        Dependents(installed.into_iter().filter_map(known).collect())
    }
}

/// Whether the inventory says that its bundle needs anything.
fn demands(deployment: &BundleDeployment) -> bool {
    let inventory = deployment.status.as_ref().and_then(|status| status.inventory.as_ref());
    let mut properties = inventory.iter().flat_map(|inventory| &inventory.properties);
    properties.any(|property| property.type_.ends_with(".required") || property.type_ == "olm.constraint")
}

impl Dependents {
    /// Those who have what they need now, and had not if `bundle` took the place of what is installed of `package`. In words.
    pub fn broken_by(&self, package: &str, bundle: &Bundle) -> Vec<String> {
        let mut demanding =
            self.0.iter().filter(|known| known.package != package && known.facts.is_demanding()).peekable();
        if demanding.peek().is_none() {
            return Vec::new();
        }
        // What cannot be read provides nothing that anybody could count on.
        let new = Facts::of(package, bundle).unwrap_or_default();
        let now = || self.0.iter().map(|known| &*known.facts);
        let then = || {
            let others = self.0.iter().filter(|known| known.package != package);
            others.map(|known| &*known.facts).chain([&new])
        };
        demanding.filter_map(|dependent| lost(dependent, &now(), &then())).collect()
    }

    /// What each of them needs and none of the others provides, by who has it installed and the bundle.
    pub fn missing(&self) -> BTreeMap<(Dependent, String), BTreeSet<String>> {
        let all = self.0.iter().map(|known| &*known.facts);
        let demanding = self.0.iter().filter(|known| known.facts.is_demanding());
        demanding
            .map(|known| {
                let missing = known.facts.unmet_by(&all).into_iter().collect();
                ((known.holder.clone(), known.bundle.clone()), missing)
            })
            .collect()
    }

    /// Who needs what each of them has installed: without it they would miss something.
    ///
    /// Of those whose bundle no catalog describes nothing is known. What was `noted` of them before stands.
    pub fn needed(&self, noted: impl Fn(&Dependent) -> BTreeSet<String>) -> BTreeMap<Dependent, BTreeSet<String>> {
        let undescribed: BTreeSet<String> =
            self.0.iter().filter(|known| !known.is_described).map(|known| marked(&known.holder)).collect();
        let mut needed: BTreeMap<Dependent, BTreeSet<String>> = BTreeMap::new();
        for provider in &self.0 {
            let kept = noted(&provider.holder).intersection(&undescribed).cloned().collect();
            needed.entry(provider.holder.clone()).or_insert(kept);
        }
        for dependent in self.0.iter().filter(|known| known.facts.is_demanding()) {
            for index in dependent.facts.met_by(self.0.iter().map(|known| &*known.facts)) {
                let provider = &self.0[index];
                let all = self.0.iter().map(|known| &*known.facts);
                let others = self.0.iter().enumerate().filter(|(other, _)| *other != index);
                let others = others.map(|(_, known)| &*known.facts);
                if provider.holder != dependent.holder && lost(dependent, &all, &others).is_some() {
                    needed.entry(provider.holder.clone()).or_default().insert(marked(&dependent.holder));
                }
            }
        }
        needed
    }
}

/// Why a bundle is not taken that others could not do with, and the way out.
pub(crate) fn would_break(broken: &[String]) -> String {
    format!(
        "it would leave without what they need: {}; upgrade or delete these first, or have it installed all the same by the annotation \
         {IGNORE_DEPENDENTS}=\"true\"",
        broken.join(", ")
    )
}

/// As the annotation names it.
pub(super) fn marked(dependent: &Dependent) -> String {
    format!("{}/{}", dependent.kind(), dependent.name())
}

/// What the dependent has now and would not have then. In words.
fn lost<'a>(
    dependent: &Known,
    now: &(impl Iterator<Item = &'a Facts> + Clone),
    then: &(impl Iterator<Item = &'a Facts> + Clone),
) -> Option<String> {
    let missed: BTreeSet<String> = dependent.facts.unmet_by(now).into_iter().collect();
    let lost: Vec<String> = dependent.facts.unmet_by(then).into_iter().filter(|what| !missed.contains(what)).collect();
    let Known { holder, bundle, .. } = dependent;
    (!lost.is_empty()).then(|| format!("{holder} ({bundle} needs a bundle {})", lost.join(" and a bundle ")))
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::model::Gvk;

    use super::super::tests::bundle_of as bundle;
    use super::*;

    fn known(package: &str, bundle: &Bundle) -> Known {
        Known {
            holder: Dependent::Extension(package.to_owned()),
            package: package.to_owned(),
            bundle: bundle.name.clone(),
            facts: Arc::new(Facts::of(package, bundle).unwrap()),
            is_described: true,
        }
    }

    fn nothing(_: &Dependent) -> BTreeSet<String> {
        BTreeSet::new()
    }

    #[test]
    fn an_upgrade_that_leaves_the_range_of_a_dependent_breaks_it() {
        let all = Dependents(vec![
            known("wells", &bundle("wells", "1.2.0", &[])),
            known("p", &bundle("p", "1.0.0", &[("wells", ">=1.0.0 <2.0.0")])),
            known("q", &bundle("q", "1.0.0", &[("nowhere", ">=1.0.0")])),
        ]);
        assert_eq!(all.broken_by("wells", &bundle("wells", "1.3.0", &[])), Vec::<String>::new());
        let told = "ClusterExtension p (p.v1.0.0 needs a bundle with package: wells and with version in range: >=1.0.0 <2.0.0)";
        assert_eq!(all.broken_by("wells", &bundle("wells", "2.0.0", &[])), [told]);
        assert_eq!(all.broken_by("p", &bundle("p", "2.0.0", &[])), Vec::<String>::new(), "nobody needs it");
    }

    #[test]
    fn who_needs_whom_is_told_of_the_only_provider() {
        let api = Gvk { group: "g".to_owned(), version: "v1".to_owned(), kind: "K".to_owned() };
        let mut provider = bundle("springs", "1.0.0", &[]);
        provider.facts.provides = vec![api.clone()];
        let mut user = bundle("p", "1.0.0", &[("wells", ">=1.0.0")]);
        user.facts.requires = vec![api.clone()];
        let mut all = Dependents(vec![
            known("springs", &provider),
            known("wells", &bundle("wells", "1.2.0", &[])),
            known("p", &user),
        ]);
        let needed = all.needed(nothing);
        let of = |name: &str| needed[&Dependent::Extension(name.to_owned())].iter().cloned().collect::<Vec<_>>();
        assert_eq!(
            (of("springs"), of("wells"), of("p")),
            (vec!["ClusterExtension/p".to_owned()], of("springs"), vec![])
        );

        all.0.push(known("second", &provider));
        let springs = Dependent::Extension("springs".to_owned());
        assert!(all.needed(nothing)[&springs].is_empty(), "another one provides it, too");
    }

    #[test]
    fn what_was_noted_of_those_that_no_catalog_describes_stands() {
        let mut vanished = known("p", &bundle("p", "1.0.0", &[]));
        vanished.is_described = false;
        let all = Dependents(vec![known("wells", &bundle("wells", "1.2.0", &[])), vanished]);
        let noted = |_: &Dependent| ["ClusterExtension/p", "ClusterExtension/gone"].map(str::to_owned).into();
        let needed = all.needed(noted);
        assert_eq!(needed[&Dependent::Extension("wells".to_owned())], ["ClusterExtension/p".to_owned()].into());
    }
}
