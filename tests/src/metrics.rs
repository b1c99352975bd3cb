//! What docs/metrics.md says that the programs show, and what they show.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use crate::process::Process;
use crate::tools::{PATIENCE, workspace_folder};

/// A metric as documented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documented {
    /// As a query names it; of a histogram without `_bucket`, `_count` and `_sum`.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub type_: String,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// `seconds`, `bytes`, or none.
    pub unit: String,
    /// The programs that show it.
    pub programs: Vec<String>,
}

/// Every row of the table.
///
/// # Errors
/// There is no such file, or a row of another form.
pub fn documented() -> Result<Vec<Documented>> {
    let text = std::fs::read_to_string(workspace_folder().join("docs/metrics.md")).context("read docs/metrics.md")?;
    let rows = text.lines().filter(|line| line.starts_with("| `rukpak_"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, type_, labels, unit, programs, _] = cells[..] else { bail!("not six cells: {line}") };
        let list = |text: &str| text.split(", ").map(|word| word.trim_matches('`').to_owned()).collect::<Vec<_>>();
        let labels = if labels.is_empty() { Vec::new() } else { list(labels) };
        let (name, type_, unit) = (name.trim_matches('`').to_owned(), type_.to_owned(), unit.to_owned());
        Ok(Documented { name, type_, labels, unit, programs: list(programs) })
    };
    rows.map(row).collect()
}

/// Names and types in what `/metrics` answers, as they are documented.
fn shown(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let whole = |(name, type_): (&str, &str)| match type_ {
        "counter" => (format!("{name}_total"), type_.to_owned()),
        "info" => (format!("{name}_info"), type_.to_owned()),
        _ => (name.to_owned(), type_.to_owned()),
    };
    types.map(whole).collect()
}

/// What `/metrics` answers.
///
/// # Errors
/// It does not.
pub async fn text(process: &Process) -> Result<String> {
    let client = reqwest::Client::builder().no_proxy().build().context("make a client")?;
    let answer = client.get(format!("{}/metrics", process.http_url)).send().await.context("read the metrics")?;
    answer.text().await.context("read the metrics")
}

/// Waits until the process shows what is documented of `program`, and nothing else: some things are known only after a while.
///
/// # Errors
/// What is shown and what is documented, where they stay different.
pub async fn until_as_documented(process: &Process, program: &str) -> Result<()> {
    let of_program = |metric: &Documented| metric.programs.iter().any(|other| other == program);
    let expected: BTreeMap<_, _> =
        documented()?.into_iter().filter(of_program).map(|metric| (metric.name, metric.type_)).collect();
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let found = shown(&text(process).await?);
        if found == expected {
            return Ok(());
        }
        if tokio::time::Instant::now() > end {
            bail!("{program} shows {found:#?}, docs/metrics.md says {expected:#?}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await; // metrics cannot be watched
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use serde_json::Value;

    use super::*;

    /// Every metric that a text names, and the labels it selects by.
    fn assert_documented(text: &str, what: &str) {
        let documented = documented().unwrap();
        let named = Regex::new(r"(rukpak_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
        let label = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\\?""#).unwrap();
        let mut count = 0;
        for found in named.captures_iter(text) {
            let name = &found[1];
            let base = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let metric = documented
                .iter()
                .find(|metric| metric.name == name || metric.type_ == "histogram" && Some(&*metric.name) == base);
            let metric = metric.unwrap_or_else(|| panic!("{what}: {name} is not documented"));
            assert_ne!(metric.type_ == "histogram", base.is_none(), "{what}: {name} is no series");
            for label in label.captures_iter(found.get(2).map_or("", |labels| labels.as_str())) {
                let known = metric.labels.iter().any(|known| known == &label[1]);
                assert!(
                    known || ["job", "namespace"].contains(&&label[1]),
                    "{what}: {name} has no label {}",
                    &label[1]
                );
            }
            count += 1;
        }
        assert!(count > 0, "{what} names none");
    }

    fn file(name: &str) -> String {
        std::fs::read_to_string(workspace_folder().join("manifests/observability").join(name)).unwrap()
    }

    #[test]
    fn names_end_as_prometheus_asks() {
        let documented = documented().unwrap();
        assert!(documented.len() > 10, "{documented:?}");
        for Documented { name, type_, unit, .. } in &documented {
            assert_eq!(name.ends_with("_total"), type_ == "counter", "{name}");
            let base = name.trim_end_matches("_total");
            assert!(unit.is_empty() || base.ends_with(&format!("_{unit}")), "{name}");
        }
    }

    #[test]
    fn every_panel_asks_for_what_is_documented() {
        let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
        let mut places = Vec::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            let place = &panel["gridPos"];
            let number = |key: &str| place[key].as_u64().unwrap();
            places.push((number("x"), number("y"), number("w"), number("h"), title.to_owned()));
            for target in panel["targets"].as_array().unwrap() {
                assert_documented(target["expr"].as_str().unwrap(), title);
            }
        }
        for (index, (x, y, w, h, title)) in places.iter().enumerate() {
            assert!(x + w <= 24, "{title}");
            for (x2, y2, w2, h2, other) in &places[index + 1..] {
                let is_apart = x + w <= *x2 || x2 + w2 <= *x || y + h <= *y2 || y2 + h2 <= *y;
                assert!(is_apart, "{title} lies over {other}");
            }
        }
    }

    #[test]
    fn every_alert_asks_for_what_is_documented() {
        let rules: Value = serde_saphyr::from_str(&file("alerts.yaml")).unwrap();
        for group in rules["groups"].as_array().unwrap() {
            for rule in group["rules"].as_array().unwrap() {
                let name = rule["alert"].as_str().unwrap();
                assert_documented(rule["expr"].as_str().unwrap(), name);
                let severity = rule["labels"]["severity"].as_str().unwrap();
                assert!(["warning", "critical"].contains(&severity), "{name}: {severity}");
                assert!(rule["annotations"]["summary"].is_string(), "{name}");
                assert!(rule["annotations"]["description"].is_string(), "{name}");
            }
        }
    }
}
