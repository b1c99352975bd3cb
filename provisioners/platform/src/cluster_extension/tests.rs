//! Golden files: what is observed of a package, and what is written and said. `tests/scenarios/README.md` says how to read and how to add
//! them.

#[path = "../../../plan/tests/scenarios/notation/golden.rs"]
mod golden;
mod notation;
#[path = "../../../plan/tests/scenarios/notation/yaml.rs"]
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rukpak_catalog::Bundle;
use rukpak_crds::condition::Conditions as _;
use rukpak_crds::names::{EXTENSION_FIELDS, IGNORE_DEPENDENCIES, IGNORE_DEPENDENTS};
use rukpak_crds::olm::cluster_extension::{CatalogFilter, ClusterExtensionStatus};
use rukpak_crds::olm::{BUNDLE_NAME, ClusterExtension, PROGRESSING};
use rukpak_crds::{BundleDeployment, ConditionStatus};
use rukpak_plan::retry::Class;
use rukpak_resolver::set::{Needy, are_met, find};
use serde_json::{Map, Value, json};

use self::golden::Scenario;
use self::notation::{Given, Offering};
use super::decide::{Deprecations, First, Next, Resolution, decide, first};
use super::deployment::{Target, is_applied};
use super::offers::{Answer, Dependencies, Question};
use super::progress::{Progress, progress};
use super::report::{Report, health, status};
use super::upgrade::Upgrade;
use super::{revisions, set, takeover, work};
use crate::dependencies::obtain::{Asking, Way, way};
use crate::installed::Identity;
use crate::owned::{Existing, classify, has_packages};

/// There are no fewer.
const LEAST: usize = 50;

/// What is wrong with a file, in words.
type Error = Box<dyn std::error::Error>;

/// What a reconcile comes to.
enum Step {
    /// Nothing is written, and this is said.
    Say(Progress),
    /// The BundleDeployment is to install the bundle.
    Install(Value, Identity),
    /// It is to stay at what it installs, for a reason.
    Stay(Option<Value>, String),
}

/// What the catalogs come to.
#[derive(Default)]
struct Told {
    upgrade: Upgrade,
    catalog: Option<Deprecations>,
    /// What is requested so that what the bundle depends on is there.
    requests: Option<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

#[test]
fn every_scenario_ends_as_its_file_says() {
    golden::assert_outcomes(&folder(), |name, Scenario { given, after, .. }| {
        assert!(after.is_empty(), "{name}: there is one reconcile");
        outcome(given).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
}

#[test]
fn scenarios_are_many_and_all_different() {
    golden::assert_different(&folder(), LEAST, |_| String::new());
}

/// One reconcile, with the file in the place of the API server and the catalogs.
fn outcome(given: &Value) -> Result<Value, Error> {
    let given: Given = serde_json::from_value(given.clone())?;
    let (extension, live) = (given.extension()?, given.deployment()?.map(Arc::new));
    let found = live.clone().map(|live| classify(&extension, live));
    let live = live.as_deref().filter(|_| matches!(found, Some(Existing::Ours(_))));
    let installed = live.and_then(set::installed);
    let left = takeover::left(&extension).filter(|_| installed.is_none());

    let (mut told, mut class) = (Told::default(), None);
    let step = match first(&extension, Ok(found), left.as_ref()) {
        First::Told(progress, when) => {
            class = when;
            Step::Say(progress)
        }
        First::TakeOver(bundle) => install(&extension, (bundle, false), live),
        First::Ask(filter) => {
            let asked = ask(&given, &extension, filter, (live, installed.as_ref()), &mut told)?;
            class = asked.1;
            asked.0
        }
    };
    let (progress, body) = match step {
        Step::Say(progress) => (progress, None),
        Step::Install(body, bundle) => {
            let applied = applied(&body, live)?;
            (progress(&applied, &bundle, installed.as_ref()), Some(body))
        }
        Step::Stay(body, message) => (Progress::Retrying(message), body),
    };

    let report = Report {
        progress,
        installed: installed.or(left),
        catalog: told.catalog,
        health: live.and_then(health),
        revisions: live.map(revisions::active).unwrap_or_default(),
        upgrade: told.upgrade,
    };
    let written = body.filter(|body| live.is_none_or(|live| !is_applied(body, live)));
    let mut outcome = Map::new();
    outcome.insert("written".to_owned(), json!(written.map_or("nothing".to_owned(), |body| in_words(&body))));
    outcome.extend(told.requests.map(|requests| ("requests".to_owned(), json!(requests))));
    outcome.insert("next".to_owned(), json!(class.map_or("news".to_owned(), |class| format!("{class:?}"))));
    outcome.insert("status".to_owned(), shown(&status(&extension, &report, Timestamp::UNIX_EPOCH)));
    Ok(Value::Object(outcome))
}

/// What is done where the catalogs say what to install, and when it is tried again.
fn ask(
    given: &Given,
    extension: &ClusterExtension,
    filter: &CatalogFilter,
    (live, installed): (Option<&BundleDeployment>, Option<&Identity>),
    told: &mut Told,
) -> Result<(Step, Option<Class>), Error> {
    let asking = Asking::Extension(extension);
    if let Err(fault) = asking.policy() {
        return Ok((Step::Say(Progress::InvalidConfiguration(fault)), None));
    }
    let others = given.others()?;
    let are_met = |bundle: &Bundle| are_met(&filter.package_name, bundle, others.clone());
    let breaks = |bundle: &Bundle| {
        let broken = given.breaks.get(&bundle.version_text).filter(|_| !asking.says(IGNORE_DEPENDENTS));
        broken.cloned().unwrap_or_default()
    };
    let are_ignored = asking.says(IGNORE_DEPENDENCIES);
    let dependencies = Dependencies { are_ignored, are_met: &are_met, breaks: &breaks };
    let answer = match question(given, filter)? {
        Ok(question) => question.answer(filter, installed, (given.requires_digests, dependencies)),
        Err(message) => Answer::unasked(message),
    };
    let Answer { mut resolution, upgrade, needy } = answer;
    let obtained = match needy {
        Some(needy) => obtain(given, &asking, &needy, told)?,
        None => String::new(),
    };
    let class = resolution.explained(&Ok(obtained));
    (told.catalog, told.upgrade) = (resolution.data(), upgrade);
    Ok((next(extension, filter, (live, installed), &resolution), class))
}

fn next(
    extension: &ClusterExtension,
    filter: &CatalogFilter,
    (live, installed): (Option<&BundleDeployment>, Option<&Identity>),
    resolution: &Resolution,
) -> Step {
    let had_packages = live.is_some_and(has_packages);
    match decide(filter, (installed, had_packages), resolution) {
        Next::Apply { bundle, has_packages } => install(extension, (&bundle, has_packages), live),
        Next::Leave { message } => match work::stay(extension, (live, None), false) {
            Ok(body) => Step::Stay(body, message),
            Err(progress) => Step::Say(progress),
        },
    }
}

fn install(
    extension: &ClusterExtension,
    (bundle, has_packages): (&Identity, bool),
    live: Option<&BundleDeployment>,
) -> Step {
    let target = Target { bundle, has_packages, set: None };
    match work::install(extension, target, live, false) {
        Ok(body) => Step::Install(body, bundle.clone()),
        Err(progress) => Step::Say(progress),
    }
}

/// The catalogs as they can be asked; what keeps them from being asked.
fn question(given: &Given, filter: &CatalogFilter) -> Result<Result<Question, String>, Error> {
    let object = |(name, catalog): (&String, &Offering)| catalog.object(name).map(Arc::new);
    let objects = given.catalogs.iter().map(object).collect::<Result<Vec<_>, Error>>()?;
    let (mut question, catalogs) = match Question::of(filter, objects) {
        Ok(asked) => asked,
        Err(message) => return Ok(Err(message)),
    };
    for object in catalogs {
        let name = object.metadata.name.clone().unwrap_or_default();
        let catalog = &given.catalogs[&name];
        let content = Arc::new(catalog.content()?);
        let content = catalog.unreadable.clone().map_or(Ok(content), Err);
        if let Err(message) = question.learn(&filter.package_name, &object, content) {
            return Ok(Err(message));
        }
    }
    Ok(Ok(question))
}

/// What is done about what is missing.
fn obtain(given: &Given, asking: &Asking<'_>, needy: &Needy, told: &mut Told) -> Result<String, Error> {
    let found = find(needy, given.others()?, &given.offered()?);
    let (policy, place) = (asking.policy()?, asking.place());
    Ok(match way(found, (policy, place.as_str()), |package| given.asked.iter().any(|asked| asked == package)) {
        Way::Tell(text) => text,
        Way::Install { new, is_asked_about, waiting } => {
            let bundles: Vec<&str> = new.iter().map(|member| &*member.dependency.bundle).collect();
            let bundles = bundles.join(" and ");
            let is_waiting = is_asked_about && !given.is_agreed;
            let request = if is_waiting { "a Plan for" } else { "a ClusterExtension for" };
            told.requests = (!new.is_empty()).then(|| format!("{request} {bundles}"));
            if is_waiting { "the Plan is not answered".to_owned() } else { waiting }
        }
    })
}

/// The BundleDeployment, as the API server answers.
fn applied(body: &Value, live: Option<&BundleDeployment>) -> Result<BundleDeployment, Error> {
    if let Some(live) = live.filter(|live| is_applied(body, live)) {
        return Ok(live.clone());
    }
    let mut applied: BundleDeployment = serde_json::from_value(body.clone())?;
    applied.metadata.generation = Some(notation::GENERATION + 1);
    applied.status = live.and_then(|live| live.status.clone());
    Ok(applied)
}

/// What is written: the bundle, the optional fields, and what is not looked at.
fn in_words(body: &Value) -> String {
    let said = |key: &str| body["metadata"]["annotations"][key].as_str();
    let mut words = said(BUNDLE_NAME).unwrap_or_default().to_owned();
    words.extend(said(EXTENSION_FIELDS).map(|fields| format!(" with {fields}")));
    words.extend(said(IGNORE_DEPENDENCIES).map(|what| format!(" ignoring {what}")));
    words
}

/// The status without what goes without saying: `Ready` and `Stalled` that repeat `Progressing`, that what is installed is available, and
/// what is not known to be deprecated.
fn shown(status: &ClusterExtensionStatus) -> Value {
    let progressing = status.conditions.find(PROGRESSING);
    let mut shown = Map::new();
    for one in &status.conditions {
        let is_repeated = progressing.is_some_and(|said| (&said.reason, &said.message) == (&one.reason, &one.message));
        let goes_without_saying = match one.type_.as_str() {
            "Ready" | "Stalled" => is_repeated,
            "Available" => one.status == ConditionStatus::True,
            type_ => type_.ends_with("Deprecated") && one.status != ConditionStatus::True,
        };
        if !goes_without_saying {
            let said = format!("{:?} {}: {}", one.status, one.reason, one.message);
            shown.insert(one.type_.clone(), json!(said));
        }
    }
    Value::Object(shown)
}
