//! What was handed over and is not to be any more, as far as it is kept in mind.

use super::super::limits::{RECENT_BYTES_MAX, RECENT_MAX};
use super::super::message::Delivery;
use super::super::names::{HandoverId, MessageId};
use super::{Inbox, body_bytes};

/// A delivery that is not to be handed over any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Recent {
    pub(super) delivery: Delivery,
    pub(super) became: Became,
    /// With which hand-over its agent was handed it, of a message in parts the latest of them; none if it has expired, or the person took
    /// it in its agent's stead.
    pub(super) handover: Option<HandoverId>,
}

/// What became of a delivery in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in super::super) enum Became {
    /// It has arrived.
    Read,
    /// It has, and its agent has taken responsibility for it, and has not said what became of it.
    Accepted,
    /// It has, and its agent failed to do with it what was to be done.
    Failed,
    /// Nobody was handed it before its deadline, or before its client was given up.
    Expired,
}

impl Inbox {
    /// Goes through what was read and is kept in mind, the longest read first.
    pub fn recent(&self) -> impl Iterator<Item = &Delivery> {
        let read = self
            .recent
            .iter()
            .filter(|recent| recent.became != Became::Expired);
        read.map(|recent| &recent.delivery)
    }

    /// Tells what became of a message that is kept in mind.
    pub fn became(&self, id: MessageId) -> Option<Became> {
        let mut latest = self.recent.iter().rev();
        let found = latest.find(|recent| recent.delivery.message.id == id);
        found.map(|recent| recent.became)
    }

    /// Takes note of what became in the end of a message that is kept in mind. Returns its delivery, and with which hand-over its agent was
    /// handed it.
    pub fn becomes(&mut self, id: MessageId, became: Became) -> (Delivery, Option<HandoverId>) {
        let mut latest = self.recent.iter_mut().rev();
        let found = latest.find(|recent| recent.delivery.message.id == id);
        let recent = found.expect("it has just been found there");
        recent.became = became;
        (recent.delivery.clone(), recent.handover)
    }

    /// Tells whether what is kept in mind is within its bounds, for the invariants.
    pub fn recent_is_bounded(&self) -> bool {
        let fits = self.recent.len() <= RECENT_MAX && self.recent_bytes <= RECENT_BYTES_MAX;
        let all = self.recent.iter().map(|recent| &recent.delivery);
        self.recent_bytes == body_bytes(all) && (fits || self.recent.len() == 1)
    }

    /// Gives up the room of deliveries that arrived, and keeps the latest of them in mind.
    pub fn release(&mut self, arrived: &[Delivery], became: Became, handover: Option<HandoverId>) {
        self.give_up(arrived);
        self.keep_in_mind(arrived, became, handover);
    }

    /// Gives up the room of deliveries that arrived.
    pub fn give_up(&mut self, arrived: &[Delivery]) {
        self.free(arrived);
        self.forget_allowed(arrived);
        if !self.listed.is_empty() {
            for delivery in arrived {
                self.listed.remove(&delivery.seq);
            }
        }
    }

    /// Keeps the latest of some deliveries in mind.
    pub fn keep_in_mind(&mut self, ended: &[Delivery], became: Became, handover: Option<HandoverId>) {
        let kept = &ended[ended.len().saturating_sub(RECENT_MAX)..];
        self.recent_bytes += body_bytes(kept);
        let kept = kept.iter().cloned().map(|delivery| Recent {
            delivery,
            became,
            handover,
        });
        self.recent.extend(kept);
        while self.recent.len() > RECENT_MAX
            || (self.recent_bytes > RECENT_BYTES_MAX && self.recent.len() > 1)
        {
            let oldest = self.recent.pop_front().expect("there are some");
            self.recent_bytes -= oldest.delivery.message.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::handling::Mode;
    use super::super::super::message::{Kind, Message};
    use super::super::super::names::{AgentName, Recipient, Seq};
    use super::super::super::time::Timestamp;
    use super::*;
    use std::sync::Arc;

    /// An inbox that keeps so many messages of so many bytes each in mind.
    fn keeping(messages: usize, bytes: usize) -> Inbox {
        let person = AgentName::person();
        let message = Arc::new(Message {
            id: MessageId(uuid::Uuid::nil()),
            to: Recipient::agent(&person),
            from: person,
            kind: Kind::Free,
            body: "x".repeat(bytes),
            ts: Timestamp::from_millis(0),
            context: None,
        });
        let delivery = Delivery {
            seq: Seq(0),
            message,
            mode: Mode::Immediate,
            redelivered: false,
        };
        Inbox {
            recent: vec![
                Recent {
                    delivery,
                    became: Became::Read,
                    handover: None
                };
                messages
            ]
            .into(),
            recent_bytes: messages * bytes,
            ..Inbox::new()
        }
    }

    #[test]
    fn what_is_kept_in_mind_beyond_its_bounds_is_seen() {
        let half = RECENT_BYTES_MAX / 2;
        for (messages, bytes, is_bounded) in [
            (0, 0, true),
            (RECENT_MAX, 1, true),
            (RECENT_MAX + 1, 1, false),
            (2, half, true),
            (2, half + 1, false),
            (1, RECENT_BYTES_MAX + 1, true),
        ] {
            let inbox = keeping(messages, bytes);
            assert_eq!(inbox.recent_is_bounded(), is_bounded, "{messages} of {bytes}");
        }
        let miscounted = Inbox {
            recent_bytes: 1,
            ..keeping(1, 2)
        };
        assert!(!miscounted.recent_is_bounded());
    }
}
