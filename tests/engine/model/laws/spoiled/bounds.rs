//! Bounds: what is accepted beyond them, what is refused below them, and what gives way.

use super::*;

pub(super) const SPOILINGS: &[Spoiling] = &[
    spoiling!(sessions, BOUNDS, "more sessions than the bound"),
    spoiling!(agents, BOUNDS, "more agents than the bound"),
    spoiling!(projects, BOUNDS, "more projects than the bound"),
    spoiling!(body, BOUNDS, "was accepted"),
    spoiling!(while_it_stops, BOUNDS, "was accepted"),
    spoiling!(messages, BOUNDS, "met"),
    spoiling!(bytes, BOUNDS, "met"),
    spoiling!(refused_with_room, BOUNDS, "was refused"),
    spoiling!(refused_with_other_counts, BOUNDS, "was refused"),
    spoiling!(refused_with_another_length, BOUNDS, "was refused"),
    spoiling!(refused_as_if_it_stopped, BOUNDS, "was refused"),
    spoiling!(room_was_not_needed, BOUNDS, "and its room was not needed"),
    spoiling!(younger_gave_way_to_a_post, BOUNDS, "was confirmed early before"),
    spoiling!(too_many, CANCELLED, "can be cancelled"),
    spoiling!(
        younger_gave_way_to_a_reply,
        CANCELLED,
        "was confirmed early before",
    ),
    spoiling!(fewer, CANCELLED, "was confirmed early, and"),
];

/// Lowers a bound to one below the most that there ever was.
fn lower(most: Option<usize>, bound: &mut usize) -> Option<()> {
    *bound = most?.checked_sub(1)?;
    Some(())
}

fn sessions(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let most = history.steps.iter().map(|step| step.after.sessions).max();
    lower(most, &mut spoiled.bounds.sessions_max)
}

/// There were more than the roster's at some time.
fn agents(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let of_roster = history.steps[0].before.pending.len();
    let all = history.steps.iter().map(|step| step.after.pending.len());
    let most = all.max().filter(|most| *most > of_roster);
    lower(
        most.map(|with_person| with_person - 1),
        &mut spoiled.bounds.agents_max,
    )
}

fn projects(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let projects = |step: &Step| {
        let names = step.after.pending.iter().map(|(name, _)| name.project());
        names.collect::<BTreeSet<_>>().len()
    };
    lower(
        history.steps.iter().map(projects).max(),
        &mut spoiled.bounds.projects_max,
    )
}

/// A message of exactly that length was accepted.
fn body(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let most = history.posted.iter().map(|(_, message, _)| message.bytes()).max();
    // What came as long or longer when relay stopped was refused for that, and would be judged first.
    let came_too_late = history.answered(|asked, _, answer| {
        let Command::Mail(mail::Command::Post { body, .. }) = asked.command else {
            return false;
        };
        matches!(answer, Err(Refusal::Stopping)) && Some(body.len()) >= most
    });
    match came_too_late {
        Some(_) => None,
        None => lower(most, &mut spoiled.bounds.body_bytes_max),
    }
}

fn while_it_stops(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (at, ..) = history.post(|at, _, _| history.steps[at - 1].event == Event::Timeout)?;
    spoiled.steps[at - 1].event = Event::Input(Input::Stopping);
    Some(())
}

/// Finds a post that an inbox had no room for.
fn full(history: &History<'_>, fits: impl Fn(&Asked<'_>, usize) -> bool) -> Option<(usize, CallId)> {
    history.answered(|asked, _, answer| {
        matches!(answer, Err(Refusal::Mail(mail::Refusal::InboxFull { messages, .. })) if fits(asked, *messages))
    })
}

/// One inbox was full to the last message.
fn messages(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let max = spoiled.bounds.inbox_messages_max;
    full(history, |_, messages| messages == max)?;
    lower(Some(max), &mut spoiled.bounds.inbox_messages_max)
}

/// No room was left for any byte but those of the first that was accepted.
fn bytes(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let (_, message, _) = history.post(|_, message, agents| message.bytes() > 0 && !agents.is_empty())?;
    lower(Some(message.bytes()), &mut spoiled.bounds.inbox_bytes_max)
}

/// It was the bytes that there was no room for, and there are none.
fn refused_with_room(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let max = spoiled.bounds.inbox_messages_max;
    let (at, _) = full(history, |_, messages| messages < max)?;
    spoiled.change_read(at, |post| {
        if let mail::Command::Post { body, options, .. } = post {
            (*body, *options) = (String::new(), None);
        }
    });
    Some(())
}

fn refused_with_other_counts(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    spoiled.change_answer(full(history, |_, _| true)?, |answer| {
        if let Err(Refusal::Mail(mail::Refusal::InboxFull { messages, .. })) = answer {
            *messages += 1;
        }
    });
    Some(())
}

fn refused_with_another_length(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = history
        .answered(|_, _, answer| matches!(answer, Err(Refusal::Mail(mail::Refusal::BodyTooLong { .. }))))?;
    spoiled.change_answer(place, |answer| {
        if let Err(Refusal::Mail(mail::Refusal::BodyTooLong { bytes, .. })) = answer {
            *bytes += 1;
        }
    });
    Some(())
}

fn refused_as_if_it_stopped(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    let place = full(history, |asked, _| !history.is_stopping(asked.step))?;
    spoiled.change_answer(place, |answer| *answer = Err(Refusal::Stopping));
    Some(())
}

/// Finds a reply that was confirmed early, by a post to its agent or by another reply.
fn early<'h, 'a>(
    history: &'h History<'a>,
    by_post: bool,
    fits: impl Fn(&Shown<'_>, usize) -> bool,
) -> Option<&'h Shown<'a>> {
    history.reply(|shown| {
        let at = shown.ends();
        let Some(step) = history.steps.get(at) else {
            return false;
        };
        let posted = step.all_effects.iter().any(is_accepted);
        let to_it = history.post(|step, _, agents| step == at && agents.contains(&shown.agent));
        let is_meant = if by_post { to_it.is_some() } else { !posted };
        is_meant && shown.gave_way(at, step) && fits(shown, at)
    })
}

/// As if there had been no other bound than those on the refused posts, of which there are none.
fn room_was_not_needed(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    early(history, true, |shown, _| !shown.deliveries.is_empty())?;
    if full(history, |_, _| true).is_some() {
        return None;
    }
    let bounds = &mut spoiled.bounds;
    (bounds.inbox_messages_max, bounds.inbox_bytes_max) = (usize::MAX, usize::MAX);
    bounds.read_max = usize::MAX;
    Some(())
}

/// Confirms a younger reply in the stead of the one that was confirmed early.
fn confirm_a_younger(history: &History<'_>, spoiled: &mut Spoiled, by_post: bool) -> Option<()> {
    let younger = |shown: &Shown<'_>, at: usize| {
        let mut others = history.shown.iter().filter(|other| other.agent == shown.agent);
        others.find(|other| {
            let stands = other.read.is_some_and(|(read, _)| read <= at) && at < other.ends();
            stands && shown.was_read_before(other) && !other.deliveries.is_empty()
        })
    };
    let shown = early(history, by_post, |shown, at| {
        !shown.deliveries.is_empty() && younger(shown, at).is_some()
    })?;
    let at = shown.ends();
    let [older, younger] = [shown, younger(shown, at)?].map(|shown| history.handover(shown.step, shown.call));
    let (older, younger) = (older?, younger?);
    for step in &mut spoiled.steps[at..] {
        for effect in &mut step.all_effects {
            if let Effect::Note(relay::engine::Event::Confirmed { handover, .. }) = effect {
                *handover = match *handover {
                    same if same == older => younger,
                    same if same == younger => older,
                    same => same,
                };
            }
        }
    }
    Some(())
}

fn younger_gave_way_to_a_post(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    confirm_a_younger(history, spoiled, true)
}

fn younger_gave_way_to_a_reply(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    confirm_a_younger(history, spoiled, false)
}

/// There were as many as could be.
fn too_many(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    early(history, false, |_, _| true)?;
    lower(Some(spoiled.bounds.read_max), &mut spoiled.bounds.read_max)
}

fn fewer(history: &History<'_>, spoiled: &mut Spoiled) -> Option<()> {
    early(history, false, |_, _| true)?;
    spoiled.bounds.read_max += 1;
    Some(())
}
