//! What chance alone almost never makes: sessions that read and then say nothing for long, or are fenced, and the like.

use relay::engine::agents::{Profile, Registration};
use relay::engine::limits::TRANSIENT_MS;

use super::*;

/// What happens around a session that reads two inboxes and then says nothing for longer than a doubt lasts, or whose agent is
/// taken over. So with the rest.
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
    /// The session is a new one, of a transient agent, or of a worker.
    TempComes,
    WorkerComes,
    /// The session posts to a channel, or to a group.
    To(&'static str),
    /// The session reads its own inbox, and its reply is passed.
    ReadOwn,
    Close,
    /// Time passes until a transient agent goes.
    Pause,
    MakeGroup,
    AddAgent,
    AddTemp,
    AddRole,
}

pub(super) const SILENCES: [&[Silent]; 6] = {
    use Silent::{
        AddAgent, AddRole, AddTemp, Ask, Close, DoubtEnds, KeepAlive, MakeGroup, Pass, Pause, PersonComes,
        Post, Read, ReadOwn, Register, TempComes, To, Wait, WorkerComes,
    };
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
        &[
            TempComes,
            MakeGroup,
            AddTemp,
            ReadOwn,
            Pass,
            To("#three"),
            Close,
            Pause,
            Pause,
        ],
        &[
            WorkerComes,
            PersonComes,
            MakeGroup,
            AddAgent,
            AddRole,
            To("@squad"),
        ],
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
            Silent::TempComes => {
                let registration = Registration {
                    name: "temp".to_owned(),
                    transient: true,
                    ..Registration::default()
                };
                return self.comes(Who::Registered(Box::new(registration)));
            }
            Silent::WorkerComes => {
                let role = Some("worker".to_owned());
                let registration = Registration {
                    name: "worker".to_owned(),
                    profile: Profile {
                        role,
                        ..Profile::default()
                    },
                    ..Registration::default()
                };
                return self.comes(Who::Registered(Box::new(registration)));
            }
            Silent::To(to) => Command::Mail(mail::Command::Post {
                from: None,
                to: to.to_owned(),
                kind: Kind::Free,
                body: String::new(),
                options: None,
            }),
            Silent::ReadOwn => Command::Mail(mail::Command::read_all(None, 0)),
            Silent::Close => {
                let ending = Ending::Orderly;
                return Event::Input(Input::Closed { session, ending });
            }
            Silent::Pause => {
                self.now = self.now.plus_millis(TRANSIENT_MS);
                return Event::Input(Input::KeptAlive { session });
            }
            Silent::MakeGroup => {
                let (name, description) = ("squad".to_owned(), String::new());
                groups::Command::Create { name, description }.into()
            }
            Silent::AddTemp => add_to_squad(groups::Named::Agent("temp".to_owned())),
            Silent::AddAgent => add_to_squad(groups::Named::Agent(agent(0))),
            Silent::AddRole => add_to_squad(groups::Named::Role("worker".to_owned())),
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

fn add_to_squad(member: groups::Named) -> Command {
    let group = "squad".to_owned();
    groups::Command::Add { group, member }.into()
}
