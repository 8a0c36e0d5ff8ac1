//! What each key does.

use super::*;

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
fn the_fields_of_a_message_are_gone_through_and_each_has_its_keys() {
    let mut state = talking();
    let draft = |state: &State| {
        let Over::Draft(draft) = &state.over else {
            panic!("{:?}", state.over)
        };
        draft.clone()
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
