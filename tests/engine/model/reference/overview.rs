//! What the model shows of itself as a whole.

use super::*;

impl Model {
    pub fn status(&self) -> Status {
        let waits = |m: &&Kept, agent: &AgentName| m.waits_for(agent) || m.is_aside_for(agent);
        let count = |agent: &AgentName| self.messages.iter().filter(|m| waits(m, agent)).count();
        let names = self.everybody();
        Status {
            boot: self.boot,
            sessions: self.sessions.len(),
            pending: names.iter().map(|agent| (agent.clone(), count(agent))).collect(),
        }
    }

    pub fn overview(&self) -> Overview {
        let mut sessions: Vec<SessionView> =
            self.sessions.iter().map(|open| self.session_view(open)).collect();
        sessions.sort_by_key(|view| view.session);
        let names = self.everybody();
        Overview {
            wall_ahead_ms: 0,
            boot: self.boot,
            home: self.home.map_or_else(Home::default, Home::of),
            sessions,
            inboxes: names.iter().map(|agent| self.inbox_view(agent)).collect(),
            holds_all: self.holds_all,
            nodes: Vec::new(),
            workers: Vec::new(),
        }
    }

    fn session_view(&self, open: &Open) -> SessionView {
        let waits = self.waits.iter().filter(|wait| wait.session == open.session);
        let mut waits: Vec<&Parked> = waits.collect();
        waits.sort_by_key(|wait| wait.call);
        let wait = |wait: &Parked| WaitView {
            agent: wait.agent.clone(),
            expires_at: wait.expires_at,
        };
        SessionView {
            session: open.session,
            carrier: open.carrier,
            agent: open.agent.clone(),
            person: open.person,
            waits: waits.into_iter().map(wait).collect(),
            program: None,
        }
    }

    fn inbox_view(&self, agent: &AgentName) -> InboxView {
        let unread = self.messages.iter().filter(|m| m.waits_for(agent));
        let in_doubt = self.messages.iter().filter(|m| m.is_for(agent));
        InboxView {
            agent: agent.clone(),
            unread: unread.clone().count(),
            oldest: unread.map(|m| m.delivery.message.ts).min(),
            held: self.messages.iter().filter(|m| m.is_aside_for(agent)).count(),
            is_held: self.held.contains(agent),
            in_doubt: in_doubt
                .filter(|m| matches!(m.state, State::Handed(_) | State::InParts))
                .count(),
            mode: relay::engine::handling::Mode::Immediate,
        }
    }
}
