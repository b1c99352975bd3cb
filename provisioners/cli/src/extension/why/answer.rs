//! What `rukpakctl extension why` prints.

use std::io::{self, Write};

use rukpak_catalog::resolve::{Candidate, Explanation};
use rukpak_crds::olm::cluster_extension::CatalogFilter;
use serde::Serialize;

use super::AskedCatalog;
use crate::answer::print;
use crate::args::OutputForm;
use crate::exit::Exit;
use crate::extension::Installed;
use crate::table::{self, one_line};

/// What `--output json` prints.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    package: String,
    /// The range that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    channels: Vec<String>,
    /// Name of the installed bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<Chosen>,
    /// Why nothing is chosen, in the words of the condition Progressing.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// All catalogs of the cluster.
    catalogs: Vec<CatalogLine>,
    /// All bundles of the package in those that were asked, the highest version of each first.
    bundles: Vec<BundleLine>,
}

/// The bundle that is chosen.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Chosen {
    catalog: String,
    bundle: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct CatalogLine {
    name: String,
    priority: i32,
    is_asked: bool,
    /// Why it gives no bundle, if it gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BundleLine {
    catalog: String,
    name: String,
    version: String,
    channels: Vec<String>,
    is_chosen: bool,
    /// Why it is not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Answer {
    pub(super) fn of(
        filter: &CatalogFilter,
        installed: Option<Installed<'_>>,
        looked: &[AskedCatalog],
        explanation: &Explanation<'_>,
    ) -> Self {
        let unserved = looked.iter().find_map(AskedCatalog::unserved);
        let is_blocked = unserved.is_some();
        let message = unserved.or_else(|| explanation.outcome.as_ref().err().map(ToString::to_string));
        let chosen = explanation.outcome.as_ref().ok().filter(|_| message.is_none()).map(|resolved| Chosen {
            catalog: resolved.catalog.to_owned(),
            bundle: resolved.bundle.name.clone(),
            version: resolved.bundle.version_text.clone(),
            image: resolved.bundle.image.clone(),
        });
        Self {
            package: filter.package_name.clone(),
            version: filter.version.clone(),
            channels: filter.channels.clone(),
            installed: installed.map(|installed| installed.bundle.to_owned()),
            catalogs: looked.iter().map(|looked| CatalogLine::of(looked, filter)).collect(),
            bundles: explanation.candidates.iter().map(|candidate| BundleLine::of(candidate, is_blocked)).collect(),
            chosen,
            message,
        }
    }

    /// The image of the bundle that is chosen; or why none is.
    pub(crate) fn chosen_image(&self) -> Result<&str, &str> {
        let image = self.chosen.as_ref().and_then(|chosen| chosen.image.as_deref());
        image.ok_or_else(|| self.message.as_deref().unwrap_or_default())
    }

    pub(super) fn print(&self, form: OutputForm) -> Exit {
        let exit = if self.chosen.is_some() { Exit::Yes } else { Exit::No };
        print(
            form,
            self,
            |out, _, is_wide| self.text(out, is_wide),
            |out| self.chosen.iter().try_for_each(|chosen| writeln!(out, "{}", chosen.bundle)),
            exit,
        )
    }

    pub(super) fn text(&self, out: &mut dyn Write, is_wide: bool) -> io::Result<()> {
        let facts = [
            ("package", vec![self.package.clone()]),
            ("version", vec![self.version.clone().unwrap_or_else(|| "any".to_owned())]),
            ("channels", vec![if self.channels.is_empty() { "any".to_owned() } else { self.channels.join(", ") }]),
            ("installed", vec![self.installed.clone().unwrap_or_else(|| "nothing".to_owned())]),
        ];
        table::facts(out, &facts)?;
        let rows: Vec<_> = self.catalogs.iter().flat_map(|catalog| self.rows(catalog, is_wide)).collect();
        if !rows.is_empty() {
            let wide: &[&str] = if is_wide { &["CHANNELS"] } else { &[] };
            let heading = [&["CATALOG", "PRIORITY", "BUNDLE", "VERSION"], wide, &["CHOSEN"]].concat();
            writeln!(out)?;
            table::write(out, &heading, &rows)?;
            writeln!(out)?;
        }
        match (&self.chosen, &self.message) {
            (Some(chosen), _) => {
                writeln!(out, "{} of catalog {} is chosen", one_line(&chosen.bundle), one_line(&chosen.catalog))
            }
            (None, Some(message)) => writeln!(out, "{}", one_line(message)),
            (None, None) => Ok(()),
        }
    }

    /// The bundles of a catalog, or why it has none.
    fn rows(&self, catalog: &CatalogLine, is_wide: bool) -> Vec<Vec<String>> {
        let row = |bundle: &str, version: &str, channels: &[String], said: &str| {
            let mut row = [&catalog.name, &catalog.priority.to_string(), bundle, version].map(str::to_owned).to_vec();
            row.extend(is_wide.then(|| channels.join(",")));
            row.push(said.to_owned());
            row
        };
        let bundles = self.bundles.iter().filter(|bundle| bundle.catalog == catalog.name);
        let mut rows: Vec<_> =
            bundles.map(|bundle| row(&bundle.name, &bundle.version, &bundle.channels, &bundle.said())).collect();
        rows.extend(catalog.message.iter().map(|message| row("", "", &[], &format!("no: {message}"))));
        rows
    }
}

impl CatalogLine {
    fn of(looked: &AskedCatalog, filter: &CatalogFilter) -> Self {
        let message = match &looked.content {
            Ok(catalog) if catalog.packages.contains_key(&filter.package_name) => None,
            Ok(_) => Some("it has no such package".to_owned()),
            Err(why) => Some(why.to_string()),
        };
        let (name, priority) = (looked.name.clone(), looked.priority);
        Self { name, priority, is_asked: looked.content.is_ok(), message }
    }
}

impl BundleLine {
    fn of(candidate: &Candidate<'_>, is_blocked: bool) -> Self {
        // The best of those that could be asked is not chosen while another catalog cannot be.
        let unserved = || is_blocked.then(|| "a catalog is not served".to_owned());
        let reason = candidate.reason.as_ref().map(ToString::to_string).or_else(unserved);
        Self {
            catalog: candidate.catalog.to_owned(),
            name: candidate.bundle.name.clone(),
            version: candidate.bundle.version_text.clone(),
            channels: candidate.channels.iter().map(|&name| name.to_owned()).collect(),
            is_chosen: reason.is_none(),
            reason,
        }
    }

    fn said(&self) -> String {
        self.reason.as_ref().map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"))
    }
}
