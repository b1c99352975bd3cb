//! `rukpakctl completions` and `man`: both made from the definition of the flags.

use clap::Command;

use crate::args::{self, CompletionArgs, ManArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{to_stderr, to_stdout_raw};

/// Prints the completions for a shell.
pub fn completions(arguments: &CompletionArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut args::command(), args::NAME, &mut script);
    to_stdout_raw(|out| out.write_all(&script), Exit::Yes)
}

/// Writes a man page for each command to a folder.
pub fn man(arguments: &ManArgs) -> Result<Exit, Failure> {
    let folder = &arguments.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(args::command(), folder));
    written.map_err(|error| Failure::unknown(format!("write man pages to {}: {error}", folder.display())))?;
    to_stderr(&format!("{} man pages in {}", pages(&args::command()), folder.display()));
    Ok(Exit::Yes)
}

/// As many as there are commands that are shown.
fn pages(command: &Command) -> usize {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    1 + shown.map(pages).sum::<usize>()
}
