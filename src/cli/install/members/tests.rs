//! Which members of an entry stay, which are told of, and for which editor.

use super::super::json::{Step, get};
use super::*;

fn json(text: &str) -> Json {
    let found = get(text, &[] as &[Step<'_>]).expect("it is JSON");
    found.expect("it has a root")
}

const COMMAND: &str = r#"{"command": "relay", "args": ["mcp"]}"#;
const ADDRESS: &str = r#"{"url": "http://localhost:7331/mcp"}"#;

/// What is kept in a new entry of an old one.
fn kept(new: &str, old: &str, editor: Id) -> Json {
    let mut new = json(new);
    keep(&mut new, &json(old), editor);
    new
}

#[test]
fn of_an_old_entry_stays_what_its_editor_takes_beside_the_new_way() {
    let (url, program) = (
        r#""url": "http://localhost:7331/mcp""#,
        r#""command": "relay", "args": ["mcp"]"#,
    );
    for (new, old, expected) in [
        // Of the same way all that belongs to it, and what is not known.
        (
            ADDRESS,
            r#"{"url": "x", "headers": {"A": "b"}, "timeout": 5, "mine": 1}"#,
            format!(r#"{{{url}, "headers": {{"A": "b"}}, "timeout": 5, "mine": 1}}"#),
        ),
        (
            COMMAND,
            r#"{"command": "x", "env": {"A": "b"}, "cwd": "/", "enabled": false}"#,
            format!(r#"{{{program}, "env": {{"A": "b"}}, "cwd": "/", "enabled": false}}"#),
        ),
        // Of the other way what belongs to both.
        (
            ADDRESS,
            r#"{"command": "x", "env": {"A": "b"}, "cwd": "/", "enabled": false, "mine": 1}"#,
            format!(r#"{{{url}, "enabled": false}}"#),
        ),
        (
            COMMAND,
            r#"{"url": "x", "http_headers": {"A": "b"}, "startup_timeout_sec": 5.5, "tools": {"a": {"b": "c"}}}"#,
            format!(r#"{{{program}, "startup_timeout_sec": 5.5, "tools": {{"a": {{"b": "c"}}}}}}"#),
        ),
        // What belongs to the other way is not kept of an entry that mixes them.
        (
            COMMAND,
            r#"{"command": "x", "url": "y", "http_headers": {"A": "b"}, "oauth": true, "env": {"A": "b"}}"#,
            format!(r#"{{{program}, "env": {{"A": "b"}}}}"#),
        ),
        (
            ADDRESS,
            r#"{"url": "x", "args": ["y"], "env": {}, "environment": {}, "env_vars": [], "cwd": "/", "bearer_token": "z"}"#,
            format!("{{{url}}}"),
        ),
        // Each editor has its own word for the environment.
        (
            COMMAND,
            r#"{"command": "x", "env": {"A": "b"}, "environment": {"C": "d"}}"#,
            format!(r#"{{{program}, "env": {{"A": "b"}}}}"#),
        ),
        (
            r#"{"type": "local", "command": ["relay"]}"#,
            r#"{"command": ["x"], "env": {"A": "b"}, "environment": {"C": "d"}}"#,
            r#"{"type": "local", "command": ["relay"], "environment": {"C": "d"}}"#.to_owned(),
        ),
        // Nor what has another shape.
        (
            ADDRESS,
            r#"{"url": "x", "headers": 3, "timeout": "5", "enabled": "yes", "tools": [], "includeTools": "a"}"#,
            format!("{{{url}}}"),
        ),
        (
            COMMAND,
            r#"{"command": "x", "env": {"A": 1}}"#,
            format!("{{{program}}}"),
        ),
        // Of several values those stay that have the right one.
        (
            COMMAND,
            r#"{"command": "x", "env": {"A": 1, "RELAY_AGENT": "dev-a", "B": null}, "includeTools": ["a", 2]}"#,
            format!(r#"{{{program}, "env": {{"RELAY_AGENT": "dev-a"}}, "includeTools": ["a"]}}"#),
        ),
        (
            ADDRESS,
            r#"{"url": "x", "headers": {"A": "b", "C": true}}"#,
            format!(r#"{{{url}, "headers": {{"A": "b"}}}}"#),
        ),
        // A token is sent once.
        (
            r#"{"url": "http://localhost:7331/mcp", "headers": {"Authorization": "new"}}"#,
            r#"{"url": "x", "headers": {"authorization": "old", "A": "b"}}"#,
            format!(r#"{{{url}, "headers": {{"Authorization": "new", "A": "b"}}}}"#),
        ),
        (
            r#"{"url": "http://localhost:7331/mcp", "bearer_token_env_var": "RELAY_TOKEN"}"#,
            r#"{"url": "x", "http_headers": {"AUTHORIZATION": "old"}, "env_http_headers": {"Authorization": "B", "A": "B"}}"#,
            format!(r#"{{{url}, "bearer_token_env_var": "RELAY_TOKEN", "env_http_headers": {{"A": "B"}}}}"#),
        ),
    ] {
        let kept = kept(new, old, Id::Claude);
        assert!(kept.same(&json(&expected)), "{old} becomes {kept:?}");
        assert_eq!(flaws(&kept, Id::Claude), [] as [&str; 0], "{old}");
    }
}

#[test]
fn an_entry_that_its_editor_refuses_says_why() {
    for (entry, expected) in [
        (COMMAND, &[][..]),
        (ADDRESS, &[]),
        (r#"{"url": "x", "mine": [], "headers": {}}"#, &[]),
        ("3", &["it is something else than an object"]),
        (
            r#"{"command": "x", "url": "y"}"#,
            &["it has both a command and an address"],
        ),
        (
            r#"{"url": "y", "env": {"A": "b"}, "args": []}"#,
            &[
                "it has an address, and env belongs to a command",
                "it has an address, and args belongs to a command",
            ],
        ),
        (
            r#"{"command": "y", "http_headers": {"A": "b"}}"#,
            &["it has a command, and http_headers belongs to an address"],
        ),
        (
            r#"{"url": "y", "bearer_token": "x", "timeout": "5"}"#,
            &[
                "bearer_token is taken by no editor",
                "timeout is something else; accepted: a whole number above 0",
            ],
        ),
        (
            r#"{"url": "y", "bearer_token_env_var": "X", "env_http_headers": {"authorization": "Y"}}"#,
            &["it sends Authorization beside what bearer_token_env_var has sent"],
        ),
        (
            r#"{"type": "stdio", "url": "y"}"#,
            &[r#"it has an address, and type "stdio" belongs to a command"#],
        ),
        (
            r#"{"type": "local", "url": "y"}"#,
            &[r#"it has an address, and type "local" belongs to a command"#],
        ),
        (
            r#"{"type": "http", "command": "x"}"#,
            &[r#"it has a command, and type "http" belongs to an address"#],
        ),
        (
            r#"{"type": "remote", "command": ["x"]}"#,
            &[r#"it has a command, and type "remote" belongs to an address"#],
        ),
        (r#"{"type": "mine", "url": "y"}"#, &[]),
        (
            r#"{"command": "x", "environment": {}}"#,
            &["environment is what another editor calls it"],
        ),
        (
            r#"{"command": ["x"], "env": {}}"#,
            &["env is what another editor calls it"],
        ),
        (
            r#"{"url": "y", "environment": {}}"#,
            &["it has an address, and environment belongs to a command"],
        ),
    ] {
        assert_eq!(flaws(&json(entry), Id::Claude), expected, "{entry}");
    }
}

/// Where members belong by what their makers' documents say, what each takes, such a value and another one, and the members.
type Documented<'a> = (&'a [Way], &'a str, &'a str, &'a str, &'a [&'a str]);

const DOCUMENTED: [Documented<'_>; 16] = [
    (&[Way::Command], "a text", r#""x""#, "[]", &["envFile", "cwd"]),
    (
        &[Way::Command],
        "an object of texts",
        r#"{"A": "b"}"#,
        "3",
        &["env"],
    ),
    (&[Way::Command], "", r#"["x"]"#, "", &["env_vars"]),
    (
        &[Way::Address],
        "a text",
        r#""x""#,
        "{}",
        &[
            "headersHelper",
            TOKEN_VARIABLE,
            "authProviderType",
            "oauth_resource",
            "targetAudience",
            "targetServiceAccount",
            "tcp",
        ],
    ),
    (
        &[Way::Address],
        "an object of texts",
        r#"{"A": "b"}"#,
        r#""x""#,
        &["headers", "http_headers", "env_http_headers"],
    ),
    (
        &[Way::Address],
        "an array of texts",
        r#"["x"]"#,
        r#""x""#,
        &["scopes"],
    ),
    (&[Way::Address], "", r#"{"x": true}"#, "", &["auth", "oauth"]),
    (
        &[Way::Command, Way::Address],
        "",
        r#"{"x": true}"#,
        "",
        &["extension"],
    ),
    (
        &[Way::Command, Way::Address],
        "true or false",
        "true",
        r#""true""#,
        &[
            "enabled",
            "disabled",
            "required",
            "trust",
            "supports_parallel_tool_calls",
            "alwaysLoad",
        ],
    ),
    (
        &[Way::Command, Way::Address],
        "a text",
        r#""x""#,
        "3",
        &["description", "environment_id", "name"],
    ),
    (
        &[Way::Command, Way::Address],
        "a whole number above 0",
        "5",
        "0",
        &["timeout"],
    ),
    (
        &[Way::Command, Way::Address],
        "a whole number from 0 on",
        "0",
        "5.0",
        &["startup_timeout_ms"],
    ),
    (
        &[Way::Command, Way::Address],
        "auto, prompt, writes, approve",
        r#""prompt""#,
        r#""x""#,
        &["default_tools_approval_mode"],
    ),
    (
        &[Way::Command, Way::Address],
        "a number of seconds from 0 to 10,000,000",
        "5.5",
        "-1",
        &["startup_timeout_sec", "tool_timeout_sec"],
    ),
    (
        &[Way::Command, Way::Address],
        "an object",
        r#"{"x": {}}"#,
        "[]",
        &["tools"],
    ),
    (
        &[Way::Command, Way::Address],
        "an array of texts",
        r#"["x"]"#,
        "true",
        &[
            "enabled_tools",
            "disabled_tools",
            "includeTools",
            "excludeTools",
            "disabledTools",
            "alwaysAllow",
            "autoApprove",
        ],
    ),
];

#[test]
fn a_number_is_one_that_no_editor_refuses() {
    let (whole, count) = (Shape::Whole, Shape::Count);
    let (seconds, ms) = (Shape::Seconds, Shape::Milliseconds);
    for (shape, taken) in [
        (whole, &["1", "5.0", "1_000"][..]),
        (count, &["1", "1_000", "0x10"]),
        (seconds, &["0", "0.5", "1e7"]),
        (ms, &["0", "1_000", "0x10", "9223372036854775807"]),
    ] {
        for plain in taken {
            assert!(
                shape.is_of(&Json::Plain((*plain).to_owned()), Id::Codex),
                "{plain}"
            );
        }
    }
    for (shape, refused) in [
        (whole, &["0", "-1", "1.5", "true", "1e20", "9007199254740993"][..]),
        (count, &["0", "-1", "5000.0", "1e3"]),
        (seconds, &["-0.5", "nan", "inf", "1e30"]),
        (ms, &["-1", "5000.0", "1_0e1", "18446744073709551615", "true"]),
    ] {
        for plain in refused {
            assert!(
                !shape.is_of(&Json::Plain((*plain).to_owned()), Id::Codex),
                "{plain}"
            );
        }
    }
}

#[test]
fn what_one_editor_refuses_within_a_value_goes_and_is_named() {
    let tools = r#"{"a": {"approval_mode": "bogus", "b": 1}, "c": {"approval_mode": "auto"}, "d": 1}"#;
    let oauth = r#"{"client_id": 5, "clientId": 5, "callback_port": 5.0, "callbackPort": 70000, "x": 5}"#;
    let names =
        r#"["A", 3, {"name": "B"}, {"name": "C", "source": "bogus"}, {"x": 1}, {"name": "D", "x": 1}]"#;
    let limits = r#"{"a": {"output_token_limit": 5000.0}, "b": {"output_token_limit": 5000}, "c": {"output_token_limit": 0, "d": 1}}"#;
    for (editor, entry, key, value, left) in [
        (
            Id::Codex,
            ADDRESS,
            "tools",
            tools,
            Some(r#"{"a": {"b": 1}, "c": {"approval_mode": "auto"}}"#),
        ),
        (
            Id::Codex,
            ADDRESS,
            "tools",
            limits,
            Some(r#"{"b": {"output_token_limit": 5000}, "c": {"d": 1}}"#),
        ),
        (Id::Codex, ADDRESS, "auth", r#""x""#, None),
        (Id::Codex, ADDRESS, "auth", r#""chatgpt""#, Some(r#""chatgpt""#)),
        (Id::Codex, ADDRESS, "oauth", "1", None),
        (Id::Codex, ADDRESS, "oauth", oauth, Some(r#"{"x": 5}"#)),
        (
            Id::Codex,
            COMMAND,
            "env_vars",
            names,
            Some(r#"["A", {"name": "B"}]"#),
        ),
        (Id::Codex, COMMAND, "env_vars", "3", None),
        (Id::Opencode, ADDRESS, "oauth", "true", None),
        (Id::Opencode, ADDRESS, "oauth", "false", Some("false")),
        (Id::Opencode, ADDRESS, "oauth", oauth, Some(r#"{"x": 5}"#)),
        (Id::Gemini, ADDRESS, "oauth", "5", None),
        (Id::Gemini, ADDRESS, "authProviderType", r#""bogus""#, None),
        (Id::Gemini, ADDRESS, "name", r#""x""#, None),
        (Id::Gemini, ADDRESS, "mine", r#""x""#, None),
        (Id::Gemini, ADDRESS, "extension", r#""x""#, None),
        (
            Id::Gemini,
            ADDRESS,
            "extension",
            r#"{"name": "x"}"#,
            Some(r#"{"name": "x"}"#),
        ),
        (Id::Claude, ADDRESS, "name", r#""x""#, Some(r#""x""#)),
    ] {
        let old = format!(r#"{}, "{key}": {value}}}"#, entry.trim_end_matches('}'));
        let of_this = kept(entry, &old, editor);
        assert_eq!(of_this.get(key), left.map(json).as_ref(), "{editor:?}: {old}");
        assert_eq!(flaws(&of_this, editor), [] as [&str; 0], "{editor:?}: {old}");
        let is_flawed = left != Some(value);
        assert_eq!(
            !flaws(&json(&old), editor).is_empty(),
            is_flawed,
            "{editor:?}: {old}"
        );
    }
}

#[test]
fn of_what_codex_takes_beside_something_else_alone_that_stays_which_has_it() {
    let beside = |auth: &str, oauth: &str| {
        json(&format!(
            r#"{{"url": "http://localhost:7331/mcp", {auth} "oauth": {oauth}}}"#
        ))
    };
    let issuer = r#"{"authorization_server_issuer": "x"}"#;
    let method = |others: &str| format!(r#"{{{others} "token_endpoint_auth_method": "client_secret_post"}}"#);
    let secret = r#""client_id": "a", "client_secret": "b","#;
    let (ema, other) = (r#""auth": "ema_auth","#, r#""auth": "oauth","#);
    for (auth, oauth, left) in [
        ("", issuer.to_owned(), None),
        (other, issuer.to_owned(), None),
        (ema, issuer.to_owned(), Some(issuer.to_owned())),
        (
            "",
            method(secret),
            Some(format!("{{{}}}", secret.trim_end_matches(','))),
        ),
        (ema, method(r#""client_secret": "b","#), None),
        (
            ema,
            method(r#""client_id": "a","#),
            Some(r#"{"client_id": "a"}"#.to_owned()),
        ),
        (ema, method(secret), Some(method(secret))),
        (
            "",
            r#"{"client_secret": "b", "x": 1}"#.to_owned(),
            Some(r#"{"x": 1}"#.to_owned()),
        ),
        ("", r#"{"client_secret": ""}"#.to_owned(), None),
        (
            "",
            r#"{"client_id": "a", "client_secret": ""}"#.to_owned(),
            Some(r#"{"client_id": "a"}"#.to_owned()),
        ),
        (
            "",
            r#"{"client_id": "", "client_secret": "b"}"#.to_owned(),
            Some(r#"{"client_id": ""}"#.to_owned()),
        ),
        ("", "{}".to_owned(), Some("{}".to_owned())),
    ] {
        let old = beside(auth, &oauth);
        let mut new = json(ADDRESS);
        keep(&mut new, &old, Id::Codex);
        assert_eq!(
            new.get("oauth"),
            left.as_deref().map(json).as_ref(),
            "{auth} {oauth}"
        );
        assert_eq!(flaws(&new, Id::Codex), [] as [&str; 0], "{auth} {oauth}");
        let is_flawed = left.as_deref() != Some(oauth.as_str());
        assert_eq!(!flaws(&old, Id::Codex).is_empty(), is_flawed, "{auth} {oauth}");
        assert_eq!(
            flaws(&old, Id::Opencode),
            [] as [&str; 0],
            "another has no such rule"
        );
    }
    assert_eq!(
        flaws(&beside("", issuer), Id::Codex),
        [r#"oauth.authorization_server_issuer is taken with auth = "ema_auth" alone"#]
    );
}

#[test]
fn each_member_stays_where_its_maker_takes_it_and_is_named_elsewhere() {
    // That of OpenCode's commands is beside a list, and no editor takes the other.
    let mut seen = vec!["environment", "bearer_token"];
    let with = |entry: &str, key: &str, value: &str| {
        format!(r#"{}, "{key}": {value}}}"#, entry.trim_end_matches('}'))
    };
    for (ways, accepted, right, wrong, keys) in DOCUMENTED {
        for &key in keys {
            seen.push(key);
            for (way, entry, other) in [(Way::Command, COMMAND, ADDRESS), (Way::Address, ADDRESS, COMMAND)] {
                let (said, is_taken) = (with(entry, key, right), ways.contains(&way));
                let of_this = kept(entry, &said, Id::Claude);
                assert_eq!(of_this.get(key), is_taken.then(|| json(right)).as_ref(), "{said}");
                let of_other = kept(entry, &with(other, key, right), Id::Claude);
                assert_eq!(of_other.get(key).is_some(), ways.len() == 2, "{key} in {entry}");
                let flaw = (!is_taken).then(|| not_of(key, way));
                assert_eq!(flaws(&json(&said), Id::Claude), Vec::from_iter(flaw), "{said}");
                if !is_taken || accepted.is_empty() {
                    continue;
                }
                let said = with(entry, key, wrong);
                assert_eq!(kept(entry, &said, Id::Claude), json(entry), "{said}");
                let flaw = format!("{key} is something else; accepted: {accepted}");
                assert_eq!(flaws(&json(&said), Id::Claude), [flaw], "{said}");
            }
        }
    }
    let mut known = MEMBERS.map(|(key, _, _)| key);
    known.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, known, "all that is known is documented");
}

#[test]
fn each_type_is_named_beside_the_other_way_alone() {
    let addresses = ["sse", "http", "remote", "streamable-http", "streamableHttp", "ws"];
    for (said, _) in TYPES {
        for (way, entry) in [(Way::Command, COMMAND), (Way::Address, ADDRESS)] {
            let is_right = addresses.contains(&said) == (way == Way::Address);
            let entry = json(&entry.replacen('{', &format!(r#"{{"type": "{said}", "#), 1));
            let flaw = (!is_right).then(|| not_of(&format!("type {said:?}"), way));
            assert_eq!(flaws(&entry, Id::Claude), Vec::from_iter(flaw), "{said}");
        }
    }
}

#[test]
fn vs_code_takes_numbers_and_null_as_variables_and_others_do_not() {
    let old = r#"{"command": "x", "env": {"A": 1.5, "B": null, "C": "d", "E": true}}"#;
    for (editor, env) in [
        (Id::Vscode, r#"{"A": 1.5, "B": null, "C": "d"}"#),
        (Id::Claude, r#"{"C": "d"}"#),
    ] {
        let kept = kept(COMMAND, old, editor);
        assert_eq!(kept.get("env"), Some(&json(env)), "{editor:?}");
        assert_eq!(flaws(&kept, editor), [] as [&str; 0], "{editor:?}");
    }
    let said = |editor| flaws(&json(old), editor);
    assert_eq!(
        said(Id::Vscode),
        ["env is something else; accepted: an object of texts, numbers and null"]
    );
    assert_eq!(
        said(Id::Codex),
        ["env is something else; accepted: an object of texts"]
    );
}
