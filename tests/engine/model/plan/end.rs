//! How a run ends.

use super::*;

impl Plan {
    /// Lists what shows all that is left: every session closes, new ones read every inbox. The relay may be about to stop
    /// then. There is room for two sessions, as in every run.
    pub fn end(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.rng.percent(50) {
            events.push(Event::Input(Input::Stopping));
        }
        for (session, _) in self.open.clone() {
            let ending = self.ending();
            events.push(Event::Input(Input::Closed { session, ending }));
        }
        let [agents, person] = [Who::Agent(None), Who::Person].map(|who| {
            let session = SessionId(self.number());
            events.push(Event::Input(Input::Opened {
                session,
                carrier: Carrier::Stream,
                who,
            }));
            session
        });
        events.extend(self.lifts(person));
        let names = self.names.clone();
        let names = names.iter().map(|agent| (agents, agent.as_str()));
        for (session, name) in names.chain([(person, PERSON)]) {
            let call = CallId(self.number());
            let command = Command::Mail(mail::Command::read_all(Some(name.to_owned()), 0));
            events.push(Event::Input(Input::Call {
                session,
                call,
                random: self.random.bytes(),
                command,
            }));
        }
        events
    }
}
