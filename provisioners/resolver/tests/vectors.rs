//! The resolver answers the cases of OLM v0's own tests as OLM v0 does.
//!
//! The corpus is the folder `$CORPUS`, or `../shared/corpus` beside the workspace; without one this test says so and does
//! nothing. In its folder `resolver` lie the cases; its README describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rukpak_catalog::{Range, Version};
use rukpak_content::Limits;
use rukpak_plain::{Budget, yaml};
use rukpak_resolver::{
    Answer, Catalog, CatalogName, Constraint, Entry, Facts, Installed, Package, Property, Refusal, Request, World,
    newest_first, resolve,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Cases that are not for the resolver: phases of ClusterServiceVersions, a hook of the program, a state that cannot arise.
const OF_V0_ALONE: &str = "v0Only";

/// Cases in which upstream fails, for the sake of a neighbour, what could be met; and why the answer here is another.
const DEVIATIONS: &[(&str, &str)] = &[];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    namespaces: Vec<String>,
    #[serde(default)]
    catalogs: Vec<CatalogCase>,
    #[serde(default)]
    subscriptions: Vec<SubscriptionCase>,
    #[serde(default)]
    installed: Vec<InstalledCase>,
}

#[derive(Deserialize)]
struct CatalogCase {
    name: String,
    namespace: String,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    packages: Vec<PackageCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PackageCase {
    name: String,
    default_channel: Option<String>,
    #[serde(default)]
    channels: Vec<ChannelCase>,
}

#[derive(Deserialize)]
struct ChannelCase {
    name: String,
    #[serde(default)]
    entries: Vec<EntryCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryCase {
    name: String,
    version: Option<String>,
    replaces: Option<String>,
    #[serde(default)]
    skips: Vec<String>,
    skip_range: Option<String>,
    #[serde(default)]
    properties: Vec<PropertyCase>,
}

#[derive(Deserialize)]
struct PropertyCase {
    #[serde(rename = "type")]
    kind: String,
    value: Value,
}

#[derive(Deserialize)]
struct SubscriptionCase {
    name: String,
    package: String,
    channel: Option<String>,
    catalog: Option<NameCase>,
    #[serde(rename = "startingCSV")]
    starting: Option<String>,
    #[serde(rename = "installedCSV")]
    installed: Option<String>,
}

#[derive(Deserialize)]
struct NameCase {
    name: String,
    namespace: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstalledCase {
    name: String,
    namespace: Option<String>,
    version: Option<String>,
    #[serde(default)]
    owned: Vec<ApiCase>,
    #[serde(default)]
    required: Vec<ApiCase>,
    properties: Option<Vec<PropertyCase>>,
    #[serde(default = "yes")]
    infer_package: bool,
}

#[derive(Deserialize)]
struct ApiCase {
    group: String,
    version: String,
    kind: String,
}

fn yes() -> bool {
    true
}

#[test]
fn resolves_as_olm_v0_does() {
    let Some(corpus) = corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no case was resolved");
        return;
    };
    let (mut wrong, mut resolved, mut others) = (Vec::new(), 0, 0);
    for (name, case) in cases(&corpus) {
        if case.get(OF_V0_ALONE).is_some_and(|value| !value.is_null()) {
            continue;
        }
        let result = match case["kind"].as_str() {
            Some("resolve") => {
                resolved += 1;
                check(&case)
            }
            Some("channel-order") => {
                others += 1;
                check_order(&case)
            }
            Some("constraint-parse") => {
                others += 1;
                check_constraint(&case)
            }
            Some("cel") => {
                others += 1;
                check_rule(&case)
            }
            _ => continue,
        };
        match (result, DEVIATIONS.iter().find(|(deviating, _)| *deviating == name)) {
            (Err(problem), None) => wrong.push(format!("{name}: {problem}")),
            (Ok(()), Some((_, why))) => wrong.push(format!("{name} agrees, and should not: {why}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(resolved >= 40 && others >= 10, "{resolved} resolutions and {others} others are too few");
    eprintln!("{resolved} resolutions and {others} other cases");
}

fn check(case: &Value) -> Result<(), String> {
    let given: Given = serde_json::from_value(case["given"].clone()).map_err(|error| error.to_string())?;
    let (world, requests) = world(&given);
    let answer = resolve(&world, &requests);
    let expected = &case["expect"];
    let problem = |what: &str| Err(format!("{what}: {answer:#?}"));
    let result = expected["result"].as_str().unwrap_or_default();
    let is_met = answer.refusals.is_empty();
    match result {
        "resolved" | "unchanged" if !is_met => return problem("refused"),
        "unsatisfiable" | "error" if is_met => return problem("not refused"),
        "unchanged" | "unsatisfiable" if !answer.steps.is_empty() => return problem("steps"),
        _ => {}
    }
    // The cases that have no steps do not say which subscriptions are made.
    let has_steps = case["given"]["operatorGroup"].is_object();
    let new: BTreeSet<String> = answer.steps.iter().map(|step| step_line(step, &requests, has_steps)).collect();
    let wanted: BTreeSet<String> = expected["new"].as_array().into_iter().flatten().map(wanted_line).collect();
    if result == "resolved" && new != wanted {
        return Err(format!("{new:#?} instead of {wanted:#?}"));
    }
    check_texts(expected, &answer)
}

/// What the case says of texts.
fn check_texts(expected: &Value, answer: &Answer) -> Result<(), String> {
    let messages: Vec<String> = answer.refusals.iter().map(Refusal::message).collect();
    let constraints: BTreeSet<String> = answer
        .refusals
        .iter()
        .flat_map(|refusal| &refusal.facts)
        .flat_map(rukpak_resolver::Fact::constraints)
        .collect();
    if let Some(conflicts) = expected["conflicts"].as_array() {
        let wanted: BTreeSet<String> = conflicts.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if wanted != constraints {
            return Err(format!("{constraints:#?} instead of {wanted:#?}"));
        }
    }
    if let Some(message) = expected["message"].as_str()
        && !messages.iter().any(|other| other == message)
    {
        return Err(format!("{messages:?} instead of {message:?}"));
    }
    for part in expected["messageContains"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !messages.iter().any(|message| message.contains(part)) {
            return Err(format!("{messages:?} lacks {part:?}"));
        }
    }
    Ok(())
}

fn step_line(step: &rukpak_resolver::Step, requests: &[Request], has_steps: bool) -> String {
    let id = &step.bundle;
    let catalog = id.catalog.clone().unwrap_or_default();
    let starting = requests.iter().any(|request| request.starting.as_deref() == Some(id.name.as_str()));
    let made = step.requests.is_empty() && has_steps;
    let subscription = format!("{}-{}-{}-{}", id.package, id.channel, catalog.name, catalog.namespace);
    json!({
        "bundle": id.name,
        "package": id.package,
        "channel": id.channel,
        "catalog": catalog.name,
        "replaces": step.replaces,
        "pinned": starting,
        "subscription": made.then_some(subscription),
    })
    .to_string()
}

fn wanted_line(new: &Value) -> String {
    let made = new["createsSubscription"].as_str();
    json!({
        "bundle": new["bundle"],
        "package": new["package"],
        "channel": new["channel"],
        "catalog": new["catalog"],
        "replaces": new["replaces"],
        "pinned": made.is_none() && new["startingCSV"].is_string(),
        "subscription": made,
    })
    .to_string()
}

fn check_order(case: &Value) -> Result<(), String> {
    let given = &case["given"];
    let entries: Vec<EntryCase> =
        serde_json::from_value(given["entries"].clone()).map_err(|error| error.to_string())?;
    let entries: Vec<Entry> = entries.iter().map(|entry| self::entry("", entry)).collect();
    let name = |field: &str| given[field].as_str().unwrap_or_default();
    let order = newest_first(name("package"), name("channel"), &entries)
        .map(|order| order.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>());
    let wanted = match case["expect"]["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(serde_json::from_value(case["expect"]["order"].clone()).map_err(|error| error.to_string())?),
    };
    if order == wanted { Ok(()) } else { Err(format!("{order:?} instead of {wanted:?}")) }
}

fn check_constraint(case: &Value) -> Result<(), String> {
    let value = match case["given"]["size"].as_u64() {
        Some(size) => Value::String("x".repeat(usize::try_from(size).map_err(|error| error.to_string())? - 2)),
        None => case["given"]["value"].clone(),
    };
    let read = Constraint::read(&value).map(|_| ()).map_err(|error| error.to_string());
    match (case["expect"]["error"].as_str(), &read) {
        (None, Ok(())) => Ok(()),
        (Some(wanted), Err(error)) if error.ends_with(wanted) => Ok(()),
        (wanted, _) => Err(format!("{read:?} instead of {wanted:?}")),
    }
}

/// A rule is tried on a bundle that somebody needs.
fn check_rule(case: &Value) -> Result<(), String> {
    let given = &case["given"];
    let properties: Vec<PropertyCase> =
        serde_json::from_value(given["properties"].clone()).map_err(|error| error.to_string())?;
    let demand = json!({"cel": {"rule": given["rule"]}});
    let needing = Facts::read(None, vec![Property { kind: "olm.constraint".to_owned(), value: demand }]);
    if case["expect"]["error"] == json!(true) {
        return needing.map_or(Ok(()), |_| Err("the rule compiles".to_owned()));
    }
    let needing = needing.map_err(|error| error.to_string())?.of_package("needing");
    let provider =
        Facts::read(None, properties.into_iter().map(property).collect()).map_err(|error| error.to_string())?;
    let packages = [("needing", needing), ("provider", provider.of_package("provider"))].map(|(name, facts)| {
        let entry = Entry { name: name.to_owned(), facts: Arc::new(facts), ..Entry::default() };
        (name.to_owned(), Package { channels: BTreeMap::from([("c".to_owned(), vec![entry])]), ..Package::default() })
    });
    let catalog = Catalog { packages: BTreeMap::from(packages), ..Catalog::default() };
    let world = World { catalogs: vec![catalog], ..World::default() };
    let request = Request { name: "r".to_owned(), package: "needing".to_owned(), ..Request::default() };
    let holds = resolve(&world, &[request]).refusals.is_empty();
    if case["expect"]["value"] == json!(holds) { Ok(()) } else { Err(format!("the rule is {holds}")) }
}

fn world(given: &Given) -> (World, Vec<Request>) {
    let namespace = given.namespaces.first().cloned().unwrap_or_default();
    let is_visible = |catalog: &&CatalogCase| given.namespaces.contains(&catalog.namespace);
    let catalogs = given.catalogs.iter().filter(is_visible).map(catalog).collect();
    let is_here = |case: &&InstalledCase| case.namespace.as_ref().is_none_or(|other| *other == namespace);
    let installed = given.installed.iter().filter(is_here).map(|case| installed(case, &given.subscriptions)).collect();
    let requests = given.subscriptions.iter().map(request).collect();
    (World { catalogs, installed, namespace }, requests)
}

fn catalog(case: &CatalogCase) -> Catalog {
    let channels = |package: &PackageCase| {
        let entries = |channel: &ChannelCase| channel.entries.iter().map(|case| entry(&package.name, case)).collect();
        package.channels.iter().map(|channel| (channel.name.clone(), entries(channel))).collect()
    };
    let offered = |package: &PackageCase| Package {
        default_channel: package.default_channel.clone(),
        channels: channels(package),
    };
    Catalog {
        name: CatalogName { namespace: case.namespace.clone(), name: case.name.clone() },
        priority: case.priority,
        packages: case.packages.iter().map(|package| (package.name.clone(), offered(package))).collect(),
    }
}

fn entry(package: &str, case: &EntryCase) -> Entry {
    let version = case.version.as_deref().and_then(|text| Version::parse(text).ok());
    let properties = case.properties.iter().map(|case| Property { kind: case.kind.clone(), value: case.value.clone() });
    let facts = Facts::read(version, properties.collect()).expect("the cases have readable properties");
    Entry {
        name: case.name.clone(),
        replaces: case.replaces.clone(),
        skips: case.skips.clone(),
        skip_range: case.skip_range.as_deref().and_then(|text| Range::parse(text).ok()),
        is_deprecated: false,
        facts: Arc::new(facts.of_package(package)),
    }
}

fn property(case: PropertyCase) -> Property {
    Property { kind: case.kind, value: case.value }
}

/// Without an annotation, facts come from owned and required APIs, and from the one subscription that names the bundle.
fn installed(case: &InstalledCase, subscriptions: &[SubscriptionCase]) -> Installed {
    let version = case.version.as_deref().and_then(|text| Version::parse(text).ok());
    let api = |kind: &str, api: &ApiCase| Property {
        kind: kind.to_owned(),
        value: json!({"group": api.group, "version": api.version, "kind": api.kind}),
    };
    let properties = if let Some(given) = &case.properties {
        given.iter().map(|case| Property { kind: case.kind.clone(), value: case.value.clone() }).collect()
    } else {
        let owned = case.owned.iter().map(|one| api("olm.gvk", one));
        let required = case.required.iter().map(|one| api("olm.gvk.required", one));
        let packages: BTreeSet<&str> = subscriptions
            .iter()
            .filter(|one| one.installed.as_deref() == Some(case.name.as_str()) && case.infer_package)
            .map(|one| one.package.as_str())
            .collect();
        let package = (packages.len() == 1).then(|| Property {
            kind: "olm.package".to_owned(),
            value: json!({"packageName": packages.first(), "version": case.version}),
        });
        owned.chain(required).chain(package).collect()
    };
    let facts = Facts::read(version, properties).expect("the cases have readable properties");
    Installed { name: case.name.clone(), facts: Arc::new(facts) }
}

fn request(case: &SubscriptionCase) -> Request {
    let named = |name: &NameCase| CatalogName { namespace: name.namespace.clone(), name: name.name.clone() };
    Request {
        name: case.name.clone(),
        package: case.package.clone(),
        catalog: case.catalog.as_ref().map(named),
        channel: case.channel.clone().filter(|name| !name.is_empty()),
        range: None,
        starting: case.starting.clone().filter(|name| !name.is_empty()),
        installed: case.installed.clone().filter(|name| !name.is_empty()),
    }
}

fn cases(corpus: &Path) -> BTreeMap<String, Value> {
    let files = fs::read_dir(corpus).expect("a folder").map(|entry| entry.expect("an entry").path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let (text, limits) = (fs::read(&path).expect("a file"), Limits::default());
            let documents = yaml::parse(&Arc::from(name.as_str()), &text, &mut Budget::new(&limits)).expect("YAML");
            (name, documents.into_iter().next().expect("a document").value)
        })
        .collect()
}

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let corpora = [std::env::var_os("CORPUS").map(PathBuf::from), Some(beside)];
    corpora.into_iter().flatten().map(|corpus| corpus.join("resolver")).find(|folder| folder.is_dir())
}
