//! The stdio bridge from outside: the built binary between pipes that a test opens and closes, and a real relay.

pub mod agent;
mod asking_again;
mod connections;
mod presence;
mod quirks;
mod refusals;
mod strangers;
mod subscriptions;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::process::{Process, Relay, free_port, relay_command};
use crate::support::session::{Reply, Way};
use agent::{Agent, initialize, post_arguments, reply_of, request};

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    request(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

fn down(port: u16) -> Reply {
    Reply {
        texts: vec![format!(
            "Relay is not running on 127.0.0.1:{port}. Start it with: {} serve --port {port}",
            env!("CARGO_BIN_EXE_relay")
        )],
        is_error: true,
    }
}

/// A bridge whose stdin and stdout are one socket, as Node gives them to it.
fn on_a_socket(port: u16) -> (Process, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut command = relay_command();
    let end = || Stdio::from(std::os::fd::OwnedFd::from(theirs.try_clone().expect("a copy")));
    command
        .args(["mcp", "--port", &port.to_string()])
        .stdin(end())
        .stdout(end());
    (Process::start(&mut command), ours)
}

mod lines {
    use super::*;

    const NO_MESSAGE: &str = r#"the line is no JSON-RPC 2.0 message; accepted: {"jsonrpc": "2.0", "id": text or integer, "method": text, "params": object}, without id if no answer is wanted"#;

    const NO_ID: &str = r#"the request is no JSON-RPC 2.0 message: "id" is the number 1.5; accepted: a string, or a whole number of at most 64 bits"#;

    fn error(id: &Value, code: i32, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
    }

    #[test]
    fn a_line_that_is_no_message_is_answered_and_the_next_one_is_heard() {
        let mut agent = Agent::start_silent(free_port(), &[]);
        // Nothing can be about anything yet.
        agent.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        for handshake in [false, true] {
            if handshake {
                agent.shake_hands();
            }
            let no_json = "the line is no JSON: expected value at line 1 column 1";
            for (line, expected) in [
                ("?", error(&Value::Null, -32700, no_json)),
                (r#"{"foo":"bar"}"#, error(&Value::Null, -32600, NO_MESSAGE)),
                ("[]", error(&Value::Null, -32600, NO_MESSAGE)),
                (
                    r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
                    error(&json!(7), -32600, NO_MESSAGE),
                ),
                (
                    r#"{"jsonrpc":"2.0","id":"a","method":7}"#,
                    error(&json!("a"), -32600, NO_MESSAGE),
                ),
                (
                    r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                    error(&Value::Null, -32600, NO_ID),
                ),
            ] {
                agent.write("");
                agent.write(line);
                assert_eq!(agent.heard(), expected, "{line}");
            }
        }
        agent.is_heard();
        assert_eq!(agent.end(), [] as [Value; 0]);
    }

    #[test]
    fn a_line_that_is_too_long_is_answered_and_the_next_one_is_heard() {
        let mut agent = Agent::start(free_port());
        let most = 8 * 1024 * 1024;
        let reason = "the line has more than 8388608 bytes, the most that is accepted";
        for length in [most + 1, 3 * most] {
            agent.write(&" ".repeat(length));
            assert_eq!(agent.heard(), error(&Value::Null, -32600, reason));
            agent.is_heard();
        }
        let mut padded = request(9, "ping", &json!({}));
        padded.insert_str(0, &" ".repeat(most - padded.len()));
        agent.write(&padded);
        assert_eq!(agent.heard()["id"], 9);
    }

    #[test]
    fn a_line_that_comes_in_pieces_and_lines_that_come_together_are_heard() {
        let mut agent = Agent::start(free_port());
        for byte in request(5, "ping", &json!({})).bytes() {
            agent.write_bytes(&[byte]);
        }
        agent.write_bytes(b"\r");
        agent.write_bytes(format!("\n{}\n\n", request(6, "ping", &json!({}))).as_bytes());
        assert_eq!(
            (&agent.heard()["id"], &agent.heard()["id"]),
            (&json!(5), &json!(6))
        );
    }

    #[test]
    fn a_tool_call_with_other_parameters_is_told_what_they_are() {
        let mut agent = Agent::start(free_port());
        let id = agent.ask("tools/call", &json!({"name": 7}));
        let reason = r#"params of tools/call are not {"name": text, "arguments": object}"#;
        assert_eq!(agent.heard(), error(&json!(id), -32602, reason));
    }

    #[test]
    fn an_id_that_is_in_use_is_refused_and_both_requests_are_answered() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let id = agent.wait("pm", 60.0);
        agent.write(&request(id, "ping", &json!({})));
        let reason = format!("the id {id} is that of a request which is not answered yet; use another");
        assert_eq!(agent.heard(), error(&Value::Null, -32600, &reason));
        relay.session(Way::Http).post("dev-a", "pm", "woken");
        assert_eq!(agent.finish(id).bodies(), ["woken"]);
    }
}

mod order {
    use super::*;

    #[test]
    fn what_was_read_before_the_end_of_stdin_is_carried_out_in_order_and_answered() {
        let relay = Relay::start_told();
        for last_end in ["\n", ""] {
            let mut agent = Agent::start_silent(relay.port, &["--reply-kb", "100000"]);
            let mut lines = vec![
                initialize(),
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            ];
            let expected: Vec<String> = (1..=40).map(|n| format!("body {n}")).collect();
            for (id, body) in (1..).zip(&expected) {
                lines.push(call(id, "post_message", &post_arguments("pm", "dev-a", body)));
            }
            lines.push(call(41, "read_messages", &json!({"for": "dev-a"})));
            agent.write_bytes((lines.join("\n") + last_end).as_bytes());
            let said = agent.end();
            let ids: Vec<Value> = said.iter().map(|answer| answer["id"].clone()).collect();
            assert_eq!(ids, (0..=41).map(Value::from).collect::<Vec<_>>());
            for answer in &said[1..=40] {
                reply_of(answer).posted();
            }
            assert_eq!(reply_of(&said[41]).bodies(), expected);
            assert_eq!(relay.bodies("dev-a"), [] as [String; 0]);
        }
    }

    #[test]
    fn an_agent_posts_while_it_waits_and_wakes_itself() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let wait = agent.wait("pm", 60.0);
        let post = agent.begin("post_message", &post_arguments("dev-a", "pm", "from myself"));
        let mut answers = [agent.heard(), agent.heard()];
        answers.sort_by_key(|answer| answer["id"].as_u64());
        let ids = answers.each_ref().map(|answer| answer["id"].as_u64());
        assert_eq!(ids, [Some(wait), Some(post)]);
        assert_eq!(reply_of(&answers[0]).bodies(), ["from myself"]);
        reply_of(&answers[1]).posted();
    }
}

mod ends {
    use super::*;

    const STDIN_ENDED: &str = "stdin ended while the call waited; nothing was taken";

    #[test]
    fn an_agent_that_says_nothing_is_left_in_order() {
        assert_eq!(Agent::start_silent(free_port(), &[]).end(), [] as [Value; 0]);
        assert_eq!(Agent::start(free_port()).end(), [] as [Value; 0]);
    }

    #[test]
    fn a_wait_is_given_up_soon_after_the_end_of_stdin_and_takes_nothing() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let waits = [agent.wait("pm", 60.0), agent.wait("pm", 60.0)];
        let post = agent.begin("post_message", &post_arguments("dev-a", "dev-b", "posted"));
        let mut said = agent.end();
        said.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(said.len(), 3);
        for (id, answer) in waits.iter().zip(&said) {
            assert_eq!(
                (&answer["id"], reply_of(answer)),
                (&json!(id), Reply::error(STDIN_ENDED))
            );
        }
        assert_eq!(said[2]["id"], post);
        reply_of(&said[2]).posted();
        relay.await_sessions(0);
        relay.session(Way::Http).post("dev-a", "pm", "later");
        assert_eq!(relay.bodies("pm"), ["later"]);
        assert_eq!(relay.bodies("dev-b"), ["posted"]);
    }

    #[test]
    fn a_wait_that_is_woken_right_after_the_end_of_stdin_is_answered() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let wait = agent.wait("pm", 60.0);
        agent.is_heard();
        relay.await_sessions(1);
        let mut poster = relay.session(Way::Http);
        agent.close_stdin();
        poster.post("dev-a", "pm", "just in time");
        let said = agent.end();
        assert_eq!((said.len(), &said[0]["id"]), (1, &json!(wait)));
        assert_eq!(reply_of(&said[0]).bodies(), ["just in time"]);
        drop(poster);
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), [] as [String; 0]);
    }

    #[test]
    fn a_closed_stdout_takes_no_messages() {
        let relay = Relay::start_told();
        relay.session(Way::Http).post("pm", "dev-b", "precious");
        let input = format!(
            "{}\n{}\n",
            initialize(),
            call(1, "read_messages", &json!({"for": "dev-b"}))
        );
        let mut shell = std::process::Command::new("sh");
        let bridge = format!("printf '%s' \"$1\" | exec \"$0\" mcp --port {} >&-", relay.port);
        let output = shell
            .args(["-c", &bridge, env!("CARGO_BIN_EXE_relay"), &input])
            .output();
        let output = output.expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.starts_with("relay mcp: cannot write to stdout: it is closed"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(relay.bodies("dev-b"), ["precious"]);
    }

    #[test]
    fn everything_ends_when_nobody_is_left_to_read_the_answers() {
        let relay = Relay::start_told();
        let (mut bridge, mut socket) = on_a_socket(relay.port);
        let wait = call(1, "read_messages", &json!({"for": "pm", "wait_seconds": 60}));
        writeln!(socket, "{}\n{wait}", initialize()).expect("the bridge is there");
        relay.await_sessions(1);
        drop(socket);
        assert_eq!(bridge.exit_status().code(), Some(1));
        assert_eq!(bridge.kill(), "relay mcp: broken pipe\n");
        relay.await_sessions(0);
        relay.session(Way::Http).post("dev-a", "pm", "for the next one");
        assert_eq!(relay.bodies("pm"), ["for the next one"]);
    }
}

mod confirmation {
    use super::*;

    /// A message for `pm` that an agent over stdio has read as its last act, and the id of that call.
    fn read_by_an_agent(relay: &Relay) -> (Agent, u64) {
        relay.session(Way::Http).post("dev-a", "pm", "x");
        let mut agent = Agent::start(relay.port);
        let id = agent.begin("read_messages", &json!({"for": "pm"}));
        assert_eq!(agent.finish(id).bodies(), ["x"]);
        (agent, id)
    }

    #[test]
    fn an_answer_is_read_once_the_agents_next_request_came() {
        let relay = Relay::start_told();
        let (mut agent, _) = read_by_an_agent(&relay);
        // The first may have come before the bridge saw that stdout had taken the answer.
        agent.is_heard();
        agent.is_heard();
        agent.signal("KILL");
        agent.exit_status();
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), [] as [String; 0]);
    }

    #[test]
    fn a_cancellation_behind_the_agents_next_request_takes_the_answer_back() {
        for posts in [false, true] {
            let relay = Relay::start_told();
            let (mut agent, id) = read_by_an_agent(&relay);
            agent.is_heard();
            if posts {
                agent.post("dev-a", "dev-b", "y").posted();
            } else {
                agent.is_heard();
            }
            agent.cancel(id);
            assert_eq!(agent.read("pm").bodies(), ["again: x"], "posts: {posts}");
        }
    }

    #[test]
    fn an_answer_is_read_when_stdin_ends_in_order_after_it() {
        let relay = Relay::start_told();
        let (agent, _) = read_by_an_agent(&relay);
        assert_eq!(agent.end(), [] as [Value; 0]);
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), [] as [String; 0]);
    }

    #[test]
    fn an_answer_is_taken_back_when_the_bridge_is_killed_before_the_agents_next_request() {
        for name in ["KILL", "TERM"] {
            let relay = Relay::start_told();
            let (mut agent, _) = read_by_an_agent(&relay);
            agent.signal(name);
            agent.exit_status();
            relay.await_sessions(0);
            assert_eq!(relay.bodies("pm"), ["again: x"]);
        }
    }

    #[test]
    fn an_answer_that_crosses_with_its_cancellation_is_taken_back() {
        let relay = Relay::start_told();
        for round in 0..20 {
            let (mut agent, id) = read_by_an_agent(&relay);
            // Neither of these shows that the answer was read.
            agent.write(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
            agent.cancel(1234);
            agent.cancel(id);
            let again = agent.read("pm").bodies();
            assert_eq!(again, ["again: x"], "round {round}");
            agent.end();
        }
    }

    #[test]
    fn an_answer_that_stdout_does_not_take_is_taken_back() {
        let relay = Relay::start_told();
        relay.session(Way::Http).post("dev-a", "pm", "x");
        let (mut bridge, mut socket) = on_a_socket(relay.port);
        writeln!(socket, "{}", initialize()).expect("the bridge is there");
        socket.read_exact(&mut [0]).expect("the answer to the handshake");
        socket.shutdown(Shutdown::Read).expect("the socket is open");
        let read = call(1, "read_messages", &json!({"for": "pm"}));
        writeln!(socket, "{read}").expect("the bridge is there");
        assert_eq!(bridge.exit_status().code(), Some(1));
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), ["again: x"]);
    }

    #[test]
    fn an_answer_that_its_agent_leaves_unread_is_taken_back() {
        let relay = Relay::start_told();
        relay.session(Way::Http).post("dev-a", "pm", "x");
        let (mut bridge, mut socket) = on_a_socket(relay.port);
        let read = call(1, "read_messages", &json!({"for": "pm"}));
        writeln!(socket, "{}", initialize()).expect("the bridge is there");
        let mut answers = BufReader::with_capacity(1, socket.try_clone().expect("a copy"));
        answers
            .read_line(&mut String::new())
            .expect("the answer to the handshake");
        writeln!(socket, "{read}").expect("the bridge is there");
        answers
            .read_exact(&mut [0])
            .expect("the beginning of the messages");
        drop((answers, socket));
        assert_eq!(bridge.exit_status().code(), Some(1));
        relay.await_sessions(0);
        assert_eq!(relay.bodies("pm"), ["again: x"]);
    }

    #[test]
    fn a_cancelled_wait_takes_nothing_and_is_not_answered() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        for round in 0..10 {
            let wait = agent.wait("pm", 60.0);
            agent.is_heard();
            agent.cancel(wait);
            let body = format!("round {round}");
            agent.post("dev-a", "pm", &body).posted();
            assert_eq!(agent.read("pm").bodies(), [body]);
        }
        assert_eq!(agent.end(), [] as [Value; 0]);
    }

    #[test]
    fn the_messages_of_a_wait_that_is_cancelled_as_it_is_woken_are_there_for_the_next_read() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let mut poster = relay.session(Way::Http);
        for round in 0..40 {
            let wait = agent.wait("pm", 60.0);
            agent.is_heard();
            let body = format!("round {round}");
            let post = poster.begin("post_message", &post_arguments("dev-a", "pm", &body));
            agent.cancel(wait);
            poster.finish(post).posted();
            let read = agent.begin("read_messages", &json!({"for": "pm"}));
            let mut answer = agent.heard();
            if answer["id"] == wait {
                answer = agent.heard();
            }
            assert_eq!(answer["id"], read);
            let bodies = reply_of(&answer).bodies();
            let again = format!("again: {body}");
            assert!(bodies == [&*body] || bodies == [&*again], "{bodies:?}");
        }
    }
}

mod the_relay {
    use super::*;

    #[test]
    fn a_call_while_the_relay_is_away_says_so_and_the_next_one_after_its_return_works() {
        let mut relay = Relay::start();
        let mut agent = Agent::start(relay.port);
        for life in 0..20 {
            let body = format!("life {life}");
            agent.post("dev-a", "pm", &body).posted();
            assert_eq!(agent.read("pm").bodies(), [body]);
            relay.kill();
            assert_eq!(agent.read("pm"), down(relay.port));
            assert_eq!(agent.post("dev-a", "pm", "lost"), down(relay.port));
            relay.restart();
        }
    }

    #[test]
    fn a_wait_that_the_relay_dies_under_ends_at_once_with_an_error() {
        let mut relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let wait = agent.wait("pm", 60.0);
        agent.is_heard();
        relay.await_sessions(1);
        let started = Instant::now();
        relay.kill();
        let reason =
            "relay went away during the call, which may or may not have been carried out; call again";
        assert_eq!(agent.finish(wait), Reply::error(reason));
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn a_bound_agent_is_shown_the_tools_of_the_running_relay_with_its_roles() {
        let port = free_port();
        let absent = {
            let mut agent = Agent::start_with(port, &["--agent", "pm"]);
            let id = agent.ask("tools/list", &json!({}));
            let listed = agent.heard();
            assert_eq!(listed["id"], id);
            listed["result"]["tools"].clone()
        };
        let relay = Relay::start_with(&["--roles", "pm,qa"], &[]);
        let mut agent = Agent::start_with(relay.port, &["--agent", "pm"]);
        agent.ask("tools/list", &json!({}));
        let listed = agent.heard()["result"]["tools"].clone();
        let server = relay.bound_session(Way::Http, "pm").ask("tools/list", json!({}));
        assert_eq!(listed, server["result"]["tools"]);
        let recipients = |tools: &Value| {
            let properties = &tools[0]["inputSchema"]["properties"];
            (tools[0]["name"].clone(), properties["from"]["enum"].clone())
        };
        let expected = |roles: Value| (json!("post_message"), roles);
        assert_eq!(recipients(&listed), expected(json!(["pm", "qa"])));
        assert_eq!(recipients(&absent), expected(json!(["pm", "dev-a", "dev-b"])));
        let posted = agent.call("post_message", &json!({"to": "qa", "kind": "free", "body": "x"}));
        posted.posted();
        assert_eq!(relay.bodies("qa"), ["x"]);
    }

    #[test]
    fn as_much_is_read_at_once_as_the_bridge_is_told_that_its_agent_shows() {
        let relay = Relay::start_told();
        for _ in 0..10 {
            relay.session(Way::Http).post("dev-a", "pm", &"x".repeat(3_000));
        }
        let mut agent = Agent::start(relay.port);
        let read = agent.read("pm").bodies().len();
        assert!(read < 3, "{read}");
        agent.end();
        let mut agent = Agent::start_with(relay.port, &["--reply-kb", "40"]);
        assert_eq!(agent.read("pm").bodies().len(), 10 - read);
    }

    #[test]
    fn progress_of_a_wait_is_told_where_it_was_asked_for() {
        let relay = Relay::start_told();
        let mut agent = Agent::start(relay.port);
        let arguments = json!({"for": "pm", "wait_seconds": 60});
        let meta = json!({"progressToken": "t"});
        let id = agent.ask(
            "tools/call",
            &json!({"name": "read_messages", "arguments": arguments, "_meta": meta}),
        );
        let params = json!({"progressToken": "t", "progress": 1.0, "message": "waiting for a message"});
        let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        assert_eq!(agent.heard(), told);
        relay.session(Way::Http).post("dev-a", "pm", "x");
        assert_eq!(agent.finish(id).bodies(), ["x"]);
    }

    #[test]
    fn another_address_is_reached_and_named() {
        let relay = Relay::start_with(&["--host", "127.0.0.2"], &[]);
        let host = ["--host", "127.0.0.2"];
        let mut agent = Agent::start_with(relay.port, &host);
        agent.post("dev-a", "pm", "x").posted();
        assert_eq!(agent.read("pm").bodies(), ["x"]);
        let port = free_port();
        let absent = Agent::start_with(port, &host).read("pm");
        let advice = format!(
            "Relay is not running on 127.0.0.2:{port}. Start it with: {} serve --host 127.0.0.2 --port {port}",
            env!("CARGO_BIN_EXE_relay")
        );
        assert_eq!((absent.texts, absent.is_error), (vec![advice], true));
    }

    #[test]
    fn a_relay_on_ipv6_is_reached_with_a_token() {
        let token = "0123456789abcdef";
        let arguments = ["--host", "::1", "--token", token];
        if std::net::TcpListener::bind(("::1", 0)).is_err() {
            return;
        }
        let relay = Relay::start_with(&arguments, &[]);
        let mut agent = Agent::start_with(relay.port, &arguments);
        agent.post("dev-a", "pm", "x").posted();
        assert_eq!(agent.read("pm").bodies(), ["x"]);
        let mut stranger = Agent::start_with(relay.port, &arguments[..2]);
        let reason = "this relay wants a token; send the header Authorization: Bearer <token>";
        assert_eq!(stranger.read("pm"), Reply::error(reason));
    }
}
