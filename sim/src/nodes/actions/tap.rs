//! What the tap knows of invocations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use relay::engine::actions::{self, Reply as Answer};
use relay::engine::invocations::{Failed, InvocationView, Progress};
use relay::engine::nodes::{self, Said};
use relay::engine::{Command, Effect, Event, Input, Reply, SessionId};

use super::laws::ASKED;
use crate::laws::Violation;
use crate::marks::Marks;
use crate::nodes::bug::Bug;

/// The invocations of a life of the server.
#[derive(Default)]
pub struct Invocations {
    ended: BTreeSet<String>,
    /// What was said of each at the last.
    said: BTreeMap<String, Result<Box<str>, Box<str>>>,
    /// What was asked at the last, and over which connection.
    asked: Option<(SessionId, Box<InvocationView>)>,
    /// What was said before.
    before: Option<Result<Box<str>, Box<str>>>,
}

impl Invocations {
    /// Looks at what comes in, and breaks it. Returns what is answered in the engine's stead, if a bug does so.
    pub fn look(&mut self, input: &mut Input, bug: Option<Bug>) -> Option<Effect> {
        let Input::Call { call, command, .. } = input else {
            return None;
        };
        let (invocation, result) = match command {
            Command::Nodes(nodes::Command::Says(Said::Ends { invocation, result })) => (invocation, result),
            Command::Actions(actions::Command::End { invocation, result }) => {
                self.said.insert(invocation.clone(), result.clone());
                return None;
            }
            Command::Mail(_)
            | Command::Agents(_)
            | Command::Groups(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_)
            | Command::Resource(_) => return None,
        };
        self.said.insert(invocation.clone(), result.clone());
        let before = self.before.replace(result.clone());
        if let (Some(Bug::ResultOfAnother), Some(before)) = (bug, before) {
            *result = before;
        }
        (bug == Some(Bug::ResultForgotten)).then(|| Effect::Reply {
            call: *call,
            result: Ok(nodes::Reply::Noted.into()),
            handover: None,
        })
    }

    /// Breaks what goes out.
    pub fn spoil(&mut self, bug: Option<Bug>, out: &mut Vec<Effect>) {
        let mut more = None;
        for effect in out.iter_mut() {
            match effect {
                Effect::Reply {
                    result: Ok(Reply::Actions(answer)),
                    ..
                } if bug == Some(Bug::LaterResultCounts) => {
                    if let Answer::Invocation(view) = &mut **answer
                        && let Progress::Ended { result, .. } = &mut view.progress
                        && let Some(said) = self.said.get(&view.id.to_string())
                    {
                        *result = match said {
                            Ok(output) => Ok(Arc::from(&**output)),
                            Err(error) => Err(Failed::Said(Arc::from(&**error))),
                        };
                    }
                }
                Effect::Invoke { session, invocation } if bug == Some(Bug::AskedWhenEnded) => {
                    self.asked = Some((*session, invocation.clone()))
                }
                Effect::Note(Event::InvocationEnded { invocation }) => {
                    let asked = self.asked.take_if(|(_, asked)| asked.id == invocation.id);
                    more = asked.map(|(session, invocation)| Effect::Invoke { session, invocation });
                }
                Effect::Opened { .. }
                | Effect::Reply { .. }
                | Effect::Changed { .. }
                | Effect::Deliver { .. }
                | Effect::Invoke { .. }
                | Effect::Tell { .. }
                | Effect::Superseded { .. }
                | Effect::StartWorker(_)
                | Effect::EndWorker { .. }
                | Effect::Note(_) => {}
            }
        }
        out.extend(more);
    }

    /// Looks at what goes out.
    pub fn see(&mut self, effect: &Effect, marks: &Marks) -> Option<Violation> {
        let wrong = |detail: String| Some(Violation { law: ASKED, detail });
        match effect {
            Effect::Invoke { invocation, .. } if self.ended.contains(&invocation.id.to_string()) => {
                wrong(format!("{} is asked again", invocation.id))
            }
            Effect::Note(Event::InvocationEnded { invocation }) => {
                if let Progress::Ended {
                    result: Err(Failed::NodeGone),
                    ..
                } = &invocation.progress
                {
                    marks.hit("invocation failed with its node");
                }
                let is_first = self.ended.insert(invocation.id.to_string());
                if is_first {
                    None
                } else {
                    wrong(format!("{} ends again", invocation.id))
                }
            }
            Effect::Opened { .. }
            | Effect::Reply { .. }
            | Effect::Changed { .. }
            | Effect::Deliver { .. }
            | Effect::Invoke { .. }
            | Effect::Tell { .. }
            | Effect::Superseded { .. }
            | Effect::StartWorker(_)
            | Effect::EndWorker { .. }
            | Effect::Note(_) => None,
        }
    }
}
