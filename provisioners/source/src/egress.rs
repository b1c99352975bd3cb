//! Which addresses sources may be fetched from.
//!
//! References, redirects and token services are named by others, and who asks for them is a process with rights and a place
//! in the network that others do not have. What only that place reaches is refused: itself, its link (where clouds keep the
//! credentials of machines), and what else an administrator names. Names are looked up first, by the very lookup that the
//! connection is then made with.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

pub use ipnet::IpNet;

/// Metadata services of clouds that are not link-local: AWS and Google over IPv6, Azure, Alibaba, Oracle.
const METADATA: [IpAddr; 5] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
];

/// The addresses that may be connected to. By default all but loopback, link-local, unspecified and multicast ones, and the
/// metadata services of clouds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// Nothing is refused.
    anywhere: bool,
    allowed: Vec<IpNet>,
    denied: Vec<IpAddr>,
}

/// An address that is not connected to. Says nothing about it: whoever chose the name shall not learn what it stands for here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} has an address that sources may not be fetched from (--source-allow-cidr opens it)")]
pub struct Refused {
    /// The name, or the address as it was given.
    pub host: String,
}

/// Why a name gives no address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Lookup(#[from] io::Error),
}

impl Egress {
    /// Any address. For who fetches with no more rights than those of the person who named it.
    pub fn anywhere() -> Self {
        Self { anywhere: true, ..Self::default() }
    }

    /// Opens networks that are refused by default, whatever else is said of them.
    #[must_use]
    pub fn allowing(mut self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        self.allowed.extend(networks);
        self
    }

    /// Refuses these addresses too.
    #[must_use]
    pub(crate) fn denying(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.denied.extend(addresses.into_iter().map(|address| address.to_canonical()));
        self
    }

    /// Whether `address` may be connected to.
    pub fn permits(&self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        let opened = |network: &IpNet| network.contains(&plain) || network.contains(&address);
        self.anywhere || self.allowed.iter().any(opened) || !(is_special(plain) || self.denied.contains(&plain))
    }

    /// The permitted addresses of `host`, a name or an address. `Err` if there are none.
    pub(crate) async fn lookup(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, LookupError> {
        let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
        let permitted: Vec<_> = found.into_iter().filter(|address| self.permits(address.ip())).collect();
        if permitted.is_empty() { Err(refused(host).into()) } else { Ok(permitted) }
    }
}

fn refused(host: &str) -> Refused {
    Refused { host: host.to_owned() }
}

fn is_special(address: IpAddr) -> bool {
    METADATA.contains(&address)
        || match address {
            IpAddr::V4(address) => {
                address.is_loopback()
                    || address.is_link_local()
                    || address.is_multicast()
                    || address.is_broadcast()
                    // "This network": Linux takes 0.0.0.0 for loopback.
                    || address.octets()[0] == 0
            }
            IpAddr::V6(address) => {
                address.is_loopback()
                    || address.is_unspecified()
                    || address.is_unicast_link_local()
                    || address.is_multicast()
                    || embedded(address).is_some_and(|address| is_special(address.into()))
            }
        }
}

/// The IPv4 address that a gateway on the way would make of it: IPv4-compatible, NAT64 (RFC 6052), 6to4 (RFC 3056).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            of(high, low)
        }
        _ => None,
    }
}

/// Holds the connections of HTTP clients to an [`Egress`]. Proxies are the administrator's, and reached wherever they are; what
/// they are asked for by name they look up themselves.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) egress: Egress,
    proxies: Matcher,
    proxy_hosts: Vec<String>,
}

impl Guard {
    /// With the proxies of the environment.
    pub(crate) fn new(egress: Egress) -> Arc<Self> {
        let proxies = Matcher::from_system();
        let host = |uri| Some(proxies.intercept(&Uri::from_static(uri))?.uri().host()?.to_owned());
        let proxy_hosts =
            ["http://proxied.invalid/", "https://proxied.invalid/"].into_iter().filter_map(host).collect();
        Arc::new(Self { egress, proxies, proxy_hosts })
    }

    /// Whether `url` is asked for through a proxy.
    pub(crate) fn is_proxied(&self, url: &Url) -> bool {
        url.as_str().parse().is_ok_and(|uri: Uri| self.proxies.intercept(&uri).is_some())
    }

    /// Before somebody else looks `host` up.
    pub(crate) async fn lookup(&self, host: &str, port: u16) -> Result<(), LookupError> {
        if self.egress.anywhere { Ok(()) } else { self.egress.lookup(host, port).await.map(drop) }
    }

    /// Before a request: what the lookup of a connection does not see. That is an address in place of a name, and the name of a
    /// proxy that is not asked as one.
    pub(crate) async fn check(&self, url: &Url) -> Result<(), Refused> {
        let shown = || refused(url.host_str().unwrap_or_default());
        let permitted = match url.host() {
            Some(Host::Ipv4(address)) => self.egress.permits(address.into()),
            Some(Host::Ipv6(address)) => self.egress.permits(address.into()),
            Some(Host::Domain(name)) if self.is_name_of_proxy(name) && !self.is_proxied(url) => {
                !matches!(self.egress.lookup(name, 0).await, Err(LookupError::Refused(_)))
            }
            Some(Host::Domain(_)) | None => true,
        };
        if permitted { Ok(()) } else { Err(shown()) }
    }

    fn is_name_of_proxy(&self, name: &str) -> bool {
        self.proxy_hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}

/// The lookup of connections.
pub(crate) struct Resolver(pub(crate) Arc<Guard>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str();
            let anywhere = Egress::anywhere();
            let egress = if guard.is_name_of_proxy(name) { &anywhere } else { &guard.egress };
            let addresses: Addrs = Box::new(egress.lookup(name, 0).await?.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn loopback_link_local_unspecified_multicast_and_metadata_addresses_are_refused() {
        let refused = [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "100.100.100.200",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
        ];
        let permitted = [
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "8.8.8.8",
            "100.64.0.1",
            "2001:db8::1",
            "fd00::1",
            "fec0::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
            "2002:808:808::",
        ];
        let egress = Egress::default();
        for text in refused {
            assert!(!egress.permits(address(text)), "{text}");
            assert!(Egress::anywhere().permits(address(text)), "{text}");
        }
        for text in permitted {
            assert!(egress.permits(address(text)), "{text}");
        }
    }

    #[test]
    fn networks_are_opened_and_addresses_denied_in_whatever_form() {
        let egress = Egress::default().denying([address("::ffff:10.96.0.1"), address("fd00::1")]);
        for text in ["10.96.0.1", "::ffff:10.96.0.1", "fd00::1"] {
            assert!(!egress.permits(address(text)), "{text}");
        }
        assert!(egress.permits(address("10.96.0.2")));
        let egress = egress.allowing(["127.0.0.0/8".parse().unwrap(), "10.96.0.0/16".parse().unwrap()]);
        for (text, expected) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("10.96.0.1", true),
            ("::1", false),
            ("169.254.169.254", false),
        ] {
            assert_eq!(egress.permits(address(text)), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn names_and_odd_spellings_are_looked_up_first_and_the_refusal_tells_no_address() {
        // The last ones are what the C library makes of numbers.
        for host in ["localhost", "127.0.0.1", "::1", "2130706433", "0x7f.1"] {
            let error = Egress::default().lookup(host, 80).await.unwrap_err();
            assert!(matches!(&error, LookupError::Refused(Refused { host: named }) if named == host), "{error}");
            assert_eq!(
                error.to_string(),
                format!("{host} has an address that sources may not be fetched from (--source-allow-cidr opens it)")
            );
        }
        let opened = Egress::default().allowing(["127.0.0.0/8".parse().unwrap()]);
        let found = opened.lookup("localhost", 80).await.unwrap();
        assert!(found.iter().all(|found| found.ip() == address("127.0.0.1")) && !found.is_empty(), "{found:?}");
    }
}
