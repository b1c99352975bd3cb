//! The image of the bundle that OLM has installed.

use std::ffi::OsString;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::check::package;
use super::olm::{Installed, list, text};
use crate::args::{CatalogArgs, MigrateArgs};
use crate::catalog::choice;
use crate::failure::Failure;
use crate::output::to_stderr;

/// The image that the flags name, else that of the InstallPlan, else that of the catalog.
///
/// # Errors
/// Nobody knows it.
pub(super) async fn find(
    installed: &Installed,
    csv: &DynamicObject,
    arguments: &MigrateArgs,
) -> Result<String, Failure> {
    if let Some(image) = &arguments.takeover.image {
        return Ok(image.clone());
    }
    if let Some(image) = of_plans(&installed.plans, &csv.name_any()) {
        return Ok(image.to_owned());
    }
    for place in places(installed) {
        let catalog = CatalogArgs {
            catalog: OsString::from(&place),
            trust: arguments.takeover.trust.clone(),
            cluster: arguments.cluster.clone(),
            server: arguments.server.clone(),
        };
        match choice::image_of(&catalog, package(&installed.subscription), &csv.name_any()).await {
            Ok(Some(image)) => return Ok(image),
            Ok(None) => to_stderr(&format!("note: {place} has no bundle {:?} with an image", csv.name_any())),
            Err(failure) => to_stderr(&format!("note: {}", failure.text)),
        }
    }
    let text = format!(
        "the bundle image of {:?} is named by no InstallPlan, and no catalog that can be read has it",
        csv.name_any()
    );
    Err(Failure::no(text).hint("name it by --image"))
}

/// What the InstallPlans of the namespace have unpacked, the newest first.
fn of_plans<'a>(plans: &'a [DynamicObject], csv: &str) -> Option<&'a str> {
    let mut plans: Vec<&DynamicObject> = plans.iter().collect();
    plans.sort_by_key(|plan| {
        std::cmp::Reverse(plan.data.pointer("/spec/generation").and_then(serde_json::Value::as_i64))
    });
    let lookups = plans.into_iter().flat_map(|plan| list(plan, "/status/bundleLookups"));
    let mut images = lookups.filter(|lookup| lookup["identifier"] == csv).filter_map(|lookup| lookup["path"].as_str());
    images.find(|image| !image.is_empty())
}

/// Where the content of the CatalogSource can be read.
fn places(installed: &Installed) -> Vec<String> {
    let Some(source) = &installed.source else { return Vec::new() };
    let running = [text(source, "/spec/address"), text(source, "/status/connectionState/address")];
    let running = running.into_iter().filter(|address| !address.is_empty()).map(|address| format!("grpc:{address}"));
    let image = Some(text(source, "/spec/image")).filter(|image| !image.is_empty());
    let mut places: Vec<String> = image.map(|image| format!("image:{image}")).into_iter().chain(running).collect();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_plan_that_unpacked_the_bundle_names_its_image() {
        let plan = |generation: i64, identifier: &str, path: &str| -> DynamicObject {
            let lookups = json!([{"identifier": identifier, "path": path, "catalogSourceRef": {}}]);
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"generation": generation},
                "status": {"bundleLookups": lookups}}))
            .unwrap()
        };
        let plans = [
            plan(1, "pump.v1", "old"),
            plan(3, "pump.v1", ""),
            plan(2, "pump.v1", "new"),
            plan(4, "other.v1", "other"),
        ];
        assert_eq!(of_plans(&plans, "pump.v1"), Some("new"));
        assert_eq!(of_plans(&plans, "pump.v2"), None);
    }
}
