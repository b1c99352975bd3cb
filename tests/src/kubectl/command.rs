//! Commands as people type them. What is not understood is an error: a document must not seem to be followed.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{error_line, short};
use crate::verbs::{self, Denial, Target};

/// What a command waits for at most where it does not say. (kubectl: 30 s, which a test on a busy machine may need.)
const USUAL_WAIT: Duration = Duration::from_mins(2);

/// Words for kinds, with the kind's API version and its plural, as `kubectl` prints refusals.
const KINDS: &[(&[&str], &str, &str, &str)] = &[
    (
        &["platformoperator", "platformoperators"],
        "platform.openshift.io/v1alpha1",
        "PlatformOperator",
        "platformoperators.platform.openshift.io",
    ),
    (
        &["clusteroperator", "clusteroperators", "co"],
        "config.openshift.io/v1",
        "ClusterOperator",
        "clusteroperators.config.openshift.io",
    ),
    (
        &["bundledeployment", "bundledeployments", "bd"],
        "core.rukpak.io/v1alpha1",
        "BundleDeployment",
        "bundledeployments.core.rukpak.io",
    ),
    (&["bundle", "bundles"], "core.rukpak.io/v1alpha1", "Bundle", "bundles.core.rukpak.io"),
    (&["namespace", "namespaces", "ns"], "v1", "Namespace", "namespaces"),
    (&["deployment", "deployments", "deploy"], "apps/v1", "Deployment", "deployments.apps"),
];

/// A command, taken apart.
#[derive(Debug, Default)]
struct Words<'a> {
    verb: &'a str,
    arguments: Vec<&'a str>,
    flags: Vec<(&'a str, &'a str)>,
}

/// Does what `kubectl LINE` does, with `input` on stdin; returns what it prints, stderr included. A refusal by the API server
/// is output too.
///
/// # Errors
/// What is not understood, and a cluster that cannot be asked.
pub async fn run(client: &Client, line: &str, input: &str) -> Result<Vec<String>> {
    let words = Words::of(line)?;
    match words.verb {
        "apply" => apply(client, &words, input).await,
        "get" => get(client, &words).await,
        "wait" => wait(client, &words).await,
        "delete" => delete(client, &words).await,
        "patch" => patch(client, &words).await,
        verb => bail!("kubectl {verb} is not known here: {line}"),
    }
}

impl<'a> Words<'a> {
    /// Flags are written `--name=value`, `-n value`, `-f value` or `-o value`; quotes around a whole value go.
    fn of(line: &'a str) -> Result<Self> {
        let mut rest = line.trim();
        let mut words = Vec::new();
        while !rest.is_empty() {
            let mut quote = None;
            let is_end = |character: char| {
                match quote {
                    Some(open) if open == character => quote = None,
                    None if matches!(character, '\'' | '"') => quote = Some(character),
                    _ => {}
                }
                quote.is_none() && character == ' '
            };
            let end = rest.find(is_end).unwrap_or(rest.len());
            words.push(&rest[..end]);
            rest = rest[end..].trim_start();
        }
        let mut parsed = Self::default();
        let mut words = words.into_iter();
        parsed.verb = words.next().context("no verb")?;
        while let Some(word) = words.next() {
            if let Some((name, value)) = word.strip_prefix("--").and_then(|flag| flag.split_once('=')) {
                parsed.flags.push((name, value.trim_matches(['\'', '"'])));
            } else if word.starts_with('-') && word != "-" && !word.starts_with("--") {
                let value = words.next().with_context(|| format!("{word} needs a value: {line}"))?;
                parsed.flags.push((word.trim_start_matches('-'), value.trim_matches(['\'', '"'])));
            } else {
                parsed.arguments.push(word);
            }
        }
        Ok(parsed)
    }

    fn flag(&self, names: &[&str]) -> Option<&'a str> {
        self.flags.iter().find(|(name, _)| names.contains(name)).map(|(_, value)| *value)
    }

    /// `KIND/NAME`, `KIND NAME` or `KIND` alone.
    fn target(&self) -> Result<(Target, &'static str, bool)> {
        let first = self.arguments.first().context("no kind")?;
        let (word, name) = match first.split_once('/') {
            Some((word, name)) => (word, Some(name)),
            None => (*first, self.arguments.get(1).copied()),
        };
        let known = KINDS.iter().find(|(words, ..)| words.contains(&word));
        let (_, api_version, kind, plural) = known.with_context(|| format!("no kind {word:?} is known here"))?;
        let namespace = self.flag(&["n", "namespace"]).map(str::to_owned);
        let mut target = Target::cluster(api_version, kind, name.unwrap_or_default());
        target.namespace = namespace;
        Ok((target, plural, name.is_some()))
    }
}

async fn apply(client: &Client, words: &Words<'_>, input: &str) -> Result<Vec<String>> {
    if words.flag(&["f", "filename"]) != Some("-") {
        bail!("only -f - is understood");
    }
    let mut lines = Vec::new();
    let objects: Vec<Value> = serde_saphyr::from_multiple(input).map_err(|error| anyhow::anyhow!("{error}"))?;
    for mut object in objects {
        let target = Target::of(&object)?;
        note_applied(&mut object)?;
        let before = verbs::get(client, &target).await?;
        let applied = match verbs::apply(client, &object).await {
            Ok(applied) => applied,
            Err(error) => {
                lines.push(refusal(error)?);
                continue;
            }
        };
        let version = |object: &DynamicObject| object.metadata.resource_version.clone();
        let verdict = match before {
            None => "created",
            Some(before) if version(&before) == version(&applied) => "unchanged",
            Some(_) => "configured",
        };
        lines.push(format!("{} {verdict}", short(&target)));
    }
    Ok(lines)
}

/// The annotation by which `kubectl apply` knows what it has applied.
fn note_applied(object: &mut Value) -> Result<()> {
    const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    object["metadata"]["annotations"].as_object_mut().map(|annotations| annotations.remove(APPLIED));
    if object["metadata"]["annotations"].is_null() {
        object["metadata"]["annotations"] = serde_json::json!({});
    }
    let text = format!("{}\n", serde_json::to_string(object)?);
    object["metadata"]["annotations"][APPLIED] = Value::String(text);
    Ok(())
}

async fn get(client: &Client, words: &Words<'_>) -> Result<Vec<String>> {
    let (target, plural, is_one) = words.target()?;
    match words.flag(&["o", "output"]) {
        None => {
            let url = target.api(client).await?.resource_url().to_owned();
            let path = if is_one { format!("{url}/{}", target.name) } else { url };
            match super::table(client, &path).await {
                Ok(rows) if rows.len() == 1 => Ok(vec!["No resources found".to_owned()]),
                Ok(rows) => Ok(rows),
                Err(error) => Ok(vec![refusal(error)?]),
            }
        }
        Some("yaml") if is_one => match verbs::get(client, &target).await? {
            Some(object) => yaml(object),
            None => Ok(vec![not_found(plural, &target.name)]),
        },
        Some(form) if is_one && form.starts_with("jsonpath=") => {
            let path = Path::of(form.trim_start_matches("jsonpath="))?;
            match verbs::get(client, &target).await? {
                Some(object) => Ok(path.text(&serde_json::to_value(object)?).lines().map(str::to_owned).collect()),
                None => Ok(vec![not_found(plural, &target.name)]),
            }
        }
        Some(form) => bail!("kubectl get -o {form} of {plural} is not known here"),
    }
}

/// Without `managedFields`, which newer versions leave out as well.
fn yaml(mut object: DynamicObject) -> Result<Vec<String>> {
    object.metadata.managed_fields = None;
    let text = serde_saphyr::to_string(&serde_json::to_value(&object)?)?;
    Ok(text.lines().map(str::to_owned).collect())
}

async fn wait(client: &Client, words: &Words<'_>) -> Result<Vec<String>> {
    let (target, ..) = words.target()?;
    let limit = match words.flag(&["timeout"]) {
        Some(text) => {
            let seconds = text.strip_suffix('s').and_then(|text| text.parse().ok());
            Duration::from_secs(seconds.with_context(|| format!("--timeout={text}: write seconds"))?)
        }
        None => USUAL_WAIT,
    };
    match words.flag(&["for"]).context("wait needs --for")?.split_once('=') {
        None => {
            verbs::await_deleted(client, &target, limit).await?;
        }
        Some(("delete", _)) => bail!("write --for=delete"),
        Some(("condition", condition)) => {
            let (kind, status) = condition.split_once('=').unwrap_or((condition, "true"));
            let status = match status.to_lowercase().as_str() {
                "true" => "True",
                "false" => "False",
                other => bail!("--for=condition={kind}={other} is not known here"),
            };
            let expected = verbs::Expected { kind, status, reason: None, message: "" };
            verbs::await_condition(client, &target, expected, limit).await?;
        }
        Some(("jsonpath", rest)) => {
            let (path, value) = rest.rsplit_once('=').with_context(|| format!("no value: {rest}"))?;
            let (path, value) = (Path::of(path)?, value.trim_matches(['\'', '"']));
            let holds = |object: Option<&DynamicObject>| {
                let object = object.and_then(|object| serde_json::to_value(object).ok());
                object.is_some_and(|object| path.text(&object) == value)
            };
            verbs::await_object(client, &target, rest, limit, holds).await?;
        }
        Some((what, _)) => bail!("--for={what} is not known here"),
    }
    Ok(vec![format!("{} condition met", short(&target))])
}

/// A JSONPath of names and of one filter: `{.a.b[?(@.c=="d")].e}`.
struct Path<'a>(Vec<Step<'a>>);

enum Step<'a> {
    Name(&'a str),
    Where(&'a str, &'a str),
}

impl<'a> Path<'a> {
    fn of(text: &'a str) -> Result<Self> {
        let text = text.trim_matches('\'');
        let inner = text.strip_prefix("{.").and_then(|text| text.strip_suffix('}'));
        let mut rest = inner.with_context(|| format!("{text} is no JSONPath that is known here"))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(filter) = rest.strip_prefix("[?(@.") {
                let (filter, after) = filter.split_once("\")]").context("a filter ends with \")]")?;
                let (key, value) = filter.split_once("==\"").context("a filter compares with ==")?;
                steps.push(Step::Where(key, value));
                rest = after;
            } else {
                let name = rest.trim_start_matches('.');
                let end = name.find(['.', '[']).unwrap_or(name.len());
                steps.push(Step::Name(&name[..end]));
                rest = &name[end..];
            }
        }
        Ok(Self(steps))
    }

    /// What stands there; nothing if nothing does.
    fn text(&self, object: &Value) -> String {
        let mut at = object;
        for step in &self.0 {
            at = match step {
                Step::Name(name) => &at[*name],
                Step::Where(key, value) => {
                    let found = at.as_array().into_iter().flatten().find(|item| item[*key] == *value);
                    found.unwrap_or(&Value::Null)
                }
            };
        }
        super::cell(at)
    }
}

async fn delete(client: &Client, words: &Words<'_>) -> Result<Vec<String>> {
    let (target, plural, _) = words.target()?;
    if verbs::get(client, &target).await?.is_none() {
        return Ok(vec![not_found(plural, &target.name)]);
    }
    verbs::delete(client, &target).await?;
    // kubectl waits for the end unless told otherwise.
    verbs::await_deleted(client, &target, USUAL_WAIT).await?;
    let kind = short(&target);
    let kind = kind.split_once('/').map_or(kind.as_str(), |(kind, _)| kind);
    Ok(vec![format!("{kind} \"{}\" deleted", target.name)])
}

async fn patch(client: &Client, words: &Words<'_>) -> Result<Vec<String>> {
    let (target, ..) = words.target()?;
    if words.flag(&["type"]) != Some("merge") {
        bail!("only --type=merge is understood");
    }
    let patch: Value = serde_json::from_str(words.flag(&["p", "patch"]).context("patch needs -p")?)?;
    match verbs::merge(client, &target, &patch).await {
        Ok(_) => Ok(vec![format!("{} patched", short(&target))]),
        Err(error) => Ok(vec![refusal(error)?]),
    }
}

fn not_found(plural: &str, name: &str) -> String {
    let message = format!("{plural} \"{name}\" not found");
    error_line(&Denial { code: 404, reason: "NotFound".to_owned(), message })
}

/// What `kubectl` prints of a refusal; any other error is one.
fn refusal(error: anyhow::Error) -> Result<String> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Ok(error_line(&Denial {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        })),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let words = Words::of("patch bundle a -n b --type=merge -p '{\"a\": 1}' --for=condition=Installed").unwrap();
        assert_eq!((words.verb, words.arguments.as_slice()), ("patch", ["bundle", "a"].as_slice()));
        assert_eq!(words.flag(&["p"]), Some("{\"a\": 1}"));
        assert_eq!(words.flag(&["n"]), Some("b"));
        assert_eq!(words.flag(&["for"]), Some("condition=Installed"));
        let (target, plural, is_one) = Words::of("get platformoperator/x").unwrap().target().unwrap();
        assert_eq!(
            (target.kind.as_str(), plural, is_one),
            ("PlatformOperator", "platformoperators.platform.openshift.io", true)
        );
        assert!(Words::of("get pods").unwrap().target().is_err());
        let words = Words::of("wait --for=jsonpath='{.a b}'=1 bd/x").unwrap();
        assert_eq!(words.flag(&["for"]), Some("jsonpath='{.a b}'=1"));
        assert_eq!(words.arguments, ["bd/x"]);
    }

    #[test]
    fn a_path_leads_through_names_and_a_filter() {
        let object =
            serde_json::json!({"status": {"conditions": [{"type": "A", "n": 1}, {"type": "B", "message": "m"}]}});
        let text = |path| Path::of(path).unwrap().text(&object);
        assert_eq!(text("{.status.conditions[?(@.type==\"B\")].message}"), "m");
        assert_eq!(text("{.status.conditions[?(@.type==\"A\")].n}"), "1");
        assert_eq!(text("{.status.absent}"), "");
        assert!(Path::of("{range .items[*]}").is_err());
    }
}
