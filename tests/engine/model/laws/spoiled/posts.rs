//! Posts: what is accepted, how they are answered, whose inboxes they are in, and how turns are counted.

use relay::engine::Kind;
use relay::engine::Role;
use relay::engine::address::Warning;
use relay::engine::limits::IDEMPOTENCY_MS;

use super::*;

pub(super) const SPOILINGS: &[Spoiling] = &[
    spoiling!(of_another, POSTED, "a post was accepted as something else"),
    spoiling!(of_another_kind, POSTED, "a post was accepted as something else"),
    spoiling!(in_other_words, POSTED, "a post was accepted as something else"),
    spoiling!(at_another_time, POSTED, "a post was accepted as something else"),
    spoiling!(
        with_other_metadata,
        POSTED,
        "a post was accepted as something else",
    ),
    spoiling!(in_another_thread, POSTED, "a post was accepted as something else"),
    spoiling!(
        in_reply_to_another,
        POSTED,
        "a post was accepted as something else",
    ),
    spoiling!(with_the_id_of_another, POSTED, "an id was given twice"),
    spoiling!(by_nobody, POSTED, "something was accepted that nobody posted"),
    spoiling!(answered_with_another_id, POSTED, "an accepted post was answered"),
    spoiling!(
        answered_with_another_address,
        POSTED,
        "an accepted post was answered",
    ),
    spoiling!(
        answered_with_another_thread,
        POSTED,
        "an accepted post was answered",
    ),
    spoiling!(answered_and_waiting, POSTED, "an accepted post was answered"),
    spoiling!(
        neither_answered_nor_waiting,
        POSTED,
        "an accepted post was answered",
    ),
    spoiling!(refused_and_accepted, POSTED, "an accepted post was answered"),
    spoiling!(not_logged, POSTED, "a post was not logged"),
    spoiling!(logged_earlier, POSTED, "a post was not logged"),
    spoiling!(
        repeated_with_another_id,
        POSTED,
        "was not posted before by the same words",
    ),
    spoiling!(
        repeated_in_other_words,
        POSTED,
        "was not posted before by the same words",
    ),
    spoiling!(
        repeated_by_another,
        POSTED,
        "was not posted before by the same words",
    ),
    spoiling!(
        repeated_without_a_key,
        POSTED,
        "was not posted before by the same words",
    ),
    spoiling!(
        repeated_too_late,
        POSTED,
        "was not posted before by the same words",
    ),
    spoiling!(more_turns_than_there_are, POSTED, "turns were counted wrongly"),
    spoiling!(turns_of_the_person, POSTED, "turns were counted wrongly"),
    spoiling!(fewer_turns_than_there_are, POSTED, "turns, not"),
    spoiling!(one_left_out, MEANT, "went to"),
    spoiling!(one_too_many, MEANT, "went to"),
    spoiling!(to_nobody, MEANT, "a message went to nobody"),
];

fn is_context(message: &Message, fits: impl Fn(&relay::engine::Context) -> bool) -> bool {
    message.context.as_deref().is_some_and(fits)
}

/// Accepts a post as something else.
fn accept_as(
    history: &History<'_>,
    spoiled: &mut Spoiled,
    fits: impl Fn(&Message) -> bool,
    change: impl Fn(&mut Message),
) -> Option<()> {
    let (at, ..) = history.post(|_, message, _| fits(message))?;
    spoiled.change_accepted(at, |message, _| change(message));
    Some(())
}

/// The same for one that belongs to something.
fn accept_with(
    history: &History<'_>,
    spoiled: &mut Spoiled,
    fits: impl Fn(&relay::engine::Context) -> bool,
    change: impl Fn(&mut relay::engine::Context),
) -> Option<()> {
    let fits = |message: &Message| is_context(message, &fits);
    accept_as(history, spoiled, fits, |message| {
        message.context.as_deref_mut().into_iter().for_each(&change)
    })
}

fn of_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let other = AgentName::new("somebody").expect("a name");
    accept_as(history, spoiled, |_| true, |message| message.from = other.clone())
}

fn of_another_kind(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let is_chat = |message: &Message| message.kind == Kind::ALL[0];
    accept_as(history, spoiled, is_chat, |message| message.kind = Kind::ALL[1])
}

fn in_other_words(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    accept_as(history, spoiled, |_| true, |message| message.body.push('!'))
}

fn at_another_time(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    accept_as(
        history,
        spoiled,
        |_| true,
        |message| message.ts = message.ts.plus_millis(1),
    )
}

fn with_other_metadata(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    accept_with(
        history,
        spoiled,
        |context| context.metadata.is_some(),
        |context| context.metadata = None,
    )
}

/// What its sender named is another than what it is in.
fn in_another_thread(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    accept_with(
        history,
        spoiled,
        |context| context.thread.as_deref() == Some("one"),
        |context| context.thread = Some("two".to_owned()),
    )
}

fn in_reply_to_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (_, other) = &history.posted.first().map(|(at, message, _)| (at, message.id))?;
    accept_with(
        history,
        spoiled,
        |context| context.reply_to.is_some_and(|id| id != *other),
        |context| context.reply_to = Some(*other),
    )
}

fn with_the_id_of_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let [(_, first, _), (at, ..), ..] = history.posted[..] else {
        return None;
    };
    spoiled.change_accepted(at, |message, _| message.id = first.id);
    Some(())
}

fn by_nobody(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, ..) = history.post(|at, _, _| history.steps[at + 1].event == Event::Timeout)?;
    spoiled.bring(at, at + 1, is_accepted);
    Some(())
}

/// Changes the answer to a post that was accepted.
fn answer_with(
    history: &History<'_>,
    spoiled: &mut Spoiled,
    change: impl Fn(&mut MessageId, &mut Recipient, &mut Option<Box<str>>),
) -> Option<()> {
    let place = history.answered(|_, at, answer| {
        let posted = matches!(answer, Ok(Reply::Mail(mail::Reply::Posted { .. })));
        posted && history.post(|posted, _, _| posted == at).is_some()
    })?;
    spoiled.change_answer(place, |answer| {
        if let Ok(Reply::Mail(mail::Reply::Posted { id, to, thread, .. })) = answer {
            change(id, to, thread);
        }
    });
    Some(())
}

fn nowhere() -> MessageId {
    MessageId(uuid::Uuid::from_u128(7))
}

fn answered_with_another_id(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    answer_with(history, spoiled, |id, _, _| *id = nowhere())
}

fn answered_with_another_address(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    answer_with(history, spoiled, |_, to, _| {
        *to = Recipient::everyone(Some("nowhere"))
    })
}

fn answered_with_another_thread(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    answer_with(history, spoiled, |_, _, thread| *thread = Some("another".into()))
}

/// Changes for how long a post may wait that was accepted.
fn change_wait(history: &History<'_>, spoiled: &mut Spoiled, before: bool, to: Option<u32>) -> Option<()> {
    let asked = history.calls.values().find(|asked| {
        let has_options = matches!(
            asked.command,
            Command::Mail(mail::Command::Post { options: Some(_), .. })
        );
        let accepted = history.post(|at, _, _| at == asked.step).is_some();
        has_options && accepted && wait_ms(asked.command).is_some() == before
    })?;
    spoiled.change_read(asked.step, |post| {
        if let mail::Command::Post {
            options: Some(options),
            ..
        } = post
        {
            options.await_ms = to;
        }
    });
    Some(())
}

fn answered_and_waiting(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    change_wait(history, spoiled, false, Some(10))
}

fn neither_answered_nor_waiting(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    change_wait(history, spoiled, true, None)
}

fn refused_and_accepted(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = history.answered(|asked, at, _| {
        let accepted = history.post(|posted, _, _| posted == at).is_some();
        at == asked.step && accepted
    })?;
    spoiled.change_answer(place, |answer| *answer = Err(Refusal::Stopping));
    Some(())
}

fn not_logged(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) =
        history.answered(|_, _, answer| matches!(answer, Ok(Reply::Mail(mail::Reply::Posted { .. }))))?;
    let takes = |effect: &Effect| is_accepted(effect);
    let [taken, _] = spoiled.take(at, takes);
    (!taken.is_empty()).then_some(())
}

/// A refused post is answered as an earlier one was.
fn logged_earlier(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let first = history.calls.values().find_map(|asked| {
        let (_, answer) = asked.answers.first()?;
        matches!(answer, Ok(Reply::Mail(mail::Reply::Posted { .. }))).then(|| answer.clone())
    })?;
    let place = history.answered(|asked, at, answer| {
        let is_post = matches!(asked.command, Command::Mail(mail::Command::Post { .. }));
        is_post && answer.is_err() && at == asked.step
    })?;
    spoiled.change_answer(place, |answer| *answer = first.clone());
    Some(())
}

fn is_repeated(answer: &Result<Reply, Refusal>) -> bool {
    matches!(answer, Ok(Reply::Mail(mail::Reply::Posted { warnings, .. })) if warnings.contains(&Warning::Repeated))
}

fn repeated_with_another_id(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = history.answered(|_, _, answer| is_repeated(answer))?;
    spoiled.change_answer(place, |answer| {
        if let Ok(Reply::Mail(mail::Reply::Posted { id, .. })) = answer {
            *id = nowhere();
        }
    });
    Some(())
}

fn repeated_in_other_words(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) = history.answered(|_, _, answer| is_repeated(answer))?;
    spoiled.change_read(at, |post| {
        if let mail::Command::Post { body, .. } = post {
            body.push('!');
        }
    });
    Some(())
}

/// The words and the key are the same, and somebody else says them.
fn repeated_by_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) = history.answered(|_, _, answer| is_repeated(answer))?;
    spoiled.change_read(at, |post| {
        if let mail::Command::Post { from, .. } = post {
            *from = Some("somebody".to_owned());
        }
    });
    Some(())
}

/// Neither of the two has a key.
fn repeated_without_a_key(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = history.answered(|_, _, answer| is_repeated(answer))?;
    let Ok(Reply::Mail(mail::Reply::Posted { id, .. })) = &history.calls[&call].answers[0].1 else {
        return None;
    };
    let (first, ..) = history.post(|_, message, _| message.id == *id)?;
    for at in [first, at] {
        spoiled.change_read(at, |post| {
            if let mail::Command::Post {
                options: Some(options),
                ..
            } = post
            {
                options.idempotency_key = None;
            }
        });
    }
    Some(())
}

/// To the millisecond.
fn repeated_too_late(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = history.answered(|_, _, answer| is_repeated(answer))?;
    let Ok(Reply::Mail(mail::Reply::Posted { id, .. })) = &history.calls[&call].answers[0].1 else {
        return None;
    };
    let (_, first, _) = history.post(|_, message, _| message.id == *id)?;
    spoiled.steps[at].now = first.ts.plus_millis(IDEMPOTENCY_MS);
    Some(())
}

fn more_turns_than_there_are(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    accept_with(history, spoiled, |_| true, |context| context.hops += 5)
}

/// As many as another's would be.
fn turns_of_the_person(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let is_persons = |message: &Message| message.from.is_person() && message.answers().is_some();
    accept_as(history, spoiled, is_persons, |message| {
        if let Some(context) = message.context.as_deref_mut() {
            context.hops = 1;
        }
    })
}

fn fewer_turns_than_there_are(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    accept_with(
        history,
        spoiled,
        |context| context.hops > 0,
        |context| context.hops -= 1,
    )
}

fn one_left_out(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, ..) = history.post(|_, _, agents| agents.len() > 1)?;
    spoiled.change_accepted(at, |_, agents| {
        agents.pop();
    });
    Some(())
}

fn one_too_many(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let other = |at: usize, agents: &[AgentName]| {
        let mut pending = history.steps[at].after.pending.iter();
        let other = pending.find(|(name, _)| agents.last().is_some_and(|last| name > last));
        other.map(|(name, _)| name.clone())
    };
    let (at, _, agents) = history.post(|at, _, agents| other(at, agents).is_some())?;
    let other = other(at, agents)?;
    spoiled.change_accepted(at, |_, agents| agents.push(other.clone()));
    Some(())
}

/// Nobody has the role.
fn to_nobody(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let role = Role::new("nobody").expect("a name");
    let (at, ..) = history.post(|_, _, _| true)?;
    spoiled.change_accepted(at, |message, agents| {
        message.to = Recipient::role(&role);
        agents.clear();
    });
    Some(())
}
