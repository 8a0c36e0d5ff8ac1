//! Something else than a relay has the port.

use std::net::{Ipv4Addr, TcpListener};

use super::*;

/// More than any answer of a relay, in bytes.
const TOO_LONG: usize = 474_882_049;

/// Answers each request with this at a port that it returns, and says nothing more; `ends` says that it tells so.
fn answering(answer: String, ends: bool) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let request = BufReader::new(stream.try_clone().expect("a copy"));
            let head = request.lines().map(|line| line.expect("the bridge is there"));
            head.take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(answer.as_bytes()).expect("the bridge is there");
            if ends {
                stream.shutdown(Shutdown::Write).expect("the bridge is there");
            }
            open.push(stream);
        }
    });
    port
}

#[test]
fn an_answer_that_is_too_long_is_not_waited_for_and_the_next_call_is_made() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {TOO_LONG}\r\n\r\n");
    let mut agent = Agent::start(answering(head, false));
    let reason = "what answers at the relay's port is no relay (its answer has more than 474882048 bytes)";
    for _ in 0..2 {
        assert_eq!(agent.call("list_pending", &json!({})), Reply::error(reason));
    }
}

#[test]
fn a_relay_to_which_there_is_no_way_is_not_said_to_be_absent() {
    let mut mcp = relay_command();
    // Nobody connects to a group of machines.
    mcp.args(["mcp", "--host", "224.0.0.1", "--port", "9"]);
    let told = Agent::start_by(mcp).read("pm");
    let begins = "Error: relay cannot be reached at 224.0.0.1:9: ";
    assert!(told.is_error && told.texts[0].starts_with(begins), "{told:?}");
}

#[test]
fn an_answer_that_breaks_off_is_that_of_a_relay_that_went_away() {
    let begun = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\"";
    let mut agent = Agent::start(answering(begun.to_owned(), true));
    let reason = "relay went away during the call, which may or may not have been carried out; call again";
    for _ in 0..2 {
        assert_eq!(agent.call("list_pending", &json!({})), Reply::error(reason));
    }
}
