//! What must hold of the holds between any two inputs.

use std::collections::BTreeSet;

use super::super::Engine;
use super::super::inbox::Inbox;
use super::super::limits::HOLDS_MAX;
use super::super::names::{AgentName, Seq};

impl Engine {
    /// Panics with the broken law, if one is.
    pub(in super::super) fn check_holds(&self) {
        assert!(
            self.holds.agents.len() <= HOLDS_MAX,
            "no more agents are held than the bound"
        );
        assert!(
            !self.holds.agents.iter().any(AgentName::is_person),
            "the person is not held"
        );
        for (agent, inbox) in &self.inboxes {
            self.check_aside(agent, inbox);
        }
    }

    fn check_aside(&self, agent: &AgentName, inbox: &Inbox) {
        assert!(
            inbox.knows_bytes_aside(),
            "an inbox knows the bytes that stand aside in it"
        );
        for delivery in inbox.aside() {
            assert!(
                self.holds.on(&delivery.message.from, agent).is_some(),
                "what stands aside is held"
            );
            let is_numbered = inbox.has_number(delivery.seq);
            assert!(
                !is_numbered && !inbox.is_allowed(delivery.seq) && !inbox.listed.contains(&delivery.seq),
                "what stands aside is not allowed, and nobody was shown it who is to say what became of it"
            );
        }
        assert!(
            inbox
                .waiting()
                .all(|delivery| self.is_to_stand_aside(agent, delivery).is_none()),
            "what is held stands aside, and waits for nobody"
        );
        let waiting = inbox.waiting().map(|delivery| delivery.seq);
        let handed = self
            .handovers
            .values()
            .filter(|handover| handover.agent == *agent);
        let handed = handed.flat_map(|handover| handover.deliveries.iter().map(|delivery| delivery.seq));
        let in_parts = inbox.whole_in_parts().map(|delivery| delivery.seq);
        let there: BTreeSet<Seq> = waiting.chain(handed).chain(in_parts).collect();
        assert!(
            inbox.allowed().all(|seq| there.contains(seq)),
            "what was allowed is there, or may come back"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::super::limits::Bounds;
    use super::super::super::{
        CallId, Carrier, Command, Input, Kind, Roster, SessionId, Timestamp, Who, mail,
    };
    use super::super::{Command as Asks, Whom};
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(0);

    type Breaking = fn(&mut Engine);

    /// A relay whose `dev-a` is held, with one message for it that stands aside, and one for `dev-b` that waits.
    fn engine() -> Engine {
        let mut engine = Engine::new(NOW, Roster::default(), Bounds::default(), [0; 16]);
        let mut handle = |input| engine.handle(NOW, input, &mut Vec::new());
        let (agent, person) = (SessionId(1), SessionId(2));
        for (session, who) in [(agent, Who::Agent(None)), (person, Who::Person)] {
            let carrier = Carrier::Exchange;
            handle(Input::Opened {
                session,
                carrier,
                who,
            });
        }
        let mut call = |number, session, command: Command| {
            handle(Input::Call {
                session,
                call: CallId(number),
                random: [u8::try_from(number).expect("few"); 16],
                command,
            });
        };
        let post = |to: &str| mail::Command::Post {
            from: Some("pm".to_owned()),
            to: to.to_owned(),
            kind: Kind::Free,
            body: "12".to_owned(),
            options: None,
        };
        call(1, person, Asks::Hold(Whom::Agent("dev-a".to_owned())).into());
        call(2, agent, post("dev-a").into());
        call(3, agent, post("dev-b").into());
        engine
    }

    fn inbox<'a>(engine: &'a mut Engine, agent: &str) -> &'a mut Inbox {
        engine.inboxes.get_mut(agent).expect("an agent")
    }

    #[test]
    fn each_law_is_seen_when_it_is_broken() {
        let broken: [(&str, Breaking); 7] = [
            ("no more agents are held than the bound", |e| {
                let names = (0..=HOLDS_MAX).map(|number| AgentName::new(&format!("a{number}")));
                e.holds.agents.extend(names.map(|name| name.expect("a name")));
            }),
            ("the person is not held", |e| {
                e.holds.agents.insert(AgentName::person());
            }),
            ("an inbox knows the bytes that stand aside in it", |e| {
                inbox(e, "dev-a").miscount_aside();
            }),
            ("what stands aside is held", |e| e.holds = Default::default()),
            ("what stands aside is not allowed", |e| {
                inbox(e, "dev-a").allow(Seq(0));
            }),
            ("what is held stands aside, and waits for nobody", |e| {
                e.holds.all = true;
            }),
            ("what was allowed is there, or may come back", |e| {
                inbox(e, "dev-b").allow(Seq(7));
            }),
        ];
        engine().check_invariants();
        for (law, break_it) in broken {
            let mut engine = engine();
            break_it(&mut engine);
            let seen = catch_unwind(AssertUnwindSafe(|| engine.check_holds()));
            let seen = seen.expect_err(law);
            let told = seen.downcast_ref::<String>().map(String::as_str);
            let told = told.or_else(|| seen.downcast_ref::<&str>().copied());
            assert!(told.is_some_and(|told| told.contains(law)), "{law}: {told:?}");
        }
    }
}
