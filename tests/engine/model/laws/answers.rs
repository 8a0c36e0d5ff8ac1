//! A post that waits for its answer gets the first message that is one, before anybody else.

use super::*;

impl History<'_> {
    pub(super) fn an_answer_goes_to_who_asked(&self) -> Verdict {
        let questions: Vec<(CallId, &Asked, AgentName)> = self
            .calls
            .iter()
            .filter(|(_, asked)| matches!(asked.command, Command::Mail(mail::Command::Post { .. })))
            .filter(|(_, asked)| wait_ms(asked.command).is_some())
            .filter(|(_, asked)| self.posted.iter().any(|(at, ..)| *at == asked.step))
            .filter_map(|(call, asked)| {
                let agent = self.speaker(asked.session, asked.command)?;
                Some((*call, asked, agent))
            })
            .collect();
        for (call, asked, _) in &questions {
            for (at, answer) in &asked.answers {
                let right = match answer {
                    Ok(Reply::Mail(mail::Reply::Messages { deliveries, .. })) => deliveries.len() == 1,
                    Ok(_) => false,
                    Err(_) => true,
                };
                holds(*at, right, || format!("{call:?} was answered {answer:?}"))?;
            }
        }
        for copy in &self.accepted {
            let fits = |(call, asked, agent): &&(CallId, &Asked, AgentName)| {
                let ended = asked.answers.first().map(|(at, _)| *at);
                let ended = ended.or_else(|| self.given_up(*call, asked));
                agent == copy.inbox.0
                    && asked.step < copy.step
                    && ended.is_none_or(|ended| ended >= copy.step)
                    && self
                        .wanted(asked.step, asked.session, asked.command)
                        .has(copy.number, copy.message)
            };
            let mut fitting = questions.iter().filter(fits).map(|(call, ..)| *call).peekable();
            if fitting.peek().is_none() {
                continue;
            }
            let calls: Vec<CallId> = fitting.collect();
            let mut shown = self.shown.iter().filter(|shown| shown.step == copy.step);
            let answered = shown.any(|shown| {
                calls.contains(&shown.call)
                    && shown.deliveries.iter().any(|d| d.message.id == copy.message.id)
            });
            holds(copy.step, answered, || {
                format!("{:?} answers one of {calls:?}, and went elsewhere", copy.message)
            })?;
        }
        Ok(())
    }
}
