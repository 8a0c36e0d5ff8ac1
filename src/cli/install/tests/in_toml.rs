//! The same of a file of TOML, as Codex has one.

use super::*;

#[test]
fn relays_table_goes_in_at_the_end_and_comes_out_wherever_it_is() {
    let content = Content::Toml("mcp_servers");
    let entry = |url: &str| Parts {
        server: Some(Json::object([("url", Json::text(url))])),
        ..Parts::default()
    };
    let relay = "[mcp_servers.relay]\nurl = \"u\"\n";
    for (old, new) in [
        ("", relay.to_owned()),
        ("a = 1 # one\n", format!("a = 1 # one\n\n{relay}")),
        (
            "\t[ mcp_servers . b ]\nurl='x'\n\n\n# end\n",
            format!("\t[ mcp_servers . b ]\nurl='x'\n\n\n# end\n\n{relay}"),
        ),
        (
            "[[x]]\na = \"\"\"\n[mcp_servers.relay]\n\"\"\"\n",
            format!("[[x]]\na = \"\"\"\n[mcp_servers.relay]\n\"\"\"\n\n{relay}"),
        ),
    ] {
        for breaks in ["\n", "\r\n"] {
            let [old, new] = [old, &new].map(|text| text.replace('\n', breaks));
            let breaks = if old.is_empty() { "\n" } else { breaks };
            let new = if old.is_empty() { relay.to_owned() } else { new };
            assert_eq!(content.with(&old, &entry("u")), Ok(new.clone()));
            assert_eq!(content.with(&new, &entry("u")), Ok(new.clone()));
            let moved = new.replace("url = \"u\"", "url = \"v\"");
            assert_eq!(content.with(&new, &entry("v")), Ok(moved));
            assert_eq!(without(content, &new, Some(&old)), Ok(Some(old.clone())));
            let more = format!(
                "{breaks}[mcp_servers.relay.env]{breaks}A = \"b\" # c{breaks}# of the next{breaks}[z]{breaks}b = 2{breaks}"
            );
            let left = format!("{old}# of the next{breaks}[z]{breaks}b = 2{breaks}");
            assert_eq!(
                without(content, &format!("{new}{more}"), Some(&old)),
                Ok(Some(left))
            );
        }
    }
    assert_eq!(without(content, relay, None), Ok(None));
    let unended = content.with("a = 1", &entry("u"));
    assert_eq!(unended, Ok(format!("a = 1\n\n{relay}")));
}

#[test]
fn servers_of_which_there_are_none_become_a_table() {
    let content = Content::Toml("mcp_servers");
    let wanted = Parts {
        server: Some(Json::object([("url", Json::text("u"))])),
        ..Parts::default()
    };
    let relay = "[mcp_servers.relay]\nurl = \"u\"\n";
    for (old, new) in [
        ("mcp_servers = {}\n", relay.to_owned()),
        ("a = 1\nmcp_servers={ }\n[b]\n", format!("a = 1\n[b]\n\n{relay}")),
        (
            "a = 1\n  mcp_servers = {} # none\n",
            format!("a = 1\n   # none\n\n{relay}"),
        ),
    ] {
        for breaks in ["\n", "\r\n"] {
            let [old, new] = [old, &new].map(|text| text.replace('\n', breaks));
            assert_eq!(content.with(&old, &wanted), Ok(new.clone()), "{old}");
            assert_eq!(content.with(&new, &wanted), Ok(new), "{old}");
        }
    }
}

#[test]
fn what_is_a_persons_in_relays_table_stays() {
    let content = Content::Toml("mcp_servers");
    let old =
        "[mcp_servers.relay]\nurl = \"old\" # mine\nenabled = false\n\n[mcp_servers.relay.tools]\na = 1\n";
    let there = content.parts(old).expect("it is TOML");
    let mut wanted = there.clone();
    if let Some(Json::Object(members)) = &mut wanted.server {
        members[0].1 = Json::text("new");
    }
    let new = old.replace("\"old\"", "\"new\"");
    assert_eq!(content.with(old, &wanted), Ok(new));
    let command = Parts {
        server: Some(Json::object([
            ("command", Json::text("relay")),
            ("args", Json::List(vec![Json::text("mcp")])),
            ("tools", Json::object([("a", Json::Plain("1".to_owned()))])),
        ])),
        ..Parts::default()
    };
    let new =
        "[mcp_servers.relay]\ncommand = \"relay\"\nargs = [\"mcp\"]\n\n[mcp_servers.relay.tools]\na = 1\n";
    assert_eq!(content.with(old, &command), Ok(new.to_owned()));
}

#[test]
fn what_is_not_wanted_goes_however_it_is_written() {
    let content = Content::Toml("mcp_servers");
    let wanted = |members: Vec<(&str, Json)>| Parts {
        server: Some(Json::Object(
            members
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )),
        ..Parts::default()
    };
    let url = || vec![("url", Json::text("u"))];
    let (head, next) = ("[mcp_servers.relay]\nurl = \"u\"\n", "\n[z] # next\nb = 2\n");
    for (before, behind) in [
        ("env = { A = \"b\" }\n", ""),
        ("env.A = \"b\" # c\nenv.B = \"c\"\n", ""),
        ("args = [\n  \"a\", # one\n  \"b\",\n]\n", ""),
        ("", "\n[mcp_servers.relay.env]\nA = \"b\"\nB.C = \"d\"\n"),
        ("", "[mcp_servers.relay.env]\n"),
        (
            "",
            "\n\n[mcp_servers.relay.x.y]\nA = \"b\"\n\n[mcp_servers.relay.x.z]\n",
        ),
        (
            "",
            "\n[[mcp_servers.relay.x]]\nA = 1\n\n[[mcp_servers.relay.x]]\nA = 2\n",
        ),
        (
            "command = \"x\"\n",
            "\n[mcp_servers.relay.http_headers]\nA = \"b\"\n\n[mcp_servers.relay.env]\nA = \"b\"\n",
        ),
    ] {
        for breaks in ["\n", "\r\n"] {
            let old = format!("{head}{before}{behind}{next}").replace('\n', breaks);
            let left = content.with(&old, &wanted(url())).expect("it can be changed");
            let blank = if behind.starts_with("\n\n") { "\n" } else { "" };
            let expected = format!("{head}{blank}{next}").replace('\n', breaks);
            assert_eq!(left, expected, "{old}");
        }
    }
    // Where there is no head, there is one behind all else: what is kept stays where it is.
    let tools = "[mcp_servers.relay.tools.x]\na = \"b\"\n";
    let old = format!("[mcp_servers.relay.env]\nA = \"b\"\n\n{tools}{next}");
    let mut with_tools = url();
    let x = Json::object([("a", Json::text("b"))]);
    with_tools.push(("tools", Json::object([("x", x)])));
    let new = format!("\n{tools}{next}\n[mcp_servers.relay]\nurl = \"u\"\n");
    assert_eq!(content.with(&old, &wanted(with_tools)), Ok(new.clone()));
    assert_eq!(
        without(content, &new, None),
        Ok(Some(next.to_owned())),
        "with all that is below it"
    );
    // What is to be there otherwise is written anew, also where it was a table of its own.
    let old = format!("{head}\n[mcp_servers.relay.http_headers]\nA = \"b\"\n{next}");
    let mut headers = url();
    headers.push(("http_headers", Json::object([("A", Json::text("c"))])));
    let new = format!("[mcp_servers.relay]\nhttp_headers = {{ A = \"c\" }}\nurl = \"u\"\n{next}");
    assert_eq!(content.with(&old, &wanted(headers)), Ok(new));
}

#[test]
fn relays_table_may_end_the_file_with_its_head_and_takes_its_arrays_of_tables_along() {
    let content = Content::Toml("mcp_servers");
    let wanted = Parts {
        server: Some(Json::object([("url", Json::text("u"))])),
        ..Parts::default()
    };
    for head in ["[mcp_servers.relay]", "[mcp_servers.relay] # mine"] {
        let new = format!("{head}\nurl = \"u\"\n");
        assert_eq!(content.with(head, &wanted), Ok(new));
    }
    let (before, behind) = ("a = 1\n", "\n[z]\nb = 2\n");
    let tables = "\n[[mcp_servers.relay.x]]\nA = 1\n\n[[mcp_servers.relay.x]]\nA = 2\n";
    let text = format!("{before}\n[mcp_servers.relay]\nurl = \"u\"\n{tables}{behind}");
    let left = format!("{before}{behind}");
    assert_eq!(without(content, &text, Some(before)), Ok(Some(left)));
}
