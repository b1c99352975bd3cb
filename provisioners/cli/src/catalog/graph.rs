//! `rukpakctl catalog graph`.

use rukpak_catalog::graph::mermaid;
use rukpak_catalog::validate;

use super::open::{Opened, Scope};
use super::{failed, missing, package, warn_of};
use crate::args::GraphArgs;
use crate::exit::Exit;
use crate::output::{to_stderr, to_stdout};
use crate::table::count;

/// Prints a package's channels, or one of them, as a flowchart.
pub(super) async fn run(arguments: &GraphArgs) -> Exit {
    let opened = match Opened::new(&arguments.place, Scope::Package(&arguments.package)).await {
        Ok(opened) => opened,
        Err(error) => return failed(&error),
    };
    let mut package = match package(&opened, &arguments.package) {
        Ok(package) => package.clone(),
        Err(why) => return missing(&opened, &arguments.place, &arguments.package, &why).report(),
    };
    if let Some(channel) = &arguments.channel {
        if !package.channels.contains_key(channel) {
            let known: Vec<&str> = package.channels.keys().map(String::as_str).collect();
            let why = format!("package {:?} has no channel {channel:?}; there are {}", package.name, known.join(", "));
            return missing(&opened, &arguments.place, &arguments.package, &why).report();
        }
        package.channels.retain(|name, _| name == channel);
        package.channels.values().for_each(|channel| warn_of(&validate::channel(&package.name, channel)));
    } else {
        warn_of(&validate::graph(&package));
    }
    let channels = count(package.channels.len(), "channel");
    to_stderr(&format!("{}: {channels} of package {:?}", opened.from, package.name));
    to_stdout(|out| out.write_all(mermaid(&package).as_bytes()), Exit::Yes)
}
