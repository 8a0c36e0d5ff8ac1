//! What this machine's kernel knows of the other end of a connection whose both ends are here.

use std::net::SocketAddr;

/// Tells whether no process has the socket any more that is bound to `peer` and connected to `own`, though its connection
/// has ended in order.
///
/// Linux lists it as one that waits for the last byte from here (or for the acknowledgement of its own), with nobody's
/// inode: a process has closed it, having read all that was there. One that may still read has an inode; one that was reset
/// is gone from the list.
/// <https://docs.kernel.org/networking/proc_net_tcp.html>
#[cfg(target_os = "linux")]
pub fn has_closed(peer: SocketAddr, own: SocketAddr) -> bool {
    use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};

    let same = |one: SocketAddr, other: SocketAddr| {
        one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
    };
    let is_closed = |entry: &TcpNetEntry| {
        same(entry.local_address, peer)
            && same(entry.remote_address, own)
            && matches!(entry.state, TcpState::FinWait1 | TcpState::FinWait2)
            && entry.inode == 0
    };
    // Of another machine's sockets this one knows nothing.
    if !peer.ip().to_canonical().is_loopback() && peer.ip() != own.ip() {
        return false;
    }
    // A client may have connected over a socket of either kind.
    tcp().is_ok_and(|entries| entries.iter().any(is_closed))
        || tcp6().is_ok_and(|entries| entries.iter().any(is_closed))
}

#[cfg(not(target_os = "linux"))]
pub fn has_closed(_peer: SocketAddr, _own: SocketAddr) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    /// A connection: the client's end, and the end here.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
        let (here, _) = listener.accept().expect("a connection");
        (client, here)
    }

    fn has_closed_of(here: &TcpStream) -> bool {
        let (Ok(peer), Ok(own)) = (here.peer_addr(), here.local_addr()) else {
            return false;
        };
        has_closed(peer, own)
    }

    /// The kernel's list may leave one out while others come and go; relay looks again, too.
    fn is_seen_to_have_closed(here: &TcpStream) -> bool {
        (0..20).any(|_| has_closed_of(here))
    }

    #[test]
    fn a_client_that_has_read_all_and_closed_has_closed() {
        let (mut client, mut here) = connection();
        assert!(!has_closed_of(&here));
        here.write_all(b"reply").expect("it is taken");
        client.read_exact(&mut [0; 5]).expect("it is there");
        assert!(!has_closed_of(&here));
        drop(client);
        assert_eq!(here.read(&mut [0]).expect("the end"), 0);
        assert!(is_seen_to_have_closed(&here));
    }

    #[test]
    fn a_client_that_only_sends_no_more_has_not_closed_until_it_has() {
        let (mut client, mut here) = connection();
        here.write_all(b"reply").expect("it is taken");
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(here.read(&mut [0]).expect("the end"), 0);
        assert!(!has_closed_of(&here));
        client.read_exact(&mut [0; 5]).expect("it is there");
        assert!(!has_closed_of(&here));
        drop(client);
        assert!(is_seen_to_have_closed(&here));
    }

    #[test]
    fn a_client_that_closed_with_bytes_unread_has_not_closed_in_order() {
        let (client, mut here) = connection();
        here.write_all(b"reply").expect("it is taken");
        client.shutdown(Shutdown::Write).expect("it is open");
        drop(client);
        assert!(!has_closed_of(&here));
    }
}
