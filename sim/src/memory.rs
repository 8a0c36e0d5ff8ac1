//! What an agent has read, and names when it asks for what it was handed behind that once more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::history::{Asked, Outcome, Seen};
use crate::plan::After;

/// The ids that an agent knows, by inbox.
#[derive(Debug, Default)]
pub struct Memory {
    /// What the reads of the step at hand name.
    after: Cell<Option<After>>,
    /// What it has read whole, the latest last.
    read: RefCell<BTreeMap<String, Vec<String>>>,
    /// The latest of all.
    latest: RefCell<Option<Seen>>,
    /// What it has named last.
    named: RefCell<BTreeMap<String, String>>,
}

impl Memory {
    /// Takes note of what the reads of the next step name.
    pub fn begin(&self, after: Option<After>) {
        self.after.set(after);
    }

    /// Takes note of what a call was answered.
    pub fn keep(&self, asked: &Asked, outcome: &Outcome) {
        let (Asked::Read { of, .. }, Outcome::Messages { seen, .. }) = (asked, outcome) else {
            return;
        };
        let is_known = |seen: &Seen| !seen.id.is_empty() && seen.part.is_none();
        let whole = seen.iter().filter(|seen| is_known(seen));
        let mut read = self.read.borrow_mut();
        read.entry(of.clone())
            .or_default()
            .extend(whole.map(|seen| seen.id.clone()));
        let latest = seen.last().filter(|latest| is_known(latest));
        if let Some(latest) = latest {
            self.latest.replace(Some(latest.clone()));
        }
    }

    /// Returns the latest message that it has read, of those whose ids it knows.
    pub fn latest(&self) -> Option<Seen> {
        self.latest.borrow().clone()
    }

    /// Has a read name a message as the last that its agent has seen, if its step says so and it has read one in that inbox.
    pub fn ask_again(&self, asked: &mut Asked, arguments: &mut Value) {
        let (Some(after), Asked::Read { of, filter, .. }) = (self.after.get(), asked) else {
            return;
        };
        let mut named = self.named.borrow_mut();
        let read = self.read.borrow();
        let back = |count: usize| {
            let ids = read.get(of.as_str())?;
            ids.get(ids.len().saturating_sub(count + 1)).cloned()
        };
        let id = match after {
            After::Back(count) => back(count),
            After::Same => named.get(of.as_str()).cloned().or_else(|| back(0)),
        };
        let Some(id) = id else {
            return;
        };
        arguments["after"] = json!(id);
        named.insert(of.clone(), id.clone());
        filter.after = Some(id);
    }
}
