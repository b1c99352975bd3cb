//! What the kernel says of a container's process, whatever the manifest asked for.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Checks a process of ours in its container.
pub fn check(pid: u32, memory_limit: u64) -> Result<()> {
    let status = read(pid, "status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).with_context(|| format!("/proc/{pid}/status has no {name}"))
    };
    ensure!(field("Uid")?.split_whitespace().all(|uid| uid == "65532"), "it runs as {}", field("Uid")?);
    ensure!(field("CapEff")?.trim_matches('0').is_empty(), "it has capabilities: {}", field("CapEff")?);
    ensure!(field("NoNewPrivs")? == "1", "it could gain privileges");
    ensure!(field("Seccomp")? == "2", "no filter of system calls: {}", field("Seccomp")?);

    let mounts = read(pid, "mountinfo")?;
    let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words.get(4) == Some(&"/"));
    let options = root.and_then(|words| words.get(5).copied()).context("it has no root")?;
    ensure!(options.split(',').any(|option| option == "ro"), "its root can be written: {options}");

    let cgroups = read(pid, "cgroup")?;
    let limit = cgroups.lines().find_map(|line| {
        let mut words = line.splitn(3, ':').skip(1);
        Some(match (words.next()?, words.next()?) {
            ("memory", path) => format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
            ("", path) => format!("/sys/fs/cgroup{path}/memory.max"),
            _ => return None,
        })
        .filter(|path| Path::new(path).exists())
    });
    let limit = limit.with_context(|| format!("no memory cgroup: {cgroups}"))?;
    let bytes = std::fs::read_to_string(&limit).with_context(|| format!("read {limit}"))?;
    ensure!(bytes.trim() == memory_limit.to_string(), "{limit} is {}, not {memory_limit}", bytes.trim());
    Ok(())
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("read {path}"))
}
