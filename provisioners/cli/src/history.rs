//! `rukpakctl history`: the revisions of a BundleDeployment.

use std::io::{self, Write};

use rukpak_crds::{BundleDeployment, BundleSource, Revision};
use serde::Serialize;

use crate::answer::{self, BUNDLES};
use crate::args::{DeploymentArgs, OutputForm};
use crate::cluster::Cluster;
use crate::colour::Palette;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table;

/// What `--output json` prints.
#[derive(Serialize)]
struct History<'a> {
    name: &'a str,
    /// The revision that is installed, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<i64>,
    /// The newest first, as the status has them.
    revisions: &'a [Revision],
}

pub async fn run(arguments: &DeploymentArgs) -> Result<Exit, Failure> {
    let deployment = Cluster::connect(&arguments.cluster).await?.existing(&arguments.name).await?;
    Ok(print(arguments.output.form, &arguments.name, &deployment))
}

fn print(form: OutputForm, name: &str, deployment: &BundleDeployment) -> Exit {
    let revisions = revisions(deployment);
    let installed = installed(revisions).map(|revision| revision.revision);
    answer::print(
        form,
        &History { name, installed, revisions },
        |out, palette, is_wide| text(out, palette, name, revisions, is_wide),
        |out| names(out, revisions),
        Exit::Yes,
    )
}

/// The revisions of a BundleDeployment, the newest first.
pub fn revisions(deployment: &BundleDeployment) -> &[Revision] {
    deployment.status.as_ref().map_or(&[], |status| &status.history)
}

/// The revision that is in the cluster: the newest that did not fail.
pub fn installed(revisions: &[Revision]) -> Option<&Revision> {
    revisions.iter().find(|revision| !revision.result.is_failure())
}

fn text(out: &mut dyn Write, palette: Palette, name: &str, revisions: &[Revision], is_wide: bool) -> io::Result<()> {
    if revisions.is_empty() {
        return writeln!(out, "{name} has no revisions yet");
    }
    let current = installed(revisions).map(|revision| revision.revision);
    let mut heading = vec!["REVISION", "INSTALLED", "RESULT", "SINCE", "BUNDLE"];
    if is_wide {
        heading.extend(["SOURCE", "CONTENT"]);
    }
    heading.push("MESSAGE");
    let row = |revision: &Revision| {
        let is_current = current == Some(revision.revision);
        let mut row = vec![
            revision.revision.to_string(),
            if is_current { "yes" } else { "no" }.to_owned(),
            format!("{:?}", revision.result),
            revision.time.to_string(),
            revision.bundle.clone().unwrap_or_default(),
        ];
        if is_wide {
            row.push(revision.source.as_ref().map(source).unwrap_or_default());
            row.push(revision.release.content_digest.clone());
        }
        row.push(revision.message.clone());
        row
    };
    table::write_in_colour(out, palette, &heading, &revisions.iter().map(row).collect::<Vec<_>>())
}

fn names(out: &mut dyn Write, revisions: &[Revision]) -> io::Result<()> {
    let mut bundles = revisions.iter().filter_map(|revision| revision.bundle.as_deref());
    bundles.try_for_each(|bundle| writeln!(out, "{BUNDLES}/{bundle}"))
}

/// A source in few words: what somebody would look for.
pub fn source(source: &BundleSource) -> String {
    if let Some(image) = &source.image {
        return image.reference.clone();
    }
    if let Some(git) = &source.git {
        let reference = &git.reference;
        let at = reference.tag.as_ref().or(reference.branch.as_ref()).or(reference.commit.as_ref());
        let at = at.map(|at| format!("@{at}")).unwrap_or_default();
        let folder = git.directory.as_ref().map(|folder| format!(" ({folder})")).unwrap_or_default();
        return format!("{}{at}{folder}", git.repository);
    }
    if let Some(http) = &source.http {
        return http.url.clone();
    }
    source.type_.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history() -> Vec<Revision> {
        let image = json!({"type": "image", "image": {"ref": "registry.example.com/pump:v1"}});
        let git = json!({"type": "git", "git": {"repository": "https://example.com/pump.git", "ref": {"tag": "v2"}, "directory": "d"}});
        serde_json::from_value(json!([
            {"revision": 3, "contentDigest": "sha256:03", "result": "Failed", "time": "2026-01-03T00:00:00Z", "bundle": "pump-3", "message": "it does not fit"},
            {"revision": 2, "contentDigest": "sha256:02", "result": "Healthy", "time": "2026-01-02T00:00:00Z", "bundle": "pump-2", "source": git},
            {"revision": 1, "contentDigest": "sha256:01", "result": "Healthy", "time": "2026-01-01T00:00:00Z", "source": image},
        ]))
        .unwrap()
    }

    fn shown(revisions: &[Revision], is_wide: bool) -> String {
        let mut out = Vec::new();
        text(&mut out, Palette::of(&tempfile::tempfile().unwrap()), "pump", revisions, is_wide).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_newest_comes_first_and_what_is_installed_is_marked() {
        let wanted = "\
REVISION   INSTALLED   RESULT    SINCE                  BUNDLE   MESSAGE
3          no          Failed    2026-01-03T00:00:00Z   pump-3   it does not fit
2          yes         Healthy   2026-01-02T00:00:00Z   pump-2   -
1          no          Healthy   2026-01-01T00:00:00Z   -        -
";
        assert_eq!(shown(&history(), false), wanted);
        let wide = shown(&history(), true);
        let sources: Vec<&str> = wide.lines().skip(1).map(|line| line.split("   ").nth(5).unwrap().trim()).collect();
        assert!(wide.starts_with("REVISION   INSTALLED   RESULT    SINCE                  BUNDLE   SOURCE "), "{wide}");
        assert!(wide.contains("https://example.com/pump.git@v2 (d)   sha256:02   -"), "{wide}");
        assert!(wide.contains("registry.example.com/pump:v1"), "{wide} {sources:?}");
        assert_eq!(shown(&[], false), "pump has no revisions yet\n");
    }

    #[test]
    fn programs_get_the_revisions_of_the_status() {
        let revisions = history();
        let installed = installed(&revisions).map(|revision| revision.revision);
        let answer = serde_json::to_value(History { name: "pump", installed, revisions: &revisions }).unwrap();
        assert_eq!((&answer["name"], &answer["installed"]), (&json!("pump"), &json!(2)));
        assert_eq!(answer["revisions"][0]["message"], "it does not fit");
        let mut out = Vec::new();
        names(&mut out, &revisions).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "bundle.core.rukpak.io/pump-3\nbundle.core.rukpak.io/pump-2\n");
    }
}
