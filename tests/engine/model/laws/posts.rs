//! What is accepted is what was posted.

use relay::engine::Kind;
use relay::engine::address::Warning;
use relay::engine::limits::IDEMPOTENCY_MS;

use super::*;

/// What a post with a key says.
type Said<'a> = (&'a str, Kind, &'a str, [&'a Option<String>; 4]);

fn said(command: &Command) -> Option<Said<'_>> {
    let Command::Mail(mail::Command::Post {
        to,
        kind,
        body,
        options: Some(options),
        ..
    }) = command
    else {
        return None;
    };
    let mail::PostOptions {
        thread,
        reply_to,
        metadata,
        idempotency_key,
        ..
    } = &**options;
    idempotency_key.as_ref()?;
    Some((to, *kind, body, [thread, reply_to, metadata, idempotency_key]))
}

impl History<'_> {
    pub(super) fn what_is_accepted_is_what_was_posted(&self) -> Verdict {
        let mut ids = BTreeSet::new();
        for (at, message, _) in &self.posted {
            let step = &self.steps[*at];
            let Event::Input(Input::Call {
                session,
                call,
                command:
                    command @ Command::Mail(mail::Command::Post {
                        kind, body, options, ..
                    }),
                ..
            }) = &step.event
            else {
                return broken(*at, "something was accepted that nobody posted");
            };
            let options = options
                .clone()
                .map_or_else(mail::PostOptions::default, |options| *options);
            let context = message.context.as_ref();
            let reply_to = context.and_then(|context| context.reply_to);
            let metadata = context.and_then(|context| context.metadata.clone());
            let named = options.thread.is_none() || message.thread() == options.thread.as_deref();
            // What is answered may not be known: then it is said, to whoever does not wait for an answer, and the rest is as it was asked.
            let is_said = match self.calls[call].answers.first() {
                Some((_, Ok(Reply::Mail(mail::Reply::Posted { warnings, .. })))) => {
                    warnings.contains(&Warning::AnswersForgotten)
                }
                _ => options.await_ms.is_some() && reply_to.is_none(),
            };
            let answers = reply_to.map(|id| id.to_string());
            let answers_right = match is_said {
                true => answers.is_none() && options.reply_to.is_some() || answers == options.reply_to,
                false => answers == options.reply_to,
            };
            let same = Some(&message.from) == self.speaker(*session, command).as_ref()
                && message.kind == *kind
                && message.body == *body
                && message.ts == step.now
                && answers_right
                && metadata == options.metadata
                && named;
            holds(*at, same, || {
                format!("a post was accepted as something else: {message:?}")
            })?;
            holds(*at, ids.insert(message.id), || "an id was given twice".to_owned())?;
            let answer = self.calls[call].answers.first();
            let answered = answer.filter(|(answered, _)| answered == at);
            let right = match answered {
                Some((_, Ok(Reply::Mail(mail::Reply::Posted { id, to, thread, .. })))) => {
                    options.await_ms.is_none()
                        && *id == message.id
                        && *to == message.to
                        && thread.as_deref() == message.thread()
                }
                // It may be answered by its own sender, or by itself: not in the same step.
                Some(_) => false,
                None => options.await_ms.is_some(),
            };
            holds(*at, right, || {
                format!("an accepted post was answered {answered:?}")
            })?;
        }
        for asked in self.calls.values() {
            for (at, answer) in &asked.answers {
                let Ok(Reply::Mail(mail::Reply::Posted { id, warnings, .. })) = answer else {
                    continue;
                };
                if warnings.contains(&Warning::Repeated) {
                    self.what_is_repeated_was_posted_before(*at, asked, *id)?;
                    continue;
                }
                let mut posted = self.posted.iter();
                let logged = posted.any(|(step, message, _)| step == at && message.id == *id);
                holds(*at, logged, || "a post was not logged".to_owned())?;
            }
        }
        holds(self.steps.len() - 1, self.hops_are_bounded(), || {
            "turns were counted wrongly".to_owned()
        })?;
        self.turns_go_on_from_the_latest()
    }

    /// A post that adds nothing has the key and the content of one that its sender posted before, and gets its id.
    fn what_is_repeated_was_posted_before(&self, at: usize, asked: &Asked<'_>, id: MessageId) -> Verdict {
        let mut posted = self.posted.iter();
        let first = posted.find(|(_, message, _)| message.id == id);
        let first = first.filter(|(step, message, _)| {
            let input = &self.steps[*step].event;
            let Event::Input(Input::Call { command, .. }) = input else {
                return false;
            };
            *step < at
                && Some(&message.from) == self.speaker(asked.session, asked.command).as_ref()
                && said(command).is_some()
                && said(command) == said(asked.command)
                && self.steps[at].now < message.ts.plus_millis(IDEMPOTENCY_MS)
        });
        let added = self.posted.iter().any(|(step, ..)| *step == at);
        holds(at, first.is_some() && !added, || {
            format!("{id} was not posted before by the same words")
        })
    }

    /// Whatever is answered, turns are counted on from the latest message that its sender got of the thread; from the answered one
    /// only if it got none.
    fn turns_go_on_from_the_latest(&self) -> Verdict {
        for (number, (at, message, _)) in self.posted.iter().enumerate() {
            if message.from.is_person() {
                continue;
            }
            let answered = message.context.as_ref().and_then(|context| context.reply_to);
            let thread = message.thread();
            let life = self.life(&message.from, *at);
            let got: Vec<&Copy> = self
                .accepted
                .iter()
                .filter(|copy| copy.inbox == (&message.from, life) && copy.number < number)
                .collect();
            let bytes: usize = got.iter().map(|copy| copy.message.bytes()).sum();
            if got.len() > RECENT_MAX || bytes > RECENT_BYTES_MAX {
                // Some of it may be forgotten.
                continue;
            }
            let counts = |message: &Message| {
                (thread.is_some() && message.thread() == thread) || Some(message.id) == answered
            };
            let got = got.iter().rev().map(|copy| &**copy.message);
            let answered = self.posted.iter().map(|(_, message, _)| &***message);
            let answered = answered.filter(|other| {
                message
                    .context
                    .as_ref()
                    .is_some_and(|context| context.reply_to == Some(other.id))
            });
            let before = got.filter(|other| counts(other)).chain(answered).next();
            let expected = before.map_or(0, |before| before.hops() + u32::from(before.from != message.from));
            holds(*at, message.hops() == expected, || {
                format!("{message:?} counts {} turns, not {expected}", message.hops())
            })?;
        }
        Ok(())
    }

    /// Tells whether no message counts more turns than one more than what it answers or the most before it in its thread, and the
    /// person's none.
    fn hops_are_bounded(&self) -> bool {
        let mut of_thread: BTreeMap<&str, u32> = BTreeMap::new();
        let mut of_message: BTreeMap<MessageId, u32> = BTreeMap::new();
        self.posted.iter().all(|(_, message, _)| {
            let answered = message.context.as_ref().and_then(|context| context.reply_to);
            let answered = answered.and_then(|id| of_message.get(&id));
            let thread = message.thread();
            let before = thread.and_then(|thread| of_thread.get(thread));
            let most = answered.max(before).map_or(0, |hops| hops + 1);
            of_message.insert(message.id, message.hops());
            if let Some(thread) = thread {
                let of_thread = of_thread.entry(thread).or_default();
                *of_thread = message.hops().max(*of_thread);
            }
            message.hops() <= most && (!message.from.is_person() || message.hops() == 0)
        })
    }
}
