//! Whether rules can hold together: a SAT solver, asked under assumptions.
//!
//! Each rule has a switch, a variable that turns its clauses on, so that any set of rules can be asked about without building
//! anything anew, and the fewest rules that exclude each other can be found.

use batsat::{BasicSolver, Lit, SolverInterface, Var, lbool};

/// The number of a rule.
pub(crate) type RuleId = usize;

/// From so many members on, *at most one* is written with additional variables, in clauses that grow with the number and not with
/// its square.
const LADDER: usize = 6;

#[derive(Default)]
pub(crate) struct Oracle {
    solver: BasicSolver,
    nodes: Vec<Var>,
    switches: Vec<Var>,
}

impl Oracle {
    /// Makes sure that there are variables for `count` nodes.
    pub fn reserve(&mut self, count: usize) {
        while self.nodes.len() < count {
            self.nodes.push(self.solver.new_var_default());
        }
    }

    /// A rule: at least one of `some` is chosen, or `unless` is not. Without `unless` it always holds.
    pub fn require(&mut self, unless: Option<usize>, some: &[usize]) -> RuleId {
        let (id, off) = self.switch();
        let mut clause: Vec<Lit> = some.iter().map(|node| self.chosen(*node)).collect();
        clause.extend(unless.map(|node| !self.chosen(node)));
        clause.push(off);
        self.solver.add_clause_reuse(&mut clause);
        id
    }

    /// A rule: at most one of `some` is chosen.
    pub fn at_most_one(&mut self, some: &[usize]) -> RuleId {
        let (id, off) = self.switch();
        let literals: Vec<Lit> = some.iter().map(|node| self.chosen(*node)).collect();
        if literals.len() < LADDER {
            for (index, one) in literals.iter().enumerate() {
                for other in &literals[index + 1..] {
                    self.solver.add_clause_reuse(&mut vec![!*one, !*other, off]);
                }
            }
            return id;
        }
        // `before`: one of the literals up to here is chosen.
        let mut before: Option<Lit> = None;
        for literal in literals {
            let here = Lit::new(self.solver.new_var_default(), true);
            self.solver.add_clause_reuse(&mut vec![!literal, here, off]);
            if let Some(before) = before {
                self.solver.add_clause_reuse(&mut vec![!before, here, off]);
                self.solver.add_clause_reuse(&mut vec![!before, !literal, off]);
            }
            before = Some(here);
        }
        id
    }

    /// A rule: `node` is not chosen.
    pub fn prohibit(&mut self, node: usize) -> RuleId {
        let (id, off) = self.switch();
        let mut clause = vec![!self.chosen(node), off];
        self.solver.add_clause_reuse(&mut clause);
        id
    }

    /// Whether some choice that holds all of `nodes` obeys the rules.
    pub fn is_possible(&mut self, rules: &[RuleId], nodes: &[usize]) -> bool {
        let switches = rules.iter().map(|rule| Lit::new(self.switches[*rule], true));
        let assumed: Vec<Lit> = switches.chain(nodes.iter().map(|node| self.chosen(*node))).collect();
        self.solver.solve_limited(&assumed) == lbool::TRUE
    }

    /// Turns rules on for good. Afterwards only nodes are assumed, of which there are few.
    pub fn settle(&mut self, rules: &[RuleId]) {
        for rule in rules {
            self.solver.add_clause_reuse(&mut vec![Lit::new(self.switches[*rule], true)]);
        }
    }

    /// A set of rules that exclude each other, none of which can be left out. Empty if all can hold.
    pub fn smallest_conflict(&mut self, rules: &[RuleId]) -> Vec<RuleId> {
        if self.is_possible(rules, &[]) {
            return Vec::new();
        }
        let mut core: Vec<RuleId> =
            rules.iter().copied().filter(|rule| self.solver.unsat_core_contains_var(self.switches[*rule])).collect();
        let mut index = 0;
        while index < core.len() {
            let mut without = core.clone();
            without.remove(index);
            if self.is_possible(&without, &[]) {
                index += 1;
            } else {
                core = without;
            }
        }
        core
    }

    fn chosen(&self, node: usize) -> Lit {
        Lit::new(self.nodes[node], true)
    }

    /// A new rule, and the literal that turns its clauses off.
    fn switch(&mut self) -> (RuleId, Lit) {
        let switch = self.solver.new_var_default();
        self.switches.push(switch);
        (self.switches.len() - 1, Lit::new(switch, false))
    }
}
