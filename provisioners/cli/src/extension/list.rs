//! `rukpakctl extension list`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rukpak_crds::olm::ClusterExtension;

use super::{EXTENSIONS, Line};
use crate::answer::print;
use crate::args::ListExtensionsArgs;
use crate::cluster::Cluster;
use crate::colour::Palette;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table;

/// Asks the cluster. Yes if all have what they ask for.
pub(super) async fn list(arguments: &ListExtensionsArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let extensions: Vec<ClusterExtension> = cluster.list(arguments.selector.as_deref()).await?;
    let lines: Vec<Line<'_>> = extensions.iter().map(Line::of).collect();
    let exit = if lines.iter().all(|line| line.is_settled) { Exit::Yes } else { Exit::No };
    Ok(print(
        arguments.output.form,
        &BTreeMap::from([("extensions", &lines)]),
        |out, palette, is_wide| text(out, palette, &lines, is_wide),
        |out| lines.iter().try_for_each(|line| writeln!(out, "{EXTENSIONS}/{}", line.name)),
        exit,
    ))
}

fn text(out: &mut dyn Write, palette: Palette, extensions: &[Line<'_>], is_wide: bool) -> io::Result<()> {
    if extensions.is_empty() {
        return writeln!(out, "No ClusterExtensions are present in the cluster");
    }
    let rows: Vec<_> = extensions.iter().map(|line| line.row(is_wide)).collect();
    let wide: &[&str] = if is_wide { &["CHANNELS", "NAMESPACE", "BUNDLE"] } else { &[] };
    let heading = [&["NAME", "PACKAGE", "ASKED FOR", "INSTALLED", "PROGRESSING"], wide, &["MESSAGE"]].concat();
    table::write_in_colour(out, palette, &heading, &rows)
}

impl Line<'_> {
    fn row(&self, is_wide: bool) -> Vec<String> {
        let version = self.installed.map_or("", |installed| installed.version);
        let asked = self.version.unwrap_or("any");
        let mut row = [&self.name, self.package, asked, version, self.reason].map(str::to_owned).to_vec();
        if is_wide {
            let bundle = self.installed.map_or("", |installed| installed.bundle);
            row.extend([self.channels.join(","), self.namespace.unwrap_or_default().to_owned(), bundle.to_owned()]);
        }
        row.push(self.message.to_owned());
        row
    }
}
