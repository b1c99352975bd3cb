//! What a source may do with Secrets and with servers that do not prove who they are.

use clap::{ArgAction, Args};

use rukpak_unpack::SourcePolicy;

/// [`SourcePolicy`] as flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Trust in sources")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct SourceArgs {
    /// Send a login only to hosts that its Secret names in the annotation core.rukpak.io/hosts
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    require_secret_hosts: bool,
    /// Refuse sources with auth.insecureSkipVerify
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    forbid_insecure_skip_verify: bool,
    /// Refuse ssh hosts that the Secret's ssh-knownhosts does not name, in place of taking its first key for them
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    ssh_strict_host_key_checking: bool,
    /// Refuse sources that no rule of a ContentPolicy accepts, or requires a signature of
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    require_content_policy: bool,
    /// End at the start on a node that does not keep child processes, which read what strangers wrote, from the token, from other
    /// processes and from other programs: that takes landlock (Linux 5.13) and seccomp. Without it a line in the log and the metric
    /// rukpak_child_confined tell
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    require_confinement: bool,
}

impl From<SourceArgs> for SourcePolicy {
    fn from(args: SourceArgs) -> Self {
        Self {
            require_secret_hosts: args.require_secret_hosts,
            forbid_insecure_skip_verify: args.forbid_insecure_skip_verify,
            require_content_policy: args.require_content_policy,
            strict_host_keys: args.ssh_strict_host_key_checking,
            require_confinement: args.require_confinement,
        }
    }
}
