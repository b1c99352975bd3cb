//! Files and TCP ports, by landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

use crate::Sandbox;

/// Confines this thread and those it starts, as far as the kernel can.
///
/// Beside what the sandbox names, everything that landlock knows is forbidden: files, folders, devices, sockets of the file
/// system, TCP ports; and, where the kernel has it, signals to other processes and abstract sockets of theirs.
pub(crate) fn confine(sandbox: &Sandbox) -> Result<(), RulesetError> {
    let ports = sandbox.ports.iter().map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(&sandbox.readable, AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(&sandbox.writable, writing()))?
        .add_rules(path_beneath_rules(&sandbox.executable, AccessFs::ReadFile | AccessFs::Execute))?
        .add_rules(ports)?
        .restrict_self()
        .map(|_| ())
}

/// Files, folders and links, but no devices, pipes or sockets, and nothing to be run.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSym
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer
}
