//! Sends small writes at once.
//!
//! libgit2 writes a request's header and its body apart, and leaves Nagle's algorithm on: the body then waits for the server
//! to acknowledge the header, which servers delay by up to 40 ms, twice in each fetch. libgit2 has no option for it, so the
//! option is set on the socket that libgit2 opened.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use rustix::net::sockopt::socket_type;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::git::sandbox::OPEN_FILES;

/// Turns Nagle's algorithm off on this process' TCP connections. Where that fails they are slower, and nothing else.
pub(super) fn lower() {
    for socket in sockets() {
        if let Ok(copy) = copy(socket) {
            // Refused by what is not TCP.
            let _ = rustix::net::sockopt::set_tcp_nodelay(copy, true);
        }
    }
}

/// The descriptors that are sockets. Each number that a file may have is tried: the list in /proc is out of the sandbox' sight.
pub(super) fn sockets() -> Vec<RawFd> {
    let numbers = (0..OPEN_FILES).filter_map(|number| RawFd::try_from(number).ok());
    let is_socket = |number: &RawFd| copy(*number).is_ok_and(|copy| socket_type(copy).is_ok());
    numbers.filter(is_socket).collect()
}

/// A second descriptor of the same socket that has an owner: the kernel makes one when it is sent, to ourselves.
pub(super) fn copy(socket: RawFd) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let message = [ControlMessage::ScmRights(&[socket])];
    sendmsg::<UnixAddr>(ours.as_raw_fd(), &[IoSlice::new(b"x")], &message, MsgFlags::empty(), None)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&theirs, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_are_found_and_set() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!client.nodelay().unwrap());
        lower();
        assert!(client.nodelay().unwrap());
    }
}
