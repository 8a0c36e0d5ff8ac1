//! What start.sh refuses in every mode, with nothing started.

use std::{fs, net::TcpListener, thread};

use predicates::{prelude::PredicateBooleanExt, str::contains};

use crate::{
    place::{Place, START_SH, answers, free_port},
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
            .assert();
        refused.failure().code(1).stdout("").stderr(
            contains(format!(
                "relay already running? kill it with: kill $(lsof -ti:{port})\n"
            ))
            .and(contains(format!(
                "port {port} is taken: relay {} answers there, started at 20",
                env!("CARGO_PKG_VERSION")
            ))),
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
        let mut start_sh = place.start_sh(&[&port]);
        start_sh
            .envs(environment)
            .assert()
            .failure()
            .code(1)
            .stderr(contains(told));
    }
}

#[test]
fn a_port_taken_by_something_else_is_refused_and_said_to_be_no_relay() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs_up = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [&silent, &hangs_up].map(|listener| listener.local_addr().unwrap().port());
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
                .and(contains("something answers there that is not a relay")),
            );
    }
}
