//! What this machine's kernel knows of the other end of a connection whose both ends are here.
//!
//! Of a port's connection it knows whether the peer's process has closed it, of a unix socket's how much the peer has not read.

#[cfg(target_os = "linux")]
use std::io::ErrorKind;
use std::net::SocketAddr;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells whether no process has the socket any more that is bound to `peer` and connected to `own`, though its connection
/// has ended in order.
///
/// Linux knows it as one that waits for the last byte from here (or for the acknowledgement of its own), with nobody's
/// inode: a process has closed it, having read all that was there. One that may still read has an inode; one that was reset
/// is not known any more. <https://docs.kernel.org/networking/proc_net_tcp.html>
///
/// While Linux makes a socket that nobody has any more into one that only waits, it shows it as ended for a moment, or not at all: so a
/// no may be followed by a yes, and whoever wants to know looks again.
#[cfg(target_os = "linux")]
pub fn has_closed(peer: SocketAddr, own: SocketAddr) -> bool {
    let [peer, own] = [peer, own].map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
    // Of another machine's sockets this one knows nothing.
    if !peer.ip().is_loopback() && peer.ip() != own.ip() {
        return false;
    }
    // Not every kernel can be asked for one socket; a list of all takes the longer, the more there are.
    if CAN_BE_ASKED.load(Ordering::Relaxed) {
        match asked_for(peer, own) {
            Ok(is_closed) => return is_closed,
            // One that is bound to an interface is not found so.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!(%error, "the kernel cannot be asked for one socket");
                CAN_BE_ASKED.store(false, Ordering::Relaxed);
            }
        }
    }
    is_listed_as_closed(peer, own)
}

/// Whether asking for one socket has not failed yet.
#[cfg(target_os = "linux")]
static CAN_BE_ASKED: AtomicBool = AtomicBool::new(true);

/// Asks the kernel for one socket. <https://man7.org/linux/man-pages/man7/sock_diag.7.html>
///
/// # Errors
///
/// The system's; one of them is that there is no such socket.
#[cfg(target_os = "linux")]
fn asked_for(peer: SocketAddr, own: SocketAddr) -> std::io::Result<bool> {
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_FIN_WAIT1, TCP_FIN_WAIT2};
    use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};

    let request = InetRequest {
        family: if peer.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: peer.port(),
            destination_port: own.port(),
            source_address: peer.ip(),
            destination_address: own.ip(),
            interface_id: 0,
            cookie: [0xff; 8], // none
        },
    };
    let SockDiagMessage::InetResponse(socket) = ask(SockDiagMessage::InetRequest(request))? else {
        return Err(ErrorKind::Unsupported.into());
    };
    let ends = [TCP_FIN_WAIT1, TCP_FIN_WAIT2].contains(&socket.header.state);
    Ok(ends && socket.header.inode == 0)
}

/// Tells whether the peer of a unix socket, which has sent its last byte, has read all that was sent to it.
///
/// Linux counts what is on its way to the peer until it is read. Where it cannot be asked, a peer that has closed both
/// directions counts: a process that leaves something unread breaks the connection when it closes it, which is seen beside this.
#[cfg(target_os = "linux")]
pub fn has_read_all(own: &tokio::net::UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    match unread_by_peer(own) {
        Some(bytes) => bytes == 0,
        None => {
            let mut polled = [PollFd::new(own, PollFlags::empty())];
            poll(&mut polled, Some(&Timespec::default())).is_ok()
                && polled[0].revents().contains(PollFlags::HUP)
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub fn has_read_all(_own: &tokio::net::UnixStream) -> bool {
    false
}

/// Returns how many bytes of memory is taken by what the peer of a unix socket has not read, zero if there is nothing; none
/// where the system cannot tell.
#[cfg(target_os = "linux")]
pub fn unread_by_peer(own: &tokio::net::UnixStream) -> Option<u32> {
    let asked = asked_for_unread(own);
    asked
        .inspect_err(|error| tracing::debug!(%error, "the kernel cannot be asked what a peer has read"))
        .ok()
}

#[cfg(not(target_os = "linux"))]
pub fn unread_by_peer(_own: &tokio::net::UnixStream) -> Option<u32> {
    None
}

/// Asks the kernel for it.
///
/// # Errors
///
/// The system's.
#[cfg(target_os = "linux")]
fn asked_for_unread(own: impl std::os::fd::AsFd) -> std::io::Result<u32> {
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_packet_sock_diag::unix::nlas::Nla;
    use netlink_packet_sock_diag::unix::{ShowFlags, StateFlags, UnixRequest};

    // The kernel of a socket diagnosis knows inodes of 32 bits.
    let inode = u32::try_from(rustix::fs::fstat(own)?.st_ino);
    let request = UnixRequest {
        state_flags: StateFlags::all(),
        inode: inode.map_err(|_| std::io::Error::from(ErrorKind::Unsupported))?,
        show_flags: ShowFlags::RQLEN,
        cookie: [0xff; 8], // none
    };
    let SockDiagMessage::UnixResponse(socket) = ask(SockDiagMessage::UnixRequest(request))? else {
        return Err(ErrorKind::Unsupported.into());
    };
    let unread = socket.nlas.iter().find_map(|told| {
        // The library's own name for this number gives another one.
        let Nla::ReceiveQueueLength(_, sent) = told else {
            return None;
        };
        Some(*sent)
    });
    unread.ok_or_else(|| ErrorKind::Unsupported.into())
}

/// Asks the kernel something of one socket.
#[cfg(target_os = "linux")]
fn ask(
    request: netlink_packet_sock_diag::SockDiagMessage,
) -> std::io::Result<netlink_packet_sock_diag::SockDiagMessage> {
    use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
    use netlink_packet_sock_diag::SockDiagMessage;
    use netlink_sys::protocols::NETLINK_SOCK_DIAG;

    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let socket = netlink_sys::Socket::new(NETLINK_SOCK_DIAG)?;
    socket.set_non_blocking(true)?;
    socket.connect(&netlink_sys::SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    // The answer is there when the request is sent.
    let mut answer = Vec::with_capacity(1_024);
    socket.recv(&mut answer, 0)?;
    let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&answer).map_err(std::io::Error::other)?;
    if let NetlinkPayload::Error(error) = &answer.payload {
        return Err(error.to_io());
    }
    let NetlinkPayload::InnerMessage(told) = answer.payload else {
        return Err(ErrorKind::Unsupported.into());
    };
    Ok(told)
}

/// Looks for the socket in the list of all.
#[cfg(target_os = "linux")]
fn is_listed_as_closed(peer: SocketAddr, own: SocketAddr) -> bool {
    use procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};

    let is = |listed: SocketAddr, other: SocketAddr| {
        listed.port() == other.port() && listed.ip().to_canonical() == other.ip()
    };
    let is_closed = |entry: &TcpNetEntry| {
        is(entry.local_address, peer)
            && is(entry.remote_address, own)
            && matches!(entry.state, TcpState::FinWait1 | TcpState::FinWait2)
            && entry.inode == 0
    };
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

    /// Who listens, and to where a client connects: over either kind of socket, and over both.
    const PLACES: [(&str, &str); 3] = [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
        ("[::]:0", "127.0.0.1"),
    ];

    /// Connections: the client's end, and the end here.
    fn connections() -> impl Iterator<Item = (TcpStream, TcpStream)> {
        PLACES.into_iter().map(|(place, host)| {
            let listener = TcpListener::bind(place).expect("a port");
            let port = listener.local_addr().expect("it listens").port();
            let client = TcpStream::connect((host, port)).expect("it listens");
            let (here, _) = listener.accept().expect("a connection");
            (client, here)
        })
    }

    /// How often is looked, as relay does too: while a socket is made into one that only waits it is shown as ended, and the list may leave
    /// one out while others come and go.
    const LOOKS: usize = 20;

    /// What is said if the kernel can be asked for one socket, and if it cannot.
    fn has_closed_of(here: &TcpStream) -> [bool; 2] {
        let (Ok(peer), Ok(own)) = (here.peer_addr(), here.local_addr()) else {
            return [false; 2];
        };
        let asked = (0..LOOKS).any(|_| has_closed(peer, own));
        let [peer, own] = [peer, own].map(|at| SocketAddr::new(at.ip().to_canonical(), at.port()));
        let listed = (0..LOOKS).any(|_| is_listed_as_closed(peer, own));
        [asked, listed]
    }

    #[test]
    fn the_kernel_of_a_test_can_be_asked() {
        for (_client, here) in connections() {
            let own = here.local_addr().expect("it is connected");
            let own = SocketAddr::new(own.ip().to_canonical(), own.port());
            let peer = here.peer_addr().expect("it is connected");
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            assert!(!asked_for(peer, own).expect("there is one"));
            let nobody = SocketAddr::new(peer.ip(), own.port());
            let error = asked_for(nobody, own).expect_err("there is none");
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_client_that_has_read_all_and_closed_has_closed() {
        for (mut client, mut here) in connections() {
            assert_eq!(has_closed_of(&here), [false; 2]);
            here.write_all(b"reply").expect("it is taken");
            client.read_exact(&mut [0; 5]).expect("it is there");
            assert_eq!(has_closed_of(&here), [false; 2]);
            drop(client);
            assert_eq!(here.read(&mut [0]).expect("the end"), 0);
            assert_eq!(has_closed_of(&here), [true; 2]);
        }
    }

    #[test]
    fn a_client_that_only_sends_no_more_has_not_closed_until_it_has() {
        for (mut client, mut here) in connections() {
            here.write_all(b"reply").expect("it is taken");
            client.shutdown(Shutdown::Write).expect("it is open");
            assert_eq!(here.read(&mut [0]).expect("the end"), 0);
            assert_eq!(has_closed_of(&here), [false; 2]);
            client.read_exact(&mut [0; 5]).expect("it is there");
            assert_eq!(has_closed_of(&here), [false; 2]);
            drop(client);
            assert_eq!(has_closed_of(&here), [true; 2]);
        }
    }

    #[test]
    fn the_end_of_one_client_is_not_that_of_another() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(place).expect("a port");
            let at = listener.local_addr().expect("it listens");
            let connect = || {
                let client = TcpStream::connect(at).expect("it listens");
                (client, listener.accept().expect("a connection").0)
            };
            let (gone, mut left) = connect();
            let (_client, here) = connect();
            drop(gone);
            assert_eq!(left.read(&mut [0]).expect("the end"), 0);
            assert_eq!(has_closed_of(&left), [true; 2]);
            assert_eq!(has_closed_of(&here), [false; 2]);
        }
    }

    #[tokio::test]
    async fn what_the_peer_of_a_unix_socket_has_not_read_is_counted() {
        let (own, peer) = tokio::net::UnixStream::pair().expect("a pair of sockets");
        let unread = || unread_by_peer(&own).expect("the kernel of a test can be asked");
        assert_eq!(unread(), 0);
        own.try_write(b"reply").expect("it is taken");
        peer.readable().await.expect("it is there");
        peer.try_read(&mut [0; 4]).expect("it is there");
        assert_ne!(unread(), 0);
        peer.try_read(&mut [0]).expect("it is there");
        assert_eq!(unread(), 0);
    }

    #[test]
    fn a_client_that_closed_with_bytes_unread_has_not_closed_in_order() {
        for (client, mut here) in connections() {
            here.write_all(b"reply").expect("it is taken");
            client.shutdown(Shutdown::Write).expect("it is open");
            drop(client);
            assert_eq!(has_closed_of(&here), [false; 2]);
        }
    }
}
