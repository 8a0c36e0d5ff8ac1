//! What the hooks of each agent CLI are given and give back, and what it means.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::engine::surfacing::{Boundary, Command};
use crate::engine::{Abilities, HandoverId};
use crate::tools::frame;

/// The agent CLIs whose hooks are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Claude Code: <https://code.claude.com/docs/en/hooks>
    Claude,
    /// Codex, whose hooks are made like those of Claude Code.
    Codex,
    /// Gemini CLI: <https://geminicli.com/docs/hooks/>
    Gemini,
    /// OpenCode, whose plugin speaks as Claude Code does.
    OpenCode,
}

/// What an event means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is not about the model that is to be shown something.
    Nothing,
    /// The program has come to something.
    Came(Command),
    /// It ends.
    Gone,
}

/// An event, as a program gives it to its hook. Whatever else is in it is left out.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    hook_event_name: String,
    session_id: Option<String>,
    /// Of one that is about a subagent.
    agent_id: Option<String>,
    /// Why a session starts.
    source: Option<String>,
    /// What was said to the model.
    prompt: Option<String>,
    /// Why a session ends.
    reason: Option<String>,
    notification_type: Option<String>,
    /// What it may do without asking its person.
    permission_mode: Option<String>,
    tool_name: Option<String>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_response: Option<&'a RawValue>,
}

/// The members of an event that are read.
const READ: [&str; 9] = [
    "hook_event_name",
    "session_id",
    "agent_id",
    "source",
    "prompt",
    "reason",
    "notification_type",
    "permission_mode",
    "tool_name",
];

/// The same of those that have members themselves.
const READ_IN: [(&str, &[&str]); 2] = [("tool_input", &["from", "for"]), ("tool_response", &["error"])];

/// Leaves of an event what is read of it: what a tool was given and gave may be longer than a request. What is no event stays as it is.
pub fn slimmed(event: Vec<u8>) -> Vec<u8> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;

    let slim = || {
        let mut members: Members<'_> = serde_json::from_slice(&event).ok()?;
        let inner = READ_IN.into_iter().filter_map(|(name, read)| {
            let mut inner: Members<'_> = serde_json::from_str(members.get(name)?.get()).ok()?;
            inner.retain(|name, _| read.contains(&name.as_str()));
            Some((name.to_owned(), serde_json::value::to_raw_value(&inner).ok()?))
        });
        let inner: Vec<_> = inner.collect();
        members.retain(|name, _| READ.contains(&name.as_str()));
        members.extend(inner.iter().map(|(name, value)| (name.clone(), &**value)));
        serde_json::to_vec(&members).ok()
    };
    slim().unwrap_or(event)
}

/// What a tool has answered, as far as it says whether it was carried out.
#[derive(Deserialize)]
struct Response {
    error: Option<IgnoredAny>,
}

/// What a call of one of relay's own tools says of who calls: who posts, or who takes what is in an inbox. Who only looks into one may be
/// another.
#[derive(Deserialize)]
struct SpeaksAs {
    from: Option<String>,
    r#for: Option<String>,
}

/// Begins what a program says to its model by itself: that work in the background has ended, or that a waiter wakes it.
const OWN_PROMPT: &str = "<task-notification>";

impl Program {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Gemini, Self::OpenCode];

    /// Returns the word that stands for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    /// Finds the program for a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.as_str() == word)
    }

    /// Tells whether the environment of its hooks says whose it is: those of Codex run in a process that several of it share.
    pub(super) const fn knows_its_agent(self) -> bool {
        match self {
            Self::Claude | Self::Gemini | Self::OpenCode => true,
            Self::Codex => false,
        }
    }

    pub(super) const fn abilities(self) -> Abilities {
        match self {
            Self::Claude | Self::Codex | Self::Gemini | Self::OpenCode => Abilities::ALL,
        }
    }

    /// Writes what a program takes from its hook to show its model a text.
    pub(super) fn answer(self, event: &str, text: &str) -> Value {
        match (self, event) {
            (Self::Codex, "Stop") | (Self::Gemini, "AfterAgent") => {
                json!({"decision": "block", "reason": text})
            }
            (Self::Claude | Self::Codex | Self::Gemini | Self::OpenCode, _) => {
                json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
            }
        }
    }
}

impl Event<'_> {
    pub fn name(&self) -> &str {
        &self.hook_event_name
    }

    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Tells whether what others say to the program waits for its person, who is asked nothing else; nothing if the event does not say that,
    /// as few do but those of a turn.
    pub fn holds_what_others_say(&self) -> Option<bool> {
        let mode = self.permission_mode.as_deref();
        mode.map(|mode| mode == "bypassPermissions")
    }

    /// Says what it means; `is_process` if the program is known by its process, and not by its conversation. `wake` finds the wake of a mark.
    pub fn heard(
        &self,
        program: Program,
        is_process: bool,
        wake: impl Fn(&str) -> Option<HandoverId>,
    ) -> Heard {
        if self.agent_id.is_some() {
            return Heard::Nothing;
        }
        let word = |field: &Option<String>, words: &[&str]| {
            let field = field.as_deref();
            field.is_some_and(|field| words.contains(&field))
        };
        let prompt = self.prompt.as_deref().unwrap_or_default();
        let to = match (program, self.name()) {
            (_, "SessionStart") if word(&self.source, &["compact"]) => Boundary::Goes,
            (_, "SessionStart") => Boundary::Started,
            // The process goes on with another conversation, where that is not what the program is known by.
            (Program::Claude, "SessionEnd") if word(&self.reason, &["clear", "resume"]) && is_process => {
                Boundary::Started
            }
            (_, "SessionEnd") => return Heard::Gone,
            (Program::Claude | Program::Codex | Program::OpenCode, "UserPromptSubmit")
            | (Program::Gemini, "BeforeAgent") => {
                let by_person = !prompt.starts_with(OWN_PROMPT) && !frame::begins(prompt);
                Boundary::Prompted { by_person }
            }
            (Program::Claude | Program::Codex | Program::OpenCode, "PostToolUse" | "PostToolUseFailure")
            | (Program::Gemini, "AfterTool") => Boundary::Returned,
            (Program::Claude | Program::Codex | Program::OpenCode, "Stop")
            | (Program::Gemini, "AfterAgent") => Boundary::Ended,
            // A turn that has ended by an error: nothing makes it go on.
            (Program::Claude, "StopFailure") => Boundary::Rests,
            (_, "PermissionRequest") => Boundary::Asks,
            (_, "Notification")
                if word(
                    &self.notification_type,
                    &["permission_prompt", "agent_needs_input"],
                ) =>
            {
                Boundary::Asks
            }
            (_, "Notification") if word(&self.notification_type, &["idle_prompt"]) => Boundary::Rests,
            (_, _) => Boundary::Goes,
        };
        Heard::Came(Command::Comes {
            to,
            // A call that was refused says nothing: it has an event of another name.
            speaks_as: self.speaks_as().filter(|_| self.has_returned()),
            woken_by: frame::wake_in(prompt).and_then(wake),
        })
    }

    fn has_returned(&self) -> bool {
        match self.name() {
            "PostToolUse" => true,
            // Gemini CLI has one name for both.
            "AfterTool" => {
                let response = self.tool_response.map(RawValue::get);
                let response = response.and_then(|response| serde_json::from_str::<Response>(response).ok());
                response.is_none_or(|response| response.error.is_none())
            }
            _ => false,
        }
    }

    /// Returns for whom the model speaks, if it has just called a tool of relay's in which it says that.
    fn speaks_as(&self) -> Option<String> {
        let tool = self.tool_name.as_deref()?;
        let input = self.tool_input.filter(|_| tool.contains("relay"))?;
        let said = || serde_json::from_str::<SpeaksAs>(input.get()).ok();
        if tool.ends_with("post_message") {
            said()?.from
        } else if tool.ends_with("read_messages") {
            said()?.r#for
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(program: Program, event: &Value) -> Heard {
        let text = event.to_string();
        let event: Event<'_> = serde_json::from_str(&text).expect("an event");
        event.heard(program, true, |mark| mark.parse().ok().map(HandoverId))
    }

    fn comes(to: Boundary) -> Command {
        Command::Comes {
            to,
            speaks_as: None,
            woken_by: None,
        }
    }

    #[test]
    fn each_event_of_each_program_means_what_its_vendor_says() {
        use Boundary::{Asks, Ended, Goes, Prompted, Rests, Returned, Started};
        use Program::{Claude, Codex, Gemini, OpenCode};
        let said = |by_person| Prompted { by_person };
        for (program, event, to) in [
            (
                Claude,
                json!({"hook_event_name": "SessionStart", "source": "startup"}),
                Started,
            ),
            (
                Claude,
                json!({"hook_event_name": "SessionStart", "source": "compact"}),
                Goes,
            ),
            (
                Claude,
                json!({"hook_event_name": "SessionEnd", "reason": "clear"}),
                Started,
            ),
            (
                Claude,
                json!({"hook_event_name": "SessionEnd", "reason": "resume"}),
                Started,
            ),
            (
                Claude,
                json!({"hook_event_name": "UserPromptSubmit", "prompt": "go on"}),
                said(true),
            ),
            (
                Claude,
                json!({"hook_event_name": "UserPromptSubmit", "prompt": "<task-notification>\n<task-id>"}),
                said(false),
            ),
            (
                Claude,
                json!({"hook_event_name": "PostToolUse", "tool_name": "Bash"}),
                Returned,
            ),
            (Claude, json!({"hook_event_name": "PostToolUseFailure"}), Returned),
            (
                Claude,
                json!({"hook_event_name": "Stop", "stop_hook_active": true}),
                Ended,
            ),
            (Claude, json!({"hook_event_name": "StopFailure"}), Rests),
            (Claude, json!({"hook_event_name": "PermissionRequest"}), Asks),
            (
                Claude,
                json!({"hook_event_name": "Notification", "notification_type": "permission_prompt"}),
                Asks,
            ),
            (
                Claude,
                json!({"hook_event_name": "Notification", "notification_type": "agent_needs_input"}),
                Asks,
            ),
            (
                Claude,
                json!({"hook_event_name": "Notification", "notification_type": "idle_prompt"}),
                Rests,
            ),
            (
                Claude,
                json!({"hook_event_name": "Notification", "notification_type": "auth"}),
                Goes,
            ),
            (Claude, json!({"hook_event_name": "PreCompact"}), Goes),
            (
                Codex,
                json!({"hook_event_name": "UserPromptSubmit", "prompt": "x"}),
                said(true),
            ),
            (Codex, json!({"hook_event_name": "PostToolUse"}), Returned),
            (Codex, json!({"hook_event_name": "Stop"}), Ended),
            (
                OpenCode,
                json!({"hook_event_name": "UserPromptSubmit", "prompt": "x"}),
                said(true),
            ),
            (OpenCode, json!({"hook_event_name": "PostToolUse"}), Returned),
            (OpenCode, json!({"hook_event_name": "Stop"}), Ended),
            (
                Gemini,
                json!({"hook_event_name": "BeforeAgent", "prompt": "x"}),
                said(true),
            ),
            (
                Gemini,
                json!({"hook_event_name": "BeforeAgent", "prompt": "[relay] 1 message for dev-a; x"}),
                said(false),
            ),
            (Gemini, json!({"hook_event_name": "AfterTool"}), Returned),
            (Gemini, json!({"hook_event_name": "AfterAgent"}), Ended),
            (Gemini, json!({"hook_event_name": "Stop"}), Goes),
            (Claude, json!({"hook_event_name": "AfterAgent"}), Goes),
        ] {
            assert_eq!(
                heard(program, &event),
                Heard::Came(comes(to)),
                "{program:?} {event}"
            );
        }
        for reason in ["prompt_input_exit", "logout", "other"] {
            let ends = json!({"hook_event_name": "SessionEnd", "reason": reason});
            assert_eq!(heard(Claude, &ends), Heard::Gone);
        }
        let of_subagent = json!({"hook_event_name": "PostToolUse", "agent_id": "a1"});
        assert_eq!(heard(Claude, &of_subagent), Heard::Nothing);
    }

    #[test]
    fn of_an_event_that_is_left_is_what_is_read() {
        let name = "mcp__relay__post_message";
        let long = json!({
            "hook_event_name": "PostToolUse",
            "session_id": "s",
            "prompt": "\u{e9}",
            "transcript_path": "a path",
            "tool_name": name,
            "tool_input": {"from": "dev-a", "body": "long"},
            "tool_response": {"error": null, "content": [1]},
        });
        let left = json!({
            "hook_event_name": "PostToolUse",
            "session_id": "s",
            "prompt": "\u{e9}",
            "tool_name": name,
            "tool_input": {"from": "dev-a"},
            "tool_response": {"error": null},
        });
        let slim = slimmed(long.to_string().into_bytes());
        assert_eq!(serde_json::from_slice::<Value>(&slim).expect("an event"), left);
        let plain = json!({"hook_event_name": "PostToolUse", "tool_input": "ls", "tool_response": ["a"]});
        let slim = slimmed(plain.to_string().into_bytes());
        assert_eq!(slim, br#"{"hook_event_name":"PostToolUse"}"#);
        for none in ["", "[1]", "{\"hook_event_name\": "] {
            assert_eq!(slimmed(none.as_bytes().to_vec()), none.as_bytes());
        }
    }

    #[test]
    fn whatever_is_read_of_an_event_is_left() {
        let event = json!({
            "hook_event_name": "x",
            "session_id": "s",
            "agent_id": "a",
            "source": "compact",
            "prompt": "p",
            "reason": "clear",
            "notification_type": "n",
            "permission_mode": "default",
            "tool_name": "t",
            "tool_input": {"from": "dev-a", "for": "dev-b"},
            "tool_response": {"error": "no"},
        });
        let slim = slimmed(event.to_string().into_bytes());
        assert_eq!(serde_json::from_slice::<Value>(&slim).expect("an event"), event);
    }

    #[test]
    fn a_program_that_is_known_by_its_conversation_ends_with_it() {
        let text = json!({"hook_event_name": "SessionEnd", "reason": "clear"}).to_string();
        let event: Event<'_> = serde_json::from_str(&text).expect("an event");
        for program in Program::ALL {
            assert_eq!(event.heard(program, false, |_| None), Heard::Gone, "{program:?}");
        }
    }

    #[test]
    fn a_turn_says_which_wake_has_begun_it() {
        let prompt =
            "<task-notification>\n</task-notification>\nStop hook blocking error: [relay wake 7] woken";
        let event = json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt});
        let command = Command::Comes {
            to: Boundary::Prompted { by_person: false },
            speaks_as: None,
            woken_by: Some(HandoverId(7)),
        };
        assert_eq!(heard(Program::Claude, &event), Heard::Came(command));
    }

    #[test]
    fn a_call_of_relay_s_own_tools_says_who_calls() {
        let speaks_as = |tool: &str, input: Value| {
            let event = json!({"hook_event_name": "PostToolUse", "tool_name": tool, "tool_input": input});
            let Heard::Came(Command::Comes { speaks_as, .. }) = heard(Program::Claude, &event) else {
                unreachable!("it has come to the end of a tool");
            };
            speaks_as
        };
        let refused = json!({
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "mcp__relay__post_message",
            "tool_input": {"from": "dev-a"},
        });
        assert_eq!(
            heard(Program::Claude, &refused),
            Heard::Came(comes(Boundary::Returned))
        );
        let mut refused = json!({
            "hook_event_name": "AfterTool",
            "tool_name": "mcp_relay_read_messages",
            "tool_input": {"for": "dev-a"},
            "tool_response": {"llmContent": "no", "error": {"type": "mcp_tool_error"}},
        });
        assert_eq!(
            heard(Program::Gemini, &refused),
            Heard::Came(comes(Boundary::Returned))
        );
        refused["tool_response"] = json!({"llmContent": "[]"});
        let carried_out = Command::Comes {
            to: Boundary::Returned,
            speaks_as: Some("dev-a".to_owned()),
            woken_by: None,
        };
        assert_eq!(heard(Program::Gemini, &refused), Heard::Came(carried_out));
        let named = Some("dev-a".to_owned());
        for (tool, input, expected) in [
            (
                "mcp__relay__post_message",
                json!({"from": "dev-a", "to": "pm"}),
                &named,
            ),
            (
                "mcp__plugin_relay_relay__read_messages",
                json!({"for": "dev-a"}),
                &named,
            ),
            ("mcp__relay__list_pending", json!({"for": "dev-a"}), &None),
            ("mcp__relay__read_messages", json!({}), &None),
            ("mcp__relay__read_messages", json!({"for": 7}), &None),
            ("mcp__relay__send_message", json!({"from": "dev-a"}), &None),
            ("mcp__mail__post_message", json!({"from": "dev-a"}), &None),
            ("Bash", json!({"from": "dev-a"}), &None),
        ] {
            assert_eq!(speaks_as(tool, input.clone()), *expected, "{tool} {input}");
        }
    }

    #[test]
    fn a_text_is_shown_in_the_words_of_each_program() {
        let context =
            |event: &str| json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": "T"}});
        let block = json!({"decision": "block", "reason": "T"});
        for (program, event, expected) in [
            (Program::Claude, "UserPromptSubmit", context("UserPromptSubmit")),
            (Program::Claude, "PostToolUse", context("PostToolUse")),
            (Program::Claude, "Stop", context("Stop")),
            (Program::Codex, "PostToolUse", context("PostToolUse")),
            (Program::Codex, "Stop", block.clone()),
            (Program::Gemini, "AfterTool", context("AfterTool")),
            (Program::Gemini, "AfterAgent", block),
        ] {
            assert_eq!(program.answer(event, "T"), expected, "{program:?} {event}");
        }
    }
}
