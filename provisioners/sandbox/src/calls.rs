//! System calls, by seccomp. What is not named here is refused, so that what a new kernel adds is refused too.

use std::collections::BTreeMap;
use std::error::Error;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter};

use crate::Calls;

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// What a process needs that computes and has its files open.
const COMPUTE: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What a process needs beside that which opens files and starts threads. Landlock says which files.
const FILES: &[c_long] = &[
    libc::SYS_clock_nanosleep,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_msync,
    libc::SYS_nanosleep,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_readlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_symlinkat,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
];

/// What libgit2, OpenSSL, libssh2 and the C library's resolver need beside that. Landlock says which ports.
const SOCKETS: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// What Go's runtime needs beside files: it waits for its threads and pipes so, and has no C library to do without. `execve` makes the
/// process that program; landlock says which.
const PROGRAM: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_execve,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
];

/// What younger architectures have only in the form above.
#[cfg(target_arch = "x86_64")]
const OLD_FORMS: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_link,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_symlink,
    libc::SYS_time,
    libc::SYS_unlink,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FORMS: &[c_long] = &[];

/// Of `ioctl`: is it a terminal, how much is there to read, wait or not, close on exec.
const CONTROLS: [u64; 4] = [0x5401, 0x541b, 0x5421, 0x5451];

/// Confines this thread and those it starts. Does nothing where the kernel or the architecture cannot.
pub(crate) fn confine(calls: Calls) -> Result<(), Box<dyn Error + Send + Sync>> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let filter = SeccompFilter::new(rules(calls)?, absent, SeccompAction::Allow, architecture)?;
    match apply_filter(&BpfProgram::try_from(filter)?) {
        Ok(()) => Ok(()),
        // Built without seccomp, or without its filters.
        Err(seccompiler::Error::Seccomp(error))
            if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn rules(calls: Calls) -> seccompiler::Result<Rules> {
    let mut rules: Rules = COMPUTE.iter().map(|call| (*call, Vec::new())).collect();
    // Limits and signals of this process only: 0 is itself.
    rules.insert(libc::SYS_prlimit64, one_of(0, [0])?);
    rules.insert(libc::SYS_tgkill, one_of(0, [u64::from(std::process::id())])?);
    rules.insert(libc::SYS_ioctl, one_of(1, CONTROLS)?);
    match calls {
        Calls::Compute => {
            // No memory becomes code.
            for call in [libc::SYS_mmap, libc::SYS_mprotect] {
                rules.insert(call, vec![rule(vec![(2, MaskedEq(number(libc::PROT_EXEC)), 0)])?]);
            }
        }
        Calls::Network => {
            rules.extend(FILES.iter().chain(OLD_FORMS).chain(SOCKETS).map(|call| (*call, Vec::new())));
            rules.extend(threads()?);
            rules.insert(libc::SYS_socket, sockets()?);
            rules.insert(libc::SYS_socketpair, one_of(0, [number(libc::AF_UNIX)])?);
        }
        Calls::Program => {
            rules.extend(FILES.iter().chain(OLD_FORMS).chain(PROGRAM).map(|call| (*call, Vec::new())));
            rules.extend(threads()?);
        }
    }
    Ok(rules)
}

/// Threads, no processes, and their names.
fn threads() -> Result<[(c_long, Vec<SeccompRule>); 2], seccompiler::BackendError> {
    // `clone3` hides its flags in memory: the C library does without.
    let thread = number(libc::CLONE_THREAD);
    Ok([
        (libc::SYS_clone, vec![rule(vec![(0, MaskedEq(thread), thread)])?]),
        (libc::SYS_prctl, one_of(0, [number(libc::PR_SET_NAME)])?),
    ])
}

/// TCP and UDP over IP, and the question to the kernel which addresses this host has: the C library's resolver asks it.
fn sockets() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
    let ip =
        [libc::AF_INET, libc::AF_INET6].into_iter().flat_map(|family| protocols.map(|protocol| (family, protocol)));
    let netlink = (libc::AF_NETLINK, libc::NETLINK_ROUTE);
    ip.chain([netlink])
        .map(|(family, protocol)| rule(vec![(0, Eq, number(family)), (2, Eq, number(protocol))]))
        .collect()
}

fn one_of<const N: usize>(argument: u8, values: [u64; N]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.into_iter().map(|value| rule(vec![(argument, Eq, value)])).collect()
}

fn rule(conditions: Vec<(u8, seccompiler::SeccompCmpOp, u64)>) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions.into_iter();
    let conditions =
        conditions.map(|(argument, compared, value)| SeccompCondition::new(argument, Dword, compared, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// A constant of the C library as a filter compares it; none of ours is negative.
fn number(constant: libc::c_int) -> u64 {
    constant.unsigned_abs().into()
}
