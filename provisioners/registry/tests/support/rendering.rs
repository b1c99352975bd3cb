//! The fixture, loaded and rendered.

use rukpak_content::Limits;
use rukpak_plain::Object;
use rukpak_registry::{Bundle, Certificates, NamespaceTemplate, Places, RenderOptions, load, render};

use super::chain;
use super::fixture::{CSV, kite, text};

/// The fixture with changes, loaded.
pub fn bundle(changes: &[(&str, &str)]) -> Bundle {
    load(&kite(changes), &Limits::default()).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Options for the namespace `sky`, with nothing on request.
pub fn options(certificates: Certificates) -> RenderOptions {
    RenderOptions {
        install_namespace: "sky".into(),
        target_namespaces: None,
        with_namespace: false,
        namespace_template: NamespaceTemplate::default(),
        certificates,
        deployment_config: None,
        object_labels: std::collections::BTreeMap::new(),
        api_roles: false,
        operator_condition: false,
        places: Places::One,
    }
}

/// What a bundle is rendered to.
pub fn rendered(bundle: &Bundle, options: &RenderOptions) -> Vec<Object> {
    render(bundle, options).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// The objects of a kind.
pub fn find<'a>(objects: &'a [Object], kind: &str) -> Vec<&'a Object> {
    objects.iter().filter(|object| object.kind() == kind).collect()
}

/// The CSV of the fixture with one text for another.
pub fn csv_with(from: &str, to: &str) -> String {
    assert!(text(CSV).contains(from), "{from}");
    text(CSV).replace(from, to)
}
