//! Addresses to listen on, as Go programs write them.

use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::net::TcpListener;

/// `host:port`, `:port` for all addresses of the machine, or `0` for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Do not listen.
    Disabled,
    /// All addresses of the machine, IPv6 and IPv4.
    Any(u16),
    /// One host, by name or address (an IPv6 address without its brackets), and a port.
    Host(String, u16),
}

/// The text is not an [`Address`].
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not an address to listen on: write host:port, :port, or 0 for none")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.to_owned());
        if text == "0" {
            return Ok(Self::Disabled);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host) {
            "" if bare.is_none() => Ok(Self::Any(port)),
            host if !host.is_empty() && (bare.is_some() || !host.contains(':')) => {
                Ok(Self::Host(host.to_owned(), port))
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => formatter.write_str("0"),
            Self::Any(port) => write!(formatter, ":{port}"),
            Self::Host(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Self::Host(host, port) => write!(formatter, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Starts to listen; `None` if disabled.
    pub async fn listen(&self) -> io::Result<Option<TcpListener>> {
        let bound = match self {
            Self::Disabled => return Ok(None),
            Self::Any(port) => match TcpListener::bind(("::", *port)).await {
                // One IPv6 socket takes IPv4 as well; a machine without IPv6 has no such address.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", *port)).await,
                other => other,
            },
            Self::Host(host, port) => TcpListener::bind((host.as_str(), *port)).await,
        };
        bound.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let host = |host: &str, port| Address::Host(host.to_owned(), port);
        let table = [
            ("0", Address::Disabled),
            (":8080", Address::Any(8080)),
            ("127.0.0.1:0", host("127.0.0.1", 0)),
            ("localhost:80", host("localhost", 80)),
            ("[::1]:80", host("::1", 80)),
        ];
        for (text, address) in table {
            assert_eq!(text.parse(), Ok(address.clone()));
            assert_eq!(address.to_string(), text);
        }
        for bad in ["", "8080", "host", ":", ":99999", "a:70000", "::1:80", ":http", "[]:1"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn listens_or_not() {
        assert!(Address::Disabled.listen().await.unwrap().is_none());
        let any = Address::Any(0).listen().await.unwrap().unwrap();
        let port = any.local_addr().unwrap().port();
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let taken = Address::Any(port).listen().await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }
}
