//! Who this process is connected to.
//!
//! The parent has looked the server's name up and found it in order; libgit2 looks it up again, and may be told otherwise.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::latency::{copy, sockets};
use crate::Egress;

/// Whether all connections lead to permitted addresses. Where that cannot be told, they do not.
pub(super) fn are_permitted(egress: &Egress) -> bool {
    if *egress == Egress::anywhere() {
        return true;
    }
    // A descriptor that is gone by now was the listing's own.
    sockets().into_iter().filter_map(|socket| copy(socket).ok()).all(|socket| match peer(&socket) {
        Ok(peer) => peer.is_none_or(|peer| egress.permits(peer.ip())),
        Err(error) => error == Errno::NOTCONN,
    })
}

/// `None` for what is not connected over IP.
fn peer(socket: &OwnedFd) -> Result<Option<SocketAddr>, Errno> {
    Ok(rustix::net::getpeername(socket)?.and_then(|peer| peer.try_into().ok()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_to_a_refused_address_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(peer(&client.into()).unwrap().map(|peer| peer.port()), Some(listener.local_addr().unwrap().port()));
        let _held = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!are_permitted(&Egress::default()));
        assert!(are_permitted(&Egress::anywhere()));
    }
}
