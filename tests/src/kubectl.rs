//! The words of `kubectl`, from what the API server answers: enough of it for the demo, and to follow what the
//! documentation tells people to type.

mod command;

use anyhow::{Context, Result};
use axum::http::Request;
use axum::http::header::ACCEPT;
use kube::Client;
use serde_json::Value;

use crate::verbs::{Denial, Target};

pub use command::run;

/// What `kubectl get` asks for: the API server chooses columns and cells.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// `kubectl get KIND NAME`.
pub async fn get(client: &Client, target: &Target) -> Result<Vec<String>> {
    let url = target.api(client).await?.resource_url().to_owned();
    table(client, &format!("{url}/{}", target.name)).await.with_context(|| format!("get {target} as a table"))
}

/// `kubectl get` of a path of the API: one object or a list.
async fn table(client: &Client, path: &str) -> Result<Vec<String>> {
    let request = Request::get(path).header(ACCEPT, TABLE).body(Vec::new())?;
    let answer: Value = client.request(request).await?;
    let columns: Vec<(usize, String)> = answer["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, column)| column["priority"] == 0)
        .map(|(index, column)| (index, column["name"].as_str().unwrap_or_default().to_uppercase()))
        .collect();
    let mut rows = vec![columns.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>()];
    for row in answer["rows"].as_array().into_iter().flatten() {
        rows.push(columns.iter().map(|(index, _)| cell(&row["cells"][index])).collect());
    }
    Ok(aligned(&rows))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows as columns three spaces apart.
pub fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// How `kubectl` prints a Status: the reason in brackets, then the message.
pub fn error_line(refusal: &Denial) -> String {
    if refusal.reason.is_empty() {
        return format!("Error from server: {}", refusal.message);
    }
    format!("Error from server ({}): {}", refusal.reason, refusal.message)
}

/// `group` and `kind` as `kubectl apply` prints them: `deployment.apps/name`.
pub fn short(target: &Target) -> String {
    let kind = target.kind.to_lowercase();
    match target.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", target.name),
        None => format!("{kind}/{}", target.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_as_kubectl_prints_it() {
        let refusal = Denial { code: 404, reason: "NotFound".into(), message: "pods \"a\" not found".into() };
        assert_eq!(error_line(&refusal), "Error from server (NotFound): pods \"a\" not found");
        assert_eq!(error_line(&Denial { reason: String::new(), ..refusal }), "Error from server: pods \"a\" not found");
    }

    #[test]
    fn columns_are_three_spaces_apart() {
        let rows = [["NAME", "AGE"], ["long-name", "1s"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), ["NAME        AGE", "long-name   1s"]);
    }
}
