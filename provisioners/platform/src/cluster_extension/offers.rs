//! What the ClusterCatalogs have of a package, and which bundle that makes. Memory; after a restart the disk.

use std::borrow::Cow;
use std::sync::Arc;

use kube::ResourceExt;
use rukpak_catalog::check::shortened;
use rukpak_catalog::resolve::{self, Installed, Offer, Request};
use rukpak_catalog::version::Constraint;
use rukpak_catalog::{Bundle, Catalog, Package};
use rukpak_crds::olm::ClusterCatalog;
use rukpak_crds::olm::cluster_catalog::AvailabilityMode;
use rukpak_crds::olm::cluster_extension::{CatalogFilter, UpgradeConstraintPolicy};
use rukpak_crds::olm::selection::BadSelector;
use rukpak_resolver::set::Needy;

use super::Context;
use super::decide::{Deprecations, Resolution};
use super::upgrade::{self, AreMet, Breaks, Upgrade};
use crate::catalogs::in_status;
use crate::cluster_catalog::content::{content, progress};
use crate::dependencies::dependents::would_break;
use crate::image;
use crate::installed::Identity;

/// What is known of dependencies.
#[derive(Clone, Copy)]
pub(super) struct Dependencies<'a> {
    /// Whether somebody said that they are taken care of.
    pub are_ignored: bool,
    pub are_met: AreMet<'a>,
    pub breaks: Breaks<'a>,
}

/// What the catalogs say.
pub(super) struct Answer {
    /// The bundle that is to be installed.
    pub resolution: Resolution,
    /// A newer version that is not to be.
    pub upgrade: Upgrade,
    /// What would be installed if all that it depends on were.
    pub needy: Option<Box<Needy>>,
}

/// A catalog that is asked.
struct Asked {
    name: String,
    priority: i32,
    catalog: Arc<Catalog>,
}

/// A version that may take the place of what is installed.
pub(super) struct Wish {
    pub identity: Identity,
    pub bundle: Bundle,
    pub catalog: String,
    pub channel: String,
}

/// What the catalogs would make of a request if nobody depended on anybody.
#[derive(Default)]
pub(super) struct Wishes {
    /// The versions that may take the place of what is installed, the preferred one first.
    pub all: Vec<Wish>,
    /// What is deprecated, if a catalog says.
    pub data: Option<Deprecations>,
    /// Whether the catalogs could be asked.
    pub is_known: bool,
}

/// So many versions are thought of for one extension.
const MOST_WISHES: usize = 8;

/// What is asked, and whom.
pub(super) struct Question {
    range: Option<Constraint>,
    asked: Vec<Asked>,
    /// Whether there is a catalog that could say more another time.
    has_catalog: bool,
}

impl Question {
    /// What is asked of which catalogs, by name; says what is wrong with the question. Pure.
    pub fn of(
        filter: &CatalogFilter,
        catalogs: Vec<Arc<ClusterCatalog>>,
    ) -> Result<(Self, Vec<Arc<ClusterCatalog>>), String> {
        let text = filter.version.as_deref().filter(|text| !text.is_empty());
        let range = text.map(Constraint::parse).transpose().map_err(|error| {
            format!("desired version range {:?} is invalid: {error}", filter.version.as_deref().unwrap_or_default())
        })?;
        let mut selected = selected(filter, catalogs).map_err(|error| error.to_string())?;
        let has_catalog = !selected.is_empty();
        selected.retain(|catalog| catalog.spec.availability_mode == AvailabilityMode::Available);
        Ok((Self { range, asked: Vec::new(), has_catalog }, selected))
    }

    /// Learns what a catalog has. What is installed must not depend on who answers today: one that cannot be read keeps all from being
    /// asked, and is told of. Pure.
    pub fn learn(
        &mut self,
        package: &str,
        catalog: &ClusterCatalog,
        content: Result<Arc<Catalog>, String>,
    ) -> Result<(), String> {
        let name = catalog.name_any();
        let content = content.map_err(|error| {
            format!(
                "error walking catalogs: error getting package {package:?} from catalog {name:?}: {error}{}; to do without it, \
                 leave it out by spec.source.catalog.selector, or set its spec.availabilityMode to Unavailable",
                progress(catalog)
            )
        })?;
        self.asked.push(Asked { name, priority: catalog.spec.priority, catalog: content });
        Ok(())
    }

    /// What the catalogs say. Pure.
    pub fn answer(
        &self,
        filter: &CatalogFilter,
        installed: Option<&Identity>,
        (requires_digests, dependencies): (bool, Dependencies<'_>),
    ) -> Answer {
        let request = request(filter, self.range.as_ref(), installed, dependencies.are_ignored);
        answer(&self.asked, request, installed, (requires_digests, dependencies), self.has_catalog)
    }
}

impl Answer {
    /// The catalogs cannot be asked.
    pub fn unasked(message: String) -> Self {
        let resolution = Resolution::Failed { message, has_catalog: true };
        Self { resolution, upgrade: Upgrade::Unlooked, needy: None }
    }
}

/// Finds the bundle that is to be installed.
pub(super) async fn resolve(
    filter: &CatalogFilter,
    installed: Option<&Identity>,
    dependencies: Dependencies<'_>,
    context: &Context,
) -> Answer {
    match question(filter, context).await {
        Ok(question) => question.answer(filter, installed, (context.requires_digests, dependencies)),
        Err(message) => Answer::unasked(message),
    }
}

/// Finds what may take the place of `installed`, whatever it needs and whoever needs it.
pub(super) async fn wishes(filter: &CatalogFilter, installed: &Identity, context: &Context) -> Wishes {
    let Ok(Question { range, asked, .. }) = question(filter, context).await else { return Wishes::default() };
    let request = request(filter, range.as_ref(), Some(installed), true);
    wished(&asked, request, installed, context.requires_digests)
}

/// The same. Pure.
fn wished(asked: &[Asked], request: Request<'_>, installed: &Identity, requires_digests: bool) -> Wishes {
    let mut held = offers(asked, request.package, Cow::Borrowed);
    let mut wishes = Wishes { is_known: true, ..Wishes::default() };
    while wishes.all.len() < MOST_WISHES {
        let Ok(resolved) = resolve::resolve(&of(&held), request) else { break };
        let (bundle, catalog) = (resolved.bundle.clone(), resolved.catalog.to_owned());
        let channel = resolved.package.channels_of(&bundle.name).next().map(|channel| channel.name.clone());
        wishes.data.get_or_insert_with(|| deprecations(resolved.package));
        let identity = identity(request.package, &bundle);
        if identity == *installed {
            break;
        }
        for (_, _, package) in &mut held {
            package.to_mut().bundles.remove(&bundle.name);
        }
        if !requires_digests || image::require_digest(&catalog, &bundle.name, bundle.image.as_deref()).is_ok() {
            wishes.all.push(Wish { identity, bundle, catalog, channel: channel.unwrap_or_default() });
        }
    }
    wishes
}

/// Gathers what there is; says what keeps the catalogs from being asked.
async fn question(filter: &CatalogFilter, context: &Context) -> Result<Question, String> {
    let (mut question, catalogs) = Question::of(filter, context.catalogs.state())?;
    for catalog in catalogs {
        let found = content(&catalog, &context.content).await;
        question.learn(&filter.package_name, &catalog, found)?;
    }
    Ok(question)
}

fn request<'a>(
    filter: &'a CatalogFilter,
    range: Option<&'a Constraint>,
    installed: Option<&'a Identity>,
    ignores_dependencies: bool,
) -> Request<'a> {
    Request {
        package: &filter.package_name,
        version: range,
        channels: &filter.channels,
        installed: installed.map(|installed| Installed {
            name: &installed.name,
            version: &installed.version,
            release: installed.release.as_deref(),
        }),
        is_self_certified: filter.upgrade_constraint_policy == UpgradeConstraintPolicy::SelfCertified,
        ignores_dependencies,
    }
}

/// What comes of the request. Pure.
fn answer(
    asked: &[Asked],
    request: Request<'_>,
    installed: Option<&Identity>,
    (requires_digests, dependencies): (bool, Dependencies<'_>),
    has_catalog: bool,
) -> Answer {
    // What is installed is kept in order, whatever has become of its dependencies, and of whoever depends on it.
    let is_installed =
        |bundle: &Bundle| installed.is_some_and(|it| it.name == bundle.name && it.version == bundle.version_text);
    let are_met = |bundle: &Bundle| is_installed(bundle) || (dependencies.are_met)(bundle);
    let breaks = |bundle: &Bundle| match installed {
        Some(_) if !is_installed(bundle) => (dependencies.breaks)(bundle),
        _ => Vec::new(),
    };
    let all = offers(asked, request.package, Cow::Borrowed);
    let harmless = offers(asked, request.package, |package| without_breaking(package, &breaks));
    let mut needy = None;
    let found = found(&of(&harmless), request, requires_digests, &are_met).map_err(|refusal| {
        needy = refusal.needy;
        told(&of(&all), request, &breaks).unwrap_or(refusal.message)
    });
    let resolution = found.unwrap_or_else(|message| Resolution::Failed { message, has_catalog });
    // What is on its way is told by Progressing, and from where it leads further is not known before it is there.
    let stays = installed.filter(|installed| match &resolution {
        Resolution::Found { bundle, .. } => bundle == *installed,
        Resolution::Failed { .. } => true,
    });
    let upgrade = stays.map_or(Upgrade::Nothing, |installed| {
        upgrade::look(&of(&all), request, installed, (requires_digests, &are_met, &breaks))
    });
    Answer { resolution, upgrade, needy }
}

/// A catalog, its priority, and what it has of a package.
type Held<'a> = (&'a str, i32, Cow<'a, Package>);

/// What the catalogs have of the package, as `kept` of it is.
fn offers<'a>(asked: &'a [Asked], package: &str, kept: impl Fn(&'a Package) -> Cow<'a, Package>) -> Vec<Held<'a>> {
    let held = |asked: &'a Asked| Some((&*asked.name, asked.priority, kept(asked.catalog.packages.get(package)?)));
    asked.iter().filter_map(held).collect()
}

fn of<'a>(held: &'a [Held<'_>]) -> Vec<Offer<'a>> {
    held.iter().map(|(catalog, priority, package)| Offer { catalog, priority: *priority, package }).collect()
}

/// The package without the bundles that would leave others without what they need.
fn without_breaking<'a>(package: &'a Package, breaks: Breaks<'_>) -> Cow<'a, Package> {
    let harmful: Vec<&String> =
        package.bundles.iter().filter(|(_, bundle)| !breaks(bundle).is_empty()).map(|(name, _)| name).collect();
    if harmful.is_empty() {
        return Cow::Borrowed(package);
    }
    let mut kept = package.clone();
    kept.bundles.retain(|name, _| !harmful.contains(&name));
    Cow::Owned(kept)
}

/// Whom the bundle would break that would be installed otherwise; `None` if that is not why there is none.
fn told(offers: &[Offer<'_>], request: Request<'_>, breaks: Breaks<'_>) -> Option<String> {
    let otherwise = resolve::resolve(offers, Request { ignores_dependencies: true, ..request }).ok()?;
    let broken = breaks(otherwise.bundle);
    let bundle = otherwise.bundle;
    (!broken.is_empty()).then(|| {
        format!("version {} ({}) is not installed: {}", bundle.version_text, bundle.name, would_break(&broken))
    })
}

/// Why no bundle may be installed.
struct Refusal {
    message: String,
    /// What would be, if all that it depends on were installed.
    needy: Option<Box<Needy>>,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message, needy: None }
    }
}

/// The bundle that the catalogs make of the request; or why none may be installed, in words.
fn found(
    offers: &[Offer<'_>],
    request: Request<'_>,
    requires_digests: bool,
    are_met: AreMet<'_>,
) -> Result<Resolution, Refusal> {
    let (resolved, has_packages) = match resolve::resolve(offers, request) {
        Ok(resolved) => (resolved, false),
        Err(refusal @ resolve::Error::Dependency { .. }) => {
            let request = Request { ignores_dependencies: true, ..request };
            let resolved = resolve::resolve(offers, request).map_err(|error| error.to_string())?;
            if !are_met(resolved.bundle) {
                let message = unmet(&refusal, resolved.bundle);
                let (package, bundle) = (request.package.to_owned(), resolved.bundle.clone());
                let catalog = in_status(resolved.catalog);
                return Err(Refusal { message, needy: Some(Box::new(Needy { package, bundle, catalog })) });
            }
            (resolved, true)
        }
        Err(error) => return Err(error.to_string().into()),
    };
    let (bundle, image) = (&resolved.bundle.name, resolved.bundle.image.as_deref());
    if requires_digests {
        image::require_digest(resolved.catalog, bundle, image).map_err(|error| error.to_string())?;
    }

    let (bundle, data) = (identity(request.package, resolved.bundle), deprecations(resolved.package));
    Ok(Resolution::Found { bundle, data, has_packages })
}

fn identity(package: &str, bundle: &Bundle) -> Identity {
    Identity {
        package: package.to_owned(),
        name: bundle.name.clone(),
        version: bundle.version_text.clone(),
        reference: bundle.image.clone().unwrap_or_default(),
        release: bundle.version.as_ref().and_then(|version| version.release()).map(str::to_owned),
    }
}

fn deprecations(package: &Package) -> Deprecations {
    let said = |message: &Option<String>| message.clone().filter(|message| !message.is_empty());
    let (channels, bundles) = (package.channels.values(), package.bundles.values());
    Deprecations {
        package: said(&package.deprecation),
        channels: channels.filter_map(|one| Some((one.name.clone(), said(&one.deprecation)?))).collect(),
        bundles: bundles.filter_map(|one| Some((one.name.clone(), said(&one.deprecation)?))).collect(),
    }
}

/// The refusal, and the way out if there is one: nobody notes which APIs are there.
fn unmet(refusal: &resolve::Error, bundle: &Bundle) -> String {
    if !bundle.facts.requires.is_empty() {
        return refusal.to_string();
    }
    let packages =
        bundle.facts.requires_packages.iter().map(|required| format!("{} {}", required.name, required.range));
    let what: Vec<String> = packages.chain(bundle.facts.constraints.iter().cloned()).collect();
    format!(
        "{refusal}: {}; packages that other ClusterExtensions or PlatformOperators install count as soon as they are there",
        shortened(&what.join(", "))
    )
}

/// The ClusterCatalogs that the selector chooses, by name.
fn selected(
    filter: &CatalogFilter,
    mut selected: Vec<Arc<ClusterCatalog>>,
) -> Result<Vec<Arc<ClusterCatalog>>, BadSelector> {
    let selector = filter.selector()?;
    selected.retain(|catalog| selector.chooses(catalog));
    selected.sort_by_key(|catalog| catalog.name_any());
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use rukpak_catalog::model::{Channel, Entry, RequiredPackage};

    use super::*;

    /// One catalog with one bundle of the package `p`, whose image is named so.
    fn catalog(image: &str) -> Vec<Asked> {
        let bundle = Bundle {
            name: "p.v1".to_owned(),
            image: Some(image.to_owned()),
            version: "1.0.0".parse().ok(),
            version_text: "1.0.0".to_owned(),
            ..Bundle::default()
        };
        let entries = vec![Entry { name: "p.v1".to_owned(), ..Entry::default() }];
        let channel = Channel { name: "stable".to_owned(), entries, ..Channel::default() };
        let package = Package {
            name: "p".to_owned(),
            channels: [("stable".to_owned(), channel)].into(),
            bundles: [("p.v1".to_owned(), bundle)].into(),
            ..Package::default()
        };
        let catalog = Arc::new(Catalog { packages: [("p".to_owned(), package)].into() });
        vec![Asked { name: "c".to_owned(), priority: 0, catalog }]
    }

    fn knowing(are_met: AreMet<'_>) -> Dependencies<'_> {
        Dependencies { are_ignored: false, are_met, breaks: &|_| Vec::new() }
    }

    const REQUEST: Request<'_> = Request {
        package: "p",
        version: None,
        channels: &[],
        installed: None,
        is_self_certified: false,
        ignores_dependencies: false,
    };

    #[test]
    fn an_image_by_tag_is_no_choice_where_digests_are_required() {
        let tag = catalog("r.example/p:v1");
        let resolution =
            |asked: &[Asked], required| answer(asked, REQUEST, None, (required, knowing(&|_| false)), true).resolution;
        assert!(matches!(resolution(&tag, false), Resolution::Found { .. }));
        let Resolution::Failed { message, .. } = resolution(&tag, true) else { panic!("it is refused") };
        assert!(message.contains("the catalog c names its image by a tag") && message.contains("p.v1"), "{message}");
        let pinned = catalog(&format!("r.example/p@sha256:{}", "0".repeat(64)));
        assert!(matches!(resolution(&pinned, true), Resolution::Found { .. }));
    }

    #[test]
    fn a_bundle_with_dependencies_is_a_choice_once_they_are_installed() {
        let mut asked = catalog("r.example/p:v1");
        let catalog = Arc::get_mut(&mut asked[0].catalog).expect("it is not shared");
        let bundle = catalog.packages.get_mut("p").and_then(|package| package.bundles.get_mut("p.v1"));
        bundle.expect("it is there").facts.requires_packages =
            vec![RequiredPackage { name: "q".to_owned(), range: ">=1.0.0".to_owned() }];
        let resolution = |are_met: bool| answer(&asked, REQUEST, None, (false, knowing(&|_| are_met)), true).resolution;
        assert!(matches!(resolution(true), Resolution::Found { has_packages: true, .. }));
        let Resolution::Failed { message, .. } = resolution(false) else { panic!("it is refused") };
        assert!(message.contains("not supported: q >=1.0.0; packages that other"), "{message}");
    }

    #[test]
    fn what_may_take_the_place_of_what_is_installed_is_told_the_preferred_one_first() {
        let mut asked = catalog("r.example/p:v1");
        let held = Arc::get_mut(&mut asked[0].catalog).expect("it is not shared");
        let package = held.packages.get_mut("p").expect("it is there");
        let first = package.bundles["p.v1"].clone();
        for number in ["2", "3"] {
            let (name, version) = (format!("p.v{number}"), format!("{number}.0.0"));
            let mut bundle = Bundle { name: name.clone(), version: version.parse().ok(), ..first.clone() };
            bundle.version_text = version;
            bundle.facts.requires_packages =
                vec![RequiredPackage { name: "nowhere".to_owned(), range: ">=1.0.0".to_owned() }];
            package.bundles.insert(name.clone(), bundle);
            let entry = Entry { name, replaces: Some("p.v1".to_owned()), ..Entry::default() };
            package.channels.entry("stable".to_owned()).or_default().entries.push(entry);
        }
        let installed = identity("p", &first);
        let from = Installed { name: "p.v1", version: "1.0.0", release: None };
        let request = Request { installed: Some(from), ignores_dependencies: true, ..REQUEST };
        let found = wished(&asked, request, &installed, false);
        let named: Vec<(&str, &str)> = found.all.iter().map(|one| (&*one.bundle.name, &*one.channel)).collect();
        assert_eq!(named, [("p.v3", "stable"), ("p.v2", "stable")]);
        assert!(found.is_known && found.data.is_some());
        assert!(wished(&asked, request, &installed, true).all.is_empty(), "their images are named by a tag");
    }
}
