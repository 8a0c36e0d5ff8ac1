//! Sessions that read and then say nothing for long.

use super::*;

/// What happens around a session that reads two inboxes and then says nothing for longer than a doubt lasts. Chance alone
/// almost never makes it.
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
}

pub(super) const SILENCES: [&[Silent]; 2] = {
    use Silent::{DoubtEnds, KeepAlive, Pass, Post, Read};
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
}
