//! How a bridge uses its connections to relay, seen by who stands between them.

use std::io::copy;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Passes on what comes in at a port of its own, which it returns with how many connections there were.
fn between(relay: u16) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for bridge in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let bridge = bridge.expect("a connection");
            let relay = TcpStream::connect((Ipv4Addr::LOCALHOST, relay)).expect("relay is there");
            let other = |stream: &TcpStream| stream.try_clone().expect("a copy");
            let ways = [(other(&bridge), other(&relay)), (relay, bridge)];
            for (mut from, mut to) in ways {
                std::thread::spawn(move || {
                    let _broken = copy(&mut from, &mut to);
                    let _closed = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (port, count)
}

#[test]
fn calls_that_follow_each_other_go_over_one_connection() {
    let relay = Relay::start();
    let (port, count) = between(relay.port);
    let mut agent = Agent::start(port);
    let mut call = || assert!(!agent.call("list_pending", &json!({"for": "pm"})).is_error);
    call();
    let before = count.load(Ordering::SeqCst);
    for _ in 0..10 {
        call();
    }
    assert_eq!(count.load(Ordering::SeqCst), before);
}
