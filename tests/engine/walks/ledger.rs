//! What has become of each message, and what may become of it next, by docs/DELIVERY.md and nothing else.

use super::*;

/// Whether a node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Absent,
    Live(SessionId),
    /// Holds its agents until then.
    Gone(Timestamp),
}

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Became {
    /// It waits, or is on its way.
    Open,
    /// The node acknowledged it then, and it has not been listed.
    Acknowledged(Timestamp),
    /// The node acknowledged it, and a receipt is missing.
    Awaited,
    /// The agent does not want it before that time.
    Deferred(Timestamp),
    /// It was read with a tool then, which may still be cancelled.
    Read(Timestamp),
    /// It has arrived, and never appears again.
    Ended(State),
}

#[derive(Debug)]
struct Entry {
    id: MessageId,
    became: Became,
    /// The agent was shown it in a list, and its node has held it since.
    listed: bool,
    /// Somebody had it already: it comes marked.
    had: bool,
    /// It was deferred once.
    deferred: bool,
}

#[derive(Default)]
struct Inbox {
    /// In the order of acceptance.
    entries: Vec<Entry>,
    node: Option<NodeId>,
    /// The frames that are not acknowledged.
    on_the_way: BTreeMap<u64, MessageId>,
    /// Which message each number was ever used for.
    numbers: BTreeMap<u64, MessageId>,
    /// The last frame of the connection.
    last: Option<(SessionId, u64)>,
}

impl Inbox {
    fn entry(&mut self, id: MessageId) -> &mut Entry {
        self.entries
            .iter_mut()
            .find(|entry| entry.id == id)
            .expect("it was accepted")
    }

    /// The agent's node lets go of it.
    fn let_go(&mut self) {
        self.on_the_way.clear();
        for entry in &mut self.entries {
            entry.listed = false;
            if entry.became == Became::Awaited {
                entry.became = Became::Open;
            }
        }
    }
}

pub struct Ledger<'a> {
    inboxes: BTreeMap<&'static str, Inbox>,
    presences: BTreeMap<NodeId, Presence>,
    marks: &'a mut Marks,
}

impl<'a> Ledger<'a> {
    pub fn new(marks: &'a mut Marks) -> Self {
        Self {
            inboxes: AGENTS
                .into_iter()
                .map(|agent| (agent, Inbox::default()))
                .collect(),
            presences: NODES.into_iter().map(|node| (node, Presence::Absent)).collect(),
            marks,
        }
    }

    fn inbox(&mut self, agent: &str) -> &mut Inbox {
        self.inboxes.get_mut(agent).expect("one of them")
    }

    fn hit(&mut self, mark: &'static str) {
        debug_assert!(MARKS.contains(&mark), "{mark}");
        *self.marks.entry(mark).or_default() += 1;
    }

    pub fn presence(&self, node: NodeId) -> Presence {
        self.presences[&node]
    }

    fn is_held(&self, agent: &str) -> bool {
        let node = self.inboxes[agent].node;
        node.is_some_and(|node| self.presence(node) != Presence::Absent)
    }

    /// The connection over which an agent's frames go, and the last number that was used.
    pub fn connection_of(&self, agent: &str) -> Option<(SessionId, u64)> {
        let inbox = &self.inboxes[agent];
        let Presence::Live(session) = self.presence(inbox.node?) else {
            return None;
        };
        let last = inbox.numbers.last_key_value();
        Some((session, last.map_or(0, |(number, _)| *number)))
    }

    pub fn any_message(&self, agent: &str, rng: &mut Rng) -> Option<MessageId> {
        let entries = &self.inboxes[agent].entries;
        // The latest, mostly: what has arrived is known for a while.
        let latest = &entries[entries.len().saturating_sub(20)..];
        rng.choice(latest).map(|entry| entry.id)
    }

    pub fn accepted(&mut self, agent: &'static str, id: MessageId) {
        self.inbox(agent).entries.push(Entry {
            id,
            became: Became::Open,
            listed: false,
            had: false,
            deferred: false,
        });
    }

    /// What ends by itself has ended.
    pub fn time_is(&mut self, now: Timestamp) {
        for node in NODES {
            if let Presence::Gone(until) = self.presence(node)
                && until <= now
            {
                self.lapsed(node);
            }
        }
        for inbox in self.inboxes.values_mut() {
            for entry in &mut inbox.entries {
                match entry.became {
                    Became::Acknowledged(at) | Became::Read(at)
                        if at.plus_millis(limits::CANCEL_GRACE_MS) <= now =>
                    {
                        entry.became = Became::Ended(State::Done);
                    }
                    Became::Deferred(until) if until <= now => entry.became = Became::Open,
                    Became::Open
                    | Became::Acknowledged(_)
                    | Became::Read(_)
                    | Became::Awaited
                    | Became::Deferred(_)
                    | Became::Ended(_) => {}
                }
            }
        }
    }

    pub fn sent(&mut self, session: SessionId, agent: &AgentName, number: u64, delivery: &Delivery) {
        let agent = AGENTS
            .into_iter()
            .find(|known| *known == agent.as_str())
            .expect("one of them");
        let (connected, _) = self.connection_of(agent).expect("frames go to who is there");
        assert_eq!(session, connected, "over the latest connection");
        let id = delivery.message.id;
        let inbox = self.inbox(agent);
        let used_for = *inbox.numbers.entry(number).or_insert(id);
        assert_eq!(used_for, id, "a number is never used for another delivery");
        if let Some((_, last)) = inbox.last.filter(|(over, _)| *over == session) {
            assert!(last < number, "in order over a connection: {number} after {last}");
        }
        inbox.last = Some((session, number));
        let again = inbox.on_the_way.insert(number, id).is_some();
        assert!(inbox.on_the_way.len() <= limits::FRAMES_MAX, "the window");
        let known = inbox
            .entries
            .iter()
            .position(|entry| entry.id == id)
            .expect("it was accepted");
        let later = inbox.entries[known + 1..].iter();
        let overtaken = later.filter(|entry| entry.had && !entry.deferred).count();
        let entry = &mut inbox.entries[known];
        assert_eq!(
            entry.became,
            Became::Open,
            "what has arrived, or is not wanted, does not come"
        );
        assert_eq!(delivery.redelivered, entry.had, "it is marked if somebody had it");
        assert!(
            entry.had || overtaken == 0,
            "new ones come in the order of acceptance"
        );
        entry.had = true;
        let deferred = entry.deferred;
        if again {
            self.hit("frame sent again");
        } else if deferred {
            self.hit("frame of what was deferred");
        }
    }

    pub fn acknowledged(&mut self, agent: &str, up_to: u64, now: Timestamp) {
        let inbox = self.inbox(agent);
        let later = inbox.on_the_way.split_off(&(up_to + 1));
        let acknowledged = std::mem::replace(&mut inbox.on_the_way, later);
        for id in acknowledged.into_values() {
            let entry = self.inbox(agent).entry(id);
            let listed = entry.listed;
            entry.became = if listed {
                Became::Awaited
            } else {
                Became::Acknowledged(now)
            };
            self.hit(if listed {
                "acknowledged, listed"
            } else {
                "acknowledged, not listed"
            });
        }
    }

    /// Exactly what no receipt was given for is listed, in the order of acceptance.
    pub fn listed(&mut self, agent: &str, rows: &[(Delivery, State)]) {
        let held = self.is_held(agent);
        let mut expected = Vec::new();
        let mut late = 0;
        for entry in &mut self.inbox(agent).entries {
            let state = match entry.became {
                Became::Open => State::Queued,
                Became::Acknowledged(_) if !held => continue,
                Became::Acknowledged(_) | Became::Awaited => State::Delivered,
                Became::Read(_) | Became::Deferred(_) | Became::Ended(_) => continue,
            };
            entry.listed = true;
            if let Became::Acknowledged(_) = entry.became {
                entry.became = Became::Awaited;
                late += 1;
            }
            expected.push((entry.id, state));
        }
        let shown: Vec<_> = rows
            .iter()
            .map(|(delivery, state)| (delivery.message.id, *state))
            .collect();
        assert_eq!(shown, expected, "what is listed");
        if late > 0 {
            self.hit("listed after its acknowledgement");
        }
    }

    pub fn receipt(&mut self, agent: &str, id: MessageId, receipt: &Receipt, state: State) {
        let said = match receipt {
            Receipt::Done => State::Done,
            Receipt::Accepted { .. } => State::Accepted,
            Receipt::Failed { .. } => State::Failed,
            Receipt::Deferred { until, .. } => State::Deferred { until: *until },
        };
        let inbox = self.inbox(agent);
        let was_sent = inbox.on_the_way.values().any(|sent| *sent == id);
        let entry = inbox.entry(id);
        let before = entry.became;
        if before == Became::Ended(State::Accepted) {
            // Its agent may still say what became of it, and nothing else.
            let says_more = matches!(receipt, Receipt::Done | Receipt::Failed { .. });
            let ended = if says_more { said } else { State::Accepted };
            assert_eq!(state, ended, "what was accepted goes forward alone");
            entry.became = Became::Ended(ended);
            self.hit("receipt for what was accepted");
            return;
        }
        if let Became::Ended(ended) = before {
            assert_eq!(state, ended, "receipts only move forward");
            self.hit("receipt for what has arrived");
            return;
        }
        if let Became::Read(_) = before {
            let is_taken = matches!(receipt, Receipt::Done | Receipt::Accepted { .. });
            assert!(is_taken && state == State::Delivered, "a tool has read it");
            self.hit("receipt for what a tool has read");
            return;
        }
        assert_eq!(state, said);
        entry.became = match receipt {
            Receipt::Done | Receipt::Accepted { .. } | Receipt::Failed { .. } => Became::Ended(said),
            Receipt::Deferred { until, .. } => {
                (entry.had, entry.deferred) = (true, true);
                Became::Deferred(*until)
            }
        };
        inbox.on_the_way.retain(|_, sent| *sent != id);
        self.hit(match before {
            Became::Deferred(_) => "deferred again",
            Became::Acknowledged(_) | Became::Awaited => "receipt after it",
            Became::Open if was_sent => "receipt before the acknowledgement",
            Became::Open | Became::Read(_) | Became::Ended(_) => "receipt for what waits",
        });
    }

    /// Exactly what waits is read, in the order of acceptance; nothing while a node holds the agent.
    pub fn read(&mut self, agent: &str, deliveries: &[Delivery], arrives: bool, now: Timestamp) {
        let held = self.is_held(agent);
        let mut expected = Vec::new();
        for entry in &mut self.inbox(agent).entries {
            if entry.became == Became::Open && !held {
                expected.push((entry.id, entry.had));
                entry.had = true;
                if arrives {
                    entry.became = Became::Read(now);
                }
            }
        }
        let read = deliveries
            .iter()
            .map(|delivery| (delivery.message.id, delivery.redelivered));
        assert_eq!(read.collect::<Vec<_>>(), expected, "what is read");
        if expected.iter().any(|(_, had)| *had) {
            self.hit("read marked as redelivered");
        }
    }

    /// Takes note of a connection, and returns the one that it supersedes.
    pub fn came(&mut self, node: NodeId, session: SessionId) -> Option<SessionId> {
        match self.presences.insert(node, Presence::Live(session)) {
            Some(Presence::Live(before)) => {
                self.hit("superseded");
                Some(before)
            }
            Some(Presence::Gone(_) | Presence::Absent) | None => None,
        }
    }

    pub fn gone(&mut self, node: NodeId, until: Timestamp) {
        self.presences.insert(node, Presence::Gone(until));
    }

    pub fn lapsed(&mut self, node: NodeId) {
        self.presences.insert(node, Presence::Absent);
        for agent in AGENTS {
            if self.inboxes[agent].node == Some(node) {
                let entries = &self.inboxes[agent].entries;
                if entries.iter().any(|entry| entry.became == Became::Awaited) {
                    self.hit("node lapsed with a receipt missing");
                }
                self.inbox(agent).let_go();
            }
        }
    }

    pub fn bound(&mut self, node: NodeId, agent: &str) {
        let inbox = self.inbox(agent);
        if inbox.node == Some(node) {
            return;
        }
        let had_frames = !inbox.on_the_way.is_empty();
        if inbox.node.replace(node).is_some() {
            inbox.let_go();
        }
        if had_frames {
            self.hit("rebound with frames on the way");
        }
    }

    pub fn unbound(&mut self, node: NodeId, agent: &str) {
        let inbox = self.inbox(agent);
        if inbox.node == Some(node) {
            inbox.node = None;
            inbox.let_go();
        }
    }

    /// What a tool has read is done with, and nothing else.
    pub fn assert_in_reply(&mut self, agent: &str, id: MessageId, receipt: &Receipt) {
        let entry = self.inbox(agent).entry(id);
        assert!(
            matches!(entry.became, Became::Read(_)),
            "no tool has it: {entry:?}"
        );
        let is_taken = matches!(receipt, Receipt::Done | Receipt::Accepted { .. });
        assert!(!is_taken, "that it is done is taken");
        self.hit("receipt refused for what a tool has read");
    }

    pub fn assert_ended(&self, agent: &str, id: MessageId) {
        let mut entries = self.inboxes[agent].entries.iter();
        let entry = entries.find(|entry| entry.id == id).expect("it was accepted");
        assert!(
            matches!(entry.became, Became::Ended(_)),
            "a receipt is taken for what has not arrived: {entry:?}"
        );
    }

    pub fn assert_all_ended(&self, agent: &str) {
        for entry in &self.inboxes[agent].entries {
            assert!(matches!(entry.became, Became::Ended(_)), "it is lost: {entry:?}");
        }
    }
}
