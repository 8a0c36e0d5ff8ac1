//! Going back to messages: who is shown one, and what is said about it.

use relay::engine::limits::EMOJI_BYTES_MAX;
use relay::engine::receipts::{self, Receipt};
use relay::engine::records::{Command as Asked, Of, Range, Reaction, Record, Refusal as No, Reply as Answer};
use relay::engine::trace::ShownTo;
use relay::engine::{News, Told};

use super::nodes::{ANY, FIRST, NODE, PERSON};
use super::*;

/// Sessions that speak for one agent each.
const PM: SessionId = SessionId(20);
const DEV_A: SessionId = SessionId(21);
const DEV_B: SessionId = SessionId(22);

impl Relay {
    fn with_speakers(mut self) -> Self {
        for (session, agent) in [(PM, "pm"), (DEV_A, "dev-a"), (DEV_B, "dev-b")] {
            self.open(session, Carrier::Exchange, Some(agent));
        }
        self.events();
        self
    }

    fn answer(&mut self, session: SessionId, command: Asked) -> Result<Answer, Refusal> {
        let effects = self.call(session, ANY, command.into());
        answer_of(effects)
    }

    fn mark(&mut self, session: SessionId, n: u8) -> Result<Timestamp, Refusal> {
        let message = id(n).to_string();
        let answer = self.answer(session, Asked::Mark { message })?;
        let Answer::Marked { at, .. } = answer else {
            panic!("{answer:?}");
        };
        Ok(at)
    }

    fn shows(&mut self, n: u8, shown_to: ShownTo) -> Result<Record, Refusal> {
        let message = id(n).to_string();
        let answer = self.answer(PERSON, Asked::Get { message, shown_to })?;
        let Answer::Shown(record) = answer else {
            panic!("{answer:?}");
        };
        Ok(*record)
    }

    fn finds(&mut self, of: Of, range: Range) -> Result<Vec<MessageId>, Refusal> {
        let shown_to = ShownTo::Person;
        let range = Box::new(range);
        let answer = self.answer(PERSON, Asked::List { of, range, shown_to })?;
        let Answer::Listed(records) = answer else {
            panic!("{answer:?}");
        };
        Ok(records.iter().map(|record| record.message.id).collect())
    }
}

fn answer_of(effects: Vec<Effect>) -> Result<Answer, Refusal> {
    let mut answers = effects.into_iter().filter_map(|effect| match effect {
        Effect::Reply { result, .. } => Some(result),
        Effect::Opened { .. }
        | Effect::Changed { .. }
        | Effect::Deliver { .. }
        | Effect::Tell { .. }
        | Effect::Invoke { .. }
        | Effect::Superseded { .. }
        | Effect::StartWorker(_)
        | Effect::EndWorker { .. }
        | Effect::Note(_) => None,
    });
    let reply = answers.next().expect("an answer")?;
    let Reply::Records(answer) = reply else {
        panic!("{reply:?}");
    };
    Ok(answer)
}

fn told(effects: &[Effect]) -> Vec<(SessionId, &Told)> {
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Tell { session, told } => Some((*session, &**told)),
        Effect::Opened { .. }
        | Effect::Reply { .. }
        | Effect::Changed { .. }
        | Effect::Deliver { .. }
        | Effect::Superseded { .. }
        | Effect::StartWorker(_)
        | Effect::EndWorker { .. }
        | Effect::Invoke { .. }
        | Effect::Note(_) => None,
    });
    told.collect()
}

fn react(n: u8, emoji: &str, given: bool) -> Asked {
    Asked::React {
        message: id(n).to_string(),
        emoji: emoji.to_owned(),
        given,
    }
}

fn unknown(n: u8) -> Refusal {
    let given = id(n).to_string();
    Refusal::Records(No::Unknown { given })
}

fn all() -> Range {
    Range {
        before: None,
        after: None,
        limit: 100,
    }
}

fn as_agent(agent: &str) -> ShownTo {
    ShownTo::Agent(name(agent))
}

fn relay() -> Relay {
    let mut relay = Relay::told();
    relay.open_for_person(PERSON);
    relay.with_speakers()
}

#[test]
fn a_direct_message_is_shown_to_both_ends_and_to_no_other_agent() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    for shown_to in [as_agent("pm"), as_agent("dev-a"), ShownTo::Person] {
        assert_eq!(
            relay.shows(1, shown_to).map(|record| record.message),
            Ok(Arc::clone(&nth(1).message))
        );
    }
    assert_eq!(relay.shows(1, as_agent("dev-b")), Err(unknown(1)));
    let elsewhere = ShownTo::Project("web".to_owned());
    assert_eq!(relay.shows(1, elsewhere), Err(unknown(1)));
    assert_eq!(relay.mark(DEV_B, 1), Err(unknown(1)));
}

#[test]
fn only_the_person_goes_back_in_anothers_stead() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    let message = id(1).to_string();
    let shown_to = as_agent("pm");
    let refused = relay.answer(DEV_B, Asked::Get { message, shown_to });
    assert_eq!(refused, Err(Refusal::Records(No::OnlyThePerson)));
}

#[test]
fn a_mark_takes_nothing_out_of_the_inbox_and_is_made_once() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    relay.now = START.plus_millis(10);
    assert_eq!(relay.mark(DEV_A, 1), Ok(relay.now));
    relay.now = START.plus_millis(20);
    assert_eq!(relay.mark(DEV_A, 1), Ok(START.plus_millis(10)));
    assert_eq!(
        relay.mark(PM, 1),
        Ok(START),
        "its own it has read when it sent it"
    );
    let readers = relay.shows(1, ShownTo::Person).expect("it is shown").readers;
    assert_eq!(readers, [(name("dev-a"), START.plus_millis(10))]);
    assert_eq!(relay.engine.status().pending[1], (name("dev-a"), 1));
}

#[test]
fn who_is_known_to_have_got_a_message_has_read_it() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    relay.call(DEV_A, 2, read("dev-a"));
    assert_eq!(relay.shows(1, ShownTo::Person).expect("it is shown").readers, []);
    relay.passed(2);
    relay.timeout_at(DOUBT_MS);
    let readers = relay.shows(1, ShownTo::Person).expect("it is shown").readers;
    assert_eq!(readers, [(name("dev-a"), START.plus_millis(DOUBT_MS))]);
    assert_eq!(relay.mark(DEV_A, 1), Ok(START.plus_millis(DOUBT_MS)));
}

#[test]
fn what_was_read_and_cancelled_all_the_same_has_no_reader() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    relay.call(A, 2, read("dev-a"));
    relay.passed(2);
    relay.now = START.plus_millis(10);
    relay.call(A, 3, look("pm"));
    let readers = relay.shows(1, ShownTo::Person).expect("it is shown").readers;
    assert_eq!(readers, [(name("dev-a"), relay.now)]);
    relay.cancelled(2);
    assert_eq!(relay.shows(1, ShownTo::Person).expect("it is shown").readers, []);
}

#[test]
fn a_reaction_is_there_once_until_it_is_taken_back() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    for _ in 0..2 {
        relay
            .answer(DEV_A, react(1, ":eyes:", true))
            .expect("it is shown");
    }
    relay.answer(PM, react(1, ":eyes:", true)).expect("it is its own");
    relay.answer(PM, react(1, "+1", true)).expect("it is its own");
    let one = |emoji: &str, agents: &[&str]| Reaction {
        emoji: emoji.into(),
        agents: agents.iter().map(|agent| (name(agent), START)).collect(),
    };
    let reactions = relay.shows(1, ShownTo::Person).expect("it is shown").reactions;
    assert_eq!(reactions, [one(":eyes:", &["dev-a", "pm"]), one("+1", &["pm"])]);
    for _ in 0..2 {
        relay
            .answer(PM, react(1, "+1", false))
            .expect("whether it is there or not");
    }
    let reactions = relay.shows(1, ShownTo::Person).expect("it is shown").reactions;
    assert_eq!(reactions, [one(":eyes:", &["dev-a", "pm"])]);
}

#[test]
fn nothing_is_shown_by_what_is_no_emoji() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    let long = "x".repeat(EMOJI_BYTES_MAX);
    assert!(relay.answer(DEV_A, react(1, &long, true)).is_ok());
    for emoji in ["", "a\nb", "a b", "\u{200b}", "\u{202e}x", &format!("{long}x")] {
        let given = relay::engine::shown(emoji);
        let refused = Refusal::Records(No::InvalidEmoji { given });
        assert_eq!(relay.answer(DEV_A, react(1, emoji, true)), Err(refused));
    }
}

#[test]
fn a_message_has_so_many_reactions_and_pushes_nothing_out_by_them() {
    let mut relay = relay();
    relay.post(B, 1, &nth(1));
    for emoji in ["1", "2"] {
        relay.answer(DEV_A, react(1, emoji, true)).expect("there is room");
    }
    relay.answer(PM, react(1, "1", true)).expect("there is room");
    let full = Refusal::Records(No::TooManyReactions { reactions: 3 });
    assert_eq!(relay.answer(PM, react(1, "2", true)), Err(full));
    assert!(relay.answer(PM, react(1, "1", true)).is_ok(), "it is there");
    for given in [false, true].into_iter().cycle().take(4 * ROOMY.trace_max) {
        relay.answer(PM, react(1, "1", given)).expect("there is room");
    }
    let record = relay.shows(1, ShownTo::Person).expect("it is not forgotten");
    assert_eq!(record.reactions.len(), 2);
}

#[test]
fn the_nodes_of_those_whom_it_concerns_are_told_once() {
    let mut relay = Relay::with_node().with_speakers();
    relay.bind(FIRST, "pm");
    relay.post(B, 1, &nth(1));
    let effects = relay.call(DEV_A, 2, react(1, ":eyes:", true).into());
    let news = |to: &str, news: News| Told {
        agent: name(to),
        at: START,
        news,
    };
    let message = || Arc::clone(&nth(1).message);
    let emoji = || Arc::from(":eyes:");
    let given = |by: &str, given| News::Reacted {
        message: message(),
        by: name(by),
        emoji: emoji(),
        given,
    };
    assert_eq!(
        told(&effects),
        [(NODE, &news("pm", given("dev-a", true)))],
        "not itself"
    );
    let again = relay.call(DEV_A, 3, react(1, ":eyes:", true).into());
    assert_eq!(told(&again), []);
    let back = relay.call(DEV_A, 4, react(1, ":eyes:", false).into());
    assert_eq!(told(&back), [(NODE, &news("pm", given("dev-a", false)))]);
    let own = relay.call(PM, 5, react(1, ":eyes:", true).into());
    assert_eq!(told(&own), [(NODE, &news("dev-a", given("pm", true)))]);
    let given = id(1).to_string();
    let marked = relay.call(DEV_A, 6, Asked::Mark { message: given }.into());
    let read = News::Read {
        message: message(),
        by: name("dev-a"),
    };
    assert_eq!(told(&marked), [(NODE, &news("pm", read))]);
}

#[test]
fn a_channel_is_open_to_all_of_its_project() {
    let mut relay = relay();
    relay.call(B, 1, post(Some("pm"), "#ops", "all stop"));
    for shown_to in [as_agent("dev-b"), ShownTo::Project("default".to_owned())] {
        assert!(relay.shows(1, shown_to).is_ok());
    }
    let elsewhere = AgentName::in_project("web", "dev-b").expect("a good name");
    assert_eq!(relay.shows(1, ShownTo::Agent(elsewhere)), Err(unknown(1)));
    assert!(relay.mark(DEV_B, 1).is_ok());
}

#[test]
fn a_list_has_the_newest_first_within_its_range() {
    let mut relay = relay();
    for n in 1..=5 {
        relay.post(B, u64::from(n), &nth(n));
    }
    let ids = |numbers: &[u8]| numbers.iter().map(|n| MessageId(id(*n))).collect::<Vec<_>>();
    assert_eq!(relay.finds(Of::All, all()), Ok(ids(&[5, 4, 3, 2, 1])));
    let range = Range {
        before: Some(id(5).to_string()),
        after: Some(id(1).to_string()),
        limit: 2,
    };
    assert_eq!(relay.finds(Of::All, range.clone()), Ok(ids(&[4, 3])));
    let between = Range { limit: 100, ..range };
    assert_eq!(relay.finds(Of::All, between), Ok(ids(&[4, 3, 2])));
    assert_eq!(relay.finds(Of::Sender(name("dev-a")), all()), Ok(Vec::new()));
    let ends = |one: &str, other: &str| Of::Between(one.to_owned(), other.to_owned());
    assert_eq!(relay.finds(ends("dev-a", "pm"), all()), Ok(ids(&[5, 4, 3, 2, 1])));
    assert_eq!(relay.finds(ends("dev-b", "pm"), all()), Ok(Vec::new()));
    let range = Range {
        before: Some("nonsense".to_owned()),
        ..all()
    };
    let given = "nonsense".to_owned();
    assert_eq!(
        relay.finds(Of::All, range),
        Err(Refusal::Records(No::Unknown { given }))
    );
}

#[test]
fn replies_stand_behind_their_message_and_not_in_the_channel() {
    let mut relay = relay();
    relay.call(DEV_A, 1, read("dev-a"));
    relay.call(B, 2, post(Some("pm"), "#general", "ready?"));
    let options = mail::PostOptions {
        reply_to: Some(id(1).to_string()),
        ..mail::PostOptions::default()
    };
    let answer = Command::Mail(mail::Command::Post {
        from: None,
        to: "#general".to_owned(),
        kind: Kind::Free,
        body: "yes".to_owned(),
        options: Some(Box::new(options)),
    });
    relay.call(DEV_A, 3, answer);
    let general = Of::Channel("#general".to_owned());
    let [asked, answered] = [1, 2].map(|n| MessageId(id(n)));
    assert_eq!(relay.finds(general, all()), Ok(vec![asked]));
    let replies = Of::Replies(id(1).to_string());
    assert_eq!(relay.finds(replies, all()), Ok(vec![answered]));
    assert_eq!(
        relay.shows(1, ShownTo::Person).map(|record| record.replies),
        Ok(1)
    );
    assert_eq!(relay.finds(Of::Replies(id(2).to_string()), all()), Ok(Vec::new()));
}

#[test]
fn what_is_forgotten_by_its_bytes_is_not_found() {
    let mut relay = Relay::told_within(Bounds {
        trace_bytes_max: 5,
        ..ROOMY
    });
    relay.open_for_person(PERSON);
    relay.call(B, 1, post(Some("pm"), "dev-a", "aaa"));
    relay.call(B, 2, post(Some("pm"), "dev-a", "bb"));
    assert!(relay.shows(1, ShownTo::Person).is_ok(), "as many as may be");
    relay.call(B, 3, post(Some("pm"), "dev-a", "c"));
    assert_eq!(relay.shows(1, ShownTo::Person), Err(unknown(1)));
    assert!(relay.shows(2, ShownTo::Person).is_ok());
    relay.call(B, 4, post(Some("pm"), "dev-a", "longer than all of it"));
    assert_eq!(relay.finds(Of::All, all()), Ok(Vec::new()));
}

#[test]
fn a_name_is_mentioned_as_a_word_of_its_own() {
    let mentioned = |body: &str| {
        let message = Message {
            body: body.to_owned(),
            ..Message::clone(&nth(1).message)
        };
        message.mentions().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(mentioned("@dev-a, and (@pm): @dev_b"), ["dev-a", "pm", "dev_b"]);
    assert_eq!(mentioned("mail pm@dev-a or \\@pm, @ nobody, a@@b"), ["b"]);
    assert_eq!(mentioned("@@pm"), ["pm"]);
    assert_eq!(
        mentioned("@dev.a, @qa. @web:dev.a... @.pm"),
        ["dev.a", "qa", "web:dev.a"]
    );
    assert_eq!(mentioned("@pm@dev-a"), ["pm"]);
    assert_eq!(mentioned("@web:pm, @pm: look, @:pm"), ["web:pm", "pm"]);
    let asks = |body: &str, agent: &AgentName| {
        let message = Message {
            body: body.to_owned(),
            ..Message::clone(&nth(1).message)
        };
        message.mentions_agent(agent)
    };
    let elsewhere = AgentName::in_project("web", "pm").expect("a good name");
    assert!(asks("@pm", &elsewhere) && asks("@web:pm", &elsewhere) && asks("@default:pm", &name("pm")));
    assert!(!asks("@web:pm", &name("pm")) && !asks("@pm-2", &name("pm")));
    assert_eq!(mentioned(""), [""; 0]);
}

#[test]
fn each_of_several_readers_stands_where_it_read_first() {
    let mut relay = relay();
    relay.call(A, 1, post(Some("pm"), "*", "to all"));
    let readers = |relay: &mut Relay| relay.shows(1, ShownTo::Person).expect("it is shown").readers;
    relay.now = START.plus_millis(10);
    relay.mark(DEV_B, 1).expect("it is its own");
    relay.now = START.plus_millis(20);
    relay.mark(DEV_A, 1).expect("it is its own");
    let both = [
        (name("dev-b"), START.plus_millis(10)),
        (name("dev-a"), START.plus_millis(20)),
    ];
    assert_eq!(readers(&mut relay), both);
    // It gets what it marked.
    relay.now = START.plus_millis(30);
    relay.call(A, 2, read("dev-b"));
    relay.passed(2);
    relay.call(A, 3, look("pm"));
    relay.settle();
    assert_eq!(readers(&mut relay), both);
}

#[test]
fn what_its_agent_could_not_handle_has_no_reader() {
    let mut relay = Relay::with_node().with_speakers();
    relay.post(B, 1, &nth(1));
    let receipt = Receipt::Failed {
        reason: None,
        retryable: false,
    };
    let message = id(1).to_string();
    relay.call(
        DEV_A,
        2,
        receipts::Command::Give {
            message,
            receipt,
            metadata: None,
        }
        .into(),
    );
    assert!(
        relay
            .events()
            .iter()
            .any(|event| matches!(event, Event::Confirmed { by: Sign::Failed, .. }))
    );
    assert_eq!(relay.shows(1, ShownTo::Person).expect("it is shown").readers, []);
}

#[test]
fn what_goes_to_many_is_shown_to_each_of_them_and_what_is_held_to_none_it_is_held_for() {
    let mut relay = relay();
    relay.hold("dev-a");
    relay.call(A, 1, post(Some("pm"), "*", "to all"));
    assert!(relay.shows(1, as_agent("dev-b")).is_ok());
    assert_eq!(relay.shows(1, as_agent("dev-a")), Err(unknown(1)));
    relay.allow(1);
    assert!(relay.shows(1, as_agent("dev-a")).is_ok());
    // What passes to one does not pass to another.
    relay.hold("dev-b");
    relay.call(A, 2, post(Some("pm"), "*", "to all"));
    relay.lift(Some("dev-b"));
    assert!(relay.shows(2, as_agent("dev-b")).is_ok());
    assert_eq!(relay.shows(2, as_agent("dev-a")), Err(unknown(2)));
}
