//! The bundle for a PlatformOperator. I/O: catalogs are asked.

use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use rukpak_catalog::check::{self, Refusal};
use rukpak_catalog::choose::{self, Choice, Request};
use rukpak_catalog::{Bundle, Range, version};
use rukpak_crds::{ChosenSource, DependencyPolicy, PlatformOperator, names};
use rukpak_plan::retry::Class;
use rukpak_resolver::set::Needy;
use rukpak_runtime::api;

use super::standing::is_owner;
use super::{Pass, lookup};
use crate::catalogs::{self, Found};
use crate::dependencies::Dependent;
use crate::dependencies::obtain::Asking;
use crate::image::{self, Tag};

/// Why no bundle could be chosen.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The package could not be looked up.
    #[error(transparent)]
    Catalog(#[from] catalogs::Error),
    /// The range of versions is none.
    #[error("spec.package.version")]
    Range(#[from] version::Error),
    #[error(transparent)]
    Choice(#[from] choose::Error),
    /// The catalog lets somebody else say what is installed.
    #[error(transparent)]
    Digest(#[from] Tag),
    /// The catalog states that it cannot be installed.
    #[error(transparent)]
    Unsupported(#[from] Refusal),
    /// What it depends on is not installed.
    #[error("{refusal}; {help}")]
    Unmet { refusal: Refusal, help: String },
    /// What it depends on is to be installed first.
    #[error("{0}")]
    Obtaining(String),
    /// What it depends on cannot be asked for.
    #[error("what it depends on cannot be asked for")]
    Unobtained(#[source] api::Error),
}

/// A bundle that may be installed.
pub(super) struct Chosen {
    pub source: ChosenSource,
    pub dependencies: Ignored,
}

/// What the BundleDeployment need not check: the value of its annotation [`names::IGNORE_DEPENDENCIES`], if it has one.
pub(super) type Ignored = Option<&'static str>;

impl Error {
    /// When to try again.
    pub fn class(&self) -> Class {
        match self {
            Self::Catalog(error) => error.class(),
            Self::Unobtained(_) => Class::Transient,
            Self::Range(_)
            | Self::Choice(_)
            | Self::Digest(_)
            | Self::Unsupported(_)
            | Self::Unmet { .. }
            | Self::Obtaining(_) => Class::Terminal,
        }
    }

    /// What else there is to say of it.
    pub fn hint(&self) -> Option<String> {
        if let Self::Catalog(error) = self { error.hint() } else { None }
    }

    /// Whether nobody tells us when it is mended: a spec and the revision of a catalog are watched.
    pub fn is_unwatched(&self) -> bool {
        match self {
            Self::Catalog(error) => error.is_unwatched(),
            Self::Unobtained(_) => true,
            _ => false,
        }
    }
}

/// What the spec asks of the package.
pub(super) fn request(operator: &PlatformOperator) -> Result<Request, version::Error> {
    let package = &operator.spec.package;
    let range = package.version.as_deref().map(Range::parse).transpose()?;
    Ok(Request { channel: package.channel.clone(), range })
}

/// Chooses from the catalogs. `None` if something else happened to the PlatformOperator meanwhile.
#[tracing::instrument(level = "debug", skip_all)]
pub(super) async fn choose(pass: &Pass) -> Result<Option<Chosen>, Error> {
    let request = request(&pass.operator)?;
    let Some(found) = lookup::package(pass, None).await.transpose()? else { return Ok(None) };
    let choice = choose::choose(found.package(), &request)?;
    let supported = lookup::unless_superseded(pass, None, supported(pass, &found, &choice)).await;
    let Some(dependencies) = supported.transpose()? else { return Ok(None) };
    let source = chosen(&found.catalog, &pass.operator.spec.package.name, &choice);
    Ok(Some(Chosen { source, dependencies }))
}

/// Whether the catalog states nothing against the bundle, and what it depends on is installed.
pub(super) async fn supported(pass: &Pass, found: &Found, choice: &Choice<'_>) -> Result<Ignored, Error> {
    if found.requires_digest {
        image::require_digest(&found.catalog, &choice.bundle.name, choice.bundle.image.as_deref())?;
    }
    let facts = found.facts(choice.bundle, choice.channel).await?;
    let mut bundle = Bundle { facts, ..choice.bundle.clone() };
    let checked = check::check(&bundle);
    let asking = Asking::Operator(&pass.operator);
    if asking.says(names::IGNORE_DEPENDENCIES) {
        return match checked {
            Ok(()) | Err(Refusal::Dependency { .. }) => Ok(Some("true")),
            Err(refusal) => Err(refusal.into()),
        };
    }
    let (dependencies, package) = (&pass.context.dependencies, &pass.operator.spec.package.name);
    let refusal = match checked {
        Ok(()) => {
            dependencies.note(package, &bundle);
            return Ok(None);
        }
        Err(refusal @ Refusal::Dependency { .. }) => refusal,
        Err(refusal) => return Err(refusal.into()),
    };
    dependencies.learn(&pass.context.catalogs).await;
    let stated = bundle.clone();
    // APIs that it requires are waited for by the BundleDeployment.
    bundle.facts.requires.clear();
    if dependencies.are_met(Dependent::Operator(pass.name.clone()), package, &bundle) {
        dependencies.note(package, &stated);
        dependencies.settle(&asking, &pass.context.client).await.map_err(Error::Unobtained)?;
        return Ok(Some(names::PACKAGES));
    }
    let policy = pass.operator.spec.dependencies.unwrap_or_default();
    let needy = Needy { package: package.clone(), bundle, catalog: found.catalog.clone() };
    let with = (&*pass.context.catalogs, &pass.context.client);
    let help = Box::pin(dependencies.obtain(&asking, policy, &needy, with)).await.map_err(Error::Unobtained)?;
    match policy {
        DependencyPolicy::Refuse => Err(Error::Unmet { refusal, help }),
        DependencyPolicy::Propose | DependencyPolicy::Install => {
            let (bundle, version) = (&needy.bundle.name, &needy.bundle.version_text);
            Err(Error::Obtaining(format!(
                "bundle {bundle:?} with version {version:?} depends on other packages: {help}"
            )))
        }
    }
}

/// Warns where the image of what is installed is named by a tag: it is pinned only once it has been pulled.
pub(super) fn warn_of_tag(operator: &str, chosen: &ChosenSource) {
    let ChosenSource { catalog, bundle, image, .. } = chosen;
    image::warn_of_tag(("PlatformOperator", operator), Some(catalog), bundle, image);
}

/// As it is noted in the status.
pub(super) fn chosen(catalog: &str, package: &str, choice: &Choice<'_>) -> ChosenSource {
    ChosenSource {
        catalog: catalog.to_owned(),
        package: package.to_owned(),
        channel: choice.channel.map(str::to_owned),
        bundle: choice.bundle.name.clone(),
        version: choice.bundle.version_text.clone(),
        image: choice.bundle.image.clone().unwrap_or_default(),
    }
}

/// Why another PlatformOperator is to install the package, if it is. In words.
pub(super) fn conflict(pass: &Pass) -> Option<String> {
    let package = &pass.operator.spec.package.name;
    let others = pass.context.operators.state();
    let ours = rank(pass, &pass.operator);
    let holder = others
        .iter()
        .filter(|other| other.uid().as_deref() != Some(&pass.uid) && stands(pass, other))
        .filter(|other| package_of(pass, other) == package && rank(pass, other) < ours)
        .min_by_key(|other| rank(pass, other));
    if let Some(holder) = holder {
        if pass.context.claims.give_up(&pass.uid) {
            pass.context.wake.duplicates(&pass.context.operators);
        }
        return Some(refusal(pass, &holder.name_any()));
    }
    let by_uid = |uid: &str| others.iter().find(|other| other.uid().as_deref() == Some(uid));
    let is_claimed =
        |uid: &str| by_uid(uid).is_some_and(|other| stands(pass, other) && package_of(pass, other) == package);
    let claimant = pass.context.claims.claim(package, &pass.uid, is_claimed).err()?;
    let claimant = by_uid(&claimant)?.name_any();
    // It did not know of us. If it has not begun, it gives way.
    pass.context.wake.operator(&claimant);
    Some(refusal(pass, &claimant))
}

fn refusal(pass: &Pass, other: &str) -> String {
    let (name, package) = (&pass.name, &pass.operator.spec.package.name);
    format!(
        "spec.package.name is not unique, conflicts with PlatformOperator {other}: package {package} is that of \
         PlatformOperator {other}, so PlatformOperator {name} installs nothing; delete PlatformOperator {name}"
    )
}

/// Whether it has a say: also on its way out, until what it has installed is gone.
fn stands(pass: &Pass, operator: &PlatformOperator) -> bool {
    operator.meta().deletion_timestamp.is_none() || has_deployment(pass, operator)
}

/// The package that it has installed, else the one that it asks for.
fn package_of<'a>(pass: &Pass, operator: &'a PlatformOperator) -> &'a str {
    let source = operator.status.as_ref().and_then(|status| status.source.as_ref());
    let installed = source.filter(|_| has_deployment(pass, operator));
    installed.map_or(&operator.spec.package.name, |source| &source.package)
}

/// Smaller is first: who has a BundleDeployment, then who is older, then by name.
fn rank(pass: &Pass, operator: &PlatformOperator) -> (bool, Option<jiff::Timestamp>, String) {
    let created = operator.meta().creation_timestamp.as_ref().map(|time| time.0);
    (!has_deployment(pass, operator), created, operator.name_any())
}

fn has_deployment(pass: &Pass, operator: &PlatformOperator) -> bool {
    let uid = operator.uid().unwrap_or_default();
    match pass.context.deployments.get(&ObjectRef::new(&operator.name_any())) {
        Some(deployment) => is_owner(&deployment, &uid),
        None => pass.context.unseen.contains(&uid),
    }
}
