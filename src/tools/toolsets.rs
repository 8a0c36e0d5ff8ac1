//! Which toolsets a session has, and what it is offered by them: the tools of all, one after the other.

use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use super::{ALL, Client, InvalidCall, Prompt, ReplyBytes, Resource, Scalar, Tool, Toolset};
use crate::engine::watches::Watched;
use crate::engine::{AgentName, Refusal, Roster, shown};

/// What a session has that asks for nothing else.
pub const DEFAULT: Toolsets = Toolsets(0b001);

/// The toolsets that a session has, chosen once, when it begins: one at least, each a bit in the order of [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toolsets(u8);

/// What the address of a session asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The tools.
    pub toolsets: Toolsets,
    /// How much of an answer is shown, if it says so.
    pub reply_max: Option<ReplyBytes>,
}

impl Offer {
    /// Returns what a client is served, which is known or is not.
    pub fn to(self, client: Option<Client>) -> Served {
        Served {
            toolsets: self.toolsets,
            reply_max: self.reply_max.unwrap_or(Client::reply_max(client)),
        }
    }
}

/// What a session is served: tools, and as much of their answers as its client shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The tools.
    pub toolsets: Toolsets,
    /// How much of an answer is shown.
    pub reply_max: ReplyBytes,
}

/// Why a text names no toolsets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToolsets {
    /// One of them is none.
    #[error("unknown toolset {name:?}; accepted: {known}, or all, with commas between them")]
    Unknown {
        /// As given, cut if it is long.
        name: String,
        /// Which there are.
        known: String,
    },
    /// One of them stands there twice.
    #[error("toolset {name:?} is named twice; each is named once")]
    Twice {
        /// Which one.
        name: String,
    },
}

impl Default for Toolsets {
    fn default() -> Self {
        DEFAULT
    }
}

/// Reads names with commas between them: `thrum,agent-relay`, or `all`.
impl FromStr for Toolsets {
    type Err = InvalidToolsets;

    fn from_str(list: &str) -> Result<Self, InvalidToolsets> {
        if list.trim() == "all" {
            return Ok(Self((1 << ALL.len()) - 1));
        }
        let mut chosen = 0;
        for name in list.split(',').map(str::trim) {
            let at = ALL.iter().position(|toolset| toolset.name == name);
            let Some(at) = at else {
                let known = ALL.map(|toolset| toolset.name).join(", ");
                let name = shown(name);
                return Err(InvalidToolsets::Unknown { name, known });
            };
            if chosen & (1 << at) != 0 {
                let name = name.to_owned();
                return Err(InvalidToolsets::Twice { name });
            }
            chosen |= 1 << at;
        }
        Ok(Self(chosen))
    }
}

/// Writes the names as they are read.
impl std::fmt::Display for Toolsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.sets().map(|toolset| toolset.name).collect();
        f.write_str(&names.join(","))
    }
}

impl Toolsets {
    /// Goes through them, in the order of [`ALL`].
    pub fn sets(self) -> impl Iterator<Item = &'static Toolset> {
        let all = ALL.iter().enumerate();
        all.filter(move |(at, _)| self.0 & (1 << at) != 0)
            .map(|(_, toolset)| *toolset)
    }

    /// Goes through all tools in the order in which they are listed.
    pub(super) fn tools(self) -> impl Iterator<Item = &'static Tool> {
        self.sets().flat_map(|toolset| toolset.tools)
    }

    /// Finds a tool.
    ///
    /// # Errors
    ///
    /// [`InvalidCall::UnknownTool`] when there is none of that name.
    pub fn find(self, name: &str) -> Result<&'static Tool, InvalidCall> {
        let found = self.tools().find(|tool| tool.name == name);
        found.ok_or_else(|| InvalidCall::UnknownTool {
            name: shown(name),
            known: self.names(),
        })
    }

    /// Finds the toolset of a tool; the first, if there is no such tool.
    pub fn of_tool(self, name: &str) -> &'static Toolset {
        let mut sets = self.sets();
        let found = sets.find(|toolset| toolset.tools.iter().any(|tool| tool.name == name));
        found.unwrap_or_else(|| self.first())
    }

    /// Finds the toolset of a resource; the first, if it is of none.
    pub fn of_resource(self, resource: &Resource) -> &'static Toolset {
        let mut sets = self.sets();
        let has = |toolset: &&Toolset| toolset.resources.iter().any(|other| other.uri == resource.uri);
        sets.find(has).unwrap_or_else(|| self.first())
    }

    fn first(self) -> &'static Toolset {
        self.sets().next().expect("there is one at least")
    }

    /// Returns the tools as `tools/list` shows them to a session: with the roster, and with the session's own role
    /// optional if it is bound.
    pub fn definitions(self, roster: &Roster, bound: Option<&AgentName>) -> Value {
        self.tools().map(|tool| tool.definition(roster, bound)).collect()
    }

    /// Returns for how long a call of a tool may wait for its answer, if there is such a tool and it may: `given` finds its
    /// arguments.
    pub fn wait(self, tool: &str, given: impl Fn(&str) -> Option<Scalar>) -> Option<Duration> {
        let tool = self.tools().find(|known| known.name == tool)?;
        tool.waits.of_call(given)
    }

    /// Lists the tools as a person reads them: `post_message, read_messages`.
    pub fn names(self) -> String {
        let names = self.tools().map(|tool| tool.name);
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns what an agent is told when its session begins.
    pub fn instructions(self) -> String {
        let instructions = self.sets().map(|toolset| toolset.instructions);
        instructions.collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the prompts, in the order in which they are listed.
    pub fn prompts(self) -> impl Iterator<Item = &'static Prompt> {
        self.sets().flat_map(|toolset| toolset.prompts)
    }

    /// Returns the resources, in the order in which they are listed.
    pub fn resources(self) -> impl Iterator<Item = &'static Resource> {
        self.sets().flat_map(|toolset| toolset.resources)
    }

    /// Returns the addresses of the resources that change with something of the engine's.
    pub fn changed_with(self, what: Watched) -> impl Iterator<Item = &'static str> {
        let resources = self.resources();
        let changed = resources.filter(move |resource| resource.changes_with == Some(what));
        changed.map(|resource| resource.uri)
    }

    /// Tells whether a session that names an agent which is not there makes it be there.
    pub fn register(self) -> bool {
        self.sets().any(|toolset| toolset.registers)
    }

    /// Tells whether a session of nobody's can do nothing with some of the tools, and the agent does not come with the session.
    pub fn need_agent(self) -> bool {
        self.sets()
            .any(|toolset| toolset.needs_agent && !toolset.registers)
    }

    /// Tells whether a session of nobody's is given a name: all of its tools need one, and the agent comes with the session.
    pub fn give_names(self) -> bool {
        self.sets()
            .all(|toolset| toolset.needs_agent && toolset.registers)
    }

    /// Says why a session was not opened.
    pub fn refused(self, refusal: &Refusal) -> String {
        (self.first().refused)(refusal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::{agent_relay, thrum};

    const ALL_SETS: Toolsets = Toolsets(0b111);

    #[test]
    fn toolsets_are_chosen_by_their_names() {
        for (list, names) in [
            ("lift", "lift"),
            ("thrum", "thrum"),
            (" agent-relay , lift ", "lift,agent-relay"),
            ("all", "lift,thrum,agent-relay"),
        ] {
            assert_eq!(list.parse::<Toolsets>().expect("toolsets").to_string(), names);
        }
        assert_eq!("lift".parse(), Ok(DEFAULT));
        let known = "accepted: lift, thrum, agent-relay, or all, with commas between them";
        for (list, name) in [
            ("", ""),
            ("lift,", ""),
            ("lift,x", "x"),
            ("lift,all", "all"),
            ("Lift", "Lift"),
        ] {
            let error = list.parse::<Toolsets>().expect_err("no toolsets").to_string();
            assert_eq!(error, format!("unknown toolset {name:?}; {known}"));
        }
        assert_eq!(
            "thrum,lift,thrum"
                .parse::<Toolsets>()
                .expect_err("twice")
                .to_string(),
            "toolset \"thrum\" is named twice; each is named once"
        );
    }

    #[test]
    fn a_session_has_the_tools_of_all_its_toolsets_in_their_order() {
        let toolsets = ALL_SETS;
        let definitions = toolsets.definitions(&Roster::default(), None);
        let names = definitions.as_array().expect("a list").iter();
        let names: Vec<&str> = names.filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names.join(", "), toolsets.names());
        let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(once.len(), names.len(), "no two tools have the same name");
        for name in names {
            assert_eq!(toolsets.find(name).map(|tool| tool.name), Ok(name));
        }
        assert_eq!(
            DEFAULT.find("peek").expect_err("there is none").to_string(),
            "unknown tool \"peek\"; known tools: post_message, read_messages, list_pending"
        );
        assert_eq!(toolsets.of_tool("send_message").name, "thrum");
        assert_eq!(toolsets.of_tool("peek").name, "lift");
    }

    #[test]
    fn a_call_waits_as_long_as_its_arguments_say() {
        let wait = |tool: &str, arguments: Value| {
            let wait = ALL_SETS.wait(tool, |name| arguments.get(name).map(Scalar::from));
            wait.map(|wait| wait.as_millis())
        };
        assert_eq!(wait("read_messages", json!({})), None);
        assert_eq!(wait("read_messages", json!({"wait_seconds": 1.5})), Some(1_500));
        assert_eq!(wait("read_messages", json!({"wait_seconds": "1.5"})), Some(1_500));
        assert_eq!(
            wait(
                "relay_send",
                json!({"await_response": "True", "timeout_ms": "70"})
            ),
            Some(70)
        );
        assert_eq!(wait("read_messages", json!({"wait_seconds": -1})), Some(0));
        assert_eq!(wait("list_pending", json!({"wait_seconds": 5})), None);
        assert_eq!(wait("wait_for_message", json!({})), Some(300_000));
        assert_eq!(wait("wait_for_message", json!({"timeout": 7})), Some(7_000));
        assert_eq!(wait("relay_send", json!({"timeout_ms": 7})), None);
        assert_eq!(wait("relay_send", json!({"await_response": false})), None);
        assert_eq!(wait("relay_send", json!({"await_response": true})), Some(30_000));
        assert_eq!(
            wait("relay_send", json!({"await_response": true, "timeout_ms": 70})),
            Some(70)
        );
        assert_eq!(wait("peek", json!({})), None);
    }

    #[test]
    fn a_session_is_told_of_all_its_toolsets_and_refused_in_the_words_of_the_first() {
        let toolsets: Toolsets = "agent-relay,thrum".parse().expect("toolsets");
        let told = format!(
            "{}\n\n{}",
            thrum::THRUM.instructions,
            agent_relay::AGENT_RELAY.instructions
        );
        assert_eq!(toolsets.instructions(), told);
        assert_eq!(
            toolsets.refused(&Refusal::Stopping),
            (thrum::THRUM.refused)(&Refusal::Stopping)
        );
    }

    /// What a client puts before its model, with the default roster.
    #[test]
    fn the_tool_lists_are_short() {
        for (toolset, bytes_max) in [("lift", 1_664), ("thrum", 4_096), ("agent-relay", 4_096)] {
            let toolsets: Toolsets = toolset.parse().expect("a toolset");
            let mut list = json!({"tools": toolsets.definitions(&Roster::default(), None)});
            for tool in list["tools"].as_array_mut().expect("tools") {
                // It is the client's.
                tool.as_object_mut().expect("a tool").remove("_meta");
            }
            let bytes = list.to_string().len();
            println!("tools/list of {toolset}: {bytes} bytes");
            assert!(bytes <= bytes_max, "tools/list of {toolset} has {bytes} bytes");
            let instructions = toolsets.instructions().len();
            assert!(
                instructions <= 1_024,
                "instructions of {toolset} have {instructions} bytes"
            );
        }
    }

    #[test]
    fn claude_code_is_asked_to_show_whole_what_takes_messages_and_nothing_else() {
        let all: Toolsets = "all".parse().expect("toolsets");
        let asks = |tool: &Value| tool["_meta"]["anthropic/maxResultSizeChars"] == 500_000;
        let definitions = all.definitions(&Roster::default(), None);
        let (asking, others): (Vec<&Value>, Vec<&Value>) = definitions
            .as_array()
            .expect("a list")
            .iter()
            .partition(|tool| asks(tool));
        let names: Vec<&str> = asking.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let takes = [
            "read_messages",
            "check_messages",
            "wait_for_message",
            "relay_send",
            "relay_inbox",
        ];
        assert_eq!(names, takes);
        assert!(others.iter().all(|tool| tool.get("_meta").is_none()));
    }
}
