//! Projects beside the default one. Agents of several have the same names there, and so have their roles, groups and channels.

use fastrand::Rng;

use super::team::{Address, CREWS, GroupChange, Mate, Member, TEAM_ACTIONS, Target, TeamCall, Tools};
use super::{AgentPlan, Call, Plan};

/// The projects that a run may have. The first is the one of the roster, and of all that name none.
const PROJECTS: [&str; 3] = ["default", "web", "api"];

/// Names a project.
pub fn project(number: usize) -> &'static str {
    PROJECTS[number]
}

/// Returns the whole name, or the whole address, of what somebody in a project has written, so that what means the same is the same:
/// `name` in the default project, `project:name` in any other.
pub fn whole(own: &str, written: &str) -> String {
    if written == "*:*" {
        return written.to_owned();
    }
    if let Some((one, others)) = written.split_once(", ") {
        return format!("{}, {}", whole(own, one), whole(own, others));
    }
    let (project, name) = written.split_once(':').unwrap_or((own, written));
    let name = if name == "*" { "@everyone" } else { name };
    if project == PROJECTS[0] {
        name.to_owned()
    } else {
        format!("{project}:{name}")
    }
}

/// Returns what somebody in a project writes to mean a whole name.
pub fn seen_from(own: &str, whole: &str) -> String {
    let (project, name) = parted(whole);
    if project == own {
        name.to_owned()
    } else {
        format!("{project}:{name}")
    }
}

/// Takes a whole name or address apart, into its project and what is left; `*:*` into two asterisks.
pub fn parted(whole: &str) -> (&str, &str) {
    whole.split_once(':').unwrap_or((PROJECTS[0], whole))
}

/// Returns the project of a whole name or address.
pub fn project_of(whole: &str) -> &str {
    parted(whole).0
}

impl Plan {
    /// Half of the teams have others beside them, in one or two more projects: of one to three agents each, who are called as
    /// those of the first are. They come from a sequence of their own, so that the other agents do what they did before; and from one
    /// that leaves the seeds alone that broke a law once (`seeds.txt`). Returns how many projects there are.
    pub(super) fn draw_projects(&mut self) -> usize {
        let mut rng = Rng::with_seed(self.seed ^ 0x70_726f_74a9);
        if self.mates().is_empty() || rng.bool() {
            return 1;
        }
        let projects = rng.usize(2..=PROJECTS.len());
        for project in 1..projects {
            let mates = rng.usize(1..=3);
            let ways = std::array::from_fn(|_| rng.u32(0..3) > 0);
            for number in 0..mates {
                let first = Mate {
                    project,
                    number,
                    crew: rng.usize(..CREWS),
                    instance: 1,
                    starts_ms: 0,
                    // Somebody has to make the group.
                    tools: [Tools::Thrum, Tools::AgentRelay][usize::from(number > 0 && rng.bool())],
                };
                let later = (rng.u32(0..4) == 0).then(|| Mate {
                    instance: 2,
                    starts_ms: rng.u64(1_000..self.params.duration_ms),
                    ..first
                });
                for who in [first].into_iter().chain(later) {
                    let mut agent = AgentPlan::draw(&mut rng, &self.params, &TEAM_ACTIONS);
                    agent.draw_ways(&mut rng, ways);
                    if rng.u32(0..4) == 0 {
                        agent.go_over_stdio();
                    }
                    agent.join(who, &mut rng, &self.params, mates);
                    agent.use_tools(&mut rng, &self.params, mates);
                    self.agents.push(agent);
                }
            }
        }
        projects
    }

    /// In a quarter of the teams, has registered agents send to two where they would to one, now and then. That comes from a sequence of its own,
    /// too.
    pub(super) fn draw_lists(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x006c_6973_7473);
        let mates = self.mates().len();
        if mates < 2 || rng.u32(0..4) > 0 {
            return;
        }
        for agent in self.agents.iter_mut().filter(|agent| agent.mate.is_some()) {
            for step in &mut agent.steps {
                step.action = step.action.clone().map(|call| match call {
                    Call::Team(TeamCall::Send { mut to, bytes }) => {
                        // Of a project's mates the first are there, whichever project it is.
                        let other = rng.usize(..mates);
                        if let Target::Mate(one) = to.target
                            && other < one
                            && rng.u32(0..3) == 0
                        {
                            to.target = Target::Two(one, other);
                        }
                        Call::Team(TeamCall::Send { to, bytes })
                    }
                    other @ (Call::Team(_)
                    | Call::Post { .. }
                    | Call::Read { .. }
                    | Call::Pending { .. }
                    | Call::Illegal(_)) => other,
                });
            }
        }
    }

    /// Has registered agents name projects in most of what they say, their own among them. That comes from a sequence of its own,
    /// too.
    pub(super) fn draw_reaches(&mut self, projects: usize) {
        if projects == 1 {
            return;
        }
        let mut rng = Rng::with_seed(self.seed ^ 0x7265_6163_6865);
        for agent in self.agents.iter_mut().filter(|agent| agent.mate.is_some()) {
            for step in &mut agent.steps {
                step.action = step.action.clone().map(|call| match call {
                    Call::Team(call) => Call::Team(call.reach(&mut rng, projects)),
                    other @ (Call::Post { .. }
                    | Call::Read { .. }
                    | Call::Pending { .. }
                    | Call::Illegal(_)) => other,
                });
            }
        }
    }
}

impl TeamCall {
    /// Says the same to, or of, those of some project.
    fn reach(self, rng: &mut Rng, projects: usize) -> Self {
        let any = |rng: &mut Rng| rng.bool().then(|| rng.usize(..projects));
        match self {
            Self::Send { to, bytes } => Self::Send {
                to: to.reach(rng, projects),
                bytes,
            },
            Self::Reply { otherwise, bytes } => Self::Reply {
                otherwise: otherwise.reach(rng, projects),
                bytes,
            },
            Self::Ask { to, bytes, wait_ms } => Self::Ask {
                to: to.reach(rng, projects),
                bytes,
                wait_ms,
            },
            Self::Filtered { from, limit, .. } => Self::Filtered {
                project: any(rng),
                from,
                limit,
            },
            Self::Group(GroupChange::Add(member)) => {
                Self::Group(GroupChange::Add(member.reach(rng, projects)))
            }
            Self::Group(GroupChange::Remove(member)) => {
                Self::Group(GroupChange::Remove(member.reach(rng, projects)))
            }
            other @ (Self::Group(GroupChange::Create) | Self::Check { .. } | Self::Wait { .. }) => other,
        }
    }
}

impl Address {
    fn reach(self, rng: &mut Rng, projects: usize) -> Self {
        match rng.u32(0..12) {
            0..=3 => self,
            4 => Self {
                project: None,
                target: Target::AllProjects,
            },
            5 => Self {
                project: rng.bool().then(|| rng.usize(..projects)),
                target: Target::General,
            },
            6 => Self {
                project: Some(rng.usize(..projects)),
                target: Target::Everyone,
            },
            _ => Self {
                project: Some(rng.usize(..projects)),
                ..self
            },
        }
    }
}

impl Member {
    /// Names the project of an agent that is a member, where somebody of one has said who it is.
    pub fn of_project(self, own: usize) -> Self {
        match self {
            Self::Mate { project, number } => Self::Mate {
                project: project.or(Some(own)),
                number,
            },
            role @ Self::Crew(_) => role,
        }
    }

    /// An agent may be of another project than the group; a role may not.
    fn reach(self, rng: &mut Rng, projects: usize) -> Self {
        match self {
            Self::Mate { number, .. } if rng.u32(0..3) == 0 => Self::Mate {
                project: Some(rng.usize(..projects)),
                number,
            },
            other @ (Self::Mate { .. } | Self::Crew(_)) => other,
        }
    }
}
