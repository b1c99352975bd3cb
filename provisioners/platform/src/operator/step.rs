//! Where the channel's graph leads from what is installed, as it is reported.

use rukpak_plan::retry::Class;

/// What is known of newer versions.
#[derive(Debug, Default)]
pub(super) struct UpgradeState {
    pub step: Step,
    /// What the catalog deprecates about what is installed; `None` if it could not be asked.
    pub deprecations: Option<Vec<String>>,
    /// When to look again, if nobody tells us.
    pub retry: Option<Class>,
}

impl UpgradeState {
    /// A version has just been chosen; what was said of another one is over.
    pub fn taken() -> Self {
        Self { step: Step::Taken, deprecations: None, retry: None }
    }
}

/// Where the graph leads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Not looked at: what was said of it stands.
    #[default]
    Unlooked,
    /// It cannot be known.
    Unknown { reason: &'static str, message: String },
    /// There may be something newer, and nothing that is asked for leads there.
    Unreachable { reason: &'static str, message: String },
    /// There is nothing newer.
    Newest,
    /// There is something newer, and why it is not installed.
    Available { reason: &'static str, message: String },
    /// The BundleDeployment has just been pointed at the next version.
    Taken,
    /// Somebody edited the BundleDeployment. In words.
    Edited(String),
    /// Another package is asked for than is installed. In words.
    OtherPackage(String),
}
