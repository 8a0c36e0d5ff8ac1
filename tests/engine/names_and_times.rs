//! Names, rosters, kinds, ids and times, as they are taken and as they are written.

use super::*;

#[test]
fn a_name_has_1_to_32_plain_characters_and_starts_with_a_letter_or_a_digit() {
    let longest = "a".repeat(32);
    for good in [
        "a", "0", "dev-a", "9_-", "Alice", "lead", "dev.a", "a..b", &longest,
    ] {
        assert_eq!(AgentName::new(good).unwrap().as_str(), good);
    }
    let too_long = "a".repeat(33);
    for bad in [
        "", "-a", "_a", "dev a", ".a", "..", "a.", "a/b", "a\u{e9}", "\u{e9}", "a:b", &too_long,
    ] {
        let error = AgentName::new(bad).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "invalid role name {bad:?}; a name has 1 to 32 of A-Z, a-z, 0-9, -, _ and ., starts with a letter or a digit, and does not end with a dot"
            )
        );
    }
    // A project is a directory, and a channel one word in a text.
    assert!(AgentName::in_project("web.a", "pm").is_err());
    assert!(ChannelName::new("build.a").is_err());
    assert!(GroupName::new("crew.a").is_ok() && Role::new("dev.a").is_ok());
    for taken in ["everyone", "agent"] {
        let error = AgentName::new(taken).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "role name {taken:?} is taken: it means something else in an address; accepted: any other name"
            )
        );
    }
}

#[test]
fn a_roster_keeps_the_order_of_its_names() {
    let roster = Roster::new(["qa", "pm", "dev-a"]).unwrap();
    assert_eq!(roster.names(), [name("qa"), name("pm"), name("dev-a")]);
    assert_eq!(roster.to_string(), "qa, pm, dev-a");
    assert_eq!(Roster::default().to_string(), "pm, dev-a, dev-b");
    assert_eq!(roster.find("pm"), Some(&name("pm")));
    assert_eq!(roster.find("dev"), None);
}

#[test]
fn a_roster_names_each_role_once() {
    let twice = Roster::new(["pm", "dev-a", "pm"]).unwrap_err();
    assert_eq!(
        twice,
        InvalidRoster::Twice {
            name: "pm".to_owned()
        }
    );
    assert_eq!(
        twice.to_string(),
        "role \"pm\" is named twice; each role is named once"
    );
}

#[test]
fn a_roster_takes_only_names() {
    let error = Roster::new(["pm", ""]).unwrap_err();
    let InvalidRoster::Name(invalid @ InvalidName::Form { name, .. }) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(name, "");
    assert_eq!(error.to_string(), invalid.to_string());
}

/// So many names of so many bytes each.
fn roster_of(count: usize, bytes: usize) -> Result<Roster, InvalidRoster> {
    let names: Vec<String> = (0..count).map(|n| format!("{n:0>bytes$}")).collect();
    Roster::new(names.iter().map(String::as_str))
}

#[test]
fn a_roster_holds_32_names_and_not_one_more() {
    assert_eq!(roster_of(32, 2).unwrap().names().len(), 32);
    let too_many = InvalidRoster::TooMany {
        count: 33,
        bytes: 165,
    };
    assert_eq!(roster_of(33, 2), Err(too_many));
}

#[test]
fn a_roster_holds_440_bytes_and_not_one_more() {
    assert!(roster_of(11, 32).is_ok());
    assert!(roster_of(22, 17).is_ok(), "22 names of 17 and 3 bytes are 440");
    let mut names: Vec<String> = (0..22).map(|n| format!("{n:0>17}")).collect();
    names[0].push('a');
    let error = Roster::new(names.iter().map(String::as_str)).unwrap_err();
    let too_many = InvalidRoster::TooMany {
        count: 22,
        bytes: 441,
    };
    assert_eq!(error, too_many);
    assert_eq!(
        error.to_string(),
        "22 roles with 441 bytes of names are too many; accepted: at most 32 roles and 440 bytes, counting three more bytes for each name"
    );
}

#[test]
fn a_moment_is_written_as_iso_8601_in_utc_with_milliseconds() {
    assert_eq!(START.to_string(), "2026-05-02T14:30:00.000Z");
    assert_eq!(START.plus_millis(7).to_string(), "2026-05-02T14:30:00.007Z");
    let never = Timestamp::from_millis(i64::MAX);
    assert_eq!(never.to_string(), format!("{} ms since 1970", i64::MAX));
    assert_eq!(START.plus_millis(7).as_millis(), START.as_millis() + 7);
}

#[test]
fn each_kind_has_its_word() {
    let words = ["status", "question", "directive", "free"];
    for (kind, word) in Kind::ALL.into_iter().zip(words) {
        assert_eq!(kind.as_str(), word);
        assert_eq!(kind.to_string(), word);
        assert_eq!(Kind::parse(word), Some(kind));
    }
    assert_eq!(Kind::parse("Status"), None);
    assert_eq!(Kind::parse(""), None);
}

#[test]
fn an_id_is_written_as_a_uuid() {
    assert_eq!(
        MessageId(id(0xab)).to_string(),
        "abababab-abab-4bab-abab-abababababab"
    );
}
