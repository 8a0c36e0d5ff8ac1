//! What is put in is taken out again, whatever a file looks like.

mod in_toml;

use super::content::Content;
use super::editors::{ALLOWED, APPROVED, ASKED, Connection, EDITORS};
use super::file::{self, FileError};
use super::json::{self, Flaw, Json};
use super::parts::{Parts, Shape};
use super::settings;

/// How many files are made up.
const FILES: u64 = 400;

/// What Gemini CLI's file may hold, and what Claude Code's two files may, in one.
const SHAPE: Shape = Shape {
    servers: Some("mcpServers"),
    listed: &[APPROVED, ALLOWED, ASKED],
    hooks: Some("hooks"),
};

fn wanted(random: &mut fastrand::Rng) -> Parts {
    let editor = &EDITORS[0];
    let port = if random.bool() { 7331 } else { 4000 };
    let connection = Connection {
        transport: editor.transports[random.usize(..editor.transports.len())],
        port,
        tools: random.bool().then(|| "thrum,lift".to_owned()),
        agent: None,
        others: Vec::new(),
        program: "relay".to_owned(),
        has_token: random.bool(),
    };
    let hooks = editor
        .hooks
        .as_ref()
        .map_or_else(Vec::new, |hooks| hooks.groups("relay", port));
    Parts {
        server: Some((editor.entry)(&connection)),
        listed: vec![APPROVED, ALLOWED, ASKED],
        hooks,
        whole: None,
    }
}

/// The name of a member, and who writes its value at which depth.
type Member = (&'static str, fn(&mut Author, usize));

/// Makes up a file of JSON as people write them, with whatever lies around relay's parts.
struct Author {
    random: fastrand::Rng,
    newline: &'static str,
    unit: &'static str,
    /// In a thousand.
    comments: u32,
    trails: bool,
    text: String,
}

impl Author {
    fn file(random: &mut fastrand::Rng) -> String {
        let newline = if random.bool() { "\n" } else { "\r\n" };
        let unit = ["  ", "\t", "   ", ""][random.usize(..4)];
        let comments = if random.bool() { 0 } else { 150 };
        let trails = random.bool();
        let mut author = Author {
            random: random.fork(),
            newline,
            unit,
            comments,
            trails,
            text: String::new(),
        };
        if author.random.u32(..20) > 0 {
            author.gap(0);
            author.root();
        }
        author.gap(0);
        if author.random.bool() {
            author.text.push_str(author.newline);
        }
        author.text
    }

    fn root(&mut self) {
        let mut members: Vec<Member> = Vec::new();
        let kinds: [Member; 6] = [
            ("mcpServers", Self::servers),
            ("hooks", Self::events),
            ("enabledMcpjsonServers", Self::names),
            ("permissions", Self::permissions),
            ("a \\\"quoted\\\" key", Self::anything),
            ("model", Self::anything),
        ];
        for kind in kinds {
            if self.random.u32(..3) > 0 {
                members.push(kind);
            }
        }
        self.random.shuffle(&mut members);
        self.object(0, &members);
    }

    fn servers(&mut self, depth: usize) {
        let all: [Member; 3] = [
            ("other", Self::anything),
            ("relay2", Self::anything),
            ("x", Self::anything),
        ];
        let count = self.random.usize(..4);
        self.object(depth, &all[..count]);
    }

    fn events(&mut self, depth: usize) {
        let all: [Member; 3] = [
            ("Stop", Self::groups),
            ("PreToolUse", Self::groups),
            ("SessionStart", Self::groups),
        ];
        let count = self.random.usize(..4);
        self.object(depth, &all[..count]);
    }

    fn groups(&mut self, depth: usize) {
        let count = self.random.usize(..3);
        self.list(depth, count, |author, depth| {
            author.object(
                depth,
                &[
                    ("matcher", |author, _| author.text.push_str("\"Bash\"")),
                    ("hooks", Self::handlers),
                ],
            );
        });
    }

    fn handlers(&mut self, depth: usize) {
        let count = self.random.usize(..3);
        self.list(depth, count, |author, depth| {
            author.object(
                depth,
                &[
                    ("type", |author, _| author.text.push_str("\"command\"")),
                    ("command", |author, _| {
                        author.text.push_str("\"echo relay hook // claude\"");
                    }),
                ],
            );
        });
    }

    fn names(&mut self, depth: usize) {
        let count = self.random.usize(..3);
        self.list(depth, count, |author, _| author.text.push_str("\"other\""));
    }

    fn permissions(&mut self, depth: usize) {
        let all: [Member; 4] = [
            ("deny", Self::anything),
            ("allow", Self::names),
            ("ask", Self::names),
            ("defaultMode", Self::anything),
        ];
        let (first, count) = (self.random.usize(..4), self.random.usize(..4));
        self.object(depth, &all[first..(first + count).min(4)]);
    }

    fn anything(&mut self, depth: usize) {
        match self.random.u32(..6) {
            0 => self.text.push_str("-1.5e3"),
            1 => self.text.push_str("\"/* no { comment // \\u00e9\\\\\""),
            2 => self.text.push_str("null"),
            3 if depth < 4 => {
                let count = self.random.usize(..3);
                self.list(depth, count, Self::anything);
            }
            4 if depth < 4 => self.object(depth, &[("a", Self::anything), ("b", Self::anything)]),
            _ => self.text.push_str("true"),
        }
    }

    fn object(&mut self, depth: usize, members: &[Member]) {
        self.bracketed(depth, "{}", members.len(), |author, at, depth| {
            let (key, write) = members[at];
            author.text.push_str(&format!("\"{key}\""));
            author.comment();
            author.text.push(':');
            if author.random.bool() {
                author.text.push(' ');
            }
            write(author, depth);
        });
    }

    fn list(&mut self, depth: usize, count: usize, write: fn(&mut Self, usize)) {
        self.bracketed(depth, "[]", count, |author, _, depth| write(author, depth));
    }

    fn bracketed(
        &mut self,
        depth: usize,
        brackets: &str,
        count: usize,
        write: impl Fn(&mut Self, usize, usize),
    ) {
        let is_lines = self.random.u32(..4) > 0;
        self.text.push_str(&brackets[..1]);
        for at in 0..count {
            if is_lines || at > 0 {
                self.separate(is_lines, depth + 1);
            }
            write(self, at, depth + 1);
            self.comment();
            if at + 1 < count || self.trails && self.random.bool() {
                self.text.push(',');
            }
            self.comment();
        }
        if is_lines || self.random.u32(..3) == 0 {
            self.separate(is_lines, depth);
        }
        self.text.push_str(&brackets[1..]);
    }

    fn separate(&mut self, is_lines: bool, depth: usize) {
        if is_lines {
            self.gap(depth);
        } else if self.random.bool() {
            self.text.push(' ');
        }
    }

    /// Ends the line, now and then with comments and empty lines.
    fn gap(&mut self, depth: usize) {
        let indent = self.unit.repeat(depth);
        if self.random.u32(..1000) < self.comments {
            self.text.push_str(" // a { comment, \"with\" [ things");
        }
        for _ in 0..=self.random.u32(..8) / 6 {
            self.text.push_str(self.newline);
        }
        if self.random.u32(..1000) < self.comments {
            self.text
                .push_str(&format!("{indent}// of its own{}", self.newline));
        }
        self.text.push_str(&indent);
    }

    fn comment(&mut self) {
        if self.random.u32(..1000) < self.comments {
            self.text
                .push_str([" /* here, } */", "/**/"][self.random.usize(..2)]);
        }
    }
}

/// What somebody else changes after the installation.
fn changed_by_others(text: &str, random: &mut fastrand::Rng) -> String {
    let (way, value): (&[&str], Json) = match random.u32(..5) {
        0 => (
            &["mcpServers", "later"],
            Json::object([("url", Json::text("http://localhost:1/"))]),
        ),
        1 => (&["hooks", "PreCompact"], Json::List(Vec::new())),
        2 => (&["theme"], Json::text("dark")),
        3 => (&["permissions", "deny"], Json::Plain("7".to_owned())),
        _ => {
            let group = Json::object([(
                "hooks",
                Json::List(vec![Json::object([("command", Json::text("make"))])]),
            )]);
            return json::push(text, &["hooks", "Stop"], &group).expect("it is JSON");
        }
    };
    json::set(text, way, &value).expect("it is JSON")
}

fn seeds() -> impl Iterator<Item = u64> {
    match std::env::var_os("RELAY_SEED").and_then(|seed| seed.to_str()?.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..FILES,
    }
}

/// The characters of a text that say something, without those that only lay it out and without commas at ends.
fn essence(text: &str) -> String {
    let dense: String = text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect();
    [
        "\"enabledMcpjsonServers\":[]",
        "\"allow\":[]",
        "\"ask\":[]",
        "\"permissions\":{}",
        "\"hooks\":{}",
        "\"mcpServers\":{}",
        "\"Stop\":[]",
        "\"SessionStart\":[]",
    ]
    .iter()
    .fold(dense, |dense, bare| dense.replace(bare, ""))
}

/// Takes all out that is there under relay's name.
fn without(content: Content, text: &str, before: Option<&str>) -> Result<Option<String>, Flaw> {
    content.without(text, &content.parts(text)?, before)
}

#[test]
fn whatever_a_file_looks_like_relays_parts_go_in_once_and_come_out_again() {
    for seed in seeds() {
        let mut random = fastrand::Rng::with_seed(seed);
        let old = Author::file(&mut random);
        let wanted = wanted(&mut random);
        let content = Content::Json(SHAPE);
        let told = || format!("RELAY_SEED={seed}\n{old}");
        let there = content
            .parts(&old)
            .unwrap_or_else(|flaw| panic!("{flaw} {}", told()));
        assert!(there.is_empty(), "{}", told());

        let new = content
            .with(&old, &wanted)
            .unwrap_or_else(|flaw| panic!("{flaw} {}", told()));
        let told = || format!("RELAY_SEED={seed}\n{old}\n----\n{new}");
        let found = content
            .parts(&new)
            .unwrap_or_else(|flaw| panic!("{flaw} {}", told()));
        assert!(found.same(&wanted), "{found:?} {}", told());
        assert_eq!(content.with(&new, &wanted).as_ref(), Ok(&new), "{}", told());
        // What is found there is put into the old file again, to see whether anybody has changed it.
        assert_eq!(content.with(&old, &found).as_ref(), Ok(&new), "{}", told());
        // All that was there stands there still, in its order.
        let mut rest = new.chars();
        let missing = old.chars().find(|c| !rest.any(|other| other == *c));
        assert_eq!(missing, None, "{}", told());

        // Nobody knows any more what it was.
        let left = without(content, &new, Some(&old))
            .expect("it is JSON")
            .expect("it was there");
        assert_eq!(essence(&left), essence(&old), "{}\n----\n{left}", told());
        assert_eq!(
            without(content, &left, Some(&old)),
            Ok(Some(left.clone())),
            "{}",
            told()
        );

        if let Ok(true) = json::get(&old, &[]).map(|root| root.is_some()) {
            let theirs = changed_by_others(&new, &mut random.clone());
            let left = without(content, &theirs, Some(&old))
                .expect("it is JSON")
                .expect("it was there");
            let expected = changed_by_others(&old, &mut random);
            assert_eq!(
                essence(&left),
                essence(&expected),
                "{}\n----\n{theirs}\n----\n{left}",
                told()
            );
        }
    }
}

#[test]
fn in_a_file_that_is_laid_out_as_usual_nothing_at_all_is_left() {
    let plain = "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"a\"\n    }\n  }\n}\n";
    let odd = "{\n\t// mine\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t{\"hooks\": []}, // last\n\t\t],\n\t}, // and\n\n\t// end\n}";
    let inline = "{\"mcpServers\":{\"a\":{\"url\":\"u\"}},\"permissions\":{\"allow\":[\"b\"]},\"enabledMcpjsonServers\":[\"a\"],\"hooks\":{\"Stop\":[{}]}}";
    for old in [
        plain,
        odd,
        inline,
        "{ \"theme\": \"dark\" }",
        "// nothing\n{\"a\": 1 /* b */}\n",
    ] {
        for old in [old.to_owned(), old.replace('\n', "\r\n")] {
            let wanted = wanted(&mut fastrand::Rng::with_seed(7));
            let new = Content::Json(SHAPE).with(&old, &wanted).expect("it is JSON");
            assert_ne!(new, old);
            let left = without(Content::Json(SHAPE), &new, None);
            assert_eq!(left, Ok(Some(old.clone())), "{new}");
        }
    }
}

#[test]
fn what_is_put_in_looks_like_what_is_there_and_stands_behind_its_comments() {
    let server = Parts {
        server: Some(Json::object([
            ("command", Json::text("relay")),
            ("args", Json::List(vec![Json::text("mcp")])),
        ])),
        ..Parts::default()
    };
    for (old, new) in [
        (
            "{\n   \"a\": 1 // one\n   // two\n}",
            "{\n   \"a\": 1, // one\n   \"mcpServers\": {\n      \"relay\": {\n         \"command\": \"relay\",\n         \"args\": [\"mcp\"]\n      }\n   }\n   // two\n}",
        ),
        (
            "{\n\t\"mcpServers\": {\n\t\t\"b\": {}, /* b */\n\t},\n}\n",
            "{\n\t\"mcpServers\": {\n\t\t\"b\": {}, /* b */\n\t\t\"relay\": {\n\t\t\t\"command\": \"relay\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t},\n\t},\n}\n",
        ),
        (
            "{\n  \"mcpServers\": { // none\n  }\n}",
            "{\n  \"mcpServers\": { // none\n    \"relay\": {\n      \"command\": \"relay\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}",
        ),
        (
            "{\"mcpServers\":{\"b\":{}}}",
            "{\"mcpServers\":{\"b\":{},\"relay\":{\"command\":\"relay\",\"args\":[\"mcp\"]}}}",
        ),
        (
            "{ \"a\": [1, 2] }\n",
            "{ \"a\": [1, 2], \"mcpServers\": {\"relay\": {\"command\": \"relay\", \"args\": [\"mcp\"]}} }\n",
        ),
    ] {
        for breaks in ["\n", "\r\n"] {
            let [old, new] = [old, new].map(|text| text.replace('\n', breaks));
            assert_eq!(Content::Json(SHAPE).with(&old, &server), Ok(new), "{old}");
        }
    }
}

#[test]
fn what_cannot_be_changed_is_named_with_its_place() {
    let json = Content::Json(SHAPE);
    let toml = Content::Toml("mcp_servers");
    let others = "the servers are not written as install can add one; accepted: each as a table of its own, such as [mcp_servers.NAME]; write them so, and install again";
    let table = "the servers are not written as install can change them; accepted: [mcp_servers.relay] as a table of its own; take relay's entry out of the file, and install again";
    for (content, text, line, column, reason) in [
        (
            json,
            "{\n  \"a\": 1,\n  b\n}",
            3,
            3,
            "expected string for object property",
        ),
        (
            json,
            "[]",
            1,
            1,
            "the file is something else; accepted: an object",
        ),
        (
            json,
            "{\"hooks\": 1}",
            1,
            11,
            "\"hooks\" is something else; accepted: an object",
        ),
        (
            json,
            "{\"ä\":0, \"mcpServers\": []}",
            1,
            23,
            "\"mcpServers\" is something else; accepted: an object",
        ),
        (
            json,
            "{\"permissions\": {\"allow\": 1}}",
            1,
            27,
            "\"allow\" is something else; accepted: an array",
        ),
        (
            json,
            "{\"permissions\": {\"ask\": true}}",
            1,
            25,
            "\"ask\" is something else; accepted: an array",
        ),
        (
            json,
            "{\"enabledMcpjsonServers\": {}}",
            1,
            27,
            "\"enabledMcpjsonServers\" is something else; accepted: an array",
        ),
        (
            json,
            "{\"hooks\": {},\n\"hooks\": {}}",
            2,
            1,
            "\"hooks\" is there twice; accepted: once",
        ),
        (
            json,
            "{\"hooks\": {\"Stop\": {}}}",
            1,
            20,
            "\"Stop\" is something else; accepted: an array",
        ),
        (
            toml,
            "a = 1\nb = \n",
            2,
            5,
            "string values must be quoted, expected literal string",
        ),
        (
            toml,
            "mcp_servers = 1\n",
            1,
            15,
            "\"mcp_servers\" is something else; accepted: a table",
        ),
        (toml, "mcp_servers = { a = { url = 'x' } }\n", 1, 15, others),
        (toml, "[mcp_servers]\nrelay.url = 'x'\n", 2, 1, table),
    ] {
        let wanted = wanted(&mut fastrand::Rng::with_seed(1));
        let (reason, said) = (reason.to_owned(), content.with(text, &wanted));
        assert_eq!(said, Err(Flaw { line, column, reason }), "{text}");
    }
}

#[test]
fn a_worker_has_the_hooks_that_are_installed() {
    let hooks = EDITORS[0].hooks.as_ref().expect("Claude Code has some");
    let installed: Vec<(&str, bool)> = hooks
        .events
        .iter()
        .map(|event| (event.name, event.waits))
        .collect();
    assert_eq!(installed, crate::workers::CLAUDE_HOOKS);
}

#[test]
fn a_file_that_others_have_changed_meanwhile_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp.json");
    std::fs::write(&path, "{}").expect("a file");
    let read = file::read(&path).expect("it is text").expect("it is there");
    let theirs = "{\"theirs\": 1}";
    std::fs::write(&path, theirs).expect("a file");
    for done in [
        file::write(&path, Some(&read), "{\"ours\": 1}"),
        file::write(&path, None, "{\"ours\": 1}"),
        file::remove(&path, &read),
    ] {
        assert!(matches!(done, Err(FileError::Changed { .. })), "{done:?}");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), theirs);
}

#[test]
fn a_star_in_a_rule_stands_for_anything_and_all_else_for_itself() {
    for (rule, name, is_meant) in [
        ("abc", "abc", true),
        ("ab", "abc", false),
        ("abc", "ab", false),
        ("*", "", true),
        ("a*", "a", true),
        ("*c", "abc", true),
        ("a*a", "a", false),
        ("a*c", "abcd", false),
        ("a*b*c", "a-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("a*b*b", "ab", false),
        ("a*b*b", "abb", true),
        ("a**b", "ab", true),
    ] {
        assert_eq!(settings::matches(rule, name), is_meant, "{rule} {name}");
    }
}

#[test]
fn what_is_put_into_a_text_of_comments_alone_ends_its_lines_as_they_do() {
    let server = Parts {
        server: Some(Json::object([("url", Json::text("u"))])),
        ..Parts::default()
    };
    let old = "// mine\n";
    let new = "// mine\n{\n  \"mcpServers\": {\n    \"relay\": {\n      \"url\": \"u\"\n    }\n  }\n}\n";
    for breaks in ["\n", "\r\n"] {
        let [old, new] = [old, new].map(|text| text.replace('\n', breaks));
        assert_eq!(Content::Json(SHAPE).with(&old, &server), Ok(new));
    }
}

#[test]
fn nothing_is_left_beside_a_program_that_cannot_be_put_into_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay");
    std::fs::create_dir(&path).expect("there is room");
    let error = super::file::write_program(&path, b"x").expect_err("it is a directory");
    let begins = format!("cannot write {}: ", path.display());
    assert!(error.to_string().starts_with(&begins), "{error}");
    let left = std::fs::read_dir(folder.path()).expect("it is there");
    let left: Vec<_> = left.map(|entry| entry.expect("it is there").path()).collect();
    assert_eq!(left, [path]);
}

#[test]
fn behind_a_comment_that_ends_the_text_what_is_put_in_has_a_line_of_its_own() {
    let content = Content::Json(SHAPE);
    let server = Parts {
        server: Some(Json::object([("url", Json::text("u"))])),
        ..Parts::default()
    };
    for (old, begins) in [
        ("// mine", "// mine\n{"),
        ("// mine\r\n// too", "// mine\r\n// too\r\n{"),
        ("  ", "  {"),
    ] {
        let new = content.with(old, &server).expect("it is JSON");
        assert!(new.starts_with(begins), "{new:?}");
        assert_eq!(
            content.parts(&new).map(|parts| parts.server),
            Ok(server.server.clone())
        );
    }
}
