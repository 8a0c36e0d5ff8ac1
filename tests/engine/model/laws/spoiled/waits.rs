//! Waits: when they end, and with what; those that are to be the only ones, and those for an answer.

use super::*;

pub(super) const SPOILINGS: &[Spoiling] = &[
    spoiling!(too_long, WAITS, "waited beyond its deadline"),
    spoiling!(
        without_being_asked,
        WAITS,
        "may not wait, but was not answered at once",
    ),
    spoiling!(for_what_is_there, WAITS, "waits for something that is there"),
    spoiling!(
        for_what_it_wants_and_is_there,
        WAITS,
        "waits for something that is there",
    ),
    spoiling!(
        before_the_start_is_told,
        WAITS,
        "waits while the start is to be told",
    ),
    spoiling!(for_no_answer_too_short, WAITS, "got no answer before its time"),
    spoiling!(
        for_no_answer_as_long_as_it_says,
        WAITS,
        "got no answer before its time",
    ),
    spoiling!(too_short, WAITS, "was answered with nothing before its time"),
    spoiling!(
        until_another_waits,
        WAITS,
        "was answered with nothing before its time",
    ),
    spoiling!(until_it_looks, WAITS, "was answered with nothing before its time"),
    spoiling!(beside_another, ALONE, "a second read waits beside the first"),
    spoiling!(refused_without_being_asked, ALONE, "for whom nobody waits"),
    spoiling!(refused_for_another, ALONE, "for whom nobody waits"),
    spoiling!(refused_alone, ALONE, "for whom nobody waits"),
    spoiling!(answered_with_the_start, START, "is told of"),
    spoiling!(answered_with_two, AWAITED, "was answered"),
    spoiling!(answered_with_none, AWAITED, "was answered"),
    spoiling!(answered_with_a_count, AWAITED, "was answered"),
    spoiling!(answered_later, AWAITED, "and went elsewhere"),
    spoiling!(answered_to_another, AWAITED, "and went elsewhere"),
];

/// Finds a read that waited in vain until a timeout.
fn in_vain(history: &History<'_>, fits: impl Fn(&Asked<'_>, usize) -> bool) -> Option<(usize, CallId)> {
    let shown = history.reply(|shown| {
        let asked = history.asks(shown);
        let in_vain = !shown.hands_over() && shown.step > asked.step;
        in_vain && history.steps[shown.step].event == Event::Timeout && fits(asked, shown.step)
    })?;
    Some((shown.step, shown.call))
}

fn too_long(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = in_vain(history, |_, _| true)?;
    spoiled.answer_in((at, call), at + 1);
    Some(())
}

fn without_being_asked(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) =
        history.answered(|asked, _, answer| wait_ms(asked.command).is_none() && answer.is_ok())?;
    spoiled.answer_in((at, call), at + 1);
    Some(())
}

/// Finds a read that may wait and was answered at once, while it could have waited for long.
fn at_once<'h, 'a>(history: &'h History<'a>, fits: impl Fn(&Shown<'_>) -> bool) -> Option<&'h Shown<'a>> {
    history.reply(|shown| {
        let asked = history.asks(shown);
        let may_wait = wait_ms(asked.command).is_some_and(|ms| ms > 1_000);
        may_wait && shown.step == asked.step && !history.is_stopping(shown.step + 2) && fits(shown)
    })
}

/// All that it did not ask for is left where it was.
fn for_what_it_wants_and_is_there(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = at_once(history, |shown| {
        !shown.deliveries.is_empty() && shown.remaining > 0 && !shown.wanted.is_all()
    })?;
    spoiled.answer_in((shown.step, shown.call), shown.step + 1);
    Some(())
}

/// Asks for whatever there is.
fn for_what_is_there(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (_, asked) = history.calls.iter().find(|(_, asked)| {
        let is_read = matches!(asked.command, Command::Mail(mail::Command::Read { .. }));
        let at_once = asked.answers.first().is_some_and(|(at, _)| *at == asked.step);
        let agent = history.speaker(asked.session, asked.command);
        let mut pending = history.steps[asked.step].after.pending.iter();
        let there = pending.any(|(name, count)| Some(name) == agent.as_ref() && *count > 0);
        is_read && history.was_open(asked.session, asked.step) && !at_once && there
    })?;
    spoiled.change_read(asked.step, |read| {
        if let mail::Command::Read {
            options: Some(options),
            ..
        } = read
        {
            (options.from, options.channel) = (None, None);
        }
    });
    Some(())
}

fn before_the_start_is_told(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = at_once(history, |shown| {
        shown.restarted.is_some() && shown.deliveries.is_empty() && shown.remaining == 0
    })?;
    spoiled.answer_in((shown.step, shown.call), shown.step + 1);
    Some(())
}

fn no_answer(history: &History<'_>, fits: impl Fn(&Asked<'_>, usize) -> bool) -> Option<(usize, CallId)> {
    history.answered(|asked, at, answer| {
        let none = matches!(answer, Err(Refusal::Mail(mail::Refusal::NoAnswer { .. })));
        none && fits(asked, at)
    })
}

fn for_no_answer_too_short(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = no_answer(history, |asked, at| at > asked.step + 1)?;
    spoiled.answer_in((at, call), at - 1);
    Some(())
}

fn for_no_answer_as_long_as_it_says(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_answer(no_answer(history, |_, _| true)?, |answer| {
        if let Err(Refusal::Mail(mail::Refusal::NoAnswer { ms, .. })) = answer {
            *ms += 1;
        }
    });
    Some(())
}

/// Until something that is no call.
fn too_short(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = in_vain(history, |asked, at| {
        let before = &history.steps[at - 1].event;
        at > asked.step + 1 && !matches!(before, Event::Input(Input::Call { .. }))
    })?;
    spoiled.answer_in((at, call), at - 1);
    Some(())
}

/// Finds a read that waited in vain, and a call that was made meanwhile.
fn meanwhile(
    history: &History<'_>,
    fits: impl Fn(&Asked<'_>, &Asked<'_>) -> bool,
) -> Option<((usize, CallId), usize)> {
    let between = |asked: &Asked<'_>, at: usize| {
        let mut others = history.calls.values();
        let other = others.find(|other| asked.step < other.step && other.step < at && fits(asked, other));
        other.map(|other| other.step)
    };
    let (at, call) = in_vain(history, |asked, at| between(asked, at).is_some())?;
    Some(((at, call), between(&history.calls[&call], at)?))
}

/// It is another session that waits.
fn until_another_waits(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (place, to) = meanwhile(history, |asked, other| {
        let is_read = matches!(other.command, Command::Mail(mail::Command::Read { .. }));
        is_read && wait_ms(other.command).is_some() && other.session != asked.session
    })?;
    spoiled.answer_in(place, to);
    Some(())
}

/// It looks itself, and for the same agent, but does not wait.
fn until_it_looks(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (place, to) = meanwhile(history, |asked, other| {
        let [agent, looks_for] = [asked, other].map(|asked| history.speaker(asked.session, asked.command));
        wait_ms(other.command).is_none() && other.session == asked.session && agent == looks_for
    })?;
    spoiled.answer_in(place, to);
    Some(())
}

/// Says of a read what is to become of it if another one waits.
fn change_second(spoiled: &mut Spoiled, at: usize, to: mail::Second) {
    spoiled.change_read(at, |read| {
        if let mail::Command::Read { second, .. } = read {
            *second = to;
        }
    });
}

fn beside_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let asked = history.calls.values().find(|asked| {
        let is_read = matches!(asked.command, Command::Mail(mail::Command::Read { .. }));
        let at_once = asked.answers.first().is_some_and(|(at, _)| *at == asked.step);
        let waits = is_read && history.was_open(asked.session, asked.step) && !at_once;
        waits && history.waits_beside(asked.step, asked).next().is_some()
    })?;
    change_second(spoiled, asked.step, mail::Second::IsRefused);
    Some(())
}

fn refused_for_it(history: &History<'_>) -> Option<(usize, CallId)> {
    history.answered(|_, _, answer| matches!(answer, Err(Refusal::Mail(mail::Refusal::AlreadyWaits { .. }))))
}

fn refused_without_being_asked(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) = refused_for_it(history)?;
    change_second(spoiled, at, mail::Second::Supersedes);
    Some(())
}

fn refused_for_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let other = AgentName::new("somebody").expect("a name");
    spoiled.change_answer(refused_for_it(history)?, |answer| {
        let agent = other.clone();
        *answer = Err(Refusal::Mail(mail::Refusal::AlreadyWaits { agent }));
    });
    Some(())
}

fn refused_alone(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = history.answered(|asked, at, _| {
        let refuses = matches!(asked.command, Command::Mail(mail::Command::Read { second, .. })
            if *second == mail::Second::IsRefused);
        at == asked.step && refuses && history.waits_beside(at, asked).next().is_none()
    })?;
    let asked = &history.calls[&place.1];
    let agent = history.speaker(asked.session, asked.command)?;
    spoiled.change_answer(place, |answer| {
        let agent = agent.clone();
        *answer = Err(Refusal::Mail(mail::Refusal::AlreadyWaits { agent }));
    });
    Some(())
}

/// Finds the answer to a post that waited for it.
fn awaited<'h, 'a>(history: &'h History<'a>) -> Option<&'h Shown<'a>> {
    history.reply(|shown| shown.wanted.question.is_some() && !shown.deliveries.is_empty())
}

fn answered_with_the_start(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = awaited(history)?;
    spoiled.change_answer((shown.step, shown.call), |answer| {
        if let Ok(Reply::Mail(mail::Reply::Messages { restarted, .. })) = answer {
            *restarted = Some(history.steps[0].before.boot.started_at);
        }
    });
    Some(())
}

fn answered_with_two(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(awaited(history)?, |deliveries| {
        deliveries.push(deliveries[0].clone())
    });
    Some(())
}

fn answered_with_none(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_shown(awaited(history)?, Vec::clear);
    Some(())
}

fn answered_with_a_count(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = awaited(history)?;
    spoiled.change_answer((shown.step, shown.call), |answer| {
        *answer = Ok(Reply::Mail(mail::Reply::Pending { kinds: Vec::new() }));
    });
    Some(())
}

fn answered_later(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = awaited(history)?;
    spoiled.answer_in((shown.step, shown.call), shown.step + 1);
    Some(())
}

fn answered_to_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let shown = awaited(history)?;
    let other = history.reply(|other| other.wanted.question.is_none() && other.step < shown.step)?;
    for effect in spoiled.effects(shown.step) {
        if let Effect::Reply { call, .. } = effect
            && *call == shown.call
        {
            *call = other.call;
        }
    }
    Some(())
}
