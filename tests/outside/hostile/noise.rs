//! Ten thousand senseless requests.

use super::*;

const SEED: u64 = 0x7331;
const REQUESTS: usize = 10_000;

/// Calls that are changed a little before they are sent. None of them touches the inbox of the well-behaved, and none reads
/// where there is something: relay waits for the end of who may not have read it.
const CALLS: [&str; 7] = [
    POST,
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"read_messages","arguments":{"for":"pm"}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_pending","arguments":{"for":"pm"},"_meta":{"progressToken":1}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
];

/// Randomness that a seed repeats.
struct Random(fastrand::Rng);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.0.u8(..)).collect()
    }

    /// Changes a few bytes: flips, inserts, doubles, cuts out, or ends it early.
    fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len().max(1));
            let to = (at + 1 + self.below(8)).min(bytes.len());
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => bytes.insert(at.min(bytes.len()), b"\"\\{}[]:,0e-\n\0\xff"[self.below(14)]),
                2 if at < to => bytes.splice(at..at, bytes[at..to].to_vec()).for_each(drop),
                3 if at < to => bytes.drain(at..to).for_each(drop),
                _ => bytes.truncate(bytes.len() - self.below(4).min(bytes.len())),
            }
        }
        bytes
    }
}

/// Sends whole requests one after the other, over a connection that is renewed when it is closed.
struct Sender {
    port: u16,
    connection: Connection,
}

impl Sender {
    fn send(&mut self, request: &Request) -> u16 {
        self.connection.send(&request.bytes());
        match self.connection.response_or_end() {
            Some(response) => response.status,
            None => {
                self.connection = Connection::open(self.port);
                0
            }
        }
    }
}

/// Sends bytes that need not be a request, says that there are no more, and reads until the end.
fn send_raw(relay: &Relay, bytes: &[u8]) {
    let mut connection = relay.connect();
    let _ = connection.try_send(bytes);
    connection.end_sending();
    while connection.response_or_end().is_some() {}
}

#[test]
fn ten_thousand_senseless_requests_change_nothing_for_others() {
    let relay = Relay::start_with(&["--roles", "pm,dev-a,dev-b,quiet"], &[]);
    let mut bystander = Bystander::of(&relay);
    let mut reader = relay.session(Way::Sse);
    reader.hear_of_start("quiet");
    reader.hear_of_start("pm");
    let mut random = Random(fastrand::Rng::with_seed(SEED));
    let mut stream = relay.session(Way::Sse);
    let mut sender = Sender {
        port: relay.port,
        connection: relay.connect(),
    };
    let before = relay.resident_bytes();
    let (mut sent, mut read) = (Vec::new(), Vec::new());
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for number in 0..REQUESTS {
        let call = CALLS[random.below(CALLS.len())].as_bytes();
        let to_stream = random.below(2) == 0;
        let target = if to_stream { stream.target.as_str() } else { "/mcp" };
        match random.below(20) {
            0 => {
                let length = random.below(2_000);
                send_raw(&relay, &random.bytes(length));
            }
            1 => {
                let request = Request::post("/mcp", call).bytes();
                send_raw(&relay, &random.mutated(&request));
            }
            2 => {
                let id = format!("{:x}", random.0.u64(..));
                let mut connection = relay.connect();
                connection.send(&Request::get("/sse").with("Last-Event-ID", &id).bytes());
            }
            3..10 => {
                let length = random.below(500);
                let status = sender.send(&Request::post(target, random.bytes(length)));
                *statuses.entry(status).or_default() += 1;
            }
            _ => {
                let body = random.mutated(call);
                let status = sender.send(&Request::post(target, body));
                *statuses.entry(status).or_default() += 1;
            }
        }
        if number % 50 == 0 {
            let body = number.to_string();
            bystander.sessions[number / 50 % WAYS.len()].post("quiet", "quiet", &body);
            sent.push(body);
        }
        if number % 200 == 199 {
            bystander.is_unharmed();
            read.extend(reader.read("quiet").bodies());
            // What was answered into the stream is not read, so it is given up before it is full.
            stream = relay.session(Way::Sse);
        }
    }
    read.extend(reader.read("quiet").bodies());
    assert_eq!(read, sent);
    bystander.is_unharmed();
    println!("answers by status: {statuses:?}");
    assert_eq!(statuses.get(&500), None, "{statuses:?}");
    assert!(
        statuses.get(&200).is_some_and(|&count| count > 100),
        "{statuses:?}"
    );
    assert!(
        statuses.get(&202).is_some_and(|&count| count > 100),
        "{statuses:?}"
    );
    drop((stream, sender));
    relay.await_sessions(WAYS.len() as u64 + 1);
    let grown = relay.resident_bytes().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown} bytes");
    assert_eq!(relay.health()["name"], "relay");
}
