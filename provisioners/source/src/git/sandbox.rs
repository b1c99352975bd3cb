//! What a git child may do.

use std::path::{Path, PathBuf};

use rukpak_content::Limits;
use rukpak_sandbox::{Calls, Resources, Sandbox};
use url::{Host, Url};

use super::address::{Address, Transport};

const MIB: u64 = 1024 * 1024;
/// Index files and pack trailers that a pack within its limit needs beside it.
const FILE_SLACK_BYTES: u64 = 16 * MIB;
/// Address space for libraries and for what the allocator sets aside.
const LIBRARY_BYTES: u64 = 512 * MIB;
/// Files that the child has open at once: its pipes, a connection, packs and their indexes.
pub(super) const OPEN_FILES: u64 = 64;
/// Name servers are asked over TCP where an answer does not fit a datagram.
const NAME_SERVERS: u16 = 53;

/// What the C library needs to look names up, libraries and their settings, and where git has settings for a whole system.
const SYSTEM: [&str; 17] = [
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/tls/openssl.d",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl/openssl.cnf",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];

/// For a child that works in `folder`, trusts what lies in `roots`, and talks to the server at `address`. `proxies` are
/// those it was told of.
pub(super) fn sandbox(address: &Address, folder: &Path, roots: &Path, proxies: &[String], limits: &Limits) -> Sandbox {
    let mut readable: Vec<PathBuf> = SYSTEM.map(PathBuf::from).into();
    readable.push(roots.to_owned());
    let resources = Resources {
        memory_bytes: limits.child_bytes,
        // A pack is mapped, and so is the one it is made of.
        address_space_bytes: LIBRARY_BYTES + limits.child_bytes + 2 * limits.git_bytes,
        file_bytes: limits.git_bytes + FILE_SLACK_BYTES,
        processor_seconds: limits.git_time.as_secs() + 1,
        open_files: OPEN_FILES,
    };
    Sandbox {
        writable: vec![folder.to_owned()],
        readable,
        ports: ports(address, proxies),
        ..Sandbox::new(Calls::Network, resources)
    }
}

fn ports(address: &Address, proxies: &[String]) -> Vec<u16> {
    let mut ports = vec![address.port];
    let mut is_named = !is_ip(&address.host);
    // Over ssh none is used.
    for proxy in proxies.iter().filter(|_| address.transport == Transport::Http) {
        let url = Url::parse(proxy).ok().filter(Url::has_host).or_else(|| Url::parse(&format!("http://{proxy}")).ok());
        ports.extend(url.as_ref().and_then(Url::port_or_known_default));
        is_named |= url.as_ref().is_some_and(|url| matches!(url.host(), Some(Host::Domain(_))));
    }
    if is_named {
        ports.push(NAME_SERVERS);
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn is_ip(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_the_server_and_nothing_else() {
        let table: [(&str, &[&str], &[u16]); 7] = [
            ("https://10.0.0.1/r", &[], &[443]),
            ("https://[::1]:8443/r", &[], &[8443]),
            ("https://h/r", &[], &[53, 443]),
            ("git@h:r", &["http://proxy:3128"], &[22, 53]),
            ("https://10.0.0.1/r", &["http://10.0.0.2:3128"], &[443, 3128]),
            ("http://10.0.0.1/r", &["proxy:3128"], &[53, 80, 3128]),
            ("https://10.0.0.1/r", &["https://10.0.0.2"], &[443]),
        ];
        for (repository, proxies, expected) in table {
            let proxies: Vec<String> = proxies.iter().map(|proxy| (*proxy).to_owned()).collect();
            assert_eq!(ports(&Address::parse(repository).unwrap(), &proxies), expected, "{repository} {proxies:?}");
        }
    }

    #[test]
    fn the_own_folder_is_the_only_one_that_is_written_to() {
        let address = Address::parse("https://h/r").unwrap();
        let limits = Limits::default();
        let sandbox = sandbox(&address, Path::new("/stage/git-1"), Path::new("/stage/roots-1"), &[], &limits);
        assert_eq!(sandbox.writable, [PathBuf::from("/stage/git-1")]);
        let stage: Vec<_> = sandbox.readable.iter().filter(|path| path.starts_with("/stage")).collect();
        assert_eq!(stage, [Path::new("/stage/roots-1")]);
        for secret in [
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "/proc/1/mem",
            "/etc/shadow",
            "/etc/ssl/private/key.pem",
        ] {
            let reached =
                sandbox.readable.iter().chain(&sandbox.writable).find(|path| Path::new(secret).starts_with(path));
            assert_eq!(reached, None, "{secret}");
        }
    }
}
