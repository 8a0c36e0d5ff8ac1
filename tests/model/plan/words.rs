//! The names and texts that commands are made of.

use super::*;

impl Plan {
    /// Draws who a session says it is.
    pub(super) fn me(&mut self, bound: Option<&str>) -> Option<String> {
        if self.rng.percent(self.illegal) {
            return match self.rng.below(3) {
                0 => None,
                1 => Some(self.agent()),
                _ => Some(self.stranger()),
            };
        }
        match bound {
            Some(_) if self.rng.percent(50) => None,
            Some(PERSON) if self.rng.percent(50) => Some(self.agent()),
            Some(bound) => Some(bound.to_owned()),
            None => Some(self.agent()),
        }
    }

    /// Draws an agent; in some runs the first one more often, so that its inbox is a busy place.
    pub(super) fn agent(&mut self) -> String {
        let names = self.roster.names();
        let at = if self.rng.percent(self.busy) {
            0
        } else {
            self.rng.index(names.len())
        };
        names[at].to_string()
    }

    pub(super) fn stranger(&mut self) -> String {
        let names = ["", "dev", "dev-ab", "PM", " pm", "pm ", "d\u{e9}v\n", PERSON];
        self.rng.pick(&names).to_owned()
    }

    pub(super) fn body(&mut self) -> String {
        let max = self.bounds.body_bytes_max;
        match self.rng.below(16) {
            0 => "x".repeat(max + 1),
            1 => "\u{e9}".repeat(1 + self.rng.index(max)),
            2..5 => "m".repeat(max),
            _ => "b".repeat(self.rng.index(max + 1)),
        }
    }

    /// Draws whose messages a read asks for.
    pub(super) fn sender(&mut self) -> Option<String> {
        if !self.rng.percent(self.choosy) {
            None
        } else if self.rng.percent(self.illegal) {
            Some(self.stranger())
        } else if self.rng.percent(self.person) {
            Some(PERSON.to_owned())
        } else {
            Some(self.agent())
        }
    }
}
