//! What the person holds, lets pass and drops.

use relay::engine::holds::{Command as Asks, Reply as Answer, Whom};

use super::*;

/// Of so many seeds, the last few hold: the others are as they are without.
const SEEDS: u64 = 300;
const SEEDS_WITHOUT: u64 = 260;

/// Tells whether the person holds anything in the run of a seed.
pub fn is_held(seed: u64) -> bool {
    seed % SEEDS >= SEEDS_WITHOUT
}

/// What the person's part is drawn from, so that nothing else is drawn for it.
pub(super) struct Holding {
    rng: Random,
    /// One event in so many is the person's.
    one_in: u64,
    /// What was held when the person last looked.
    aside: Vec<MessageId>,
}

impl Holding {
    pub(super) fn draw(seed: u64) -> Option<Self> {
        let mut rng = Random::new(seed ^ 0x686f_6c64);
        is_held(seed).then(|| Self {
            one_in: rng.pick(&[6, 12, 30]),
            rng,
            aside: Vec::new(),
        })
    }

    /// Takes note of what is held.
    pub(super) fn saw(&mut self, answer: &Answer) {
        if let Answer::Listed(view) = answer {
            self.aside = view.messages.iter().map(|held| held.message.id).collect();
        }
    }
}

impl Plan {
    /// Draws whether the person does something about deliveries, and what.
    pub(super) fn holds(&mut self) -> Option<Input> {
        let mut holding = self.holding.take()?;
        let strikes = holding.rng.below(holding.one_in) == 0;
        let input = strikes.then(|| self.asks(&mut holding));
        self.holding = Some(holding);
        input
    }

    fn asks(&mut self, holding: &mut Holding) -> Input {
        let by_agent = holding.rng.percent(3) && !self.open.is_empty();
        let session = if by_agent {
            Some(self.open[holding.rng.index(self.open.len())].0)
        } else {
            self.persons()
        };
        let Some(session) = session else {
            return self.opened_by_person(&mut holding.rng);
        };
        let agent = |rng: &mut Random, names: &[String]| match rng.below(30) {
            0 => PERSON.to_owned(),
            1 => "nobody".to_owned(),
            _ => names[rng.index(names.len())].clone(),
        };
        let rng = &mut holding.rng;
        let asks = match rng.below(12) {
            0 => Asks::Hold(Whom::All),
            1..=3 => Asks::Hold(Whom::Agent(agent(rng, &self.names))),
            4 => Asks::Lift(Whom::All),
            5 | 6 => Asks::Lift(Whom::Agent(agent(rng, &self.names))),
            7 | 8 if !holding.aside.is_empty() => Asks::Allow {
                message: begins(rng, &holding.aside),
            },
            9 if !holding.aside.is_empty() => Asks::Drop {
                message: begins(rng, &holding.aside),
            },
            _ => Asks::List,
        };
        self.asked(session, asks)
    }

    /// Returns a session of the person that is open.
    pub(super) fn persons(&self) -> Option<SessionId> {
        let mut persons = self.open.iter().filter(|(_, who)| who.as_deref() == Some(PERSON));
        persons.next().map(|(session, _)| *session)
    }

    /// Opens one.
    pub(super) fn opened_by_person(&mut self, rng: &mut Random) -> Input {
        Input::Opened {
            session: SessionId(self.number()),
            carrier: rng.pick(&[Carrier::Stream, Carrier::Exchange]),
            who: Who::Person,
        }
    }

    /// Lists what ends all holds.
    pub(super) fn lifts(&mut self, session: SessionId) -> Vec<Event> {
        if self.holding.is_none() {
            return Vec::new();
        }
        let names = self.names.clone().into_iter().map(Whom::Agent);
        let all = names.chain([Whom::All]).map(Asks::Lift);
        all.map(|asks| Event::Input(self.asked(session, asks))).collect()
    }

    /// Makes a call of a session.
    pub(super) fn asked(&mut self, session: SessionId, asks: impl Into<Command>) -> Input {
        let call = CallId(self.number());
        Input::Call {
            session,
            call,
            random: self.random.bytes(),
            command: asks.into(),
        }
    }
}

/// Draws how one of some messages is named.
fn begins(rng: &mut Random, messages: &[MessageId]) -> String {
    let mut id = rng.pick(messages).to_string();
    id.truncate(rng.pick(&[7, 8, 13, 36, 36]));
    id
}
