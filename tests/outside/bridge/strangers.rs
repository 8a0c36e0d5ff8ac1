//! Something else than a relay has the port.

use std::net::{Ipv4Addr, TcpListener};

use super::*;

/// More than any answer of a relay, in bytes.
const TOO_LONG: usize = 474_882_049;

#[test]
fn an_answer_that_is_too_long_is_not_waited_for_and_the_next_call_is_made() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let request = BufReader::new(stream.try_clone().expect("a copy"));
            let head = request.lines().map(|line| line.expect("the bridge is there"));
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {TOO_LONG}\r\n\r\n");
            stream.write_all(head.as_bytes()).expect("the bridge is there");
            open.push(stream);
        }
    });
    let mut agent = Agent::start(port);
    let reason = "what answers at the relay's port is no relay (its answer has more than 474882048 bytes)";
    for _ in 0..2 {
        assert_eq!(agent.call("list_pending", &json!({})), Reply::error(reason));
    }
}
