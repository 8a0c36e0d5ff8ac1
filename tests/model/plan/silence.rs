//! Sessions that read and then say nothing for long, or are fenced.

use relay::engine::agents::Registration;

use super::*;

/// What happens around a session that reads two inboxes and then says nothing for longer than a doubt lasts, or whose agent is
/// taken over. Chance alone almost never makes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Silent {
    /// A message for the agent at that place of the roster.
    Post(usize),
    Read(usize),
    /// The reply to the call before the latest, or to the latest, is passed.
    Pass,
    /// The doubt of what has just been passed ends.
    DoubtEnds,
    KeepAlive,
    /// The session is a new one, which registers the first agent of the roster by a later instance than any.
    Register,
    /// A session of the person's waits for the first agent.
    PersonComes,
    Wait,
    /// The first agent asks the second, and waits for the answer.
    Ask,
}

pub(super) const SILENCES: [&[Silent]; 4] = {
    use Silent::{Ask, DoubtEnds, KeepAlive, Pass, PersonComes, Post, Read, Register, Wait};
    [
        &[
            Post(0),
            Post(1),
            Read(0),
            Read(1),
            Pass,
            DoubtEnds,
            Pass,
            KeepAlive,
            KeepAlive,
        ],
        &[
            Post(0),
            Post(1),
            Read(0),
            Read(1),
            Pass,
            Pass,
            DoubtEnds,
            KeepAlive,
        ],
        &[Register, Post(0), Read(0), Ask, PersonComes, Wait, Register],
        &[Register, Ask, Register, Post(0)],
    ]
};

impl Plan {
    /// Makes the next event of a silence.
    pub(super) fn silent(&mut self, silent: Silent) -> Event {
        let session = self.silent;
        let agent = |at: usize| self.roster.names()[at % self.roster.names().len()].to_string();
        let command = match silent {
            Silent::Post(at) => Command::Mail(mail::Command::Post {
                from: Some(agent(at)),
                to: agent(at),
                kind: Kind::Free,
                body: String::new(),
                options: None,
            }),
            Silent::Read(at) => Command::Mail(mail::Command::read_all(Some(agent(at)), 0)),
            Silent::Pass if self.unpassed.is_empty() => return Event::Timeout,
            Silent::Pass => {
                let older = self.unpassed.len().saturating_sub(2);
                return Event::Seen(self.unpassed.remove(older), Sign::Passed);
            }
            Silent::DoubtEnds => {
                self.now = self.now.plus_millis(DOUBT_MS);
                return Event::Timeout;
            }
            Silent::KeepAlive => return Event::Input(Input::KeptAlive { session }),
            Silent::Register => {
                self.registered += 8;
                let registration = Registration {
                    name: agent(0),
                    instance: Some(Uuid::from_u128(u128::from(self.registered))),
                    ..Registration::default()
                };
                return self.comes(Who::Registered(Box::new(registration)));
            }
            Silent::PersonComes => return self.comes(Who::Person),
            Silent::Wait => Command::Mail(mail::Command::read_all(Some(agent(0)), 280_000)),
            Silent::Ask => Command::Mail(mail::Command::Post {
                from: None,
                to: agent(1),
                kind: Kind::Question,
                body: String::new(),
                options: Some(Box::new(mail::PostOptions {
                    await_ms: Some(280_000),
                    ..mail::PostOptions::default()
                })),
            }),
        };
        let call = CallId(self.number());
        remember(&mut self.calls, call);
        Event::Input(Input::Call {
            session,
            call,
            random: self.random.bytes(),
            command,
        })
    }

    /// Opens the session that is meant from here on.
    fn comes(&mut self, who: Who) -> Event {
        self.silent = SessionId(self.number());
        Event::Input(Input::Opened {
            session: self.silent,
            carrier: self.rng.pick(&[Carrier::Stream, Carrier::Exchange]),
            who,
        })
    }
}
