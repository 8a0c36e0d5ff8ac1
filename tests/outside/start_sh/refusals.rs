//! What start.sh refuses in every mode, with nothing started.

use std::{fs, net::TcpListener, thread};

use predicates::{prelude::PredicateBooleanExt, str::contains};

use super::{
    place::{Place, START_SH, answers, free_port, health},
    port_option,
    running::Running,
};

#[test]
fn an_unknown_option_is_refused_with_the_usage() {
    let place = Place::new();
    let refused = place.start_sh(&["--screen"]).assert().failure().code(1);
    refused
        .stdout("")
        .stderr(contains("unknown option: --screen").and(contains("Usage: start.sh [--manual|")));
    assert!(!place.records().join("cargo").exists(), "nothing was built");
}

#[test]
fn help_is_no_error() {
    Place::new()
        .start_sh(&["--help"])
        .assert()
        .success()
        .stdout(contains("Usage: start.sh"))
        .stderr("");
}

#[test]
fn a_port_that_is_none_is_refused() {
    let place = Place::new();
    for port in ["0", "65536", "99999", "073", "-1", "1e3", "abc", "", "80 81"] {
        let refused = place.start_sh(&["--port", port]).assert().failure().code(1);
        refused.stdout("").stderr(contains(format!(
            "bad port: \"{port}\" is not a number from 1 to 65535"
        )));
    }
    place
        .start_sh(&["--port"])
        .assert()
        .failure()
        .code(1)
        .stderr(contains("--port needs a number"));
}

#[test]
fn a_missing_cargo_is_named() {
    let place = Place::new();
    let port = port_option(free_port());
    let refused = place
        .without("cargo")
        .start_sh(&[&port])
        .assert()
        .failure()
        .code(1);
    refused
        .stdout("")
        .stderr(contains("cargo is missing").and(contains("Install Rust")));
}

#[test]
fn a_failed_build_shows_what_cargo_said_and_starts_nothing() {
    let place = Place::new();
    let port = port_option(free_port());
    let mut start_sh = place.start_sh(&[&port]);
    let refused = start_sh
        .env("STAND_IN_CARGO_FAILS", "error[E0425]: lost")
        .assert()
        .failure()
        .code(1);
    refused
        .stdout("")
        .stderr(contains("error[E0425]: lost").and(contains("the build failed")));
}

#[test]
fn a_build_that_lies_elsewhere_is_refused() {
    let place = Place::new();
    fs::remove_file(place.relay()).unwrap();
    let port = port_option(free_port());
    let refused = place.start_sh(&[&port]).assert().failure().code(1);
    refused.stderr(contains("Set CARGO_TARGET_DIR"));
}

#[test]
fn a_port_taken_by_a_relay_is_refused_and_the_relay_described() {
    let place = Place::new();
    let port = free_port();
    let first = Running::start_sh(&place, &[&port_option(port)]);
    for arguments in [vec![], vec!["--kitty"]] {
        let mut start_sh = place.start_sh(&arguments);
        let refused = start_sh
            .args(["--port", &port.to_string()])
            .env("KITTY_LISTEN_ON", "unix:x")
            .env("RELAY_AGENT_COMMAND", "agent")
            .assert();
        refused.failure().code(1).stdout("").stderr(
            contains(format!(
                "relay already running? kill it with: kill $(lsof -ti:{port})\n"
            ))
            .and(contains(format!(
                "port {port} is taken: relay {} answers there, started at 20",
                env!("CARGO_PKG_VERSION")
            )))
            .and(contains("Z. End it alone with: "))
            .and(contains(format!(" stop --port {port}"))),
        );
    }
    assert!(answers(port), "the first relay goes on");
    assert!(
        place.kitty_calls().iter().all(|call| call[1] == "ls"),
        "kitty was asked for nothing else"
    );
    drop(first);
}

#[test]
fn what_ends_the_running_relay_is_spelt_as_it_can_be_called() {
    let place = Place::new();
    let port = free_port();
    let _first = Running::start_sh(&place, &[&port_option(port)]);
    let refused = |told: &str| {
        let refused = place.start_sh(&[&port_option(port)]).assert().failure().code(1);
        refused.stderr(contains(format!(". End it alone with: {told}\nstart.sh: Or")));
    };
    place.break_relay();
    refused(&format!(
        "(cd {} && cargo run --release --locked -- stop --port {port})",
        env!("CARGO_MANIFEST_DIR")
    ));
    place.use_stoppable_relay();
    refused(&format!("{} stop --port {port}", place.relay().display()));
    place.install_relay();
    refused(&format!("relay stop --port {port}"));
}

#[test]
fn a_relay_on_ipv6_takes_the_port_of_both_addresses_and_is_ended_there() {
    let place = Place::new();
    let port = free_port();
    let _first = Running::start_sh(&place, &["--host=::1", &port_option(port)]);
    for host in ["127.0.0.1", "::1", "::", "localhost"] {
        let token = ("RELAY_TOKEN", "a-token-of-some-length");
        let mut start_sh = place.start_sh(&["--host", host, &port_option(port)]);
        let refused = start_sh.envs([token]).assert().failure().code(1);
        let told = format!("relay {} answers there, started at 20", env!("CARGO_PKG_VERSION"));
        let end = format!(" stop --port {port}");
        refused.stderr(contains(told).and(contains(end)));
    }
}

#[test]
fn bad_roles_hosts_and_tokens_are_refused_with_what_is_accepted() {
    let place = Place::new();
    for (arguments, told) in [
        (vec!["--roles"], "--roles needs roles, separated by commas"),
        (
            vec!["--roles="],
            "bad roles: \"\" is no list such as pm,dev-a,dev-b",
        ),
        (vec!["--roles", "pm,,qa"], "bad roles: \"pm,,qa\" is no list"),
        (
            vec!["--roles", "pm,.QA"],
            "bad role: \".QA\" has not 1 to 32 of A-Z, a-z, 0-9, -, _ and .",
        ),
        (
            vec!["--roles", "pm,everyone"],
            "bad role: \"everyone\" means something else in an address",
        ),
        (vec!["--roles", "pm,*"], "bad role: \"*\""),
        (
            vec!["--roles", "pm, dev a"],
            "bad role: \"dev a\" has not 1 to 32",
        ),
        (
            vec!["--roles", "pm,user"],
            "bad roles: \"user\" is the person's own inbox",
        ),
        (vec!["--roles", "pm,qa, pm"], "bad roles: \"pm\" is named twice"),
        (vec!["--host"], "--host needs an IP address"),
        (
            vec!["--host", "box.lan"],
            "bad host: \"box.lan\" is not an IP address, such as 127.0.0.1, or localhost",
        ),
        (
            vec!["--host", "0.0.0.0"],
            "--host 0.0.0.0 can be reached from other machines; give --token",
        ),
        (
            vec!["--host", "::"],
            "--host :: can be reached from other machines; give --token",
        ),
        (
            vec!["--token"],
            "--token needs a secret of at least 16 characters",
        ),
        (
            vec!["--token", "short"],
            "bad token: a token has at least 16 characters",
        ),
        (
            vec!["--token", "with spaces in it, and long"],
            "bad token: a token has at least 16 characters",
        ),
    ] {
        let refused = place.start_sh(&arguments).assert().failure().code(1);
        refused
            .stdout("")
            .stderr(contains(told).and(contains("Usage: start.sh")));
    }
    assert!(!place.records().join("cargo").exists(), "nothing was built");
}

#[test]
fn a_roster_that_makes_no_lift_is_refused_unless_each_role_has_a_prompt() {
    let place = Place::new();
    let port = free_port();
    let options = ["--roles=qa,ops", &port_option(port)];
    let told = contains("the roles qa, ops make no lift; accepted: pm and at least one more")
        .and(contains("start.sh: there is no general prompt for qa"))
        .and(contains(
            "docs/superpowers/coordination/NAME-qa-prompt.md, or choose other --roles",
        ));
    place
        .start_sh(&options)
        .assert()
        .failure()
        .code(1)
        .stdout("")
        .stderr(told);
    for role in ["qa", "ops"] {
        place.write_prompt(&format!("v1-{role}-prompt.md"), 1, "go\n");
    }
    let _running = Running::start_sh(&place, &options);
    let health = health("127.0.0.1", port).unwrap();
    assert!(health.contains("\"qa\":0,\"ops\":0"), "{health}");
}

#[test]
fn a_port_taken_by_a_relay_with_a_token_is_described_to_who_has_the_token() {
    let place = Place::new();
    let port = port_option(free_port());
    let token = ("RELAY_TOKEN", "a-token-of-some-length");
    let mut command = place.command(START_SH);
    command.arg(&port).env(token.0, token.1);
    let _first = Running::until_ready(command);
    let described = format!("relay {} answers there, started at 20", env!("CARGO_PKG_VERSION"));
    for (environment, told) in [
        (vec![], "relay answers there, and wants the token"),
        (vec![token], described.as_str()),
    ] {
        let told = contains(told).and(contains(
            "End it alone, with RELAY_TOKEN set to its token, with: ",
        ));
        let mut start_sh = place.start_sh(&[&port]);
        start_sh.envs(environment).assert().failure().code(1).stderr(told);
    }
}

#[test]
fn a_port_taken_by_something_else_is_refused_and_said_to_be_no_relay() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let on_ipv6_only = TcpListener::bind("[::1]:0").unwrap();
    let hangs_up = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [&silent, &on_ipv6_only, &hangs_up].map(|listener| listener.local_addr().unwrap().port());
    thread::spawn(move || hangs_up.incoming().for_each(drop));
    for port in ports {
        place
            .start_sh(&["--port", &port.to_string()])
            .assert()
            .failure()
            .code(1)
            .stdout("")
            .stderr(
                contains(format!(
                    "relay already running? kill it with: kill $(lsof -ti:{port})\n"
                ))
                .and(contains(
                    "something has it that does not answer as a relay does, unless it is one that is stopped or busy.\n",
                )),
            );
    }
}
