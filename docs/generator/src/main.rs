//! Writes `api.md` and `flags.md` into the folder given as the argument. `make docs` runs it, and a test compares.

mod api;
mod flags;

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: docgen FOLDER")?;
    for (name, text) in [("api.md", api::page()?), ("flags.md", flags::page())] {
        let path = Path::new(&folder).join(name);
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// A cell of a table: one line, with nothing that ends the cell. `<` would begin a tag.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}
