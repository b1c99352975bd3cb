//! The checked-in CRDs are what the types say.

use std::path::Path;

#[test]
fn generated_definitions_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    for (name, definition) in rukpak_crds::definition::all().unwrap() {
        let checked_in = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let body = checked_in.split_once("---\n").map(|(_, body)| body).unwrap_or_default();
        let current = serde_saphyr::to_string(&definition).unwrap();
        assert!(body == current, "{name} is out of date: run `make crds`");
    }
}
