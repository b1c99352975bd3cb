//! `rukpakctl policy`: the admission policies that keep tenants to what an InstallPolicy allows them.

use std::path::Path;
use std::sync::Arc;

use rukpak_content::Limits;
use rukpak_plain::{Budget, yaml};
use rukpak_plan::rights::policy::{InstallPolicy, objects};

use crate::args::PolicyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::chain;
use crate::rights::written;

pub fn run(arguments: &PolicyArgs) -> Result<Exit, Failure> {
    let name = arguments.file.display().to_string();
    let policy = read(&arguments.file, &name)?;
    let all = objects(&policy).map_err(|error| Failure::no(format!("{name}: {error}")))?;
    Ok(written(&all, arguments.output))
}

fn read(file: &Path, name: &str) -> Result<InstallPolicy, Failure> {
    let text = std::fs::read(file).map_err(|error| Failure::unknown(format!("read {name}: {error}")))?;
    let limits = Limits::default();
    let refused = |error: &dyn std::error::Error| Failure::no(format!("{name}: {}", chain(error)));
    let documents = yaml::parse(&Arc::from(name), &text, &mut Budget::new(&limits)).map_err(|error| refused(&error))?;
    match <[_; 1]>::try_from(documents) {
        Ok([document]) => serde_json::from_value(document.value).map_err(|error| refused(&error)),
        Err(others) => Err(Failure::no(format!("{name} has {} documents: an InstallPolicy is one", others.len()))),
    }
}
