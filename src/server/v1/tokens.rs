//! Tokens of the API: who a request stands for. Of a token no more is kept than its SHA-256, by which it is looked up; it must not
//! know what anybody may do.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use sha2::{Digest as _, Sha256};

use super::observers::ObserverId;
use crate::engine::{AgentName, NodeId};
use crate::server::limits::{AGENT_TOKENS_MAX, WORKSPACE_KEYS_MAX};
use crate::server::nodes::Named;
use crate::server::random::Random;

/// A kind of token, which its first letters tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `rk_live_`: a key of a workspace.
    Workspace,
    /// `at_live_`: an agent's.
    Agent,
    /// `nt_live_`: a node's.
    Node,
    /// `ot_live_`: an observer's.
    Observer,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Workspace => "rk_live_",
            Self::Agent => "at_live_",
            Self::Node => "nt_live_",
            Self::Observer => "ot_live_",
        }
    }

    /// Says what it is.
    pub fn words(self) -> &'static str {
        match self {
            Self::Workspace => "the key of a workspace (rk_live_…)",
            Self::Agent => "the token of an agent (at_live_…)",
            Self::Node => "the token of a node (nt_live_…)",
            Self::Observer => "the token of an observer (ot_live_…)",
        }
    }
}

/// Whom a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// Whoever runs a workspace, which is a project.
    Workspace(String),
    /// An agent.
    Agent(AgentName),
    /// A node.
    Node(Named),
    /// Whoever is shown what happens in a workspace.
    Observer {
        /// Which one.
        workspace: String,
        /// What is known of it.
        id: ObserverId,
        /// The how-manieth token of it this is.
        turn: u64,
    },
}

impl Holder {
    /// Returns the kind of its tokens.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Workspace(_) => Kind::Workspace,
            Self::Agent(_) => Kind::Agent,
            Self::Node(_) => Kind::Node,
            Self::Observer { .. } => Kind::Observer,
        }
    }

    /// Returns the workspace that it belongs to.
    pub fn workspace(&self) -> &str {
        match self {
            Self::Workspace(workspace) => workspace,
            Self::Agent(agent) => agent.project(),
            Self::Node(node) => node.project(),
            Self::Observer { workspace, .. } => workspace,
        }
    }
}

/// A token that has just been made: the only time that it is seen.
pub(super) struct Fresh(String);

impl Fresh {
    /// Hands it over to whom it is for.
    pub fn reveal(self) -> String {
        self.0
    }
}

/// Keeps the secret out of every log.
impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fresh")
    }
}

type Hash = [u8; 32];

struct Issued {
    holder: Holder,
    /// The how-manieth use of any token was the last one of this.
    used: u64,
}

struct Table {
    random: Random,
    issued: BTreeMap<Hash, Issued>,
    /// The one token of each agent that has one.
    of_agents: BTreeMap<AgentName, Hash>,
    /// The one token of each node that has one: no more than the engine has nodes.
    of_nodes: BTreeMap<NodeId, Hash>,
    /// The one token of each observer that has one.
    of_observers: BTreeMap<ObserverId, Hash>,
    uses: u64,
}

/// All tokens that are good.
pub(crate) struct Tokens(Mutex<Table>);

impl Tokens {
    /// Makes a table without a token; `random` is what they are made of.
    pub fn new(random: Random) -> Self {
        Self(Mutex::new(Table {
            random,
            issued: BTreeMap::new(),
            of_agents: BTreeMap::new(),
            of_nodes: BTreeMap::new(),
            of_observers: BTreeMap::new(),
            uses: 0,
        }))
    }

    /// Makes a token. One of an agent, of a node or of an observer ends the one before; one of a workspace stands beside the others, of which at a bound the
    /// one that has not been used for the longest is forgotten.
    pub fn issue(&self, holder: Holder) -> Fresh {
        self.table().issue(holder)
    }

    /// Finds whom a token stands for; none if it is not good, or not any more.
    pub fn holder(&self, token: &[u8]) -> Option<Holder> {
        let mut table = self.table();
        let table = &mut *table;
        let issued = table.issued.get_mut(&hash(token))?;
        table.uses += 1;
        issued.used = table.uses;
        Some(issued.holder.clone())
    }

    /// Ends the token of an observer, if it has one.
    pub fn revoke(&self, observer: ObserverId) {
        let mut table = self.table();
        if let Some(hash) = table.of_observers.remove(&observer) {
            table.issued.remove(&hash);
        }
    }

    /// Ends the token of an agent, if it has one.
    pub fn revoke_of_agent(&self, agent: &AgentName) {
        let mut table = self.table();
        if let Some(hash) = table.of_agents.remove(agent) {
            table.issued.remove(&hash);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("nothing panics while it holds the tokens")
    }
}

impl Table {
    fn issue(&mut self, holder: Holder) -> Fresh {
        let token = format!("{}{}{}", holder.kind().prefix(), self.hex(), self.hex());
        let hash = hash(token.as_bytes());
        match &holder {
            Holder::Agent(agent) => {
                if let Some(before) = self.of_agents.insert(agent.clone(), hash) {
                    self.issued.remove(&before);
                }
                if self.of_agents.len() > AGENT_TOKENS_MAX {
                    self.forget_one(|other| matches!(other, Holder::Agent(_)));
                }
            }
            Holder::Node(node) => {
                if let Some(before) = self.of_nodes.insert(node.number(), hash) {
                    self.issued.remove(&before);
                }
            }
            Holder::Observer { id, .. } => {
                if let Some(before) = self.of_observers.insert(*id, hash) {
                    self.issued.remove(&before);
                }
            }
            Holder::Workspace(_) => {
                let keys = self.issued.values().filter(|issued| issued.holder == holder);
                if keys.count() >= WORKSPACE_KEYS_MAX {
                    self.forget_one(|other| *other == holder);
                }
            }
        }
        self.uses += 1;
        let used = self.uses;
        self.issued.insert(hash, Issued { holder, used });
        Fresh(token)
    }

    /// Forgets the token that has not been used for the longest.
    fn forget_one(&mut self, of_these: impl Fn(&Holder) -> bool) {
        let issued = self.issued.iter().filter(|(_, issued)| of_these(&issued.holder));
        let oldest = issued.min_by_key(|(_, issued)| issued.used);
        let Some(oldest) = oldest.map(|(hash, _)| *hash) else {
            return;
        };
        if let Some(Issued {
            holder: Holder::Agent(agent),
            ..
        }) = self.issued.remove(&oldest)
        {
            self.of_agents.remove(&agent);
        }
    }

    fn hex(&mut self) -> String {
        format!("{:032x}", u128::from_be_bytes((self.random)()))
    }
}

fn hash(token: &[u8]) -> Hash {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        let mut next = 0u128;
        Tokens::new(Box::new(move || {
            next += 1;
            next.to_be_bytes()
        }))
    }

    fn workspace(name: &str) -> Holder {
        Holder::Workspace(name.to_owned())
    }

    fn agent(name: &str) -> Holder {
        Holder::Agent(AgentName::new(name).expect("a good name"))
    }

    #[test]
    fn a_token_is_32_random_bytes_behind_the_letters_of_its_kind_and_no_debug_shows_it() {
        let tokens = tokens();
        let fresh = tokens.issue(workspace("default"));
        assert_eq!(format!("{fresh:?}"), "Fresh");
        let key = fresh.reveal();
        assert_eq!(key, format!("rk_live_{:032x}{:032x}", 1, 2));
        assert!(tokens.issue(agent("a")).reveal().starts_with("at_live_"));
        assert_eq!(tokens.holder(key.as_bytes()), Some(workspace("default")));
        assert_eq!(tokens.holder(&key.as_bytes()[..40]), None);
        assert_eq!(tokens.holder(b""), None);
    }

    #[test]
    fn a_new_token_of_an_agent_ends_the_one_before_and_a_new_key_of_a_workspace_does_not() {
        let tokens = tokens();
        let [one, two] = [(); 2].map(|()| tokens.issue(agent("a")).reveal());
        assert_eq!(tokens.holder(one.as_bytes()), None);
        assert_eq!(tokens.holder(two.as_bytes()), Some(agent("a")));
        let [one, two] = [(); 2].map(|()| tokens.issue(workspace("w")).reveal());
        for key in [one, two] {
            assert_eq!(tokens.holder(key.as_bytes()), Some(workspace("w")));
        }
    }

    #[test]
    fn the_token_of_an_agent_that_was_retired_is_not_good_and_others_are() {
        let tokens = tokens();
        let [gone, other] = ["a", "b"].map(|name| tokens.issue(agent(name)).reveal());
        for _ in 0..2 {
            tokens.revoke_of_agent(&AgentName::new("a").expect("a good name"));
        }
        assert_eq!(tokens.holder(gone.as_bytes()), None);
        assert_eq!(tokens.holder(other.as_bytes()), Some(agent("b")));
    }

    #[test]
    fn of_too_many_keys_the_one_that_was_not_used_for_the_longest_is_forgotten() {
        let tokens = tokens();
        let other = tokens.issue(workspace("other")).reveal();
        let keys: Vec<String> = (0..WORKSPACE_KEYS_MAX)
            .map(|_| tokens.issue(workspace("w")).reveal())
            .collect();
        assert!(tokens.holder(keys[0].as_bytes()).is_some());
        tokens.issue(workspace("w"));
        assert_eq!(tokens.holder(keys[1].as_bytes()), None);
        for key in [&keys[0], &keys[2], &other] {
            assert!(tokens.holder(key.as_bytes()).is_some());
        }
    }

    #[test]
    fn of_too_many_agents_tokens_one_is_forgotten_for_each_that_is_more() {
        let tokens = tokens();
        let made: Vec<String> = (0..=AGENT_TOKENS_MAX)
            .map(|number| tokens.issue(agent(&format!("a{number}"))).reveal())
            .collect();
        let good = |number: usize| tokens.holder(made[number].as_bytes()).is_some();
        assert!(!good(0) && good(1), "the one that was not used for the longest");
        // The others were used before this one is made.
        for number in 3..made.len() {
            assert!(good(number));
        }
        tokens.issue(agent("a1"));
        assert!(good(2), "there are no more of them than before");
    }
}
