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
            Some(bound) if self.rng.percent(20) => {
                Some(bound.split_once(':').map_or(bound, |(_, local)| local).to_owned())
            }
            Some(bound) => Some(bound.to_owned()),
            None => Some(self.agent()),
        }
    }

    /// Draws the whole name of an agent, on a project's own relay sometimes with that of a project that it need not have; in some runs the first one more often, so that its inbox is a busy place.
    pub(super) fn agent(&mut self) -> String {
        let at = if self.rng.percent(self.busy) {
            0
        } else {
            self.rng.index(self.names.len())
        };
        let name = self.names[at].clone();
        match self.home {
            Some(home) if !name.contains(':') && self.rng.percent(40) => {
                let project = self.rng.pick(&[home, home, "default"]);
                format!("{project}:{name}")
            }
            Some(_) | None => name,
        }
    }

    /// Draws an address that may mean many.
    pub(super) fn address(&mut self) -> String {
        let everyone = [
            "*",
            "@everyone",
            "*:*",
            "web:*",
            "web:@everyone",
            "app:*",
            "default:*",
        ];
        let roles = [
            "agent:a b:1",
            "@worker",
            "agent:worker:1",
            "agent:lead:",
            "web:agent:lead:0",
            "web:@worker",
        ];
        let others = [
            "@pm",
            "pm",
            "default:pm",
            "web:pm",
            "ui",
            "lead",
            "crew",
            "@crew",
            "web:crew",
            "temp",
        ];
        let several = [
            "pm, dev-b",
            "dev-a,pm",
            "dev-a, @worker, lead",
            "pm, pm",
            "user, dev-b",
            "@crew, dev-a",
            "web:pm, pm",
            "pm, PM",
            "pm, #one",
            "pm,",
            "dev-b, *",
        ];
        match self.rng.below(8) {
            7 => self.rng.pick(&several).to_owned(),
            0 => self.rng.pick(&everyone).to_owned(),
            1 => self.rng.pick(&roles).to_owned(),
            2 | 3 => {
                let channel = self.channel();
                if channel.contains('#') {
                    channel
                } else {
                    format!("#{channel}")
                }
            }
            4 => self.rng.pick(&["squad", "@squad"]).to_owned(),
            _ => self.rng.pick(&others).to_owned(),
        }
    }

    /// Draws a channel, as a read may name it.
    pub(super) fn channel(&mut self) -> String {
        let legal = [
            "#one",
            "#two",
            "one",
            "#general",
            "web:#one",
            "web:#general",
            "#three",
        ];
        if self.rng.percent(self.illegal) {
            return self.rng.pick(&["#a b", "no one:#one", "#", "#agent"]).to_owned();
        }
        self.rng.pick(&legal).to_owned()
    }

    pub(super) fn stranger(&mut self) -> String {
        let names = [
            "",
            "dev",
            "dev-ab",
            "PM",
            " pm",
            "pm ",
            "d\u{e9}v\n",
            PERSON,
            "@",
            "web:x",
            "x:*",
            "agent:pm",
            "a:b:c:d:e",
        ];
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
            // No other call than a read may name it; nothing else is drawn for it.
            Some(self.stranger()).map(|name| if name == "@" { RELAY.to_owned() } else { name })
        } else if self.rng.percent(self.person) {
            Some(PERSON.to_owned())
        } else {
            Some(self.agent())
        }
    }
}
