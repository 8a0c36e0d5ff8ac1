//! What the person looks back at, and what agents say of messages, in some runs more often than in others.

use relay::engine::limits::EMOJI_BYTES_MAX;
use relay::engine::records::{self, Of, Range};
use relay::engine::trace::ShownTo;

use super::calls::whole;
use super::*;

/// One seed in so many looks back; the others are as they are without.
const SEEDS_STEP: u64 = 6;

/// What that is drawn from, so that nothing else is drawn for it.
pub(super) struct Backward {
    rng: Random,
    /// One event in so many does so.
    one_in: u64,
    /// Some messages that went to another project than the first.
    abroad: Vec<MessageId>,
}

impl Backward {
    pub(super) fn draw(seed: u64) -> Option<Self> {
        let mut rng = Random::new(seed ^ 0x6261_636b);
        (seed % SEEDS_STEP == 1).then(|| Self {
            one_in: rng.pick(&[4, 10, 25]),
            rng,
            abroad: Vec::new(),
        })
    }

    /// Takes note of where a message went.
    pub(super) fn saw(&mut self, id: MessageId, to: &Recipient) {
        if to.as_str().contains(':') {
            remember(&mut self.abroad, id);
        }
    }

    /// Draws a message of those that were seen, or of those that went abroad.
    fn message(&mut self, seen: &[MessageId]) -> String {
        let abroad = !self.abroad.is_empty() && self.rng.percent(50);
        let from = if abroad { &self.abroad } else { seen };
        self.rng.pick(from).to_string()
    }
}

impl Plan {
    /// Draws whether somebody looks back, and at what.
    pub(super) fn looks_back(&mut self) -> Option<Input> {
        let mut backward = self.backward.take()?;
        let looks = backward.rng.below(backward.one_in) == 0 && !self.seen.is_empty();
        let input = looks.then(|| self.look_back(&mut backward));
        self.backward = Some(backward);
        input
    }

    fn look_back(&mut self, backward: &mut Backward) -> Input {
        let is_agents = |who: &Option<String>| who.as_deref().is_some_and(|who| who != PERSON);
        let of_agents = self.open.iter().filter(|(_, who)| is_agents(who));
        let of_agents: Vec<SessionId> = of_agents.map(|(session, _)| *session).collect();
        if backward.rng.percent(40) && !of_agents.is_empty() {
            let says = self.says(backward);
            return self.asked(backward.rng.pick(&of_agents), says);
        }
        let Some(session) = self.persons() else {
            return self.opened_by_person(&mut backward.rng);
        };
        let command = self.looked_at(backward);
        self.asked(session, command)
    }

    /// Draws what an agent says of a message.
    fn says(&self, backward: &mut Backward) -> Command {
        let message = backward.message(&self.seen);
        let rng = &mut backward.rng;
        let [longest, too_long] = [0, 1].map(|more| "e".repeat(EMOJI_BYTES_MAX + more));
        let emoji = rng.pick(&[":eyes:", ":eyes:", "\u{1f44d}", "\n", &longest, &too_long]);
        let emoji = emoji.to_owned();
        if rng.percent(40) {
            return records::Command::Mark { message }.into();
        }
        let given = rng.percent(70);
        records::Command::React {
            message,
            emoji,
            given,
        }
        .into()
    }

    /// Draws what the person looks at.
    fn looked_at(&self, backward: &mut Backward) -> Command {
        let mut message = backward.message(&self.seen);
        let rng = &mut backward.rng;
        let shown_to = match rng.below(4) {
            0 => ShownTo::Person,
            1 | 2 => ShownTo::Project(rng.pick(&["default", "web"]).to_owned()),
            _ => ShownTo::Agent(self.somebody(rng)),
        };
        match rng.below(6) {
            0..3 => {
                message.truncate(rng.pick(&[8, 13, 36, 36, 36]));
                trace::Command::Trace { message, shown_to }.into()
            }
            3 => records::Command::Get { message, shown_to }.into(),
            _ => {
                let (of, range) = (self.of(rng), Box::new(self.range(rng)));
                records::Command::List { of, range, shown_to }.into()
            }
        }
    }

    fn of(&self, rng: &mut Random) -> Of {
        match rng.below(6) {
            0 => Of::Sender(self.somebody(rng)),
            1 => Of::Channel(
                rng.pick(&["#general", "web:#general", "#one", "web:#one"])
                    .to_owned(),
            ),
            2 => Of::Replies(self.a_message(rng)),
            3 => {
                let [one, other] = [0; 2].map(|_| self.names[rng.index(self.names.len())].clone());
                Of::Between(one, other)
            }
            _ => Of::All,
        }
    }

    fn range(&self, rng: &mut Random) -> Range {
        Range {
            before: rng.percent(30).then(|| self.a_message(rng)),
            after: rng.percent(30).then(|| self.a_message(rng)),
            limit: rng.pick(&[0, 2, 5, usize::MAX]),
        }
    }

    fn a_message(&self, rng: &mut Random) -> String {
        rng.pick(&self.seen).to_string()
    }

    fn somebody(&self, rng: &mut Random) -> AgentName {
        whole(&self.names[rng.index(self.names.len())])
    }
}
