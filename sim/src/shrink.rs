//! A failing plan made smaller: whatever can go without the failure going, goes.

use crate::campaign::run_plan;
use crate::laws::Violation;
use crate::plan::team::TeamCall;
use crate::plan::{Action, AgentPlan, Call, Dialect, Plan};
use crate::tap::Bug;

/// Returns a smaller plan that breaks the same law, and how; none if the plan breaks none. It is as small as it becomes within so many runs.
pub fn shrink(plan: &Plan, bug: Option<Bug>, runs_max: usize) -> Option<(Plan, Violation)> {
    let mut runs = 0;
    let mut violation = violations(plan, bug).into_iter().next()?;
    let law = violation.law;
    let mut smallest = plan.clone();
    loop {
        let before = size(&smallest);
        for candidate in candidates(&smallest) {
            // A candidate was made for the plan as it was; one that has been overtaken is no smaller.
            if size(&candidate) >= size(&smallest) {
                continue;
            }
            if runs == runs_max {
                return Some((smallest, violation));
            }
            runs += 1;
            if let Some(same) = violations(&candidate, bug)
                .into_iter()
                .find(|other| other.law == law)
            {
                (smallest, violation) = (candidate, same);
                break;
            }
        }
        if size(&smallest) == before {
            return Some((smallest, violation));
        }
    }
}

fn violations(plan: &Plan, bug: Option<Bug>) -> Vec<Violation> {
    match run_plan(plan, bug) {
        Ok(run) => run.violations,
        Err(violation) => vec![violation],
    }
}

/// Counts what a person has to read.
fn size(plan: &Plan) -> usize {
    let steps: usize = plan
        .agents
        .iter()
        .flat_map(|agent| &agent.steps)
        .map(|step| weight(&step.action))
        .sum();
    let ways = |agent: &AgentPlan| {
        usize::from(agent.dialect != Dialect::Bare) + usize::from(agent.lists) + usize::from(agent.progress)
    };
    let ways: usize = plan.agents.iter().map(ways).sum();
    ways + plan.faults.len() * 3 + plan.agents.len() * 3 + steps
}

fn weight(action: &Action) -> usize {
    let body = |call: &Call| match call {
        Call::Post { bytes, .. } => 1 + usize::from(*bytes > 0),
        Call::Team(TeamCall::Send { bytes, .. }) => 1 + usize::from(*bytes > 0),
        Call::Read { .. } | Call::Pending { .. } | Call::Illegal(_) | Call::Team(_) => 1,
    };
    match action {
        Action::Call(call) => body(call),
        Action::Both(one, other) => 1 + body(one) + body(other),
        Action::Pipeline(one, other) | Action::PipelineAndDie(one, other, _) => 2 + body(one) + body(other),
        Action::Abandon(call, _) | Action::Cancel(call, _) | Action::Stall(call, _) | Action::Again(call) => {
            1 + body(call)
        }
        Action::Reconnect => 1,
    }
}

/// Smaller plans, the boldest first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut smaller = Vec::new();
    let mut without = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        smaller.push(plan);
    };
    without(&|plan| plan.faults.clear());
    for at in 0..plan.agents.len() {
        without(&|plan| {
            plan.agents.remove(at);
        });
    }
    for at in 0..plan.faults.len() {
        without(&|plan| {
            plan.faults.remove(at);
        });
    }
    for agent in 0..plan.agents.len() {
        without(&|plan| {
            plan.agents[agent].dialect = Dialect::Bare;
            plan.agents[agent].lists = false;
        });
        without(&|plan| plan.agents[agent].progress = false);
        let steps = plan.agents[agent].steps.len();
        let mut length = steps / 2;
        while length > 0 {
            for from in (0..steps).step_by(length) {
                let until = (from + length).min(steps);
                // What came later stays when it was.
                without(&|plan| {
                    let gone: Vec<_> = plan.agents[agent].steps.drain(from..until).collect();
                    let pause_ms: u64 = gone.iter().map(|step| step.pause_ms).sum();
                    if let Some(next) = plan.agents[agent].steps.get_mut(from) {
                        next.pause_ms += pause_ms;
                    }
                });
            }
            length /= 2;
        }
        for step in 0..steps {
            if let Action::Both(one, other)
            | Action::Pipeline(one, other)
            | Action::PipelineAndDie(one, other, _) = &plan.agents[agent].steps[step].action
            {
                for call in [one, other] {
                    without(&|plan| plan.agents[agent].steps[step].action = Action::Call(call.clone()));
                }
            }
            without(&|plan| {
                if let Action::Call(Call::Post { bytes, .. } | Call::Team(TeamCall::Send { bytes, .. })) =
                    &mut plan.agents[agent].steps[step].action
                {
                    *bytes = 0;
                }
            });
        }
    }
    smaller
}
