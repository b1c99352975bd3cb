//! Rules in CEL, over the properties of one bundle.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr};
use cel::{Context, IdedExpr, Program};
use serde_json::{Value, json};

use crate::property::Property;

/// The functions of the language, and ours. Others are an error before anything is evaluated, as in Go's CEL.
const FUNCTIONS: [&str; 16] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "int",
    "matches",
    "semver_compare",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];
/// The longest rule, in bytes, and how deep its parts may lie in each other: parser and interpreter call themselves for each level,
/// and a catalog must not exhaust the stack.
const MAX_RULE_BYTES: usize = 4096;
const MAX_DEPTH: u32 = 100;
/// How deep `exists`, `all`, `map` and their like may lie in each other: each level multiplies by the number of properties.
const MAX_NESTING: u32 = 2;
/// Most steps of the innermost level. A bundle with more properties than that permits does not meet the rule.
const MAX_STEPS: usize = 100_000;

/// A rule that compiles. Compared with others by its text.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    program: Arc<Program>,
    nesting: u32,
}

impl Rule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// It is no expression, calls an unknown function, is longer or deeper than anybody needs, or nests loops deeper than two.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let length = text.len();
        if length > MAX_RULE_BYTES {
            return Err(format!("a rule of {length} bytes, and at most {MAX_RULE_BYTES} are allowed"));
        }
        let fault = |problem: String| format!("rule {text:?}: {problem}");
        let program = Program::compile(text).map_err(|error| fault(error.to_string()))?;

        let mut found = Inspection::default();
        found.inspect(program.expression(), 0, 0).map_err(fault)?;
        let nesting = found.nesting;
        if nesting > MAX_NESTING {
            return Err(fault(format!("{nesting} loops in each other, and at most {MAX_NESTING} are allowed")));
        }
        Ok(Self { text: text.to_owned(), program: Arc::new(program), nesting })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the rule is true of these properties. An error, or a result that is no boolean, counts as *no*.
    pub(crate) fn holds(&self, properties: &[Property]) -> bool {
        let is_affordable = properties.len().checked_pow(self.nesting).is_some_and(|steps| steps <= MAX_STEPS);
        is_affordable && self.evaluate(properties) == Some(true)
    }

    fn evaluate(&self, properties: &[Property]) -> Option<bool> {
        let mut context = Context::default();
        let list: Vec<Value> =
            properties.iter().map(|property| json!({"type": property.kind, "value": property.value})).collect();
        context.add_variable("properties", list).ok()?;
        context.add_function("semver_compare", compare).ok()?;
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(holds)) => Some(holds),
            _ => None,
        }
    }
}

/// `semver_compare`: -1, 0 or 1; an error for texts that are no versions.
#[expect(clippy::needless_pass_by_value, reason = "the form that the interpreter calls")]
fn compare(one: Arc<String>, other: Arc<String>) -> Result<i64, cel::ExecutionError> {
    let read = |text: &str| {
        parse_tolerant(text).ok_or_else(|| cel::ExecutionError::function_error("semver_compare", "not a version"))
    };
    Ok(match read(&one)?.cmp_precedence(&read(&other)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

/// A version as blang's `ParseTolerant` reads it: spaces and a leading `v` are dropped, so are leading zeros, and missing numbers
/// are zero.
fn parse_tolerant(text: &str) -> Option<semver::Version> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut parts: Vec<&str> = numbers
        .splitn(3, '.')
        .map(|part| {
            let bare = part.trim_start_matches('0');
            if bare.is_empty() && !part.is_empty() { "0" } else { bare }
        })
        .collect();
    if parts.len() < 3 && !rest.is_empty() {
        return None; // a short version has neither prerelease nor build, there
    }
    parts.resize(3, "0");
    semver::Version::parse(&format!("{}{rest}", parts.join("."))).ok()
}

/// What is found out about a rule before it is evaluated.
#[derive(Default)]
struct Inspection {
    /// How deep loops lie in each other.
    nesting: u32,
}

impl Inspection {
    /// Looks for unknown functions and for parts that lie too deep. `depth` counts parts, `loops` the loops around this one.
    fn inspect(&mut self, node: &IdedExpr, depth: u32, loops: u32) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("its parts lie in each other more than {MAX_DEPTH} deep"));
        }
        let mut each = |nodes: &[&IdedExpr]| nodes.iter().try_for_each(|node| self.inspect(node, depth + 1, loops));
        match &node.expr {
            Expr::Call(call) => {
                // Operators have names that no identifier can have.
                let is_operator = !call.func_name.starts_with(|first: char| first.is_ascii_alphabetic());
                if !is_operator && !FUNCTIONS.contains(&call.func_name.as_str()) {
                    return Err(format!("undeclared reference to {:?}", call.func_name));
                }
                each(&call.target.iter().map(AsRef::as_ref).chain(&call.args).collect::<Vec<_>>())
            }
            Expr::Comprehension(part) => {
                each(&[&part.iter_range, &part.accu_init, &part.result])?;
                self.nesting = self.nesting.max(loops + 1);
                self.inspect(&part.loop_cond, depth + 1, loops + 1)?;
                self.inspect(&part.loop_step, depth + 1, loops + 1)
            }
            Expr::List(list) => each(&list.elements.iter().collect::<Vec<_>>()),
            Expr::Select(select) => each(&[&select.operand]),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => each(&[&entry.key, &entry.value]),
                EntryExpr::StructField(field) => each(&[&field.value]),
            }),
            Expr::Struct(_) => Err("messages are not supported".to_owned()),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_versions_as_blang_does() {
        let parsed = |text: &str| parse_tolerant(text).map(|version| version.to_string());
        for (text, version) in
            [("1.2.3", "1.2.3"), (" v1.2 ", "1.2.0"), ("1", "1.0.0"), ("01.02.03-a", "1.2.3-a"), ("00.1", "0.1.0")]
        {
            assert_eq!(parsed(text).as_deref(), Some(version), "{text}");
        }
        for text in ["", "x", "1.x", "1.2-a", "1..2"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn refuses_what_cannot_be_evaluated_in_bounded_time() {
        let nested = "properties.all(a, properties.all(b, properties.all(c, a == b && b == c)))";
        assert!(Rule::compile(nested).unwrap_err().contains("3 loops"));
        let many: Vec<Property> =
            (0..400).map(|number| Property { kind: "x".to_owned(), value: json!(number) }).collect();
        let rule = Rule::compile("properties.all(a, properties.all(b, a.type == b.type))").unwrap();
        assert!(rule.holds(&many[..100]));
        assert!(!rule.holds(&many), "160,000 steps");
    }

    #[test]
    fn refuses_rules_that_would_exhaust_the_stack() {
        let half = MAX_RULE_BYTES / 2;
        let deep = [
            format!("{}true{}", "(".repeat(half - 2), ")".repeat(half - 2)),
            format!("{}{}", "[".repeat(half), "]".repeat(half)),
            format!("properties{}", ".a".repeat(half - 5)),
            format!("1{} == 1", "+1".repeat(half - 3)),
            "true?true:".repeat(400) + "true",
        ];
        for rule in deep {
            assert!(Rule::compile(&rule).is_err(), "{rule}");
        }
        assert!(Rule::compile(&"x".repeat(MAX_RULE_BYTES + 1)).unwrap_err().contains("4097 bytes"));

        let selected = |count: u32| format!("properties{}", ".a".repeat(count as usize));
        assert!(Rule::compile(&selected(MAX_DEPTH)).is_ok(), "the outermost part lies in none");
        assert!(Rule::compile(&selected(MAX_DEPTH + 1)).unwrap_err().contains("100 deep"));

        let any = vec!["properties.exists(p, p.type == 'x')"; 50].join(" || ");
        assert!(Rule::compile(&any).is_ok(), "a long rule that is not deep");
    }
}
