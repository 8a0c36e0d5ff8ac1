//! A failing plan made smaller: whatever can go without the failure going, goes.

use crate::campaign::run_plan;
use crate::laws::Violation;
use crate::plan::{Action, Call, Plan};
use crate::tap::Bug;

/// Returns a smaller plan that breaks the same law, and how; none if the plan breaks none.
pub fn shrink(plan: &Plan, bug: Option<Bug>) -> Option<(Plan, Violation)> {
    let mut violation = failure(plan, bug)?;
    let law = violation.law;
    let mut smallest = plan.clone();
    loop {
        let before = size(&smallest);
        for candidate in candidates(&smallest) {
            // A candidate was made for the plan as it was; one that has been overtaken is no smaller.
            if size(&candidate) >= size(&smallest) {
                continue;
            }
            if let Some(same) = failure(&candidate, bug).filter(|other| other.law == law) {
                (smallest, violation) = (candidate, same);
                break;
            }
        }
        if size(&smallest) == before {
            return Some((smallest, violation));
        }
    }
}

fn failure(plan: &Plan, bug: Option<Bug>) -> Option<Violation> {
    match run_plan(plan, bug) {
        Ok(run) => run.verdict.err(),
        Err(violation) => Some(violation),
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
    plan.faults.len() * 3 + plan.agents.len() * 3 + steps
}

fn weight(action: &Action) -> usize {
    let body = |call: &Call| match call {
        Call::Post { bytes, .. } => 1 + usize::from(*bytes > 0),
        Call::Read { .. } | Call::Pending { .. } | Call::Illegal(_) => 1,
    };
    match action {
        Action::Call(call) => body(call),
        Action::Both(one, other) => 1 + body(one) + body(other),
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
            if let Action::Both(one, other) = &plan.agents[agent].steps[step].action {
                for call in [one, other] {
                    without(&|plan| plan.agents[agent].steps[step].action = Action::Call(call.clone()));
                }
            }
            without(&|plan| {
                if let Action::Call(Call::Post { bytes, .. }) = &mut plan.agents[agent].steps[step].action {
                    *bytes = 0;
                }
            });
        }
    }
    smaller
}
