//! What holds for every solution: rules over the bundles that a resolution can reach, each with the fact that it comes from.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use rukpak_catalog::model::Gvk;

use crate::Request;
use crate::answer::{BundleId, Fact, Missing};
use crate::candidates;
use crate::oracle::{Oracle, RuleId};
use crate::world::{Nodes, Place};

/// Where a rule comes from. Numbers are those of nodes and of requests.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Asked(usize),
    Accepts(usize, Vec<usize>),
    NotFound(usize, Missing),
    Stays(usize),
    Needs { node: usize, constraint: usize, candidates: Vec<usize> },
    OnePerPackage(String, Vec<usize>),
    OneProvider(Gvk, Vec<usize>),
    Prohibited(usize),
    Replaces { node: usize, installed: usize },
}

/// All rules of a resolution.
pub(crate) struct Rules<'w> {
    pub nodes: Nodes<'w>,
    pub requests: &'w [Request],
    pub oracle: Oracle,
    /// By the number of the rule.
    pub sources: Vec<Source>,
    /// The variable of each node that can be reached, and of each request after them.
    variables: HashMap<usize, usize>,
    /// Nodes that were reached and whose needs are not known yet.
    fresh: VecDeque<usize>,
    pub remarks: BTreeSet<String>,
    /// The rule by which each installed bundle stays, by node.
    pub stays: BTreeMap<usize, RuleId>,
    /// The rules `Needs` of each node.
    pub needs: HashMap<usize, Vec<RuleId>>,
}

impl<'w> Rules<'w> {
    pub fn of(nodes: Nodes<'w>, requests: &'w [Request]) -> Self {
        let mut rules = Self {
            nodes,
            requests,
            oracle: Oracle::default(),
            sources: Vec::new(),
            variables: HashMap::new(),
            fresh: VecDeque::new(),
            remarks: BTreeSet::new(),
            stays: BTreeMap::new(),
            needs: HashMap::new(),
        };
        for request in 0..requests.len() {
            rules.add_request(request);
        }
        for node in 0..rules.nodes.world.installed.len() {
            let variable = rules.variable(node);
            let id = rules.oracle.require(None, &[variable]);
            rules.note(id, Source::Stays(node));
            rules.stays.insert(node, id);
        }
        rules.add_dependencies();
        rules.add_exclusions();
        rules
    }

    /// The installed bundle of a request, if it is there.
    pub fn installed_of(&self, request: usize) -> Option<usize> {
        self.nodes.installed(self.requests[request].installed.as_deref()?)
    }

    /// Turns rules on for good. They can hold together, as the caller has found out.
    pub fn settle(&mut self, rules: &[RuleId]) {
        self.oracle.settle(rules);
    }

    /// Whether some choice that holds `nodes` obeys the rules that are on for good.
    pub fn can_hold(&mut self, nodes: &[usize]) -> bool {
        let variables: Vec<usize> = nodes.iter().map(|node| self.variable(*node)).collect();
        self.oracle.is_possible(&[], &variables)
    }

    /// Whether a candidate may not be installed, or not beside one that is chosen, as can be seen without a search.
    pub fn excludes(&self, chosen: &[usize], candidate: usize) -> bool {
        let facts = self.nodes.all[candidate].facts;
        let is_rival = |other: &usize| {
            let other = self.nodes.all[*other].facts;
            let same_package = |(package, _): &(String, _)| other.packages.iter().any(|(name, _)| name == package);
            facts.packages.iter().any(same_package) || facts.provides.iter().any(|gvk| other.provides.contains(gvk))
        };
        facts.is_prohibited || chosen.iter().any(is_rival)
    }

    fn add_request(&mut self, request: usize) {
        // Requests have variables, too: a request that is not asked for demands nothing.
        let asked = self.variable(usize::MAX - request);
        let id = self.oracle.require(None, &[asked]);
        self.note(id, Source::Asked(request));
        let mut found = match candidates::of_request(&self.nodes, &self.requests[request], &mut self.remarks) {
            Ok(found) => found,
            Err(missing) => {
                let id = self.oracle.prohibit(asked);
                self.note(id, Source::NotFound(request, missing));
                return;
            }
        };
        if let Some(installed) = self.installed_of(request) {
            let new = self.variable(installed);
            for node in found.clone() {
                let old = self.variable(node);
                let id = self.oracle.at_most_one(&[new, old]);
                self.note(id, Source::Replaces { node, installed });
            }
            found.push(installed);
        }
        let variables: Vec<usize> = found.iter().map(|node| self.variable(*node)).collect();
        let id = self.oracle.require(Some(asked), &variables);
        self.note(id, Source::Accepts(request, found));
    }

    /// Adds what each reachable bundle needs; what meets it can be reached as well.
    fn add_dependencies(&mut self) {
        while let Some(node) = self.fresh.pop_front() {
            self.add_needs(node);
        }
    }

    fn add_needs(&mut self, node: usize) {
        let (facts, variable) = (self.nodes.all[node].facts, self.variable(node));
        if facts.is_prohibited {
            let id = self.oracle.prohibit(variable);
            self.note(id, Source::Prohibited(node));
        }
        let own = match self.nodes.all[node].place {
            Place::Offered { catalog, .. } => Some(&self.nodes.world.catalogs[catalog].name),
            Place::Installed => None,
        };
        for (constraint, demanded) in facts.requires.iter().enumerate() {
            let found = candidates::of_constraint(&self.nodes, demanded, own, &mut self.remarks);
            let variables: Vec<usize> = found.iter().map(|node| self.variable(*node)).collect();
            let id = self.oracle.require(Some(variable), &variables);
            self.note(id, Source::Needs { node, constraint, candidates: found });
            self.needs.entry(node).or_default().push(id);
        }
    }

    /// Adds that a package is installed once, and that an API has one provider.
    fn add_exclusions(&mut self) {
        let mut packages: BTreeMap<&'w str, BTreeSet<usize>> = BTreeMap::new();
        let mut apis: BTreeMap<&'w Gvk, BTreeSet<usize>> = BTreeMap::new();
        for node in self.variables.keys().copied().filter(|node| *node < self.nodes.all.len()) {
            let facts = self.nodes.all[node].facts;
            for (package, _) in &facts.packages {
                packages.entry(package).or_default().insert(node);
            }
            for gvk in &facts.provides {
                apis.entry(gvk).or_default().insert(node);
            }
        }
        for (package, nodes) in packages.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
            let nodes: Vec<usize> = nodes.into_iter().collect();
            self.exclude(Source::OnePerPackage(package.to_owned(), nodes.clone()), &nodes);
        }
        for (gvk, nodes) in apis.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
            let nodes: Vec<usize> = nodes.into_iter().collect();
            self.exclude(Source::OneProvider(gvk.clone(), nodes.clone()), &nodes);
        }
    }

    fn exclude(&mut self, source: Source, nodes: &[usize]) {
        let variables: Vec<usize> = nodes.iter().map(|node| self.variable(*node)).collect();
        let id = self.oracle.at_most_one(&variables);
        self.note(id, source);
    }

    fn variable(&mut self, node: usize) -> usize {
        if let Some(variable) = self.variables.get(&node) {
            return *variable;
        }
        let variable = self.variables.len();
        self.variables.insert(node, variable);
        self.oracle.reserve(variable + 1);
        if node < self.nodes.all.len() {
            self.fresh.push_back(node);
        }
        variable
    }

    fn note(&mut self, id: RuleId, source: Source) {
        debug_assert_eq!(id, self.sources.len(), "rules are numbered one after the other");
        self.sources.push(source);
    }

    /// The fact of a rule, in names.
    pub fn fact(&self, rule: RuleId) -> Fact {
        let request = |index: usize| self.requests[index].name.clone();
        match &self.sources[rule] {
            Source::Asked(index) => {
                Fact::Asked { request: request(*index), package: self.requests[*index].package.clone() }
            }
            Source::Accepts(index, found) => Fact::Accepts { request: request(*index), candidates: self.ids(found) },
            Source::NotFound(index, missing) => {
                Fact::NotFound { request: Box::new(self.requests[*index].clone()), missing: missing.clone() }
            }
            Source::Stays(node) => Fact::Stays { bundle: self.id(*node) },
            Source::Needs { node, constraint, candidates } => Fact::Needs {
                bundle: self.id(*node),
                what: self.what(*node, *constraint),
                candidates: self.ids(candidates),
            },
            Source::OnePerPackage(package, nodes) => {
                Fact::OnePerPackage { package: package.clone(), bundles: self.ids(nodes) }
            }
            Source::OneProvider(api, nodes) => Fact::OneProvider { api: api.clone(), bundles: self.ids(nodes) },
            Source::Prohibited(node) => Fact::Prohibited { bundle: self.id(*node) },
            Source::Replaces { node, installed } => {
                Fact::Replaces { bundle: self.id(*node), installed: self.id(*installed) }
            }
        }
    }

    /// A constraint, in upstream's words.
    pub fn what(&self, node: usize, constraint: usize) -> String {
        self.nodes.all[node].facts.requires[constraint].to_string()
    }

    pub fn id(&self, node: usize) -> BundleId {
        let node = &self.nodes.all[node];
        let version = node.facts.version.as_ref().map(ToString::to_string).unwrap_or_default();
        let named = BundleId { name: node.name.to_owned(), version, ..BundleId::default() };
        match node.place {
            Place::Offered { catalog, package, channel, .. } => BundleId {
                catalog: Some(self.nodes.world.catalogs[catalog].name.clone()),
                package: package.to_owned(),
                channel: channel.to_owned(),
                ..named
            },
            Place::Installed => {
                let package = node.facts.packages.first().map(|(package, _)| package.clone());
                let namespace = self.nodes.world.namespace.clone();
                BundleId { namespace, package: package.unwrap_or_default(), ..named }
            }
        }
    }

    fn ids(&self, nodes: &[usize]) -> Vec<BundleId> {
        nodes.iter().map(|node| self.id(*node)).collect()
    }
}
