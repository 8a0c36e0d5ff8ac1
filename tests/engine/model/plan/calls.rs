//! What sessions ask for.

use relay::engine::DEFAULT_PROJECT;
use relay::engine::agents::Which;
use relay::engine::records::{self, Of, Range};
use relay::engine::room::{Escapes, Form, Room};
use relay::engine::trace::ShownTo;
use relay::engine::watches::{self, Watched};

use super::*;

/// How long a post may wait for its answer.
const ASKS_MS: [u32; 4] = [10, DOUBT_MS as u32, 280_000, 280_000];

/// The groups that are made.
const GROUPS: [&str; 6] = ["squad", "crew", "@squad", "pm", "worker", "web:crew"];

impl Plan {
    /// Makes a call.
    pub(super) fn call(&mut self, action: Action, session: SessionId, bound: Option<&str>) -> Input {
        let call = CallId(self.number());
        remember(&mut self.calls, call);
        let command = match action {
            Action::Post => self.post(bound),
            Action::Read => self.read(bound),
            Action::Peek if self.rng.percent(40) => mail::Command::Find {
                agent: self.me(bound),
                id: self.message(),
            }
            .into(),
            Action::Peek => mail::Command::Peek {
                agent: self.me(bound),
                // By the number of the call, so that nothing else is drawn for it.
                limit: usize::try_from(call.0 % 3).ok().and_then(NonZeroUsize::new),
            }
            .into(),
            Action::Look => self.look(bound),
            Action::Group if self.rng.percent(40) => self.about_channel(),
            Action::Group => self.group(),
            Action::Pending
            | Action::Open
            | Action::Close
            | Action::Pass
            | Action::Follow
            | Action::KeepAlive
            | Action::Lose
            | Action::Cancel
            | Action::Again
            | Action::FromNowhere
            | Action::OnClosed
            | Action::Timeout => mail::Command::Pending {
                agent: self.me(bound),
            }
            .into(),
        };
        let is_resource = matches!(action, Action::Peek | Action::Look) && self.rng.percent(30);
        let command = if is_resource {
            Command::Resource(Box::new(command))
        } else {
            command
        };
        Input::Call {
            session,
            call,
            random: self.random.bytes(),
            command,
        }
    }

    fn post(&mut self, bound: Option<&str>) -> Command {
        let from = self.me(bound);
        let to = if self.rng.percent(self.illegal) {
            self.stranger()
        } else if self.rng.percent(self.person) {
            PERSON.to_owned()
        } else if self.rng.percent(self.wide) {
            self.address()
        } else {
            self.agent()
        };
        let options = self.rng.percent(self.related).then(|| Box::new(self.options()));
        let is_keyed = options
            .as_ref()
            .is_some_and(|options| options.idempotency_key.is_some());
        let post = mail::Command::Post {
            from,
            to,
            kind: self.rng.pick(&Kind::ALL),
            body: self.body(),
            options,
        };
        if is_keyed && !self.keyed.is_empty() && self.rng.percent(50) {
            let at = self.rng.index(self.keyed.len());
            return self.keyed[at].clone().into();
        }
        if is_keyed {
            remember(&mut self.keyed, post.clone());
        }
        Command::Mail(post)
    }

    fn key(&mut self) -> String {
        if self.rng.percent(self.illegal) {
            let max = IDEMPOTENCY_KEY_BYTES_MAX;
            return "x".repeat(self.rng.pick(&[0, max, max + 1]));
        }
        self.rng.pick(&["one", "two", "three", "four"]).to_owned()
    }

    fn options(&mut self) -> mail::PostOptions {
        let [longest, too_long] = [0, 1].map(|more| "t".repeat(THREAD_BYTES_MAX + more));
        let threads = ["one", "two", "", "a\nb", &longest, &too_long];
        let legal = if self.rng.percent(self.illegal) {
            threads.len()
        } else {
            2
        };
        mail::PostOptions {
            thread: self
                .rng
                .percent(60)
                .then(|| self.rng.pick(&threads[..legal]).to_owned()),
            reply_to: self.rng.percent(30).then(|| self.message()),
            metadata: self
                .rng
                .percent(20)
                .then(|| self.rng.pick(&["", "{}", "[12]"]).to_owned()),
            room: self.room(),
            await_ms: self.rng.percent(self.curious).then(|| self.rng.pick(&ASKS_MS)),
            idempotency_key: self.rng.percent(40).then(|| self.key()),
            handling: relay::engine::handling::Handling::default(),
        }
    }

    /// Draws the id of a message that was seen, most times one of the latest; or of none.
    fn message(&mut self) -> String {
        if self.seen.is_empty() || self.rng.percent(self.illegal) {
            self.rng
                .pick(&["", "no id", "0190d7b0-0000-7000-8000-000000000000"])
                .to_owned()
        } else {
            let latest = self.seen.len().saturating_sub(3);
            let from = if self.rng.percent(70) { latest } else { 0 };
            self.rng.pick(&self.seen[from..]).to_string()
        }
    }

    fn read(&mut self, bound: Option<&str>) -> Command {
        let agent = self.me(bound);
        let from = self.sender();
        let channel = self.rng.percent(self.choosy / 2).then(|| self.channel());
        let choosy = self.choosy;
        // In this order, so that a seed draws what it always drew.
        let (after, earlier, room) = (self.after(), self.rng.percent(choosy), self.room());
        let is_limited = self.rng.percent(choosy);
        let limit = if is_limited {
            NonZeroUsize::new(1 + self.rng.index(3))
        } else {
            None
        };
        let wait_ms = if self.rng.percent(self.patient) {
            self.rng.pick(&WAITS_MS)
        } else {
            0
        };
        // Counted, so that nothing else is drawn for it.
        let waits_past_start = self.waits.as_mut().is_some_and(|waits| {
            *waits += usize::from(wait_ms > 0);
            waits.is_multiple_of(2)
        });
        let options = mail::ReadOptions {
            from,
            channel,
            limit,
            after,
            earlier,
            waits_past_start,
        };
        Command::Mail(mail::Command::Read {
            agent,
            options: Some(Box::new(options)),
            room,
            wait_ms,
            second: if self.rng.percent(choosy) {
                Second::IsRefused
            } else {
                Second::Supersedes
            },
        })
    }

    /// Counted, so that nothing else is drawn for it: none, one of the latest that were seen, the same again, or one that is none.
    fn after(&mut self) -> Option<String> {
        let asking = self.asking.as_mut()?;
        asking.reads += 1;
        if !asking.reads.is_multiple_of(3) {
            return None;
        }
        let turn = asking.reads / 3;
        if turn.is_multiple_of(9) || self.seen.is_empty() {
            return Some("no id".to_owned());
        }
        if !turn.is_multiple_of(3)
            && let Some(same) = asking.after
        {
            return Some(same.to_string());
        }
        let back = turn / 3 % self.seen.len().min(6);
        let after = self.seen[self.seen.len() - 1 - back];
        asking.after = Some(after);
        Some(after.to_string())
    }

    /// Counted, so that nothing else is drawn for it: room for all, for a part of almost any message, for one, or for two.
    fn room(&mut self) -> Option<Room> {
        let reads = self.reads.as_mut()?;
        *reads += 1;
        let bytes = [None, Some(32), Some(45), Some(75)][*reads % 4]?;
        let form = Form {
            reply: 4,
            message: 1,
            context: 2,
            part: 1,
            escapes: Escapes::Once,
            has_metadata: true,
            lines_max: None,
        };
        Some(Room { bytes, form })
    }

    fn look(&mut self, bound: Option<&str>) -> Command {
        if bound == Some(PERSON) && self.rng.percent(15) {
            // The latest have been registered; the first are the roster's.
            let latest = self.rng.index(self.names.len().div_ceil(2));
            let agent = self.names[self.names.len() - 1 - latest].clone();
            return agents::Command::Retire { agent }.into();
        }
        let curious = if bound == Some(PERSON) { 70 } else { 5 };
        if self.rng.percent(curious) {
            let mut message = self.message();
            if self.rng.percent(30) {
                message = message.to_uppercase();
            }
            if self.rng.percent(50) {
                message.truncate(self.rng.pick(&[7, 8, 9, 13]));
            }
            // By the id, so that nothing else is drawn for it.
            if let Some(command) = self.go_back(bound, &message) {
                return command;
            }
            let digit = |at: usize| usize::from(message.as_bytes().get(at).copied().unwrap_or(0));
            let shown_to = match digit(2) % 10 {
                0..4 => ShownTo::Project(["default", "web", "nowhere"][digit(3) % 3].to_owned()),
                4..=6 => ShownTo::Agent(whole(&self.names[digit(3) % self.names.len()])),
                _ => ShownTo::Person,
            };
            return trace::Command::Trace { message, shown_to }.into();
        }
        if self.rng.percent(30) {
            // Counted, so that nothing else is drawn for it.
            self.asked += 1;
            if bound != Some(PERSON) && !self.asked.is_multiple_of(3) && !self.seen.is_empty() {
                return self.say_of_a_message();
            }
            if self.asked.is_multiple_of(7) {
                let agent = self.names[self.asked / 7 % self.names.len()].clone();
                return agents::Command::Retire { agent }.into();
            }
            if self.asked.is_multiple_of(2) {
                let agent = whole(&self.names[self.asked / 2 % self.names.len()]);
                return agents::Command::Find { agent }.into();
            }
            return agents::Command::WhoAmI.into();
        }
        if self.rng.percent(40) {
            let what = self.rng.pick(&[Watched::Inbox, Watched::Inbox, Watched::Agents]);
            let watches = self.rng.percent(80);
            let command = if watches {
                watches::Command::Watch(what)
            } else {
                watches::Command::Unwatch(what)
            };
            return command.into();
        }
        let projects = [
            None,
            None,
            Some(""),
            Some("*"),
            Some("web"),
            Some("default"),
            Some("no name"),
        ];
        let project = self.rng.pick(&projects).map(str::to_owned);
        let which = match self.rng.below(4) {
            0 => Which::Present,
            1 => Which::Active,
            _ => Which::All,
        };
        agents::Command::List { project, which }.into()
    }

    /// Says something of one of the messages that were seen, several times of the same.
    fn say_of_a_message(&self) -> Command {
        let latest = self.seen.len().min(4);
        let message = self.seen[self.seen.len() - 1 - self.asked / 12 % latest].to_string();
        let command = match self.asked % 4 {
            0 => records::Command::Mark { message },
            way => records::Command::React {
                message,
                emoji: [":eyes:", "\u{1f44d}"][self.asked / 5 % 2].to_owned(),
                given: way != 1,
            },
        };
        command.into()
    }

    /// Goes back to a message, or says something about it, for two ids of three that are whole.
    fn go_back(&self, bound: Option<&str>, message: &str) -> Option<Command> {
        let id = Uuid::parse_str(message).ok()?.as_u128();
        let digit = |at: u32| usize::try_from(id >> (4 * at) & 0xf).expect("a digit");
        if digit(0) % 3 == 0 {
            return None;
        }
        let message = message.to_owned();
        let emoji = [":eyes:", "\u{1f44d}", "", "\n"][(digit(1) * digit(2)) % 3 + usize::from(digit(3) == 0)];
        let own = |command: records::Command| Some(command.into());
        if bound != Some(PERSON) && digit(4) != 0 {
            return match digit(5) % 4 {
                0 => own(records::Command::Mark { message }),
                way => own(records::Command::React {
                    message,
                    emoji: emoji.to_owned(),
                    given: way != 1,
                }),
            };
        }
        let agent = |at| whole(&self.names[digit(at) % self.names.len()]);
        let shown_to = match digit(5) % 4 {
            0 => ShownTo::Project(["default", "web"][digit(6) % 2].to_owned()),
            1 | 2 => ShownTo::Agent(agent(6)),
            _ => ShownTo::Person,
        };
        if digit(7) % 4 == 0 {
            return own(records::Command::Get { message, shown_to });
        }
        let of = match digit(8) % 6 {
            0 => Of::Sender(agent(9)),
            1 | 2 => Of::Channel(["#general", "web:#ops", "#ops", "#nowhere"][digit(9) % 4].to_owned()),
            3 => Of::Replies(message.clone()),
            4 => Of::Between(agent(9).to_string(), agent(10).to_string()),
            _ => Of::All,
        };
        let range = Box::new(Range {
            before: (digit(11) % 4 == 0).then(|| message.clone()),
            after: (digit(11) % 4 == 1).then_some(message),
            limit: [0, 2, 5, usize::MAX][digit(12) % 4],
        });
        own(records::Command::List { of, range, shown_to })
    }

    fn group(&mut self) -> Command {
        let name = if self.rng.percent(self.illegal) {
            self.rng
                .pick(&["everyone", "@everyone", "a b", "web:everyone", "no one:crew"])
        } else {
            self.rng.pick(&GROUPS)
        };
        let name = name.to_owned();
        let command = match self.rng.below(12) {
            0..3 => groups::Command::Create {
                name,
                description: self.rng.pick(&["", "abc", "abcd"]).to_owned(),
            },
            3 => groups::Command::Delete { name },
            4..8 => groups::Command::Add {
                group: name,
                member: self.member(),
            },
            8 => groups::Command::Remove {
                group: name,
                member: self.member(),
            },
            9 => groups::Command::List {
                project: self
                    .rng
                    .pick(&[None, None, Some("web"), Some("no name")])
                    .map(str::to_owned),
            },
            _ => groups::Command::Get {
                name,
                expand: self.rng.percent(70),
            },
        };
        command.into()
    }

    fn about_channel(&mut self) -> Command {
        let name = self.channel();
        let command = match self.rng.below(10) {
            0..3 => channels::Command::Make {
                name,
                topic: self.rng.pick(&["", "abc", "abcd"]).to_owned(),
            },
            3..5 => channels::Command::Join { name },
            5..7 => channels::Command::Leave { name },
            7 => channels::Command::List {
                project: self
                    .rng
                    .pick(&[None, None, Some("web"), Some("no name")])
                    .map(str::to_owned),
            },
            _ => channels::Command::Get { name },
        };
        command.into()
    }

    fn member(&mut self) -> groups::Named {
        if self.rng.percent(45) {
            let role = self.rng.pick(&["worker", "@lead", "pm", "worker"]);
            return groups::Named::Role(role.to_owned());
        }
        groups::Named::Agent(if self.rng.percent(self.illegal) {
            self.stranger()
        } else if self.rng.percent(20) {
            self.rng
                .pick(&["default:pm", "@pm", "ui", "temp", "temp"])
                .to_owned()
        } else {
            self.agent()
        })
    }
}

/// The whole name that the model's plans mean by an agent.
pub(super) fn whole(agent: &str) -> AgentName {
    let (project, name) = agent.split_once(':').unwrap_or((DEFAULT_PROJECT, agent));
    AgentName::in_project(project, name).expect("plans name agents that could be")
}
