//! What a caller reads where a worker is not started or ended.

use super::refusals::listed;
use crate::engine::workers::Refusal;

/// Says what was wrong, and what would be accepted.
pub fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Off => "this relay starts no workers, since it listens beyond this machine: whoever reaches it could run programs here; start it on 127.0.0.1 only, or start the agent in a terminal of its own".to_owned(),
        Refusal::ThePersons { given } => format!(
            "\"name\" is {given:?}, which is the person's own; accepted: the name of a worker, or one that nobody has"
        ),
        Refusal::NotAWorker { agent } => {
            format!("{agent} is an agent that relay has not started; accepted: the name of a worker, or one that nobody has")
        }
        Refusal::Lives {
            agent,
            parent,
            is_ending,
        } => {
            let (does, first) = if *is_ending {
                ("is ending", "try again in a moment")
            } else {
                ("lives", "release it first")
            };
            format!("{agent} is a worker of {parent} that {does}; {first}, or choose another name")
        }
        Refusal::TooMany { workers } => {
            format!("{workers} workers live, as many as are accepted; release one first")
        }
        Refusal::TooDeep { depth } => format!(
            "workers have started workers {depth} times on the way to you, as often as is accepted; do the task yourself, or ask your parent"
        ),
        Refusal::Empty { what } => format!("{what:?} is empty; accepted: a text"),
        Refusal::TooLong { what, bytes, max } => {
            format!("{what:?} has {bytes} bytes; accepted: at most {max}")
        }
        Refusal::NotALine { what, given } => {
            format!("{what:?} is {given:?}; accepted: one line of text, without control characters")
        }
        Refusal::OtherProject { given, own } => {
            format!("{given:?} is in another project than yours; accepted: a name in {own}, without a project")
        }
        Refusal::Failed { reason } => reason.clone(),
        Refusal::Unknown { given, known } => {
            format!("no worker {given:?}; workers that live: {}", listed(known))
        }
        Refusal::Ended { agent } => format!("{agent} has ended already"),
        Refusal::NotYours { agent, parent } => format!(
            "{agent} is a worker of {parent}; accepted: its parent, who is above that, or a person by: relay release"
        ),
    }
}
