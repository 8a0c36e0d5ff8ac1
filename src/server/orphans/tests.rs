use super::*;
use crate::server::limits::REQUEST_ID_BYTES_MAX;

/// Notes that outlive their relay.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<String>>);

impl Notes for Kept {
    fn read(&mut self) -> String {
        self.0.lock().expect("no panic").clone()
    }

    fn append(&mut self, text: &str) {
        self.0.lock().expect("no panic").push_str(text);
    }

    fn rewrite(&mut self, text: &str) {
        text.clone_into(&mut self.0.lock().expect("no panic"));
    }
}

fn start(notes: &Kept) -> Arc<Orphans> {
    Arc::new(Orphans::new(Box::new(notes.clone())))
}

fn id(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

/// Has everything told that there is to tell, to a client that names its stream if that is below 9.
fn news(orphans: &Arc<Orphans>, stream: u128, agent: Option<&str>) -> Vec<News> {
    orphans.of_client((stream < 9).then(|| Uuid::from_u128(stream)), agent)
}

fn texts(news: &[News]) -> Vec<(String, Why)> {
    news.iter()
        .map(|news| (news.id.get().to_owned(), news.why))
        .collect()
}

/// What [`news`] returns, passed to the client's socket.
fn told(orphans: &Arc<Orphans>, stream: u128, agent: Option<&str>) -> Vec<(String, Why)> {
    let news = news(orphans, stream, agent);
    let told = texts(&news);
    news.into_iter()
        .filter_map(|news| news.ticket)
        .for_each(Ticket::passed);
    told
}

fn wait(orphans: &Arc<Orphans>, stream: u128, agent: Option<&str>, text: &str) -> Ticket {
    orphans.wait(Uuid::from_u128(stream), agent.map(str::to_owned), &id(text))
}

/// Has the client of a stream call again.
fn hear(orphans: &Orphans, stream: u128) {
    orphans.read(orphans.passed(Uuid::from_u128(stream)));
}

#[tokio::test]
async fn what_waited_in_the_life_before_is_told_to_whoever_comes_back() {
    let notes = Kept::default();
    let first = start(&notes);
    let mut tickets = vec![wait(&first, 1, None, "5"), wait(&first, 2, None, "\"x y\"")];
    wait(&first, 1, None, "6").settled();
    tickets.push(wait(&first, 3, Some("pm"), "7"));
    // A kill runs no destructor.
    std::mem::forget(tickets);

    let second = start(&notes);
    assert!(!second.is_empty());
    let both = [
        ("\"x y\"".to_owned(), Why::Restart),
        ("5".to_owned(), Why::Restart),
    ];
    assert_eq!(told(&second, 9, None), both);
    assert_eq!(told(&second, 9, None), both, "another client may be the one");
    assert_eq!(told(&second, 9, Some("pm")), [("7".to_owned(), Why::Restart)]);
    assert_eq!(told(&second, 9, Some("dev-a")), []);
    assert_eq!(
        told(&second, 1, None),
        [("5".to_owned(), Why::Restart)],
        "its own"
    );
    hear(&second, 1);
    assert_eq!(told(&second, 1, None), [], "it has read that");
}

#[tokio::test]
async fn what_was_told_in_one_life_is_not_told_in_the_next() {
    let notes = Kept::default();
    let first = start(&notes);
    wait(&first, 1, None, "4").settled();
    std::mem::forget(wait(&first, 1, None, "5"));
    let second = start(&notes);
    assert_eq!(told(&second, 1, None), [("5".to_owned(), Why::Restart)]);
    hear(&second, 1);
    assert!(start(&notes).is_empty());
}

#[tokio::test]
async fn an_answer_that_was_passed_to_a_stream_may_be_lost_with_it() {
    let orphans = start(&Kept::default());
    for text in ["1", "2"] {
        wait(&orphans, 1, None, text).passed();
        hear(&orphans, 2);
        orphans.lose_stream(Uuid::from_u128(2));
        assert!(orphans.is_empty());
        if text == "1" {
            hear(&orphans, 1);
        }
        orphans.lose_stream(Uuid::from_u128(1));
    }
    assert_eq!(told(&orphans, 1, None), [("2".to_owned(), Why::StreamEnd)]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_a_stream_that_stays_open_is_in_doubt_for_as_long_as_a_hand_over() {
    let orphans = start(&Kept::default());
    let stream = Uuid::from_u128(1);
    wait(&orphans, 1, None, "1").passed();
    tokio::time::advance(Duration::from_millis(1)).await;
    wait(&orphans, 1, None, "2").passed();
    let waits = wait(&orphans, 1, None, "3");
    tokio::time::advance(DOUBT - Duration::from_millis(1)).await;
    orphans.stays_open(stream);
    orphans.lose_stream(stream);
    let lost = ["2", "3"].map(|id| (id.to_owned(), Why::StreamEnd));
    assert_eq!(told(&orphans, 1, None), lost);
    drop(waits);
}

#[tokio::test]
async fn who_does_not_name_its_stream_is_told_only_of_what_had_no_answer() {
    let notes = Kept::default();
    let first = start(&notes);
    wait(&first, 1, None, "1").passed();
    first.lose_stream(Uuid::from_u128(1));
    wait(&first, 2, None, "2").passed();
    std::mem::forget(wait(&first, 2, None, "3"));
    assert_eq!(told(&first, 9, None), []);
    let second = start(&notes);
    assert_eq!(told(&second, 9, None), [("3".to_owned(), Why::Restart)]);
    let both = ["2", "3"].map(|id| (id.to_owned(), Why::Restart));
    assert_eq!(told(&second, 2, None), both);
}

#[tokio::test]
async fn ten_thousand_clients_that_left_with_their_answer_leave_next_to_nothing() {
    let notes = Kept::default();
    let orphans = start(&notes);
    for stream in 0..10_000 {
        wait(&orphans, stream, None, "1").passed();
        orphans.lose_stream(Uuid::from_u128(stream));
    }
    assert_eq!(news(&orphans, 9, None).len(), 0);
    let state = orphans.state();
    let kept = (state.calls.len(), state.by_stream.len(), state.orphans.len());
    assert_eq!(
        (kept, state.in_doubt),
        ((ORPHANS_MAX, ORPHANS_MAX, ORPHANS_MAX), 0)
    );
    drop(state);
    let bytes = notes.0.lock().expect("no panic").len();
    assert!(bytes <= 256 * ORPHANS_MAX + 256, "{bytes}");
}

#[tokio::test]
async fn news_that_may_be_lost_with_its_stream_is_told_again_for_what_it_was() {
    let notes = Kept::default();
    std::mem::forget(wait(&start(&notes), 1, None, "5"));
    let orphans = start(&notes);
    let all = [("5".to_owned(), Why::Restart)];
    let unpassed = news(&orphans, 1, None);
    assert_eq!(texts(&unpassed), all);
    assert!(orphans.is_empty());
    drop(unpassed);
    assert_eq!(told(&orphans, 1, None), all);
    assert!(orphans.is_empty());
    orphans.lose_stream(Uuid::from_u128(1));
    assert_eq!(told(&orphans, 1, None), all);
    assert_eq!(told(&start(&notes), 1, None), all, "killed before it was heard");
}

#[tokio::test]
async fn a_call_shows_only_that_its_client_has_read_what_was_passed_before_it() {
    let orphans = start(&Kept::default());
    wait(&orphans, 1, None, "1").passed();
    let passed = orphans.passed(Uuid::from_u128(1));
    wait(&orphans, 1, None, "2").passed();
    orphans.read(passed);
    orphans.lose_stream(Uuid::from_u128(1));
    assert_eq!(told(&orphans, 1, None), [("2".to_owned(), Why::StreamEnd)]);
}

#[tokio::test]
async fn a_stream_that_was_lost_meanwhile_was_not_read() {
    let orphans = start(&Kept::default());
    wait(&orphans, 1, None, "1").passed();
    let passed = orphans.passed(Uuid::from_u128(1));
    orphans.lose_stream(Uuid::from_u128(1));
    orphans.read(passed);
    assert_eq!(told(&orphans, 1, None), [("1".to_owned(), Why::StreamEnd)]);
}

#[tokio::test]
async fn of_calls_with_the_same_id_the_latest_is_told_of() {
    let notes = Kept::default();
    std::mem::forget(wait(&start(&notes), 1, None, "5"));
    let orphans = start(&notes);
    drop(wait(&orphans, 1, None, "5"));
    assert_eq!(told(&orphans, 9, None), [("5".to_owned(), Why::StreamEnd)]);
    assert_eq!(told(&orphans, 1, None), [("5".to_owned(), Why::StreamEnd)]);
    assert!(orphans.is_empty());
}

#[tokio::test]
async fn a_lost_stream_s_calls_are_told_of_and_settled_ones_are_not() {
    let orphans = start(&Kept::default());
    wait(&orphans, 1, None, "1").settled();
    assert!(orphans.is_empty());
    drop(wait(&orphans, 1, None, "2"));
    assert!(!orphans.is_empty());
    assert_eq!(told(&orphans, 1, None), [("2".to_owned(), Why::StreamEnd)]);
    assert!(orphans.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_expected_back_for_ever() {
    let orphans = start(&Kept::default());
    drop(wait(&orphans, 1, None, "2"));
    tokio::time::advance(RETURN_PATIENCE - Duration::from_millis(1)).await;
    assert!(!orphans.is_empty());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(orphans.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_lost_its_stream_first_is_forgotten_first_however_long_it_had_waited() {
    let orphans = start(&Kept::default());
    let long = wait(&orphans, 1, None, "1");
    drop(wait(&orphans, 1, None, "2"));
    tokio::time::advance(RETURN_PATIENCE - Duration::from_millis(1)).await;
    drop(long);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(told(&orphans, 1, None), [("1".to_owned(), Why::StreamEnd)]);
}

#[tokio::test]
async fn the_calls_of_a_stream_that_is_known_to_be_gone_are_told_of_before_they_notice() {
    let orphans = start(&Kept::default());
    let calls = [wait(&orphans, 1, None, "1"), wait(&orphans, 2, None, "2")];
    orphans.lose_stream(Uuid::from_u128(1));
    assert_eq!(told(&orphans, 1, None), [("1".to_owned(), Why::StreamEnd)]);
    let [first, second] = calls;
    drop(first);
    assert!(orphans.is_empty(), "it was told once");
    second.settled();
    assert!(orphans.is_empty());
}

#[tokio::test]
async fn at_the_bound_the_oldest_is_forgotten() {
    let orphans = start(&Kept::default());
    for number in 0..=ORPHANS_MAX {
        drop(wait(&orphans, 1, None, &number.to_string()));
    }
    let told = told(&orphans, 1, None);
    assert_eq!(told.len(), ORPHANS_MAX);
    assert!(!told.contains(&("0".to_owned(), Why::StreamEnd)));
}

#[tokio::test]
async fn notes_stay_small_however_many_calls_have_waited() {
    let notes = Kept::default();
    let orphans = start(&notes);
    let stays = wait(&orphans, 7, None, "1");
    for _ in 0..5_000 {
        wait(&orphans, 1, None, "2").settled();
    }
    let bytes = notes.0.lock().expect("no panic").len();
    assert!(bytes <= STALE_BYTES_MAX + 256, "{bytes}");
    std::mem::forget(stays);
    assert_eq!(told(&start(&notes), 7, None), [("1".to_owned(), Why::Restart)]);
}

#[test]
fn a_note_that_was_cut_off_says_nothing() {
    let whole = "+1 [\"00000000-0000-0000-0000-000000000001\",null,5]\n";
    assert_eq!(noted_in(whole).len(), 1);
    assert_eq!(noted_in(&whole[..whole.len() - 1]).len(), 0);
    assert_eq!(noted_in(&format!("nonsense\n+\n-7\n{whole}+2 [1]\n-1")).len(), 1);
    assert_eq!(noted_in(&format!("{whole}-1\n")).len(), 0);
}

#[tokio::test]
async fn that_a_call_was_answered_is_still_known_two_lives_later() {
    let notes = Kept::default();
    wait(&start(&notes), 1, None, "1").passed();
    drop(start(&notes));
    let third = start(&notes);
    assert_eq!(told(&third, 9, None), []);
    assert_eq!(told(&third, 1, None), [("1".to_owned(), Why::Restart)]);
}

#[tokio::test]
async fn news_of_an_answered_call_that_got_lost_is_still_for_its_own_client_only() {
    let orphans = start(&Kept::default());
    wait(&orphans, 1, None, "1").passed();
    orphans.lose_stream(Uuid::from_u128(1));
    drop(news(&orphans, 1, None));
    assert_eq!(told(&orphans, 9, None), []);
    assert_eq!(told(&orphans, 1, None), [("1".to_owned(), Why::StreamEnd)]);
}

#[tokio::test]
async fn nothing_is_in_doubt_any_more_when_all_was_read() {
    let orphans = start(&Kept::default());
    wait(&orphans, 1, None, "1").passed();
    assert!(orphans.in_doubt.load(Ordering::Acquire));
    hear(&orphans, 1);
    assert!(!orphans.in_doubt.load(Ordering::Acquire));
}

#[tokio::test]
async fn an_answer_that_is_passed_to_a_stream_known_to_be_lost_was_not_read() {
    let orphans = start(&Kept::default());
    let ticket = wait(&orphans, 1, None, "1");
    orphans.lose_stream(Uuid::from_u128(1));
    ticket.passed();
    hear(&orphans, 1);
    assert_eq!(told(&orphans, 1, None), [("1".to_owned(), Why::StreamEnd)]);
    assert!(orphans.is_empty());
}

#[tokio::test]
async fn an_orderly_end_forgets_what_was_lost_and_not_what_may_be_unread() {
    let notes = Kept::default();
    let orphans = start(&notes);
    wait(&orphans, 1, None, "1").passed();
    drop(wait(&orphans, 1, None, "2"));
    orphans.forget_lost();
    assert_eq!(told(&start(&notes), 1, None), [("1".to_owned(), Why::Restart)]);
}

#[tokio::test]
async fn notes_of_many_waits_are_not_written_anew_for_each() {
    #[derive(Clone, Default)]
    struct Rewritten(Arc<Mutex<usize>>);
    impl Notes for Rewritten {
        fn read(&mut self) -> String {
            String::new()
        }
        fn append(&mut self, _text: &str) {}
        fn rewrite(&mut self, _text: &str) {
            *self.0.lock().expect("no panic") += 1;
        }
    }
    let notes = Rewritten::default();
    let orphans = Arc::new(Orphans::new(Box::new(notes.clone())));
    for id in ["1", &format!("\"{}\"", "a".repeat(REQUEST_ID_BYTES_MAX - 2))] {
        let before = *notes.0.lock().expect("no panic");
        let tickets: Vec<Ticket> = (0..1_400)
            .map(|stream| wait(&orphans, stream, Some("dev-a"), id))
            .collect();
        tickets.into_iter().for_each(Ticket::settled);
        let rewritten = *notes.0.lock().expect("no panic") - before;
        assert!(rewritten < 10, "{rewritten} times with the id {id}");
    }
}

#[tokio::test]
async fn a_panic_over_the_notes_of_one_call_takes_no_other_client_down() {
    struct Broken(bool);
    impl Notes for Broken {
        fn read(&mut self) -> String {
            String::new()
        }
        fn append(&mut self, _text: &str) {
            assert!(
                std::mem::replace(&mut self.0, true),
                "the first note cannot be written"
            );
        }
        fn rewrite(&mut self, _text: &str) {}
    }
    let orphans = Arc::new(Orphans::new(Box::new(Broken(false))));
    let first = std::panic::AssertUnwindSafe(|| drop(wait(&orphans, 1, None, "1")));
    assert!(std::panic::catch_unwind(first).is_err());
    assert!(orphans.is_empty());
    drop(wait(&orphans, 2, None, "2"));
    orphans.lose_stream(Uuid::from_u128(2));
    assert_eq!(told(&orphans, 2, None), [("2".to_owned(), Why::StreamEnd)]);
}

#[tokio::test]
async fn at_the_bound_the_oldest_of_the_life_before_is_forgotten() {
    let notes = Kept::default();
    let first = start(&notes);
    for number in 0..ORPHANS_MAX + 100 {
        std::mem::forget(wait(&first, 1, None, &number.to_string()));
    }
    let told = told(&start(&notes), 1, None);
    let mut numbers: Vec<usize> = told.iter().map(|(id, _)| id.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (100..ORPHANS_MAX + 100).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_noted_in_one_life_is_not_mistaken_for_what_was_noted_in_the_one_before() {
    let notes = Kept::default();
    let first = start(&notes);
    wait(&first, 1, None, "4").settled();
    std::mem::forget([wait(&first, 1, None, "5"), wait(&first, 2, None, "6")]);
    let second = start(&notes);
    told(&second, 1, None);
    hear(&second, 1);
    assert_eq!(told(&start(&notes), 9, None), [("6".to_owned(), Why::Restart)]);
}

#[tokio::test]
async fn who_does_not_name_its_stream_is_not_told_what_another_was_told_in_its_own() {
    let orphans = start(&Kept::default());
    drop(wait(&orphans, 1, None, "1"));
    told(&orphans, 1, None);
    orphans.lose_stream(Uuid::from_u128(1));
    assert_eq!(told(&orphans, 9, None), []);
    assert_eq!(told(&orphans, 1, None), [("1".to_owned(), Why::StreamEnd)]);
}
