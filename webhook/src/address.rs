//! Addresses to listen on, written as Go programs take them.

use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::net::TcpListener;

/// `HOST:PORT`, `:PORT` for every address of the machine, or `0` for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Do not listen.
    Off,
    /// Every address of the machine, IPv6 and IPv4.
    Every(u16),
    /// One host, by name or address (an IPv6 address in brackets).
    Host(String, u16),
}

/// The text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address such as 127.0.0.1:9443 or :9443")]
pub struct ParseError(String);

impl FromStr for Address {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError(text.to_owned());
        if text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare.unwrap_or(host) {
            "" if bare.is_none() => Ok(Self::Every(port)),
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
            Self::Off => formatter.write_str("0"),
            Self::Every(port) => write!(formatter, ":{port}"),
            Self::Host(host, port) if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Self::Host(host, port) => write!(formatter, "{host}:{port}"),
        }
    }
}

impl Address {
    /// Opens the listener; `None` for [`Address::Off`].
    ///
    /// # Errors
    /// What the operating system says.
    pub async fn bind(&self) -> io::Result<Option<TcpListener>> {
        match self {
            Self::Off => Ok(None),
            // The IPv6 wildcard takes IPv4 as well; a kernel without IPv6 has only the other.
            Self::Every(port) => match TcpListener::bind(("::", *port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(("0.0.0.0", *port)).await.map(Some)
                }
                bound => bound.map(Some),
            },
            Self::Host(host, port) => TcpListener::bind((host.as_str(), *port)).await.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_go_reads_them() {
        for (text, address) in [
            (":8080", Address::Every(8080)),
            ("0", Address::Off),
            ("127.0.0.1:1", Address::Host("127.0.0.1".to_owned(), 1)),
            ("localhost:1", Address::Host("localhost".to_owned(), 1)),
            ("[::1]:1", Address::Host("::1".to_owned(), 1)),
        ] {
            assert_eq!(text.parse(), Ok(address.clone()));
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "8080", ":", ":x", "a:70000", "::1:1", "[]:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
