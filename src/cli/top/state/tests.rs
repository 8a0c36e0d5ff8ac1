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
fn keys_go_to_the_pane_that_is_chosen() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Tab, KeyCode::Down]);
    assert_eq!(state.agent().map(|row| row.name.as_str()), Some("dev-a"));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(state.stream.filter().agent.as_deref(), Some("dev-a"));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(state.stream.filter().agent, None);
    press(
        &mut state,
        &[KeyCode::Tab, KeyCode::Up, KeyCode::Enter, KeyCode::Tab],
    );
    assert_eq!((state.pane, chosen(&state)), (Pane::Trace, id(6)));
    state.room.scroll_max = 2;
    press(&mut state, &[KeyCode::Down, KeyCode::Down, KeyCode::Down]);
    assert_eq!(state.open.as_ref().map(|open| open.scroll), Some(2));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!((state.pane, state.open.is_none()), (Pane::Messages, true));
    press(&mut state, &[KeyCode::BackTab]);
    assert_eq!(state.pane, Pane::Agents);
    write(&mut state, "q");
    assert!(state.is_over);
}

#[test]
fn a_search_shows_what_it_finds_as_it_is_written_and_escape_takes_it_back() {
    let mut state = talking();
    write(&mut state, "/TASK");
    assert_eq!(shown(&state).len(), 2);
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(shown(&state).len(), 7);
    write(&mut state, "/done");
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(shown(&state), ["Task P4 DONE, last commit abc1234"]);
    // What is pasted there is no key.
    state.paste("q");
    assert!(!state.is_over);
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(shown(&state).len(), 7);
}

#[test]
fn a_filter_takes_a_name_that_tab_completes() {
    let mut state = talking();
    write(&mut state, "fd");
    press(&mut state, &[KeyCode::Tab]);
    assert!(matches!(&state.over, Over::Filter { line } if line.text() == "dev-a"));
    press(&mut state, &[KeyCode::Tab, KeyCode::Enter]);
    assert_eq!(state.stream.filter().agent.as_deref(), Some("dev-b"));
    assert_eq!(shown(&state).len(), 3);
    write(&mut state, "f");
    press(&mut state, &[KeyCode::Backspace; 5]);
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(state.stream.filter().agent, None);
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
fn a_letter_with_control_or_alt_does_nothing_among_the_panes() {
    let mut state = talking();
    for modifiers in [KeyModifiers::CONTROL, KeyModifiers::ALT] {
        for pane in [Pane::Agents, Pane::Messages] {
            state.pane = pane;
            for key in "qsfhHxad?/".chars() {
                state.press(KeyEvent::new(KeyCode::Char(key), modifiers));
                let is = (state.wishes(), &state.over, state.is_over);
                assert_eq!(is, (Vec::new(), &Over::Nothing, false), "{key}");
            }
        }
    }
}

#[test]
fn tab_goes_from_pane_to_pane_and_back_also_where_a_message_is_open() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Enter]);
    let mut panes = |key: KeyCode| {
        [(); 3].map(|()| {
            press(&mut state, &[key]);
            state.pane
        })
    };
    assert_eq!(panes(KeyCode::Tab), [Pane::Trace, Pane::Agents, Pane::Messages]);
    assert_eq!(
        panes(KeyCode::BackTab),
        [Pane::Agents, Pane::Trace, Pane::Messages]
    );
}

#[test]
fn ctrl_c_ends_it_whatever_is_over_the_panes_that_is_not_lost_by_it() {
    let worker = Agent {
        name: "pm".to_owned(),
        is_worker: true,
        ..Agent::default()
    };
    for keys in ["?", "/x", "fx", "d", "x"] {
        let mut state = talking();
        state.take(News::Agents(vec![worker.clone()]));
        state.take(News::Event(Event::Became {
            id: id(7),
            agent: "dev-b".to_owned(),
            step: Step::Held,
        }));
        if keys == "x" {
            press(&mut state, &[KeyCode::Tab]);
        }
        write(&mut state, keys);
        assert_ne!(state.over, Over::Nothing, "{keys}");
        state.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(state.is_over, "{keys}");
        assert_eq!(state.wishes(), [], "{keys}");
    }
}

#[test]
fn escape_closes_the_trace_first_and_then_ends_search_and_filter_both() {
    let mut state = talking();
    write(&mut state, "/task");
    press(&mut state, &[KeyCode::Enter]);
    write(&mut state, "fpm");
    press(&mut state, &[KeyCode::Enter, KeyCode::Enter]);
    assert!(state.open.is_some());
    press(&mut state, &[KeyCode::Esc]);
    let filter = Filter {
        agent: Some("pm".to_owned()),
        search: "task".to_owned(),
    };
    assert_eq!((state.open.is_none(), state.stream.filter()), (true, &filter));
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.stream.filter(), &Filter::default());
}

#[test]
fn a_search_begins_with_what_is_searched_for_and_what_is_pasted_belongs_to_it() {
    let mut state = talking();
    write(&mut state, "/");
    state.paste("task");
    assert_eq!(shown(&state).len(), 2);
    press(&mut state, &[KeyCode::Enter]);
    write(&mut state, "/ p4");
    assert_eq!(shown(&state).len(), 1);
    press(&mut state, &[KeyCode::Esc]);
    assert_eq!(state.stream.filter().search, "task");
    write(&mut state, "f");
    state.paste("dev-b");
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(state.stream.filter().agent.as_deref(), Some("dev-b"));
}

#[test]
fn a_filter_begins_with_the_one_that_there_is_or_else_with_the_chosen_agent() {
    let mut state = talking();
    let mut begun = |keys: &[KeyCode]| {
        press(&mut state, keys);
        write(&mut state, "f");
        let Over::Filter { line } = &state.over else {
            panic!("{:?}", state.over);
        };
        line.text().to_owned()
    };
    assert_eq!(begun(&[]), "", "it is no agent that is chosen");
    assert_eq!(begun(&[KeyCode::Esc, KeyCode::Tab, KeyCode::Down]), "dev-a");
    assert_eq!(begun(&[KeyCode::Enter, KeyCode::Tab, KeyCode::Down]), "dev-a");
}

#[test]
fn while_a_message_is_open_the_arrows_open_the_one_that_they_choose() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Enter]);
    state.wishes();
    for (key, number) in [(KeyCode::Up, 6), (KeyCode::Down, 7)] {
        press(&mut state, &[key]);
        let open = state.open.as_ref().map(|open| open.id.clone());
        assert_eq!(open, Some(id(number)));
        assert_eq!(state.wishes(), [Wish::Trace(id(number))]);
    }
    said(&mut state, message(8, "pm", "dev-a", "free", "more"), &[]);
    assert_eq!(chosen(&state), id(7));
}

#[test]
fn a_page_is_what_its_pane_shows_but_for_a_row_and_letters_do_what_arrows_do() {
    let mut state = talking();
    state.room = Room {
        messages: 4,
        trace: 3,
        scroll_max: 9,
        ..Room::default()
    };
    for (key, number) in [
        (KeyCode::PageUp, 4),
        (KeyCode::Char('k'), 3),
        (KeyCode::Char('j'), 4),
        (KeyCode::Char('g'), 1),
        (KeyCode::Char(' '), 4),
        (KeyCode::Char('G'), 7),
    ] {
        press(&mut state, &[key]);
        assert_eq!(chosen(&state), id(number), "{key:?}");
    }
    press(&mut state, &[KeyCode::Enter, KeyCode::Tab]);
    for (key, scroll) in [
        (KeyCode::PageDown, 2),
        (KeyCode::Char('G'), 9),
        (KeyCode::Home, 0),
    ] {
        press(&mut state, &[key]);
        assert_eq!(
            state.open.as_ref().map(|open| open.scroll),
            Some(scroll),
            "{key:?}"
        );
    }
    press(&mut state, &[KeyCode::Tab]);
    for (key, name) in [
        (KeyCode::PageDown, "user"),
        (KeyCode::Down, "user"),
        (KeyCode::Home, "pm"),
        (KeyCode::Up, "pm"),
        (KeyCode::End, "user"),
    ] {
        press(&mut state, &[key]);
        assert_eq!(state.agent().map(|row| row.name.as_str()), Some(name), "{key:?}");
    }
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

#[test]
fn the_fields_of_a_message_are_gone_through_and_each_has_its_keys() {
    let mut state = talking();
    let draft = |state: &State| match &state.over {
        Over::Draft(draft) => draft.clone(),
        over => panic!("{over:?}"),
    };
    write(&mut state, "s");
    press(&mut state, &[KeyCode::BackTab]);
    assert_eq!(draft(&state).field, Field::Kind);
    for (key, kind) in [
        (KeyCode::Right, "status"),
        (KeyCode::Down, "question"),
        (KeyCode::Char(' '), "directive"),
        (KeyCode::Left, "question"),
        (KeyCode::Up, "status"),
    ] {
        press(&mut state, &[key]);
        assert_eq!(draft(&state).kind.as_str(), kind);
    }
    press(&mut state, &[KeyCode::BackTab]);
    state.press(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    state.paste("d");
    for (name, field) in [
        ("dev-a", Field::To),
        ("dev-a", Field::Kind),
        ("dev-a", Field::Body),
    ] {
        press(&mut state, &[KeyCode::Tab]);
        let draft = draft(&state);
        assert_eq!((draft.to.text(), draft.field), (name, field));
    }
    for modifiers in [KeyModifiers::SHIFT, KeyModifiers::CONTROL, KeyModifiers::ALT] {
        write(&mut state, "x");
        state.press(KeyEvent::new(KeyCode::Enter, modifiers));
    }
    state.paste("y");
    assert_eq!(draft(&state).body.text(), "x\nx\nx\ny");
}

#[test]
fn the_keys_find_nothing_where_nothing_is_there_yet() {
    let mut state = State::default();
    for pane in [Pane::Agents, Pane::Messages] {
        state.pane = pane;
        press(
            &mut state,
            &[KeyCode::Down, KeyCode::Up, KeyCode::End, KeyCode::Enter],
        );
        write(&mut state, "adhx");
    }
    assert_eq!(
        (state.wishes(), &state.open, &state.over),
        (Vec::new(), &None, &Over::Nothing)
    );
}

#[test]
fn what_is_pasted_beside_the_kind_is_nothing_and_what_was_sent_is_told_with_its_id() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Home, KeyCode::Down]);
    write(&mut state, "sone");
    press(&mut state, &[KeyCode::BackTab]);
    state.paste("free");
    press(&mut state, &[KeyCode::Enter, KeyCode::Enter]);
    let Some(Wish::Act(action)) = state.wishes().pop() else {
        panic!("nothing is sent");
    };
    let sent = serde_json::json!({"to": "dev-a", "kind": "free", "body": "one"});
    assert_eq!(action.body(), sent);
    let answer = format!(r#"{{"id": "{}"}}"#, id(9));
    let told = format!("sent to dev-a ({})", &id(9)[..8]);
    assert_eq!(action.done(answer.as_bytes()), told);
}
