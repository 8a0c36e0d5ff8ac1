//! Where a message needs the room of what was read and can only be cancelled: that gives way, the longest read first.

use super::Engine;
use super::inbox::{Inbox, body_bytes};
use super::names::{AgentName, HandoverId};

impl Engine {
    /// Finds what has to be confirmed at once, of what was read, so that a message with a body of that many bytes fits into an
    /// inbox: the oldest, and no more than that. None if it does not fit all the same.
    pub(super) fn room_for(&self, agent: &AgentName, body: usize) -> Option<Vec<HandoverId>> {
        self.room_in(&self.inboxes[agent], body)
    }

    /// The same in an inbox that is found.
    pub(super) fn room_in(&self, inbox: &Inbox, body: usize) -> Option<Vec<HandoverId>> {
        let (mut messages, mut bytes) = (inbox.messages(), inbox.bytes());
        let mut read = inbox.read.iter();
        let mut giving_way = Vec::new();
        while messages >= self.bounds.inbox_messages_max || bytes + body > self.bounds.inbox_bytes_max {
            let (_, id) = read.next()?;
            let deliveries = &*self.handovers[id].deliveries;
            if !deliveries.is_empty() {
                messages -= deliveries.len();
                bytes -= body_bytes(deliveries);
                giving_way.push(*id);
            }
        }
        Some(giving_way)
    }

    /// Counts how many messages, with bodies of that many bytes each, fit into an inbox one behind the other, as [`Self::room_for`] makes
    /// room for each.
    pub(super) fn how_many_fit(&self, agent: &AgentName, bodies: impl Iterator<Item = usize>) -> usize {
        let inbox = &self.inboxes[agent];
        let (mut messages, mut bytes) = (inbox.messages(), inbox.bytes());
        let mut read = inbox.read.iter();
        let mut count = 0;
        for body in bodies {
            while messages >= self.bounds.inbox_messages_max || bytes + body > self.bounds.inbox_bytes_max {
                let Some((_, id)) = read.next() else {
                    return count;
                };
                let deliveries = &*self.handovers[id].deliveries;
                messages -= deliveries.len();
                bytes -= body_bytes(deliveries);
            }
            messages += 1;
            bytes += body;
            count += 1;
        }
        count
    }
}
