//! Pictures of the view. `INSTA_UPDATE=always` writes them anew, and those of docs/TOP.md with them.

use std::fmt::Write as _;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::cli::top::news::{Agent, Event, News, Step};
use crate::cli::top::scene::{at, connected, empty_health, health, id, message, said, talking, time, traced};
use crate::cli::top::state::Wish;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (160, 50);

/// The document with pictures.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/TOP.md");

fn drawn(state: &mut State, (columns, rows): (u16, u16), colours: Colours) -> Buffer {
    let backend = TestBackend::new(columns, rows);
    let mut terminal = Terminal::new(backend).expect("it is in memory");
    let look = Look { colours, time };
    let mut room = Room::default();
    let drawn = terminal.draw(|frame| room = draw(frame, state, &look));
    let buffer = drawn.expect("it is in memory").buffer.clone();
    state.room = room;
    buffer
}

/// Returns the characters of it, without the spaces at the end of each row.
fn text(buffer: &Buffer) -> String {
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    let rows = rows.map(|row| {
        let mut text = String::new();
        let mut skipped = 0;
        for cell in row {
            // What a wide character covers is a cell of its own.
            if skipped == 0 {
                text.push_str(cell.symbol());
                skipped = width(cell.symbol()).saturating_sub(1);
            } else {
                skipped -= 1;
            }
        }
        text.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

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

fn empty() -> State {
    let mut state = State::default();
    state.take(connected(empty_health()));
    state
}

fn with_trace() -> State {
    let mut state = talking();
    press(&mut state, &[KeyCode::Home, KeyCode::Down, KeyCode::Enter]);
    state.take(News::Traced {
        id: id(2),
        answer: Ok(traced()),
    });
    state
}

/// Compares what is drawn in both sizes with what was drawn before.
macro_rules! pictures {
    ($name:literal, $state:expr) => {{
        let state = &mut $state;
        insta::assert_snapshot!(concat!($name, "-80x24"), text(&drawn(state, SMALL, Colours::All)));
        insta::assert_snapshot!(
            concat!($name, "-160x50"),
            text(&drawn(state, LARGE, Colours::All))
        );
    }};
}

#[test]
fn a_relay_in_which_nothing_was_said() {
    pictures!("empty", empty());
}

#[test]
fn agents_that_talk() {
    pictures!("talking", talking());
}

#[test]
fn a_search() {
    let mut state = talking();
    write(&mut state, "/task");
    pictures!("search", state);
}

#[test]
fn a_filter_that_lets_nothing_through() {
    let mut state = talking();
    write(&mut state, "fnobody");
    press(&mut state, &[KeyCode::Enter]);
    pictures!("filtered", state);
}

#[test]
fn a_trace() {
    pictures!("trace", with_trace());
}

#[test]
fn what_the_person_holds() {
    let mut state = talking();
    let mut health = health("b-1", [0, 1, 2], 1);
    health.holds_all = true;
    health.roles[1].is_held = true;
    health.roles[1].held = 3;
    health.roles[3].held = 1;
    state.take(News::Health(health));
    let steps = [("dev-a", Step::Held), ("dev-b", Step::Delivered)];
    said(
        &mut state,
        message(8, "pm", "@everyone", "free", "Two of you"),
        &steps,
    );
    said(
        &mut state,
        message(9, "pm", "dev-a", "free", "Begin"),
        &[("dev-a", Step::Held)],
    );
    pictures!("held", state);
    write(&mut state, "d");
    pictures!("drop", state);
}

#[test]
fn a_worker_that_is_about_to_end() {
    let mut state = talking();
    state.take(News::Agents(vec![Agent {
        name: "pm".to_owned(),
        cli: Some("codex".to_owned()),
        is_worker: true,
        ..Agent::default()
    }]));
    press(&mut state, &[KeyCode::Tab]);
    pictures!("worker", state);
    write(&mut state, "x");
    pictures!("release", state);
}

#[test]
fn the_keys() {
    let mut state = talking();
    write(&mut state, "?");
    pictures!("help", state);
    insta::assert_snapshot!("help-60x12", text(&drawn(&mut state, LEAST, Colours::All)));
    press(&mut state, &[KeyCode::PageDown]);
    insta::assert_snapshot!("help-page-60x12", text(&drawn(&mut state, LEAST, Colours::All)));
    let mut seen = |keys: &[KeyCode]| {
        press(&mut state, keys);
        let is_open = matches!(state.over, Over::Help(_));
        let screen = text(&drawn(&mut state, LEAST, Colours::All));
        (
            is_open,
            screen.contains("choose an agent or"),
            screen.contains("Alt-Enter"),
        )
    };
    assert_eq!(seen(&[KeyCode::End, KeyCode::Down]), (true, false, true));
    assert_eq!(seen(&[KeyCode::Home]), (true, true, false));
    assert_eq!(seen(&[KeyCode::Char('q')]), (false, false, false));
    // Where all of it is seen there is nothing to scroll.
    write(&mut state, "?");
    drawn(&mut state, SMALL, Colours::All);
    press(&mut state, &[KeyCode::Down]);
    assert_eq!((&state.over, state.is_over), (&Over::Nothing, false));
}

#[test]
fn a_window_that_is_too_small_says_so_in_as_many_words_as_there_is_room_for() {
    for (columns, words) in [
        (59, "59 x 12 is too small; relay top needs 60 x 12"),
        (40, "too small; it needs 60 x 12"),
        (20, "needs 60 x 12"),
        (10, "60 x 12"),
        (6, "small"),
        (1, "…"),
    ] {
        assert_eq!(
            text(&drawn(&mut talking(), (columns, 12), Colours::All)).trim_end(),
            words
        );
    }
}

#[test]
fn a_lost_connection() {
    let mut state = talking();
    state.take(News::Lost("the connection to relay has ended".to_owned()));
    pictures!("lost", state);
}

#[test]
fn a_relay_that_was_started_anew() {
    let mut state = talking();
    state.take(News::Lost("the connection to relay has ended".to_owned()));
    state.take(connected(health("b-2", [0, 0, 0], 0)));
    pictures!("anew", state);
}

#[test]
fn a_message_that_is_written() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Home, KeyCode::Down]);
    write(&mut state, "sthiserror, as in the engine.");
    state.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT));
    write(&mut state, "And say so in its docs.");
    pictures!("draft", state);
}

#[test]
fn the_least_window_tells_what_is_known_of_most_in_a_few_columns() {
    let mut state = talking();
    state.take(News::Event(Event::Note {
        at: at(400),
        text: "relay was started anew; 243 deliveries that had not arrived are gone".to_owned(),
    }));
    insta::assert_snapshot!("least-60x12", text(&drawn(&mut state, LEAST, Colours::All)));
    press(&mut state, &[KeyCode::Tab]);
    let screen = text(&drawn(&mut state, LEAST, Colours::All));
    assert!(screen.ends_with("? help  q quit"), "{screen}");
    state.take(News::Event(Event::Note {
        at: at(401),
        text: "a long note ".repeat(60),
    }));
    for size in [SMALL, LARGE] {
        let screen = text(&drawn(&mut state, size, Colours::All));
        let mut rows = screen.lines().skip_while(|row| !row.contains("a long note"));
        let last = rows.nth(2).expect("it has three rows");
        assert!(
            last.ends_with('…') && !rows.any(|row| row.contains("a long note")),
            "{screen}"
        );
    }
}

#[test]
fn what_there_is_to_say_is_told_in_full_where_there_is_room_for_it() {
    let reason = "unknown agent \"dev-aa\"; accepted: pm, dev-a, dev-b, web:reviewer, user, a role as @backend, a group, a channel as #build, or * \
                  for all; and nothing was sent";
    let mut state = talking();
    press(&mut state, &[KeyCode::Home, KeyCode::Down]);
    write(&mut state, "sthiserror");
    press(&mut state, &[KeyCode::Enter]);
    let Some(Wish::Act(action)) = state.wishes().pop() else {
        panic!("nothing is sent");
    };
    let outcome = Err(reason.to_owned());
    state.take(News::Done { action, outcome });
    pictures!("refused", state);
    insta::assert_snapshot!("refused-60x12", text(&drawn(&mut state, LEAST, Colours::All)));
    press(&mut state, &[KeyCode::Esc]);
    insta::assert_snapshot!("discard-60x12", text(&drawn(&mut state, LEAST, Colours::All)));
    press(&mut state, &[KeyCode::Char('y')]);
    state.take(News::Lost(reason.repeat(3)));
    insta::assert_snapshot!("lost-60x12", text(&drawn(&mut state, LEAST, Colours::All)));
    state.take(connected(health("b-1", [0, 0, 0], 0)));
    press(&mut state, &[KeyCode::Home]);
    write(&mut state, "s");
    let Over::Draft(draft) = &mut state.over else {
        panic!("{:?}", state.over);
    };
    draft.to = crate::cli::top::line::Line::new("somebody");
    insta::assert_snapshot!("unknown-80x24", text(&drawn(&mut state, SMALL, Colours::All)));
}

#[test]
fn long_names_long_texts_and_many_of_them() {
    let mut state = talking();
    let long = "an-agent-with-quite-a-long-name";
    for number in 8..60 {
        let body = if number % 3 == 0 {
            "語".repeat(200)
        } else {
            "word ".repeat(60)
        };
        let (from, to) = if number % 2 == 0 {
            (long, "pm")
        } else {
            ("pm", long)
        };
        let steps = [("a", Step::Delivered), ("b", Step::Waits)];
        said(&mut state, message(number, from, to, "status", &body), &steps);
    }
    press(&mut state, &[KeyCode::PageUp, KeyCode::PageUp, KeyCode::PageUp]);
    pictures!("long", state);
}

#[test]
fn without_colours_it_is_the_same_in_words() {
    for mut state in [empty(), talking(), with_trace()] {
        for size in [SMALL, LARGE] {
            let all = drawn(&mut state, size, Colours::All);
            let none = drawn(&mut state, size, Colours::None);
            let plain = drawn(&mut state, size, Colours::Plain);
            assert_eq!(text(&all), text(&none));
            assert_eq!(text(&all), text(&plain));
            let has_colour = |buffer: &Buffer| {
                let mut cells = buffer.content().iter();
                cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            };
            let has_modifier = |buffer: &Buffer| {
                let mut cells = buffer.content().iter();
                cells.any(|cell| cell.modifier != Modifier::empty())
            };
            assert!(has_colour(&all) && has_modifier(&all));
            assert!(!has_colour(&none) && has_modifier(&none));
            assert!(!has_colour(&plain) && !has_modifier(&plain));
        }
    }
}

#[test]
fn nothing_of_what_agents_say_steers_the_terminal() {
    let mut state = talking();
    let bad = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{200b}\u{e0041}\u{2028}b\rc";
    said(&mut state, message(9, bad, bad, bad, bad), &[(bad, Step::Waits)]);
    press(&mut state, &[KeyCode::Enter]);
    state.take(News::Traced {
        id: id(9),
        answer: Err(bad.to_owned()),
    });
    for row in &mut state.agents {
        row.name = bad.to_owned();
        row.about = bad.to_owned();
        row.mode = Some(bad.to_owned());
        row.reached_by = bad.to_owned();
    }
    state.link.place = bad.to_owned();
    for keys in ["", "/", "f", "s"] {
        write(&mut state, keys);
        state.paste(bad);
        for size in [SMALL, LARGE] {
            for cell in drawn(&mut state, size, Colours::All).content() {
                let is_bad = |c: char| c.is_control() || "\u{202e}\u{200b}\u{e0041}\u{2028}".contains(c);
                assert!(!cell.symbol().contains(is_bad), "{:?}", cell.symbol());
            }
        }
        press(&mut state, &[KeyCode::Esc, KeyCode::Char('y')]);
    }
}

#[test]
fn it_is_drawn_in_every_size() {
    let mut draft = with_trace();
    write(&mut draft, "sx");
    let mut help = with_trace();
    write(&mut help, "?");
    for mut state in [empty(), with_trace(), draft, help, State::default()] {
        for pane in [Pane::Agents, Pane::Messages, Pane::Trace] {
            state.pane = pane;
            for columns in [1, 20, 60, 61, 79, 109, 110, 300] {
                for rows in [1, 2, 12, 13, 24, 35, 36, 100] {
                    drawn(&mut state, (columns, rows), Colours::All);
                }
            }
        }
    }
}

#[test]
fn the_pictures_in_the_document_are_these() {
    let mut found = std::fs::read_to_string(DOCUMENT).expect("it is there");
    let before = found.clone();
    for (name, mut state, size) in [
        ("talking-80x24", talking(), SMALL),
        ("trace-80x24", with_trace(), SMALL),
        ("trace-160x50", with_trace(), LARGE),
    ] {
        let begin = format!("<!-- picture {name} -->\n```\n");
        let at = found.find(&begin).expect("the document has it") + begin.len();
        let end = at + found[at..].find("```\n").expect("it ends");
        let mut picture = text(&drawn(&mut state, size, Colours::All));
        writeln!(picture).expect("memory takes it");
        found.replace_range(at..end, &picture);
    }
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        std::fs::write(DOCUMENT, &found).expect("it can be written");
        return;
    }
    assert!(
        found == before,
        "docs/TOP.md does not have the pictures; INSTA_UPDATE=always cargo test -p relay --lib top writes them"
    );
}

#[test]
fn between_both_ends_of_the_head_there_is_a_blank_however_narrow_it_is() {
    let mut state = talking();
    state.link.place = "a".repeat(200);
    let look = Look {
        colours: Colours::None,
        time,
    };
    for columns in 60..200 {
        let line = header(&state, &look, columns).to_string();
        let (_, right) = line.split_once(' ').expect("it begins with one");
        let (left, _) = right.split_once(' ').expect("there is one between them");
        assert!(
            left.chars().all(|c| c == 'a' || c == '.' || c == '…') || left == "relay",
            "{line}"
        );
        assert_eq!(width(&line), usize::from(columns));
    }
}

#[test]
fn how_long_relay_runs_is_told_in_days_and_an_age_in_its_greatest_unit() {
    let mut state = talking();
    for (seconds, words) in [
        (86_399, "connected, since 14:30 "),
        (86_400, "connected, up for a day "),
        (172_800, "connected, up for 2 days "),
    ] {
        let mut health = health("b-1", [0, 1, 2], 1);
        health.uptime_seconds = seconds;
        state.take(News::Health(health));
        let screen = text(&drawn(&mut state, LARGE, Colours::All));
        assert!(screen.contains(words), "{screen}");
    }
    for (seconds, told) in [
        (59, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (86_399, "23 h"),
        (172_800, "2 d"),
    ] {
        assert_eq!(age(seconds), told);
    }
}

#[test]
fn all_that_is_searched_for_is_marked_also_twice_in_a_row() {
    let look = Look {
        colours: Colours::All,
        time,
    };
    let found = super::messages::found("abc tasktask, TASK", "Task", look.plain(), &look);
    let parts: Vec<_> = found
        .iter()
        .map(|span| (&*span.content, span.style == look.found()))
        .collect();
    let expected = [
        ("abc ", false),
        ("task", true),
        ("task", true),
        (", ", false),
        ("TASK", true),
    ];
    assert_eq!(parts, expected);
}

#[test]
fn of_a_message_to_several_it_is_told_what_went_wrong_then_what_is_held_then_what_has_arrived() {
    for (steps, words, step) in [
        (&[Step::Waits, Step::Waits][..], "waits", Some(Step::Waits)),
        (&[], "-", None),
        (
            &[Step::Delivered, Step::Failed, Step::Held],
            "1/3 failed",
            Some(Step::Failed),
        ),
        (&[Step::Expired, Step::Waits], "1/2 failed", Some(Step::Failed)),
        (&[Step::Delivered, Step::Held], "1/2 held", Some(Step::Held)),
        (
            &[Step::Delivered, Step::Read, Step::HandedOver],
            "2/3 arrived",
            Some(Step::HandedOver),
        ),
        (&[Step::Read, Step::Waits], "1/2 arrived", Some(Step::Waits)),
        (&[Step::HandedOn, Step::Waits], "waits", Some(Step::Waits)),
        (
            &[Step::Read, Step::HandedOn, Step::Held],
            "1/2 held",
            Some(Step::Held),
        ),
    ] {
        let agents = (0..steps.len()).map(|number| format!("agent-{number}"));
        let steps = agents.zip(steps.iter().copied()).collect();
        let told = super::messages::state_of(&steps);
        assert_eq!(told, (words.to_owned(), step));
    }
}

#[test]
fn the_chosen_agent_is_in_sight_where_not_all_have_room_and_beside_a_trace() {
    let mut state = talking();
    press(&mut state, &[KeyCode::Tab, KeyCode::End]);
    let screen = text(&drawn(&mut state, LEAST, Colours::All));
    assert!(
        screen.contains(" 4 to 5 of 5 ") && screen.contains("▸ user "),
        "{screen}"
    );
    let mut state = with_trace();
    let screen = text(&drawn(&mut state, SMALL, Colours::All));
    assert!(!screen.contains("─ agents ─"), "{screen}");
    press(&mut state, &[KeyCode::BackTab]);
    let screen = text(&drawn(&mut state, SMALL, Colours::All));
    assert!(
        screen.contains("━ agents ━") && screen.contains("▸ pm "),
        "{screen}"
    );
}

#[test]
fn of_a_message_that_is_forgotten_the_trace_alone_is_shown_or_why_there_is_none() {
    let mut state = talking();
    state.open = Some(crate::cli::top::state::Open {
        id: id(99),
        ..Default::default()
    });
    let told = |answer| News::Traced { id: id(99), answer };
    for (news, words) in [
        (None, "asking what has become of it …"),
        (Some(told(Ok(traced()))), "handed over to session 12 (hooks)"),
        (Some(told(Err("nothing is known".to_owned()))), "nothing is known"),
    ] {
        if let Some(news) = news {
            state.take(news);
        }
        let screen = text(&drawn(&mut state, SMALL, Colours::All));
        let kept = "its text is not kept here any more";
        assert!(screen.contains(kept) && screen.contains(words), "{screen}");
    }
}

#[test]
fn where_a_trace_does_not_have_room_it_is_told_which_lines_are_shown() {
    let mut state = with_trace();
    press(&mut state, &[KeyCode::Tab]);
    drawn(&mut state, LEAST, Colours::All);
    press(&mut state, &[KeyCode::Down]);
    let screen = text(&drawn(&mut state, LEAST, Colours::All));
    let Room {
        trace, scroll_max, ..
    } = state.room;
    assert!(scroll_max > 1, "it does not have room");
    let told = format!(" 2 to {} of {} lines ", trace + 1, trace + scroll_max);
    assert!(screen.contains(&told), "{screen}");
}

#[test]
fn who_asks_its_person_is_marked_and_who_waits_is_told_with_how_much_waits_for_it() {
    use crate::cli::top::agents::Doing;
    let mut state = talking();
    let is_marked = |state: &mut State| {
        let buffer = drawn(state, LARGE, Colours::All);
        buffer.content().iter().any(|cell| cell.fg == Color::Magenta)
    };
    assert!(!is_marked(&mut state));
    state.agents[0].doing = Doing::Asks;
    state.agents[1].doing = Doing::Waits;
    state.agents[1].oldest = None;
    assert!(is_marked(&mut state));
    let screen = text(&drawn(&mut state, LARGE, Colours::All));
    let row = |name: &str| {
        let mut rows = screen.lines();
        let row = rows.find(|row| row.trim_start_matches(['▸', ' ']).starts_with(name));
        row.unwrap_or_default().to_owned()
    };
    assert!(row("pm").contains(" asks   -  "), "{screen}");
    assert!(row("dev-a").contains(" waits  1  "), "{screen}");
}
