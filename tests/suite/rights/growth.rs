//! The rights that a Plan lists for an upgrade are those that RBAC, computed in another way, grants in addition.
//!
//! The other way shares no code with `rukpak_plan::rights`, and neither merges rules nor leaves any out. It writes them
//! out into atoms, each of them one verb on one thing, and asks of every atom that either release mentions whether the
//! new release covers it for a holder and the old one does not. A listing is right if every atom that it names has
//! grown, if every atom that has grown is covered by what it names, and if its marks are those of the atoms. The corpus
//! is the folder `$CORPUS`, or `../shared/corpus` beside the workspace.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use kube::core::{ApiResource, GroupVersionKind};
use rukpak_catalog::Version;
use rukpak_content::{Digest, Limits};
use rukpak_crds::DeletionPolicy;
use rukpak_crds::plan::{GrownRight, Listing};
use rukpak_plain::{Object, Origin};
use rukpak_plan::approval::Changes;
use rukpak_plan::owner_metadata::OwnerMetadata;
use rukpak_plan::plan::{Objects, Served};
use rukpak_plan::{Format, Kind, Owner, Plan, Release};
use rukpak_tests::tools;
use serde_json::{Value, json};

use crate::registry::published;

/// No fewer packages and upgrades of them render: a corpus that is half there proves little. No fewer upgrades grant
/// somebody something: two empty listings are soon equal.
const LEAST: (usize, usize, usize) = (130, 80, 20);

/// Stands for everything, where RBAC takes it so.
const ANY: &str = "*";
/// Stands in a pattern for the same part of the atom that the pattern is held against. No part of a rule is written so.
const OWN: &str = "=";
/// Begins the name of the holder that stands for everybody a role is bound to.
const ROLE: &str = "whoever ";
/// The kind of a role whose rules the cluster gathers from others.
const GATHERED: &str = "gathered";

/// A version of a package, with the roles and bindings that it installs.
struct PackageVersion {
    /// `<package>/<version>`.
    name: String,
    version: Version,
    objects: Vec<Value>,
}

/// What an atom is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Sort {
    Objects,
    /// A path of the API server.
    Path,
    /// Whatever a role grants that the bundle binds and whose rules only the cluster knows.
    Role,
}

/// The least that can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Atom<'a> {
    sort: Sort,
    /// Where it counts; empty for everywhere.
    namespace: &'a str,
    verb: &'a str,
    group: &'a str,
    /// A resource with its subresource, a path, or the kind of a role.
    thing: &'a str,
    /// One object; empty for all of them. The name of a role.
    name: &'a str,
}

/// Atoms that somebody has.
#[derive(Default)]
struct Grant<'a> {
    atoms: HashSet<Atom<'a>>,
    /// The ways in which its atoms stand for more than themselves, so that covering takes a few look-ups.
    patterns: HashSet<Atom<'a>>,
}

/// Kind, namespace (empty for none) and name of a role.
type RoleKey<'a> = (&'a str, &'a str, &'a str);

/// Who has what by the roles and bindings of a release.
#[derive(Default)]
struct Grants<'a> {
    holders: BTreeMap<String, Grant<'a>>,
    roles: BTreeMap<RoleKey<'a>, Grant<'a>>,
    /// Roles that the release binds to somebody.
    bound: BTreeSet<RoleKey<'a>>,
    /// Roles whose labels ask the cluster to gather them into others.
    gathered: BTreeSet<RoleKey<'a>>,
}

/// What a comparison has found.
#[derive(Default)]
struct Comparison {
    /// Atoms that either release mentions, once for each holder that they were asked of.
    asked: usize,
    grown: usize,
    escalations: usize,
    differences: Vec<String>,
}

impl<'a> Atom<'a> {
    fn of_role(namespace: &'a str, kind: &'a str, name: &'a str) -> Self {
        Self { sort: Sort::Role, namespace, verb: "", group: "", thing: kind, name }
    }

    /// Returns the atom with [`OWN`] in place of every part that stands for itself only.
    fn pattern(self) -> Self {
        let part = |part: &'a str, is_wide: bool| if is_wide { part } else { OWN };
        Self {
            sort: self.sort,
            namespace: part(self.namespace, self.namespace.is_empty()),
            verb: part(self.verb, self.verb == ANY),
            group: part(self.group, self.group == ANY),
            thing: part(self.thing, self.sort != Sort::Role && self.thing.contains(ANY)),
            name: part(self.name, self.sort == Sort::Objects && self.name.is_empty()),
        }
    }

    /// Returns the one atom of this pattern that covers the atom; `None` if none of the pattern does.
    fn widened(self, pattern: &Self) -> Option<Self> {
        let part = |own: &'a str, pattern: &'a str| if pattern == OWN { own } else { pattern };
        let wide = Self {
            sort: pattern.sort,
            namespace: part(self.namespace, pattern.namespace),
            verb: part(self.verb, pattern.verb),
            group: part(self.group, pattern.group),
            thing: part(self.thing, pattern.thing),
            name: part(self.name, pattern.name),
        };
        // Kubernetes reads `*/scale` as that subresource of every resource, and `*` as subresources too.
        let of_any = self.thing.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        let begin = wide.thing.strip_suffix(ANY).filter(|_| self.sort == Sort::Path);
        let is_within = wide.thing == self.thing
            || (self.sort == Sort::Objects && (wide.thing == ANY || of_any.as_deref() == Some(wide.thing)))
            || begin.is_some_and(|begin| self.thing.starts_with(begin));
        (self.sort == pattern.sort && is_within).then_some(wide)
    }

    /// Returns whether who has it takes any other right: by a `*`, by handing rights on or acting as others, by reading
    /// every Secret, or by a role that does as much.
    fn escalates(&self) -> bool {
        let takes = [ANY, "bind", "escalate", "impersonate"].contains(&self.verb);
        let is_everywhere = self.namespace.is_empty();
        let reads_secrets =
            (self.group, self.thing, self.name) == ("", "secrets", "") && ["get", "list", "watch"].contains(&self.verb);
        match self.sort {
            Sort::Objects => takes || self.group == ANY || self.thing == ANY || (reads_secrets && is_everywhere),
            Sort::Path => takes || self.thing == ANY,
            Sort::Role => match (self.thing, self.name) {
                (GATHERED, _) | ("ClusterRole", "cluster-admin") => true,
                // Within one namespace they read Secrets and act as accounts of that one only.
                ("ClusterRole", "admin" | "edit") => is_everywhere,
                _ => false,
            },
        }
    }

    /// Returns the line that a Plan lists an atom with which stands alone.
    fn line(&self) -> String {
        let Self { sort, namespace, verb, group, thing, name } = self;
        let place = in_namespace(namespace);
        match (sort, *thing) {
            (Sort::Objects, _) => {
                let group = if group.is_empty() { String::new() } else { format!(".{group}") };
                let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
                format!("{verb} {thing}{group}{name}{place}")
            }
            (Sort::Path, _) => format!("{verb} {thing}"),
            (Sort::Role, GATHERED) => format!("everything that ClusterRoles grant which are selected by {name}"),
            (Sort::Role, "Role") => format!("everything that Role {name:?}{place} grants"),
            (Sort::Role, _) => format!("everything that {thing} {name:?} grants{place}"),
        }
    }
}

impl<'a> Grant<'a> {
    fn extend(&mut self, atoms: impl IntoIterator<Item = Atom<'a>>) {
        for atom in atoms {
            self.atoms.insert(atom);
            self.patterns.insert(atom.pattern());
        }
    }

    fn covers(&self, atom: Atom<'a>) -> bool {
        let mut wider = self.patterns.iter().filter_map(|pattern| atom.widened(pattern));
        wider.any(|wider| self.atoms.contains(&wider))
    }
}

impl<'a> Grants<'a> {
    fn of(objects: &'a [Value]) -> Self {
        let mut grants = Self::default();
        let (bindings, roles): (Vec<&Value>, Vec<&Value>) =
            objects.iter().partition(|object| text(object, "/kind").ends_with("Binding"));
        let mut known = BTreeMap::new();
        for role in roles {
            let namespace = text(role, "/metadata/namespace");
            let key = (text(role, "/kind"), namespace, text(role, "/metadata/name"));
            grants.roles.entry(key).or_default().extend(atoms(role, namespace));
            let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
            if labels.is_some_and(|labels| labels.keys().any(|label| label.contains("/aggregate-to-"))) {
                grants.gathered.insert(key);
            }
            known.insert(key, role);
        }
        for binding in bindings {
            grants.bind(binding, &known);
        }
        grants
    }

    /// Gives every subject of a binding what its role grants where the binding stands.
    fn bind(&mut self, binding: &'a Value, known: &BTreeMap<RoleKey<'a>, &'a Value>) {
        let namespace = text(binding, "/metadata/namespace");
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let key = (kind, if kind == "Role" { namespace } else { "" }, name);
        let foreign = || vec![Atom::of_role(namespace, kind, name)];
        let atoms = known.get(&key).copied().map_or_else(foreign, |role| atoms(role, namespace));
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let holder = in_words((text(subject, "/kind"), text(subject, "/namespace"), text(subject, "/name")));
            self.holders.entry(holder).or_default().extend(atoms.iter().copied());
            self.bound.insert(key);
        }
    }

    fn mentioned(&self) -> impl Iterator<Item = Atom<'a>> {
        self.holders.values().chain(self.roles.values()).flat_map(|grant| grant.atoms.iter().copied())
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn in_words((kind, namespace, name): RoleKey<'_>) -> String {
    format!("{kind} {name:?}{}", in_namespace(namespace))
}

fn in_namespace(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace:?}") }
}

/// Writes out what a role grants that counts in `namespace`, or everywhere.
fn atoms<'a>(role: &'a Value, namespace: &'a str) -> Vec<Atom<'a>> {
    if let Some(selectors) = role["aggregationRule"].as_str() {
        return vec![Atom::of_role(namespace, GATHERED, selectors)];
    }
    let mut atoms = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        let mut names = texts(rule, "resourceNames");
        if names.is_empty() {
            names.push("");
        }
        for verb in texts(rule, "verbs") {
            for group in texts(rule, "apiGroups") {
                for thing in texts(rule, "resources") {
                    let sort = Sort::Objects;
                    atoms.extend(names.iter().map(|&name| Atom { sort, namespace, verb, group, thing, name }));
                }
            }
            // Paths are "only applicable for ClusterRoles referenced from a ClusterRoleBinding", says the API of RBAC.
            let paths = texts(rule, "nonResourceURLs").into_iter().filter(|_| namespace.is_empty());
            atoms.extend(paths.map(|thing| Atom { sort: Sort::Path, namespace, verb, group: "", thing, name: "" }));
        }
    }
    atoms
}

/// Returns the roles and bindings with the selectors of aggregation as text, which atoms can name.
fn with_selectors_as_text(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        if object["aggregationRule"].is_object() {
            object["aggregationRule"] = json!(object["aggregationRule"].to_string());
        }
    }
    objects
}

/// Returns, by holder, the atoms of the universe that only the new release grants. A role is a holder of its own where
/// somebody else may have bound it: it was there before, nobody is bound to it, or it is gathered into others.
fn grown<'a>(old: &Grants<'a>, new: &Grants<'a>, universe: &BTreeSet<Atom<'a>>) -> BTreeMap<String, HashSet<Atom<'a>>> {
    let grew = |before: Option<&Grant<'a>>, after: &Grant<'a>| -> HashSet<Atom<'a>> {
        let is_new = |atom: &Atom<'a>| after.covers(*atom) && !before.is_some_and(|before| before.covers(*atom));
        universe.iter().copied().filter(is_new).collect()
    };
    let mut grown = BTreeMap::new();
    for (holder, grant) in &new.holders {
        grown.insert(holder.clone(), grew(old.holders.get(holder), grant));
    }
    for (role, grant) in &new.roles {
        let before = old.roles.get(role);
        if before.is_some() || !new.bound.contains(role) || new.gathered.contains(role) {
            grown.insert(format!("{ROLE}{} is bound to", in_words(*role)), grew(before, grant));
        }
    }
    grown
}

/// Returns the lines of the single atoms that a listed rule names.
fn written_out(rule: &str) -> Vec<String> {
    if rule.starts_with("everything that ") {
        return vec![rule.to_owned()];
    }
    let (what, place) = rule.find(" in namespace ").map_or((rule, ""), |start| rule.split_at(start));
    let what = what.replace(", ", ",");
    let lists: Vec<Vec<&str>> = what.split(' ').map(|list| list.split(',').collect()).collect();
    let ends: Vec<String> = match lists.get(2) {
        Some(names) => names.iter().map(|name| format!(" {name}{place}")).collect(),
        None => vec![place.to_owned()],
    };
    assert!(lists.len() == 2 || lists.len() == 3, "other than verbs, things and perhaps names: {rule}");
    let pairs = lists[0].iter().flat_map(|verb| lists[1].iter().map(move |thing| format!("{verb} {thing}")));
    pairs.flat_map(|pair| ends.iter().map(move |end| format!("{pair}{end}"))).collect()
}

/// Compares what a Plan lists with what grew.
fn compare(old: &[Value], new: &[Value], listed: &[GrownRight]) -> Comparison {
    let (old, new) = (with_selectors_as_text(old), with_selectors_as_text(new));
    let (old, new) = (Grants::of(&old), Grants::of(&new));
    let universe: BTreeSet<Atom<'_>> = old.mentioned().chain(new.mentioned()).collect();
    let mut by_line: HashMap<String, Vec<Atom<'_>>> = HashMap::new();
    for atom in &universe {
        by_line.entry(atom.line()).or_default().push(*atom);
    }
    let grown = grown(&old, &new, &universe);
    let mut found = Comparison { asked: universe.len() * grown.len(), ..Comparison::default() };

    let mut named: BTreeMap<&str, Grant<'_>> = BTreeMap::new();
    for GrownRight { holder, rule, escalation } in listed {
        let mut escalates = false;
        for line in written_out(rule) {
            // Two atoms may have one line, as `*` of the core group and `*` as a path have: those that grew are meant.
            let meant = by_line.get(&line).into_iter().flatten().copied();
            let meant: Vec<Atom<'_>> =
                meant.filter(|atom| grown.get(holder).is_some_and(|grown| grown.contains(atom))).collect();
            if meant.is_empty() {
                found.differences.push(format!("listed and not grown: {holder}: {line}"));
            }
            escalates |= meant.iter().any(Atom::escalates);
            named.entry(holder.as_str()).or_default().extend(meant);
        }
        found.escalations += usize::from(escalates);
        if escalates != *escalation {
            found.differences.push(format!("escalation is {escalates}, listed as {escalation}: {holder}: {rule}"));
        }
    }

    // What a role grants may be listed with whoever the release binds it to instead.
    let mut told = Grant::default();
    for (_, grant) in named.iter().filter(|(holder, _)| !holder.starts_with(ROLE)) {
        told.extend(grant.atoms.iter().copied());
    }
    for (holder, atoms) in &grown {
        found.grown += atoms.len();
        let own = named.get(holder.as_str());
        for atom in atoms {
            let is_told = holder.starts_with(ROLE) && told.covers(*atom);
            if !is_told && !own.is_some_and(|own| own.covers(*atom)) {
                found.differences.push(format!("grown and not listed: {holder}: {}", atom.line()));
            }
        }
    }
    found
}

/// Returns every package that renders, its versions in the order in which they replace each other.
fn packages(corpus: &Path) -> BTreeMap<String, Vec<PackageVersion>> {
    let mut packages: BTreeMap<String, Vec<PackageVersion>> = BTreeMap::new();
    for folder in folders(&corpus.join("registry-v1")).iter().flat_map(|package| folders(package)) {
        let name = folder.strip_prefix(corpus.join("registry-v1")).expect("it is within").display().to_string();
        match version(corpus, &name) {
            Ok((package, version)) => packages.entry(package).or_default().push(version),
            Err(error) => println!("{name}: not rendered: {}", error.lines().next().unwrap_or_default()),
        }
    }
    for versions in packages.values_mut() {
        // Some catalogs have published one version with different content: which of them is the older one is arbitrary.
        versions.sort_by(|one, other| one.version.cmp(&other.version).then_with(|| one.name.cmp(&other.name)));
    }
    packages
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = tools::listing(folder).unwrap_or_else(|error| panic!("{error:#}"));
    entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Reads the bundle `<package>/<version>`. Keeps its roles and bindings: all others take much memory and grant nothing.
fn version(corpus: &Path, name: &str) -> Result<(String, PackageVersion), String> {
    let mut bundle = published::read(corpus, name)?;
    bundle.objects.retain(|object| text(object, "/apiVersion").starts_with("rbac.authorization.k8s.io/"));
    let tree = published::tree(&bundle.folder).expect("it was read before");
    let csv = rukpak_registry::load(&tree, &Limits::default()).expect("it was read before").csv;
    let version = Version::parse(&csv.spec.version).map_err(|error| error.to_string())?;
    Ok((bundle.package().to_owned(), PackageVersion { name: bundle.name, version, objects: bundle.objects }))
}

/// Returns what the Plan of an upgrade lists.
fn listed(old: Option<&[Value]>, new: &[Value]) -> Vec<GrownRight> {
    let (old, new) = (old.map(plan), plan(new));
    let changes = Changes::between(old.as_ref(), &new, |_| false);
    let rights = changes.rights.clone();
    let status = changes.status("an upgrade");
    // The status has the first of them only.
    assert_eq!(usize::try_from(status.rights.count).ok(), Some(rights.len()));
    assert_eq!(status.rights.items, rights[..rights.len().min(Listing::<GrownRight>::LISTED)]);
    rights
}

/// Returns the plan of a release with these roles and bindings.
fn plan(objects: &[Value]) -> Plan {
    let (mut all, mut served) = (Vec::new(), Served::new());
    for object in objects {
        let object = Object::new(object.clone(), Origin::made_from("a test")).expect("it is an object");
        let gvk = GroupVersionKind::gvk(object.group(), object.version(), object.kind());
        let (resource, namespaced) = (ApiResource::from_gvk(&gvk).into(), !object.kind().starts_with("Cluster"));
        let kind = Kind { resource, namespaced };
        served.insert((object.api_version().to_owned(), object.kind().to_owned()), Some(kind));
        all.push(object);
    }
    let (optional, required) = (BTreeSet::new(), BTreeSet::new());
    let owner = Owner { name: "upgraded".to_owned(), uid: "1".to_owned() };
    let stamp = OwnerMetadata { owner, default_namespace: "default".to_owned(), policy: DeletionPolicy::Delete };
    let release = Release::new(Digest::sha256(b""), Format::Registry, None);
    let objects = Objects { all, optional: &optional, required: &required };
    objects.plan(release, &served, &stamp, false).expect("no object is declared twice")
}

#[test]
fn rights_that_a_plan_lists_are_those_that_grow_when_a_package_of_the_corpus_is_upgraded() {
    let Some(corpus) = tools::corpus() else {
        eprintln!("ABSENT: no corpus at $CORPUS or ../shared/corpus: no growth of rights was compared");
        return;
    };
    let packages = packages(&corpus);
    let (mut upgrades, mut growing, mut lines, mut total) = (0, 0, 0, Comparison::default());
    for versions in packages.values() {
        let first = versions.first().map(|first| (None, first));
        let later = versions.windows(2).map(|pair| (Some(&pair[0]), &pair[1]));
        for (old, new) in first.into_iter().chain(later) {
            let before = old.map(|old| &*old.objects);
            let rights = listed(before, &new.objects);
            let found = compare(before.unwrap_or_default(), &new.objects, &rights);
            upgrades += usize::from(old.is_some());
            growing += usize::from(old.is_some() && found.grown > 0);
            lines += rights.len();
            total.asked += found.asked;
            total.grown += found.grown;
            total.escalations += found.escalations;
            let pair = format!("{} -> {}", old.map_or("nothing", |old| old.name.as_str()), new.name);
            total.differences.extend(found.differences.iter().map(|difference| format!("{pair}: {difference}")));
        }
    }
    let (firsts, Comparison { asked, grown, escalations, differences }) = (packages.len(), total);
    println!(
        "{upgrades} upgrades ({growing} grant more), {firsts} first versions: {asked} atoms compared, {grown} grown"
    );
    println!("{lines} lines were listed, {escalations} of them escalations");
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
    let is_whole = firsts >= LEAST.0 && upgrades >= LEAST.1 && growing >= LEAST.2 && escalations > 0;
    assert!(is_whole, "only a part of {} renders, or nothing in it grants more", corpus.display());
}

/// A comparison that finds nothing proves something only if it would have found it.
#[test]
fn finds_a_listing_wrong_when_a_rule_is_missing_invented_or_marked_otherwise() {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let object = |kind: &str| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": "pump"}});
    let (mut before, mut after, mut binding) =
        (object("ClusterRole"), object("ClusterRole"), object("ClusterRoleBinding"));
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "pump"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "pump", "namespace": "pumps"}]);
    let pods = |verbs: &[&str]| json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": verbs});
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    before["rules"] = json!([pods(&["get"])]);
    after["rules"] = json!([pods(&["get", "list"]), secrets]);
    let (old, new) = ([before, binding.clone()], [after, binding]);
    let holder = || "ServiceAccount \"pump\" in namespace \"pumps\"".to_owned();
    let right = |rule: &str, escalation| GrownRight { holder: holder(), rule: rule.to_owned(), escalation };

    let listed = listed(Some(old.as_slice()), &new);
    assert_eq!(listed, [right("list pods, pods/log", false), right("get secrets", true)]);
    assert_eq!(compare(&old, &new, &listed).differences, [""; 0]);
    let wrong = |listed: &[GrownRight]| compare(&old, &new, listed).differences.join("; ");
    let missing = wrong(&[right("list pods", false), right("get secrets", true)]);
    assert!(missing.starts_with("grown and not listed") && missing.ends_with(": list pods/log"), "{missing}");
    let invented = wrong(&[listed[0].clone(), listed[1].clone(), right("get pods", false)]);
    assert!(invented.starts_with("listed and not grown") && invented.ends_with(": get pods"), "{invented}");
    let unmarked = wrong(&[right("list pods, pods/log", false), right("get secrets", false)]);
    assert!(unmarked.starts_with("escalation is true, listed as false"), "{unmarked}");
}
