//! Answers: their number, for whom a session speaks, what a look shows, and what a refusal and a fenced session bring.

use super::*;

pub(super) const SPOILINGS: &[Spoiling] = &[
    spoiling!(twice, ANSWERED, "was answered twice"),
    spoiling!(never, ANSWERED, "was never answered"),
    spoiling!(to_nobody, ANSWERED, "was answered to nobody"),
    spoiling!(
        after_it_was_given_up,
        ANSWERED,
        "was answered after it was given up",
    ),
    spoiling!(refused_with_more, REFUSED, "a refusal came with something else"),
    spoiling!(refused_and_told, REFUSED, "a refusal came with something else"),
    spoiling!(refused_and_counted, REFUSED, "a refusal changed something"),
    spoiling!(refused_and_gone, REFUSED, "a refusal changed something"),
    spoiling!(not_admitted_and_counted, REFUSED, "a refusal changed something"),
    spoiling!(for_another, SPEAKS, "a session spoke for"),
    spoiling!(for_another_in_a_resource, SPEAKS, "a session spoke for"),
    spoiling!(counted_wrongly, LOOK, "a look counted wrongly"),
    spoiling!(counted_and_changed, LOOK, "a look changed something"),
    spoiling!(shown_in_other_words, LOOK, "a look showed"),
    spoiling!(shown_before_it_came, LOOK, "a look showed"),
    spoiling!(found_in_other_words, LOOK, "a look showed"),
    spoiling!(found_before_it_came, LOOK, "a look showed"),
    spoiling!(found_and_changed, LOOK, "a look showed"),
    spoiling!(fenced_and_answered, FENCED, "is fenced and was answered"),
    spoiling!(
        fenced_while_it_waited_and_answered,
        FENCED,
        "is fenced and was answered",
    ),
    spoiling!(fenced_and_waiting, FENCED, "is fenced and waits"),
];

fn nothing_waits() -> Result<Reply, Refusal> {
    Ok(Reply::Mail(mail::Reply::Pending { kinds: Vec::new() }))
}

fn answer(call: CallId) -> Effect {
    Effect::Reply {
        call,
        result: nothing_waits(),
        handover: None,
    }
}

fn twice(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = history.answered(|_, _, answer| answer.is_ok())?;
    spoiled.add(at + 1, answer(call));
    Some(())
}

fn never(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let mut last = history.calls.iter().rev();
    let (call, asked) = last.find(|(call, asked)| history.given_up(**call, asked).is_none())?;
    let (at, _) = asked.answers.first()?;
    spoiled.take(*at, |effect| is_answer(effect, *call));
    Some(())
}

fn to_nobody(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let mut calls = history.calls.iter();
    let (call, asked) = calls.find(|(_, asked)| !history.was_open(asked.session, asked.step))?;
    spoiled.add(asked.step, answer(*call));
    Some(())
}

/// In the very step.
fn after_it_was_given_up(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (call, at) = history.calls.iter().find_map(|(call, asked)| {
        let waits = history.was_open(asked.session, asked.step) && asked.answers.is_empty();
        Some((*call, history.given_up(*call, asked).filter(|_| waits)?))
    })?;
    spoiled.add(at, answer(call));
    Some(())
}

fn refused(history: &History<'_>) -> Option<usize> {
    let refused = history.answered(|asked, at, answer| at == asked.step && answer.is_err());
    refused.map(|(at, _)| at)
}

fn refused_with_more(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let session = SessionId(1);
    spoiled.add(refused(history)?, Effect::Superseded { session });
    Some(())
}

/// Nobody has gone.
fn refused_and_told(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) = history
        .answered(|asked, at, answer| at == asked.step && answer.is_err() && !history.has_anybody_gone(at))?;
    let changed = Effect::Changed {
        session: SessionId(1),
        what: Watched::Agents,
    };
    spoiled.add(at, changed);
    Some(())
}

fn refused_and_counted(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.steps[refused(history)?].after.pending[0].1 += 1;
    Some(())
}

fn refused_and_gone(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.steps[refused(history)?].after.pending.pop();
    Some(())
}

fn not_admitted_and_counted(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let refused = |effect: &Effect| matches!(effect, Effect::Opened { result: Err(_), .. });
    let mut steps = history.steps.iter();
    let at = steps.position(|step| step.effects.iter().any(refused))?;
    spoiled.steps[at].after.sessions += 1;
    Some(())
}

/// Says that somebody else looks.
fn change_agent(command: &mut Command) {
    if let Command::Resource(command) = command {
        change_agent(command);
    } else if let Command::Mail(mail::Command::Pending { agent } | mail::Command::Peek { agent, .. }) =
        command
    {
        *agent = Some("somebody".to_owned());
    }
}

fn is_look(command: &Command) -> bool {
    matches!(
        command,
        Command::Mail(mail::Command::Pending { .. } | mail::Command::Peek { .. })
    )
}

/// Finds a look of an agent's own session.
fn own_look(history: &History<'_>, fits: impl Fn(&Command) -> bool) -> Option<usize> {
    let (at, _) = history.answered(|asked, _, answer| {
        let admitted = &history.sessions[&asked.session];
        admitted.agent.is_some() && answer.is_ok() && fits(asked.command)
    })?;
    Some(at)
}

fn for_another(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_command(own_look(history, is_look)?, change_agent);
    Some(())
}

fn for_another_in_a_resource(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let at = own_look(
        history,
        |command| matches!(command, Command::Resource(command) if is_look(command)),
    )?;
    spoiled.change_command(at, change_agent);
    Some(())
}

fn counted_wrongly(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = history.answered(
        |_, _, answer| matches!(answer, Ok(Reply::Mail(mail::Reply::Pending { kinds })) if !kinds.is_empty()),
    )?;
    spoiled.change_answer(place, |answer| {
        if let Ok(Reply::Mail(mail::Reply::Pending { kinds })) = answer {
            kinds.pop();
        }
    });
    Some(())
}

fn counted_and_changed(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) =
        history.answered(|_, _, answer| matches!(answer, Ok(Reply::Mail(mail::Reply::Pending { .. }))))?;
    spoiled.steps[at].after.sessions += 1;
    Some(())
}

/// Finds a look that showed something, and changes what it showed.
fn change_seen(
    history: &History<'_>,
    spoiled: &mut Spoiled,
    instead: impl Fn(usize, &AgentName, &mut Delivery) -> bool,
) -> Option<()> {
    let changed = |asked: &Asked<'_>, at: usize, answer: &mut Result<Reply, Refusal>| {
        let agent = history.speaker(asked.session, asked.command);
        match (agent, answer) {
            (Some(agent), Ok(Reply::Mail(mail::Reply::Seen { deliveries, .. }))) => {
                let first = deliveries.first_mut();
                first.is_some_and(|delivery| instead(at, &agent, delivery))
            }
            (Some(_) | None, Ok(_) | Err(_)) => false,
        }
    };
    let (at, call) = history.answered(|asked, at, answer| changed(asked, at, &mut answer.clone()))?;
    let asked = &history.calls[&call];
    spoiled.change_answer((at, call), |answer| {
        changed(asked, at, answer);
    });
    Some(())
}

fn shown_in_other_words(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    change_seen(history, spoiled, |_, _, delivery| {
        reword(delivery);
        true
    })
}

fn shown_before_it_came(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    change_seen(history, spoiled, |at, agent, delivery| {
        let mut later = history.accepted.iter().filter(|copy| copy.step > at);
        let later = later.find(|copy| copy.inbox.0 == agent);
        later.is_some_and(|copy| {
            delivery.message = Arc::clone(copy.message);
            true
        })
    })
}

fn found(history: &History<'_>) -> Option<(usize, CallId)> {
    history.answered(|_, _, answer| matches!(answer, Ok(Reply::Mail(mail::Reply::Found { .. }))))
}

fn found_in_other_words(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_answer(found(history)?, |answer| {
        if let Ok(Reply::Mail(mail::Reply::Found { message })) = answer {
            Arc::make_mut(message).body.push('!');
        }
    });
    Some(())
}

fn found_before_it_came(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = found(history)?;
    let asked = &history.calls[&call];
    let agent = history.speaker(asked.session, asked.command)?;
    let mut later = history.accepted.iter().filter(|copy| copy.step > at);
    let later = later.find(|copy| *copy.inbox.0 == agent)?;
    spoiled.change_answer((at, call), |answer| {
        if let Ok(Reply::Mail(mail::Reply::Found { message })) = answer {
            *message = Arc::clone(later.message);
        }
    });
    Some(())
}

fn found_and_changed(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, _) = found(history)?;
    spoiled.steps[at].after.sessions += 1;
    Some(())
}

/// Finds a call of a fenced session that was refused: in the step in which it was fenced, or later.
fn fenced(history: &History<'_>, is_meant: impl Fn(usize, usize) -> bool) -> Option<(usize, CallId)> {
    history.answered(|asked, at, answer| {
        let fenced = history.sessions[&asked.session].fenced;
        answer.is_err() && fenced.is_some_and(|fenced| is_meant(fenced, at))
    })
}

fn fenced_and_answered(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = fenced(history, |fenced, at| at > fenced)?;
    spoiled.change_answer(place, |answer| *answer = nothing_waits());
    Some(())
}

fn fenced_while_it_waited_and_answered(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = fenced(history, |fenced, at| at == fenced)?;
    spoiled.change_answer(place, |answer| *answer = nothing_waits());
    Some(())
}

fn fenced_and_waiting(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, call) = fenced(history, |fenced, at| at == fenced)?;
    spoiled.answer_in((at, call), at + 1);
    Some(())
}
