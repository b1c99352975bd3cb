//! The program `rukpak-controller`: reads its flags, opens the store and the sources, and runs the two reconcilers, that of Bundles
//! (`rukpak_unpack`) and that of BundleDeployments (`rukpak_install`), which do not know each other.

pub mod args;
mod run;

pub use run::{Error, run};
