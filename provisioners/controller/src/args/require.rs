//! `--require`: what is done as RukPak does it, and can be refused.

use clap::ValueEnum;

/// What `--require` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Requirement {
    /// Nothing of what stands before it
    #[value(name = "none", hide = true)]
    Nothing,
    /// Write nothing for BundleDeployments that name no spec.serviceAccount, but for those of PlatformOperators and
    /// ClusterExtensions. Give it to the webhook too
    ServiceAccount,
    /// Send a login only to hosts that its Secret names in the annotation core.rukpak.io/hosts
    SecretHosts,
    /// Refuse sources with auth.insecureSkipVerify
    TlsVerification,
    /// Refuse ssh hosts that the Secret's ssh-knownhosts does not name, in place of taking its first key for them
    SshKnownHosts,
    /// Refuse sources that no rule of a ContentPolicy accepts, or requires a signature of
    ContentPolicy,
    /// End at the start on a node that does not keep child processes, which read what strangers wrote, from the token, from other
    /// processes and from other programs: that takes landlock (Linux 5.13) and seccomp. Without it a line in the log and the metric
    /// rukpak_child_confined tell
    Confinement,
}
