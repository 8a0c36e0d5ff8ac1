//! Agents that register themselves by their address, beside the roster's roles, and have thrum's tools.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::projects::{project, whole};
use super::{Action, AgentPlan, Call, Params, Plan, Step, Transport};

/// How an agent registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mate {
    /// The project that it belongs to, by number.
    pub project: usize,
    /// Which one of that it is.
    pub number: usize,
    /// The role that it says it has, by number.
    pub crew: usize,
    /// Which instance of it this is: a greater one takes the agent over.
    pub instance: u64,
    /// When it starts, in milliseconds.
    pub starts_ms: u64,
    /// Which tools it has.
    pub tools: Tools,
}

/// A toolset of registered agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    /// Thrum's.
    Thrum,
    /// Agent Relay's.
    AgentRelay,
}

impl Tools {
    /// Returns what an address calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thrum => "thrum",
            Self::AgentRelay => "agent-relay",
        }
    }
}

impl Mate {
    /// Tells whether this is the same agent, whichever instance of it.
    pub fn is(self, other: Self) -> bool {
        (self.project, self.number) == (other.project, other.number)
    }

    /// Returns its whole name.
    pub fn name(self) -> String {
        whole(project(self.project), &mate(self.number))
    }
}

/// Names a registered agent in its project.
pub fn mate(number: usize) -> String {
    format!("mate-{number}")
}

/// Names the role of registered agents.
pub fn crew(number: usize) -> String {
    format!("crew-{number}")
}

/// The group that registered agents make, fill and empty.
pub const GROUP: &str = "squad";

/// The thread in which registered agents with Agent Relay's tools answer.
pub const THREAD: &str = "errand";

/// How many roles registered agents have.
pub(super) const CREWS: usize = 2;

/// A call of a registered agent's tools.
#[derive(Debug, Clone)]
pub enum TeamCall {
    /// Sends a body of that many bytes.
    Send {
        /// To whom.
        to: Address,
        /// Bytes of the body, at least; a serial number makes it unique.
        bytes: usize,
    },
    /// Sends a body of that many bytes to who sent the message that it has read last: with Thrum's tools in answer to that, with
    /// Agent Relay's in [`THREAD`].
    Reply {
        /// To whom if it has read nothing.
        otherwise: Address,
        /// Bytes of the body, at least.
        bytes: usize,
    },
    /// Sends a body of that many bytes, and waits for an answer to it. Only with Agent Relay's tools.
    Ask {
        /// Whom.
        to: Address,
        /// Bytes of the body, at least.
        bytes: usize,
        /// How long, in milliseconds.
        wait_ms: u64,
    },
    /// Takes the oldest messages.
    Check {
        /// How many at the most.
        limit: usize,
    },
    /// Takes the oldest messages of those that an agent sent, or that went to the channel. Only with Agent Relay's tools.
    Filtered {
        /// The project of both; it is not named if it is none, and the agent's own.
        project: Option<usize>,
        /// Whose messages; those to the channel if nobody is named.
        from: Option<usize>,
        /// How many at the most.
        limit: usize,
    },
    /// Takes the oldest message, and waits for it. Only with Thrum's tools.
    Wait {
        /// How long, in seconds.
        seconds: u64,
    },
    /// Makes or changes the group. Only with Thrum's tools.
    Group(GroupChange),
}

/// Where a message may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// In which project; it is not named if it is none, and the sender's own.
    pub project: Option<usize>,
    /// To whom there.
    pub target: Target,
}

/// To whom a message may be sent in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A registered agent, by its name.
    Mate(usize),
    /// Two of them, by their names.
    Two(usize, usize),
    /// A role of the roster, by its name.
    Role(usize),
    /// All registered agents of a role.
    Crew(usize),
    /// All agents.
    Everyone,
    /// The members of the group.
    Group,
    /// The members of the channel.
    Channel,
    /// The channel that has everybody in it.
    General,
    /// All agents of all projects.
    AllProjects,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = self.project.filter(|_| self.target != Target::AllProjects);
        let before = named.map_or_else(String::new, |number| format!("{}:", project(number)));
        f.write_str(&before)?;
        match self.target {
            Target::Mate(number) => f.write_str(&mate(number)),
            Target::Two(one, other) => write!(f, "{}, {before}{}", mate(one), mate(other)),
            Target::Role(number) => f.write_str(&crate::agent::role(number)),
            Target::Crew(number) => write!(f, "@{}", crew(number)),
            // The one word for them as well as the other.
            Target::Everyone => f.write_str(self.project.map_or("@everyone", |_| "*")),
            Target::Group => write!(f, "@{GROUP}"),
            Target::Channel => f.write_str(CHANNEL),
            Target::General => f.write_str(GENERAL),
            Target::AllProjects => f.write_str("*:*"),
        }
    }
}

/// The channel of registered agents.
pub const CHANNEL: &str = "#topic";

/// The channel that everybody in a project is in.
pub const GENERAL: &str = "#general";

/// What becomes of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupChange {
    /// It is made.
    Create,
    /// Somebody becomes a member.
    Add(Member),
    /// Somebody is a member no more.
    Remove(Member),
}

/// A member of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// A registered agent.
    Mate {
        /// The project that it belongs to; it is not named if it is none, and the group's.
        project: Option<usize>,
        /// Which one of that it is.
        number: usize,
    },
    /// All of a role.
    Crew(usize),
}

/// What registered agents do, and how often.
pub(super) const TEAM_ACTIONS: [(&str, u32); 10] = [
    ("post", 40),
    ("read", 25),
    ("wait", 20),
    ("pending", 8),
    ("both", 5),
    ("abandon", 5),
    ("cancel", 4),
    ("reconnect", 4),
    ("stall", 2),
    ("again", 2),
];

impl Plan {
    /// Half of the seeds have a team. It comes from a sequence of its own, so that the other agents do what they did before.
    pub(super) fn draw_team(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x7465_616d);
        if rng.bool() {
            return;
        }
        let mates = rng.usize(2..=4);
        let [greets, modern, progress] = std::array::from_fn(|_| rng.u32(0..3) > 0);
        let crews: Vec<usize> = (0..mates).map(|_| rng.usize(..CREWS)).collect();
        let mut team: Vec<Mate> = (0..mates)
            .map(|number| Mate {
                project: 0,
                number,
                crew: crews[number],
                instance: 1,
                starts_ms: 0,
                tools: Tools::Thrum,
            })
            .collect();
        if rng.bool() {
            // Some are started anew while the one before still lives, and once more.
            for instance in 2..2 + rng.u64(1..=3) {
                let number = rng.usize(..mates);
                let starts_ms = rng.u64(1_000..self.params.duration_ms);
                team.push(Mate {
                    project: 0,
                    number,
                    crew: crews[number],
                    instance,
                    starts_ms,
                    tools: Tools::Thrum,
                });
            }
        }
        for who in team {
            let mut agent = AgentPlan::draw(&mut rng, &self.params, &TEAM_ACTIONS);
            agent.draw_ways(&mut rng, [greets, modern, progress]);
            if rng.u32(0..4) == 0 {
                agent.go_over_stdio();
            }
            agent.join(who, &mut rng, &self.params, mates);
            self.agents.push(agent);
        }
        self.draw_tools(mates);
    }

    /// Some of a team have Agent Relay's tools; the others sometimes wait twice at once. That comes from a sequence of its own, too.
    fn draw_tools(&mut self, mates: usize) {
        let mut rng = Rng::with_seed(self.seed ^ 0x0074_6f6f_6c73);
        let tools: Vec<Tools> = (0..mates)
            // Somebody has to make the group.
            .map(|number| {
                if number > 0 && rng.bool() {
                    Tools::AgentRelay
                } else {
                    Tools::Thrum
                }
            })
            .collect();
        for agent in &mut self.agents {
            let Some(mate) = &mut agent.mate else {
                continue;
            };
            mate.tools = tools[mate.number];
            agent.use_tools(&mut rng, &self.params, mates);
        }
    }

    /// In half of the teams agents answer what they have read, in most of those no more often than a few times. That comes from a
    /// sequence of its own, too.
    pub(super) fn draw_replies(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x7475_726e);
        if rng.bool() || self.mates().is_empty() {
            return;
        }
        if rng.u32(0..4) > 0 {
            self.params.hops_max = rng.u32(1..=3);
        }
        for agent in self.agents.iter_mut().filter(|agent| agent.mate.is_some()) {
            for mut step in std::mem::take(&mut agent.steps) {
                let mut replies = false;
                step.action = step.action.map(|call| match call {
                    Call::Team(TeamCall::Send { to, bytes }) if rng.u32(0..8) > 0 => {
                        replies = true;
                        Call::Team(TeamCall::Reply { otherwise: to, bytes })
                    }
                    other @ (Call::Team(_)
                    | Call::Post { .. }
                    | Call::Read { .. }
                    | Call::Pending { .. }
                    | Call::Illegal(_)) => other,
                });
                if replies && rng.u32(0..4) > 0 {
                    // It answers what has just come.
                    let check = Call::Team(TeamCall::Check { limit: 50 });
                    let pause_ms = std::mem::replace(&mut step.pause_ms, rng.u64(0..=200));
                    agent.steps.push(Step {
                        pause_ms,
                        action: Action::Call(check),
                        after: None,
                    });
                }
                agent.steps.push(step);
            }
        }
    }

    /// Returns the names of all that register.
    pub fn mates(&self) -> BTreeSet<String> {
        let mates = self.agents.iter().filter_map(|agent| agent.mate);
        mates.map(Mate::name).collect()
    }

    /// Returns the names of all inboxes that there may be.
    pub fn inboxes(&self) -> Vec<String> {
        let roles = (0..self.params.roles).map(crate::agent::role);
        roles.chain(self.mates()).collect()
    }
}

impl AgentPlan {
    /// Makes a registered agent of this one: it does what it was to do with the tools of one.
    pub(super) fn join(&mut self, who: Mate, rng: &mut Rng, params: &Params, mates: usize) {
        self.mate = Some(who);
        self.bound = true;
        self.lists = false;
        for step in &mut self.steps {
            let to_team = |call: Call| Call::Team(team_call(&call, rng, params, who, mates));
            step.action = step.action.clone().map(to_team);
        }
        let own = Member::Mate {
            project: None,
            number: who.number,
        };
        let mut first = [GroupChange::Create, GroupChange::Add(own)];
        if who.number > 0 {
            first[0] = GroupChange::Add(Member::Crew(who.crew));
        }
        let first = first.map(|change| Action::Call(Call::Team(TeamCall::Group(change))));
        for (step, action) in self.steps.iter_mut().zip(first) {
            step.action = action;
        }
    }

    /// Has it say what it was to say with the tools that it has: with Agent Relay's as far as they can; with Thrum's it sometimes
    /// waits twice at once.
    pub(super) fn use_tools(&mut self, rng: &mut Rng, params: &Params, mates: usize) {
        let Some(mate) = self.mate else {
            return;
        };
        for step in &mut self.steps {
            let relays = |call| match call {
                Call::Team(call) => Call::Team(call.for_agent_relay(rng, params, mates)),
                other @ (Call::Post { .. } | Call::Read { .. } | Call::Pending { .. } | Call::Illegal(_)) => {
                    other
                }
            };
            match mate.tools {
                Tools::AgentRelay => step.action = step.action.clone().map(relays),
                Tools::Thrum => {
                    let waits = matches!(step.action, Action::Call(Call::Team(TeamCall::Wait { .. })));
                    if waits && rng.bool() {
                        let mut wait = || {
                            Call::Team(TeamCall::Wait {
                                seconds: rng.u64(1..=4),
                            })
                        };
                        step.action = Action::Both(wait(), wait());
                    }
                }
            }
        }
    }

    /// Tells whether it goes over streamable HTTP.
    pub fn is_exchange(&self) -> bool {
        matches!(self.transport, Transport::Http | Transport::HttpOnce)
    }
}

/// Says with the tools of a registered agent what a call says with those of a role.
fn team_call(call: &Call, rng: &mut Rng, params: &Params, who: Mate, mates: usize) -> TeamCall {
    match call {
        Call::Post { bytes, .. } => {
            let to = draw_address(rng, params, mates);
            TeamCall::Send { to, bytes: *bytes }
        }
        Call::Read { wait_ms: 0, .. } => TeamCall::Check {
            limit: [1, 2, 3, 50][rng.usize(..4)],
        },
        Call::Read { wait_ms, .. } => TeamCall::Wait {
            seconds: wait_ms.div_ceil(1_000),
        },
        Call::Pending { .. } | Call::Illegal(_) | Call::Team(_) => {
            let member = if rng.bool() {
                Member::Mate {
                    project: None,
                    number: rng.usize(..mates),
                }
            } else {
                Member::Crew(who.crew)
            };
            TeamCall::Group(match rng.u32(0..4) {
                0 => GroupChange::Create,
                1 => GroupChange::Remove(member),
                _ => GroupChange::Add(member),
            })
        }
    }
}

impl TeamCall {
    /// Says with Agent Relay's tools what a call says with Thrum's, as far as they can.
    fn for_agent_relay(self, rng: &mut Rng, params: &Params, mates: usize) -> Self {
        match self {
            Self::Send { to, bytes } if rng.bool() => Self::Ask {
                to,
                bytes,
                wait_ms: rng.u64(1..=8_000),
            },
            Self::Wait { seconds } => Self::Ask {
                to: draw_address(rng, params, mates),
                bytes: 0,
                wait_ms: (seconds * 1_000).max(1),
            },
            Self::Check { limit } if rng.bool() => Self::draw_filtered(rng, mates, limit),
            Self::Group(_) => Self::draw_filtered(rng, mates, 2),
            other @ (Self::Send { .. }
            | Self::Reply { .. }
            | Self::Check { .. }
            | Self::Ask { .. }
            | Self::Filtered { .. }) => other,
        }
    }

    fn draw_filtered(rng: &mut Rng, mates: usize, limit: usize) -> Self {
        Self::Filtered {
            project: None,
            from: (rng.u32(0..3) > 0).then(|| rng.usize(..mates)),
            limit,
        }
    }
}

fn draw_address(rng: &mut Rng, params: &Params, mates: usize) -> Address {
    let target = match rng.u32(0..12) {
        0..=3 => Target::Mate(rng.usize(..mates)),
        4 => Target::Role(rng.usize(..params.roles)),
        5 | 6 => Target::Crew(rng.usize(..CREWS)),
        7 => Target::Everyone,
        8 | 9 => Target::Group,
        _ => Target::Channel,
    };
    Address {
        project: None,
        target,
    }
}

impl Action {
    /// Does the same with other calls.
    pub(super) fn map(self, mut other: impl FnMut(Call) -> Call) -> Self {
        match self {
            Self::Call(call) => Self::Call(other(call)),
            Self::Both(one, two) => Self::Both(other(one), other(two)),
            Self::Abandon(call, ms) => Self::Abandon(other(call), ms),
            Self::Cancel(call, ms) => Self::Cancel(other(call), ms),
            Self::Reconnect => Self::Reconnect,
            Self::Stall(call, ms) => Self::Stall(other(call), ms),
            Self::Again(call) => Self::Again(other(call)),
            Self::Pipeline(one, two) => Self::Pipeline(other(one), other(two)),
            Self::PipelineAndDie(one, two, ms) => Self::PipelineAndDie(other(one), other(two), ms),
        }
    }
}
