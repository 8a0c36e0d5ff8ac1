mod keys;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::cli::top::news::{Message, Step};
use crate::cli::top::scene::{at, connected, health, id, message, said, talking, traced};

fn press(state: &mut State, keys: &[KeyCode]) {
    for key in keys {
        state.press(KeyEvent::new(*key, KeyModifiers::NONE));
    }
}

fn write(state: &mut State, text: &str) {
    for c in text.chars() {
        press(state, &[KeyCode::Char(c)]);
    }
}

fn shown(state: &State) -> Vec<String> {
    let messages = state.stream.messages().filter_map(|entry| entry.message());
    messages.map(|(message, _)| message.body.clone()).collect()
}

fn chosen(state: &State) -> String {
    let chosen = state.stream.chosen().and_then(|entry| entry.message());
    chosen.map(|(message, _)| message.id.clone()).unwrap_or_default()
}

#[test]
fn a_message_that_waits_is_told_once_also_if_its_event_comes_too() {
    let mut state = State::default();
    let waiting = Message {
        inbox: Some(("dev-a".to_owned(), Step::Waits)),
        ..message(1, "pm", "dev-a", "free", "one")
    };
    state.take(News::Connected {
        place: "127.0.0.1:7331".to_owned(),
        health: health("b-1", [0, 1, 0], 0),
        inboxes: vec![waiting],
    });
    said(
        &mut state,
        message(1, "pm", "dev-a", "free", "one"),
        &[("dev-a", Step::Waits)],
    );
    assert_eq!(shown(&state), ["one"]);
    assert_eq!(state.stream.open(), 1);
    assert_eq!(state.agents[1].waiting, 1);
}

#[test]
fn another_start_of_relay_is_another_state_and_the_same_one_goes_on() {
    let mut state = talking();
    let count = state.stream.count();
    state.take(News::Lost("the connection to relay has ended".to_owned()));
    assert!(state.link.lost.is_some());
    state.take(connected(health("b-1", [0, 0, 0], 0)));
    assert_eq!((state.link.lost.clone(), state.stream.count()), (None, count));
    press(&mut state, &[KeyCode::Enter]);
    assert!(state.open.is_some());
    state.take(connected(health("b-2", [0, 0, 0], 0)));
    assert_eq!((state.stream.count(), state.open.clone()), (0, None));
    let notes: Vec<_> = state.stream.shown().collect();
    let expected = "relay was started anew; 3 deliveries that had not arrived are gone";
    assert_eq!(
        notes[0].what,
        crate::cli::top::stream::What::Note(expected.to_owned())
    );
    assert_eq!(notes[0].at, at(0));
}

#[test]
fn what_is_handed_over_is_asked_for_where_something_is_in_doubt() {
    let mut state = talking();
    for number in 11..=30 {
        said(
            &mut state,
            message(number, "dev-b", "pm", "free", "x"),
            &[("pm", Step::Waits)],
        );
    }
    let mut asked = |in_doubt, handed_over: &[u32]| {
        for number in handed_over {
            let steps = [("pm".to_owned(), Step::HandedOver)].into();
            let text = String::new();
            let answer = Ok(Traced { text, steps });
            let id = id(*number);
            state.take(News::Traced { id, answer });
        }
        state.take(News::Health(health("b-1", [0, 1, 2], in_doubt)));
        state.wishes()
    };
    let of =
        |numbers: &[u32]| -> Vec<Wish> { numbers.iter().map(|number| Wish::Trace(id(*number))).collect() };
    assert_eq!(asked(0, &[]), []);
    assert_eq!(asked(20, &[]), of(&[11, 12, 13, 14, 15, 16, 17, 18]));
    assert_eq!(asked(20, &[11, 12, 13]), of(&[19, 20, 21, 22, 23, 24, 25, 26]));
    // All were asked about, and what is handed over is so until an event says otherwise.
    assert_eq!(asked(20, &[]), of(&[27, 28, 29, 30, 14, 15, 16, 17]));
}

#[test]
fn enter_opens_a_message_which_is_traced_anew_when_something_becomes_of_it() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Home, KeyCode::Down, KeyCode::Enter]);
    assert_eq!(state.wishes(), [Wish::Trace(id(2))]);
    state.take(News::Traced {
        id: id(1),
        answer: Err("of another one".to_owned()),
    });
    assert_eq!(state.open.as_ref().expect("it is open").trace, None);
    state.take(News::Traced {
        id: id(2),
        answer: Ok(traced()),
    });
    let open = state.open.clone().expect("it is open");
    assert_eq!(open.trace, Some(Ok(traced().text)));
    let became = |number| {
        News::Event(Event::Became {
            id: id(number),
            agent: "pm".to_owned(),
            step: Step::Read,
        })
    };
    state.take(became(3));
    assert_eq!(state.wishes(), []);
    state.take(became(2));
    assert_eq!(state.wishes(), [Wish::Trace(id(2))]);
    // It stays as it is when it is opened once more.
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!((state.wishes(), state.open.as_ref()), (Vec::new(), Some(&open)));
    // It stays open while others come, and the keys open another one.
    said(&mut state, message(8, "pm", "dev-a", "free", "more"), &[]);
    assert_eq!((chosen(&state), state.open), (id(2), Some(open)));
}

#[test]
fn a_message_is_sent_to_who_sent_the_chosen_one() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Home, KeyCode::Down]);
    write(&mut state, "sone");
    state.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT));
    state.paste("two\r\nthree");
    press(
        &mut state,
        &[KeyCode::Tab, KeyCode::Tab, KeyCode::Left, KeyCode::Tab],
    );
    press(&mut state, &[KeyCode::Enter]);
    let wishes = state.wishes();
    let [Wish::Act(action)] = wishes.as_slice() else {
        panic!("{wishes:?}");
    };
    assert_eq!(action.path(), "/api/send");
    let expected = serde_json::json!({"to": "dev-a", "kind": "directive", "body": "one\ntwo\nthree"});
    assert_eq!(action.body(), expected);
    assert_eq!(state.over, Over::Nothing);
    let answer = format!(
        r#"{{"id": "{}", "note": "nobody since 2026-05-02T14:30:00.000Z"}}"#,
        id(9)
    );
    let text = action.done(answer.as_bytes());
    let short = &id(9)[..8];
    let local = crate::cli::messages::local_time("2026-05-02T14:30:00.000Z");
    assert_eq!(text, format!("sent to dev-a ({short}); nobody since {local}"));
    // What the relay did not take is there to be changed.
    state.take(News::Done {
        action: action.clone(),
        outcome: Err("unknown role".to_owned()),
    });
    assert!(matches!(&state.over, Over::Draft(draft) if draft.body.text() == "one\ntwo\nthree"));
    assert!(state.said.as_ref().is_some_and(|said| said.is_trouble));
}

#[test]
fn what_came_of_something_is_said_for_a_while_and_what_is_under_way_until_that_is_known() {
    const SOON: Duration = Duration::from_millis(1);
    let mut state = talking();
    state.pass(Duration::from_secs(60));
    press(&mut state, &[KeyCode::Tab, KeyCode::Char('h')]);
    let said = |state: &State| state.said.as_ref().map(|said| said.text.clone());
    assert_eq!(
        (said(&state).as_deref(), state.next_change()),
        (Some("asking relay …"), None)
    );
    state.pass(Duration::from_secs(600));
    assert_eq!(said(&state).as_deref(), Some("asking relay …"));
    let done = |outcome| News::Done {
        action: Action::Hold(Some("pm".to_owned())),
        outcome,
    };
    for outcome in [Ok("it is held".to_owned()), Err("it is not".to_owned())] {
        let begun = state.now;
        state.take(done(outcome));
        assert_eq!(state.next_change(), Some(begun + SAID_FOR));
        state.pass(begun + SAID_FOR - SOON);
        assert!(state.said.is_some());
        state.pass(begun + SAID_FOR);
        assert_eq!((said(&state), state.next_change()), (None, None));
    }
}

#[test]
fn what_the_relay_did_not_take_is_kept_until_it_can_be_shown_again() {
    let mut state = talking();
    let sent = |state: &mut State, text: &str| {
        write(state, "s");
        write(state, text);
        press(state, &[KeyCode::Enter]);
        match state.wishes().pop() {
            Some(Wish::Act(action)) => action,
            wish => panic!("{wish:?}"),
        }
    };
    let (first, second) = (sent(&mut state, "one"), sent(&mut state, "two"));
    let shown = |state: &State| {
        let Over::Draft(draft) = &state.over else {
            panic!("{:?}", state.over);
        };
        let reason = state.said.as_ref().map(|said| said.text.clone());
        (draft.body.text().to_owned(), reason)
    };
    write(&mut state, "/what");
    for (action, reason) in [(first, "no"), (second, "nor that")] {
        let outcome = Err(reason.to_owned());
        state.take(News::Done { action, outcome });
    }
    write(&mut state, " is");
    assert!(matches!(&state.over, Over::Search { line, .. } if line.text() == "what is"));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(shown(&state), ("one".to_owned(), Some("no".to_owned())));
    // Neither does it end before all of it was seen.
    write(&mut state, "?");
    press(&mut state, &[KeyCode::Esc]);
    state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert_eq!(shown(&state), ("two".to_owned(), Some("nor that".to_owned())));
    press(&mut state, &[KeyCode::Esc, KeyCode::Char('y')]);
    assert_eq!((&state.over, state.is_over), (&Over::Nothing, false));
    assert_eq!(state.stream.filter().search, "what is");
}

#[test]
fn nobody_is_proposed_who_cannot_be_written_to() {
    let mut state = talking();
    for (number, from, to, proposed) in [
        (8, "relay", "dev-a", "dev-a"),
        (9, "user", "dev-b", "dev-b"),
        (10, "relay", "user", ""),
        (11, "pm", "user", "pm"),
    ] {
        said(&mut state, message(number, from, to, "status", "x"), &[]);
        write(&mut state, "s");
        assert!(
            matches!(&state.over, Over::Draft(draft) if draft.to.text() == proposed),
            "{from}"
        );
        press(&mut state, &[KeyCode::Esc]);
    }
}

#[test]
fn nothing_is_sent_that_is_empty_or_to_nobody() {
    let mut state = State::default();
    state.take(connected(health("b-1", [0, 0, 0], 0)));
    write(&mut state, "s");
    press(
        &mut state,
        &[KeyCode::Tab, KeyCode::Tab, KeyCode::Char('x'), KeyCode::Enter],
    );
    let said = |state: &State| state.said.as_ref().map(|said| said.text.clone());
    assert_eq!(said(&state).as_deref(), Some("say who gets it"));
    write(&mut state, "pm");
    press(
        &mut state,
        &[KeyCode::Enter, KeyCode::Enter, KeyCode::Backspace, KeyCode::Enter],
    );
    assert_eq!(said(&state).as_deref(), Some("the message is empty"));
    assert_eq!(state.wishes(), []);
}

#[test]
fn what_was_written_is_lost_only_once_that_is_confirmed() {
    let mut state = talking();
    write(&mut state, "s");
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.over, Over::Nothing, "nothing was written");
    write(&mut state, "sx");
    press(&mut state, &[KeyCode::Esc]);
    assert!(matches!(state.over, Over::Discard(_)));
    press(&mut state, &[KeyCode::Char('n')]);
    assert!(matches!(&state.over, Over::Draft(draft) if draft.body.text() == "x"));
    state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(matches!(state.over, Over::Discard(_)) && !state.is_over);
    press(&mut state, &[KeyCode::Char('y')]);
    assert_eq!(state.over, Over::Nothing);
    assert_eq!(state.wishes(), []);
    state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(state.is_over);
}

#[test]
fn an_agent_is_held_and_a_held_message_passes_or_is_dropped_once_that_is_confirmed() {
    let mut state = talking();
    let became = |step| {
        News::Event(Event::Became {
            id: id(6),
            agent: "user".to_owned(),
            step,
        })
    };
    let wished = |state: &mut State| {
        let wishes = state.wishes().into_iter().map(|wish| match wish {
            Wish::Act(action) => (action.path(), action.body()),
            Wish::Trace(id) => ("", id.into()),
        });
        wishes.collect::<Vec<_>>()
    };
    press(&mut state, &[KeyCode::Up]);
    write(&mut state, "adh");
    assert_eq!((wished(&mut state), &state.over), (Vec::new(), &Over::Nothing));
    state.take(became(Step::Held));
    write(&mut state, "a");
    let message = serde_json::json!({"message": id(6)});
    assert_eq!(wished(&mut state), [("/api/allow", message.clone())]);
    write(&mut state, "dn");
    assert_eq!(wished(&mut state), []);
    write(&mut state, "dy");
    assert_eq!(wished(&mut state), [("/api/drop", message)]);
    press(&mut state, &[KeyCode::Tab]);
    write(&mut state, "hH");
    let agent = serde_json::json!({"agent": "pm"});
    let all = serde_json::json!({"all": true});
    let expected = [("/api/hold", agent.clone()), ("/api/hold", all.clone())];
    assert_eq!(wished(&mut state), expected);
    let mut health = health("b-1", [0, 0, 0], 0);
    health.holds_all = true;
    health.roles[0].is_held = true;
    state.take(News::Health(health));
    write(&mut state, "hH");
    assert_eq!(wished(&mut state), [("/api/allow", agent), ("/api/allow", all)]);
    // What is dropped is at its end.
    let open = state.stream.open();
    state.take(became(Step::Dropped));
    assert_eq!(state.stream.open(), open - 1);
}

#[test]
fn what_came_of_a_hold_is_said_in_words() {
    let dev_b = || Some("dev-b".to_owned());
    let one = format!(r#"{{"id": "{}", "agents": ["pm", "dev-a"]}}"#, id(6));
    let short = &id(6)[..8];
    for (action, answer, words) in [
        (
            Action::Hold(dev_b()),
            r#"{"deliveries": 2}"#,
            "what dev-b gets and sends is held; 2 deliveries are".to_owned(),
        ),
        (
            Action::Hold(None),
            r#"{"deliveries": 0}"#,
            "all messages are held".to_owned(),
        ),
        (
            Action::Lift(dev_b()),
            r#"{"lifted": true, "deliveries": 1}"#,
            "what dev-b gets and sends is held no more; 1 delivery passes".to_owned(),
        ),
        (Action::Allow(id(6)), &one, format!("{short} passes to pm, dev-a")),
        (
            Action::Drop(id(6)),
            &one,
            format!("{short} is dropped, and will not come to pm, dev-a"),
        ),
    ] {
        assert_eq!(action.done(answer.as_bytes()), words);
    }
}

#[test]
fn a_worker_ends_once_that_is_confirmed_and_nobody_else_does() {
    let mut state = talking();
    let agent = |name: &str, is_worker| Agent {
        name: name.to_owned(),
        is_worker,
        ..Agent::default()
    };
    state.take(News::Agents(vec![agent("pm", false), agent("dev-a", true)]));
    assert_eq!(state.agents[1].about, "worker");
    write(&mut state, "x");
    press(&mut state, &[KeyCode::Tab]);
    write(&mut state, "xy");
    assert_eq!((state.wishes(), &state.over), (Vec::new(), &Over::Nothing));
    press(&mut state, &[KeyCode::Down]);
    write(&mut state, "xn");
    assert_eq!(state.wishes(), []);
    write(&mut state, "xy");
    let wishes = state.wishes();
    let [Wish::Act(action)] = wishes.as_slice() else {
        panic!("{wishes:?}");
    };
    assert_eq!(
        (action.path(), action.body()),
        ("/api/release", serde_json::json!({"name": "dev-a"}))
    );
    assert_eq!(action.done(b"{}"), "dev-a released");
}

#[test]
fn among_the_agents_no_message_passes_and_none_is_dropped() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Up]);
    state.take(News::Event(Event::Became {
        id: id(6),
        agent: "user".to_owned(),
        step: Step::Held,
    }));
    press(&mut state, &[KeyCode::Tab]);
    assert_eq!(state.pane, Pane::Agents);
    write(&mut state, "ad");
    assert_eq!((state.wishes(), &state.over), (Vec::new(), &Over::Nothing));
    press(&mut state, &[KeyCode::Tab]);
    write(&mut state, "a");
    assert_eq!(state.wishes(), [Wish::Act(Action::Allow(id(6)))]);
}

#[test]
fn a_message_that_is_begun_among_the_agents_is_for_the_chosen_one() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Tab, KeyCode::Down]);
    write(&mut state, "s");
    let Over::Draft(draft) = &state.over else {
        panic!("{:?}", state.over);
    };
    assert_eq!((draft.to.text(), draft.field), ("dev-a", Field::Body));
}

#[test]
fn another_start_has_its_words_and_gives_the_keys_to_the_messages() {
    for (step, words) in [
        (Step::Delivered, "relay was started anew; what was before is gone"),
        (
            Step::Waits,
            "relay was started anew; one delivery that had not arrived is gone",
        ),
    ] {
        let mut state = State::default();
        state.take(connected(health("b-1", [0, 0, 0], 0)));
        said(
            &mut state,
            message(1, "pm", "dev-a", "free", "one"),
            &[("dev-a", step)],
        );
        press(&mut state, &[KeyCode::Enter, KeyCode::Tab]);
        assert_eq!(state.pane, Pane::Trace);
        state.take(connected(health("b-2", [0, 0, 0], 0)));
        assert_eq!(state.pane, Pane::Messages);
        let shown: Vec<_> = state.stream.shown().map(|entry| entry.what.clone()).collect();
        assert_eq!(shown, [crate::cli::top::stream::What::Note(words.to_owned())]);
        state.take(News::Event(Event::Missed));
        let said = state.said.as_ref().map(|said| said.text.as_str());
        assert_eq!(
            said,
            Some("some of what has happened is forgotten, and not shown")
        );
    }
}
