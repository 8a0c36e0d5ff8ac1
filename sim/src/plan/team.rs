//! Agents that register themselves by their address, beside the roster's roles, and have thrum's tools.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::{Action, AgentPlan, Call, Params, Plan, Transport};

/// How an agent registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mate {
    /// Which one it is.
    pub number: usize,
    /// The role that it says it has, by number.
    pub crew: usize,
    /// Which instance of it this is: a greater one takes the agent over.
    pub instance: u64,
    /// When it starts, in milliseconds.
    pub starts_ms: u64,
}

impl Mate {
    /// Returns its name.
    pub fn name(self) -> String {
        mate(self.number)
    }
}

/// Names a registered agent.
pub fn mate(number: usize) -> String {
    format!("mate-{number}")
}

/// Names the role of registered agents.
pub fn crew(number: usize) -> String {
    format!("crew-{number}")
}

/// The group that registered agents make, fill and empty.
pub const GROUP: &str = "squad";

/// How many roles registered agents have.
const CREWS: usize = 2;

/// A call of thrum's tools.
#[derive(Debug, Clone)]
pub enum TeamCall {
    /// Sends a body of that many bytes.
    Send {
        /// To whom.
        to: Address,
        /// Bytes of the body, at least; a serial number makes it unique.
        bytes: usize,
    },
    /// Takes the oldest messages.
    Check {
        /// How many at the most.
        limit: usize,
    },
    /// Takes the oldest message, and waits for it.
    Wait {
        /// How long, in seconds.
        seconds: u64,
    },
    /// Makes or changes the group.
    Group(GroupChange),
}

/// Where a message may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// A registered agent, by its name.
    Mate(usize),
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
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mate(number) => f.write_str(&mate(*number)),
            Self::Role(number) => f.write_str(&crate::agent::role(*number)),
            Self::Crew(number) => write!(f, "@{}", crew(*number)),
            Self::Everyone => f.write_str("@everyone"),
            Self::Group => write!(f, "@{GROUP}"),
            Self::Channel => f.write_str("#topic"),
        }
    }
}

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
    Mate(usize),
    /// All of a role.
    Crew(usize),
}

/// What registered agents do, and how often.
const ACTIONS: [(&str, u32); 10] = [
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
                number,
                crew: crews[number],
                instance: 1,
                starts_ms: 0,
            })
            .collect();
        if rng.bool() {
            // Some are started anew while the one before still lives, and once more.
            for instance in 2..2 + rng.u64(1..=3) {
                let number = rng.usize(..mates);
                let starts_ms = rng.u64(1_000..self.params.duration_ms);
                team.push(Mate {
                    number,
                    crew: crews[number],
                    instance,
                    starts_ms,
                });
            }
        }
        for who in team {
            let mut agent = AgentPlan::draw(&mut rng, &self.params, &ACTIONS);
            agent.draw_ways(&mut rng, [greets, modern, progress]);
            if rng.u32(0..4) == 0 {
                agent.go_over_stdio();
            }
            agent.join(who, &mut rng, &self.params, mates);
            self.agents.push(agent);
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
    fn join(&mut self, who: Mate, rng: &mut Rng, params: &Params, mates: usize) {
        self.mate = Some(who);
        self.bound = true;
        self.lists = false;
        for step in &mut self.steps {
            let to_team = |call: Call| Call::Team(team_call(&call, rng, params, who, mates));
            step.action = step.action.clone().map(to_team);
        }
        let mut first = [GroupChange::Create, GroupChange::Add(Member::Mate(who.number))];
        if who.number > 0 {
            first[0] = GroupChange::Add(Member::Crew(who.crew));
        }
        let first = first.map(|change| Action::Call(Call::Team(TeamCall::Group(change))));
        for (step, action) in self.steps.iter_mut().zip(first) {
            step.action = action;
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
                Member::Mate(rng.usize(..mates))
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

fn draw_address(rng: &mut Rng, params: &Params, mates: usize) -> Address {
    match rng.u32(0..12) {
        0..=3 => Address::Mate(rng.usize(..mates)),
        4 => Address::Role(rng.usize(..params.roles)),
        5 | 6 => Address::Crew(rng.usize(..CREWS)),
        7 => Address::Everyone,
        8 | 9 => Address::Group,
        _ => Address::Channel,
    }
}

impl Action {
    /// Does the same with other calls.
    fn map(self, mut other: impl FnMut(Call) -> Call) -> Self {
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
