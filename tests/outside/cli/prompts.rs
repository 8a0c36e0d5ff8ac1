use super::*;

#[test]
fn a_prompt_is_its_roles_own() {
    for role in ["pm", "dev-a", "dev-b"] {
        let own = contains(format!("read_messages(for=\"{role}\")"))
            .and(contains(format!("post_message(from=\"{role}\"")))
            .and(contains("http://localhost:7331"))
            .and(contains("<<").not());
        relay(&["prompt", role]).assert().code(0).stdout(own).stderr("");
        let at_port = contains("http://localhost:4000").and(contains("7331").not());
        relay(&["prompt", role, "--port", "4000"])
            .assert()
            .code(0)
            .stdout(at_port)
            .stderr("");
    }
}

#[test]
fn the_port_is_taken_from_the_environment_unless_it_is_given() {
    for (arguments, port) in [(vec![], 4000), (vec!["--port", "4001"], 4001)] {
        let mut prompt = relay(&["prompt", "pm"]);
        prompt.args(arguments).env("RELAY_PORT", "4000");
        let address = format!("(http://localhost:{port})");
        prompt.assert().code(0).stdout(contains(address)).stderr("");
    }
    for subcommand in [vec!["serve"], vec!["mcp"], vec!["prompt", "pm"]] {
        let mut bad = relay(&subcommand);
        bad.env("RELAY_PORT", "tcp://x");
        let told =
            contains("invalid value 'tcp://x' for '--port <PORT>': a port is a number from 1 to 65535");
        bad.assert().code(2).stdout("").stderr(told);
    }
}

#[test]
fn an_unknown_role_is_named_with_those_there_are() {
    let named = contains("unknown role \"qa\"; known roles: pm, dev-a, dev-b (name others with --roles)");
    relay(&["prompt", "qa"]).assert().code(2).stdout("").stderr(named);
    let missing = contains("<ROLE>").and(contains("required"));
    relay(&["prompt"]).assert().code(2).stdout("").stderr(missing);
}

#[test]
fn a_prompt_follows_the_roster_and_the_host() {
    let own = contains("read_messages(for=\"qa\")")
        .and(contains("the names are `pm`, `dev-a`, `dev-b` and `qa`"))
        .and(contains("(http://192.0.2.7:4000)"));
    let roles = "--roles=pm, dev-a,dev-b,qa";
    relay(&["prompt", "qa", roles, "--host=192.0.2.7", "--port=4000"])
        .assert()
        .code(0)
        .stdout(own)
        .stderr("");
}

#[test]
fn a_roster_that_is_no_lift_is_named_with_what_is_accepted() {
    for roles in ["dev-a,dev-b", "pm"] {
        let role = roles.split(',').next().expect("a role");
        let accepted = "make no lift; accepted: pm and at least one more, such as pm,dev-a";
        relay(&["prompt", role, "--roles", roles])
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(accepted));
    }
}
