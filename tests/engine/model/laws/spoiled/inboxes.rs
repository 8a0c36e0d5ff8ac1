//! Inboxes: what a read shows, in which order, how often, and what it says beside.

use super::*;

pub(super) const SPOILINGS: &[Spoiling] = &[
    spoiling!(two_copies, THIN_AIR, "somebody got two copies"),
    spoiling!(never_accepted, THIN_AIR, "was never accepted for"),
    spoiling!(of_another_inbox, THIN_AIR, "was never accepted for"),
    spoiling!(not_yet_accepted, THIN_AIR, "was never accepted for"),
    spoiling!(in_other_words, THIN_AIR, "is not what was accepted"),
    spoiling!(dropped, ORDER, "were shown to"),
    spoiling!(doubled, ORDER, "were shown to"),
    spoiling!(swapped, ORDER, "were shown to"),
    spoiling!(more_than_asked_for, ORDER, "were shown to"),
    spoiling!(what_was_to_be_kept_back, ORDER, "were shown to"),
    spoiling!(what_another_channel_got, ORDER, "were shown to"),
    spoiling!(in_the_place_of_another, ORDER, "is in the place of"),
    spoiling!(more_left_than_remain, ORDER, "remain for"),
    spoiling!(read_in_other_words, EARLIER, "is shown as read"),
    spoiling!(read_of_another_sender, EARLIER, "is shown as read"),
    spoiling!(read_in_no_order, EARLIER, "what was read is not shown in order"),
    spoiling!(
        read_without_being_asked_for,
        EARLIER,
        "more is shown as read than is asked for",
    ),
    spoiling!(read_and_left_out, EARLIER, "were handed over, and"),
    spoiling!(without_a_mark, REPEATED, "is shown after"),
    spoiling!(with_a_mark_at_first, REPEATED, "is shown after"),
    spoiling!(again_after_it_arrived, REPEATED, "is shown after"),
    spoiling!(again_while_it_stands, REPEATED, "is shown after"),
    spoiling!(start_kept_back, START, "is told of"),
    spoiling!(start_kept_back_beside_a_post, START, "is told of"),
    spoiling!(start_told_to_who_lost_nothing, START, "is told of"),
    spoiling!(start_told_again, START, "is told of"),
    spoiling!(start_told_to_the_person_instead, START, "is told of"),
    spoiling!(start_at_another_time, START, "is told of"),
    spoiling!(last_read_left_out, LOST, "is lost to"),
    spoiling!(last_shown_to_nobody, LOST, "is lost to"),
    spoiling!(open_and_never_shown_again, LOST, "is lost to"),
    spoiling!(passed_before_it_was_there, LOST, "is lost to"),
];

/// Finds a reply that shows so many messages or more.
fn showing<'h, 'a>(history: &'h History<'a>, many: usize) -> Option<&'h Shown<'a>> {
    history.reply(|shown| shown.deliveries.len() >= many)
}

fn two_copies(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, ..) = history.post(|_, _, agents| !agents.is_empty())?;
    spoiled.change_accepted(at, |_, agents| agents.push(agents[0].clone()));
    Some(())
}

fn never_accepted(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(showing(history, 1)?, |deliveries| {
        Arc::make_mut(&mut deliveries[0].message).id = MessageId(uuid::Uuid::from_u128(7));
    });
    Some(())
}

/// Shows another message of those that were accepted.
fn show_another(
    history: &History<'_>,
    spoiled: &mut Spoiled,
    fits: impl Fn(&Shown<'_>, &Copy<'_>) -> bool,
) -> Option<()> {
    let other = |shown: &Shown<'_>| history.accepted.iter().find(|copy| fits(shown, copy));
    let shown = history.reply(|shown| !shown.deliveries.is_empty() && other(shown).is_some())?;
    let copy = other(shown)?;
    spoiled.change_shown(shown, |deliveries| {
        deliveries[0].message = Arc::clone(copy.message)
    });
    Some(())
}

fn of_another_inbox(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    show_another(history, spoiled, |shown, copy| {
        let mut same = history
            .accepted
            .iter()
            .filter(|other| other.number == copy.number);
        copy.step < shown.step && same.all(|copy| copy.inbox.0 != shown.inbox.0)
    })
}

fn not_yet_accepted(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    show_another(history, spoiled, |shown, copy| {
        copy.step > shown.step && copy.inbox == shown.inbox
    })
}

fn in_other_words(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(showing(history, 1)?, |deliveries| reword(&mut deliveries[0]));
    Some(())
}

fn dropped(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(showing(history, 1)?, |deliveries| {
        deliveries.remove(0);
    });
    Some(())
}

fn doubled(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(showing(history, 1)?, |deliveries| {
        deliveries.push(deliveries[0].clone())
    });
    Some(())
}

fn swapped(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(showing(history, 2)?, |deliveries| deliveries.swap(0, 1));
    Some(())
}

/// Has a reply be one to a read that asked for something else.
fn ask_for(spoiled: &mut Spoiled, asked: &Asked<'_>, change: impl Fn(&mut mail::Command)) {
    spoiled.change_read(asked.step, change);
}

fn more_than_asked_for(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    ask_for(spoiled, history.asks(showing(history, 2)?), |read| {
        options_of(read).limit = NonZeroUsize::new(1);
    });
    Some(())
}

fn options_of(read: &mut mail::Command) -> &mut mail::ReadOptions {
    let mail::Command::Read { options, .. } = read else {
        panic!("{read:?} is no read")
    };
    options.get_or_insert_default()
}

fn of_read<'h, 'a>(history: &'h History<'a>) -> Option<&'h Shown<'a>> {
    history.reply(|shown| shown.wanted.question.is_none() && !shown.deliveries.is_empty())
}

fn what_was_to_be_kept_back(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    ask_for(spoiled, history.asks(of_read(history)?), |read| {
        options_of(read).from = Some("somebody".to_owned());
    });
    Some(())
}

fn what_another_channel_got(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    ask_for(spoiled, history.asks(of_read(history)?), |read| {
        options_of(read).channel = Some("#nowhere".to_owned());
    });
    Some(())
}

fn in_the_place_of_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(showing(history, 2)?, |deliveries| {
        let first = Arc::clone(&deliveries[0].message);
        deliveries[0].message = mem::replace(&mut deliveries[1].message, first);
    });
    Some(())
}

/// Changes what a reply says beside what it shows.
fn change_reply(
    spoiled: &mut Spoiled,
    shown: &Shown<'_>,
    change: impl Fn(&mut usize, &mut Option<Timestamp>, &mut Vec<Delivery>),
) {
    spoiled.change_answer((shown.step, shown.call), |answer| {
        if let Ok(Reply::Mail(mail::Reply::Messages {
            remaining,
            restarted,
            earlier,
            ..
        })) = answer
        {
            change(remaining, restarted, earlier);
        }
    });
}

fn more_left_than_remain(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|_| true)?;
    change_reply(spoiled, shown, |remaining, _, _| *remaining += 1);
    Some(())
}

/// Finds a reply that shows so many or more that were read.
fn with_earlier<'h, 'a>(history: &'h History<'a>, many: usize) -> Option<&'h Shown<'a>> {
    history.reply(|shown| shown.earlier.len() >= many)
}

fn read_in_other_words(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    change_reply(spoiled, with_earlier(history, 1)?, |_, _, earlier| {
        reword(&mut earlier[0])
    });
    Some(())
}

fn read_of_another_sender(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    ask_for(spoiled, history.asks(with_earlier(history, 1)?), |read| {
        options_of(read).from = Some("somebody".to_owned());
    });
    Some(())
}

fn read_in_no_order(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    change_reply(spoiled, with_earlier(history, 2)?, |_, _, earlier| {
        earlier.swap(0, 1)
    });
    Some(())
}

fn read_without_being_asked_for(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    ask_for(spoiled, history.asks(with_earlier(history, 1)?), |read| {
        options_of(read).earlier = false;
    });
    Some(())
}

/// Nothing of it was handed over in the same step.
fn read_and_left_out(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| {
        let mut others = history.shown.iter().filter(|other| other.call != shown.call);
        !shown.earlier.is_empty() && others.all(|other| other.step != shown.step)
    })?;
    change_reply(spoiled, shown, |_, _, earlier| {
        earlier.pop();
    });
    Some(())
}

fn without_a_mark(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| shown.deliveries.first().is_some_and(|d| d.redelivered))?;
    spoiled.change_shown(shown, |deliveries| deliveries[0].redelivered = false);
    Some(())
}

fn with_a_mark_at_first(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| shown.deliveries.first().is_some_and(|d| !d.redelivered))?;
    spoiled.change_shown(shown, |deliveries| deliveries[0].redelivered = true);
    Some(())
}

/// Shows with a mark in a later reply what stood in an earlier one.
fn show_again(
    history: &History<'_>,
    spoiled: &mut Spoiled,
    fits: impl Fn(&Shown<'_>, &Shown<'_>) -> bool,
) -> Option<()> {
    let later = |shown: &Shown<'_>| {
        let mut others = history.shown.iter().filter(|other| other.inbox == shown.inbox);
        others.find(|other| other.step > shown.step && fits(shown, other))
    };
    let shown = history.reply(|shown| !shown.deliveries.is_empty() && later(shown).is_some())?;
    let mut again = shown.deliveries[0].clone();
    again.redelivered = true;
    spoiled.change_shown(later(shown)?, |deliveries| deliveries.insert(0, again.clone()));
    Some(())
}

fn again_after_it_arrived(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    show_again(
        history,
        spoiled,
        |shown, other| matches!(shown.fate, Fate::Arrived(at) if at < other.step),
    )
}

/// It did not arrive, but that was not known yet.
fn again_while_it_stands(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    show_again(
        history,
        spoiled,
        |shown, other| matches!(shown.fate, Fate::Failed(at) if at > other.step),
    )
}

fn start_kept_back(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| shown.restarted.is_some())?;
    change_reply(spoiled, shown, |_, restarted, _| *restarted = None);
    Some(())
}

fn start_kept_back_beside_a_post(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let mut told = history.shown.iter().filter(|shown| !shown.is_read);
    let shown = told.find(|shown| {
        let asked = &history.calls[&shown.call];
        matches!(asked.command, Command::Mail(mail::Command::Post { .. }))
    })?;
    spoiled.change_reply((shown.step, shown.call), |answer| {
        if let Ok(Reply::AfterStart { reply, .. }) = answer {
            *answer = Ok(mem::replace(
                reply,
                Reply::Mail(mail::Reply::Pending { kinds: Vec::new() }),
            ));
        }
    });
    Some(())
}

fn start_told_to_who_lost_nothing(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| !history.may_have_lost_something(&shown.agent))?;
    tell(history, spoiled, shown, 0);
    Some(())
}

fn tell(history: &History<'_>, spoiled: &mut Spoiled, shown: &Shown<'_>, late_by: i64) {
    let started_at = history.steps[0].before.boot.started_at;
    change_reply(spoiled, shown, |_, restarted, _| {
        *restarted = Some(started_at.plus_millis(late_by));
    });
}

fn start_told_again(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history
        .reply(|shown| shown.restarted.is_none() && !shown.in_stead && shown.wanted.question.is_none())?;
    tell(history, spoiled, shown, 0);
    Some(())
}

fn start_told_to_the_person_instead(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| shown.in_stead)?;
    tell(history, spoiled, shown, 0);
    Some(())
}

fn start_at_another_time(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| shown.restarted.is_some())?;
    tell(history, spoiled, shown, 1);
    Some(())
}

/// Finds the last of all replies that shows something; those that come after it show nothing.
fn last<'h, 'a>(history: &'h History<'a>) -> Option<&'h Shown<'a>> {
    let mut last = history.shown.iter().rev();
    last.find(|shown| !shown.deliveries.is_empty() && shown.fate == Fate::Open)
}

fn last_read_left_out(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.steps.remove(last(history)?.step);
    Some(())
}

fn last_shown_to_nobody(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = last(history)?;
    spoiled.take(shown.step, |effect| is_answer(effect, shown.call));
    Some(())
}

/// Nothing was said of the reply in which it stood, and it is in none of the last.
fn open_and_never_shown_again(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let again = |shown: &Shown<'_>| {
        let mut later = history.shown.iter().filter(|other| other.step > shown.step);
        let has = |other: &Shown<'_>| {
            other
                .deliveries
                .iter()
                .any(|d| d.message.id == shown.deliveries[0].message.id)
        };
        let again = later.find(|other| other.inbox == shown.inbox && has(other))?;
        (again.fate == Fate::Open && history.is_last(again.step)).then_some(again)
    };
    let failed = |shown: &Shown<'_>| match shown.fate {
        Fate::Failed(at) => Some(at),
        Fate::Open | Fate::Arrived(_) => None,
    };
    let shown = history
        .reply(|shown| !shown.deliveries.is_empty() && failed(shown).is_some() && again(shown).is_some())?;
    spoiled.steps.remove(again(shown)?.step);
    spoiled.steps[failed(shown)?].event = Event::Timeout;
    Some(())
}

/// A reply is said to be passed just before it is given, and never again, so that nothing can show that it was read.
fn passed_before_it_was_there(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = history.reply(|shown| {
        let arrived = matches!(shown.fate, Fate::Arrived(_)) && shown.read.is_some();
        arrived && !shown.deliveries.is_empty() && shown.step > history.asks(shown).step
    })?;
    let passed = Event::Seen(shown.call, Sign::Passed);
    for step in spoiled.steps.iter_mut().filter(|step| step.event == passed) {
        step.event = Event::Seen(CallId(u64::MAX), Sign::Passed);
    }
    let before = spoiled.steps[shown.step - 1].clone();
    let too_early = Step {
        event: passed,
        before: before.after.clone(),
        all_effects: Vec::new(),
        effects: Vec::new(),
        ..before
    };
    spoiled.steps.insert(shown.step, too_early);
    Some(())
}

impl History<'_> {
    /// Tells whether nothing but reads came after a step.
    fn is_last(&self, at: usize) -> bool {
        let later = &self.steps[at..];
        later
            .iter()
            .all(|step| matches!(step.event, Event::Input(Input::Call { .. })))
    }
}
