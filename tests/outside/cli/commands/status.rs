use super::*;

#[test]
fn it_tells_who_is_there_and_what_is_on_its_way() {
    let relay = told();
    let mut bound = relay.bound_session(Way::Sse, "dev-a");
    bound.hear_of_start("dev-a");
    bound.wait("dev-a", 100.0);
    let mut unbound = relay.session(Way::Http);
    unbound.post("pm", "dev-b", "one");
    unbound.read("dev-b");
    let mut waiting = relay.session(Way::Sse);
    waiting.hear_of_start("pm");
    waiting.wait("pm", 30.0);
    let mut second = relay.session(Way::Sse);
    second.post("dev-b", "user", "two");
    relay.await_sessions(4);
    await_wait(&relay, "pm");

    let told = ask(relay.port, &["status"]).assert().code(0).stderr("");
    let text = stdout_of(&told);
    let health = relay.health();
    let started_at = health["started_at"].as_str().expect("a time");
    let head = format!(
        "relay {VERSION} on 127.0.0.1:{}, pid {}\nfound by its port\nsince {} {}, for ",
        relay.port,
        health["pid"],
        &started_at[..10],
        &started_at[11..19]
    );
    assert!(text.starts_with(&head), "{text}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(4)
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    let roles = [
        vec!["role", "unread", "oldest", "in doubt"],
        vec!["pm", "0", "-", "0"],
        vec!["dev-a", "0", "-", "0"],
        vec!["dev-b", "0", "-", "1"],
    ];
    assert_eq!(rows[..4], roles, "{text}");
    assert_eq!(rows[4][..2], ["user", "1"], "{text}");
    let sessions: Vec<[&str; 2]> = rows[7..].iter().map(|row| [row[1], row[2]]).collect();
    assert_eq!(rows[6], ["session", "over", "role", "state"]);
    assert_eq!(
        sessions,
        [["sse", "dev-a"], ["http", "any"], ["sse", "any"], ["sse", "any"]],
        "{text}"
    );
    assert!(rows[7][3].starts_with("waits, "), "{text}");
    assert_eq!(rows[8][3], "open", "{text}");
    assert!(rows[9][3].starts_with("waits for pm, "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn json_is_what_health_answers_and_how_relay_was_found() {
    let relay = told();
    let mut session = relay.bound_session(Way::Sse, "dev-a");
    session.hear_of_start("dev-a");
    session.wait("dev-a", 100.0);
    await_wait(&relay, "dev-a");
    let told = ask(relay.port, &["status", "--json"]).assert().code(0).stderr("");
    let mut told: Value = serde_json::from_str(&stdout_of(&told)).expect("JSON");
    let pid = told["pid"].as_u64().expect("a process");
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert!(command.contains(&relay.port.to_string()), "{command:?}");
    let left = told["connections"][0]["waits"][0]["seconds_left"].take();
    assert!((1..=100).contains(&left.as_u64().expect("seconds")), "{left}");
    assert!(told["uptime_seconds"].take().is_u64());
    let role = |name: &str| {
        json!({
            "role": name, "unread": 0, "held": 0, "is_held": false, "oldest_seconds": null, "in_doubt": 0, "mode": "immediate",
        })
    };
    let expected = json!({
        "found": {"source": "port", "at": format!("127.0.0.1:{}", relay.port)},
        "name": "relay",
        "version": VERSION,
        "pid": pid,
        "port": relay.port,
        "boot": relay.health()["boot"],
        "started_at": relay.health()["started_at"],
        "uptime_seconds": null,
        "sessions": 1,
        "pending": {"pm": 0, "dev-a": 0, "dev-b": 0},
        "roles": [role("pm"), role("dev-a"), role("dev-b"), role("user")],
        "connections": [{
            "session": told["connections"][0]["session"],
            "role": "dev-a",
            "person": false,
            "transport": "sse",
            "waits": [{"for": "dev-a", "seconds_left": null}],
        }],
        "holds_all": false,
        "nodes": [],
        "workers": [],
    });
    assert_eq!(told, expected);
}

#[test]
fn the_age_of_the_oldest_message_is_told() {
    let relay = told();
    relay.session(Way::Sse).post("pm", "dev-a", "one");
    until("a second has passed", || {
        role(&relay, "dev-a")["oldest_seconds"].as_u64().expect("an age") > 0
    });
    relay.session(Way::Sse).post("pm", "dev-a", "two");
    assert!(role(&relay, "dev-a")["oldest_seconds"].as_u64().expect("an age") > 0);
}
