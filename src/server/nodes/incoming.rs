//! What a node says: a frame of JSON to what it means. Strict: what is not known is refused by name.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::engine::actions::Offer;
use crate::engine::nodes::{Instance, Said};
use crate::engine::shown;

/// The version of the protocol that stands in every frame.
const VERSION: u64 = 1;

/// The types of frames that a node may send.
const TYPES: [&str; 10] = [
    "node.register",
    "node.heartbeat",
    "node.deregister",
    "node.spawn",
    "agent.register",
    "agent.recover",
    "agent.deregister",
    "delivery.ack",
    "action.result",
    "inventory.sync",
];

/// A frame that was understood.
#[derive(Debug, PartialEq)]
pub struct Incoming {
    /// Its id, if it has one: the answer has the same.
    pub id: Option<String>,
    /// What it means.
    pub what: What,
}

/// What a frame means.
#[derive(Debug, PartialEq)]
pub enum What {
    /// The node registers, by the name and the id that it gives.
    Registers {
        /// Its name.
        name: String,
        /// Its id.
        node_id: String,
        /// Which instance of which program it is.
        instance: Option<Instance>,
        /// What it says that it can do.
        capabilities: Vec<Capability>,
    },
    /// An agent runs on it, and is to have a token.
    Adopts {
        /// Its name.
        agent: String,
    },
    /// Something that the engine is told as it is.
    Says(Said),
    /// An acknowledgement, which is not answered.
    Acknowledges(Said),
}

/// Why a frame was not understood.
#[derive(Debug, PartialEq)]
pub struct Misunderstood {
    /// The id of the frame, where that much of it was understood.
    pub id: Option<String>,
    /// What a program reads.
    pub code: &'static str,
    /// What a person reads.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Provider {
    name: String,
    instance_id: String,
}

impl From<Provider> for Instance {
    fn from(Provider { name, instance_id }: Provider) -> Self {
        Self {
            provider: name,
            id: instance_id,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidOfCapability {
    name: String,
    kind: Option<String>,
    #[serde(rename = "global")]
    _global: Option<bool>,
    queue: Option<bool>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
}

/// What a node says that it can do.
#[derive(Debug, PartialEq)]
pub struct Capability {
    /// What it is called.
    pub name: String,
    /// `capacity`, which relay has no use for, or else an action.
    pub kind: String,
    /// It may be asked for while the node is not there.
    queues: bool,
}

impl Capability {
    /// Tells whether it is an action: whatever is of no kind that is known is one.
    pub fn is_action(&self) -> bool {
        self.kind == ACTION
    }

    /// Offers it to the engine.
    pub fn offer(&self) -> Offer {
        Offer {
            name: self.name.clone(),
            queues: self.queues,
        }
    }
}

impl From<SaidOfCapability> for Capability {
    fn from(
        SaidOfCapability {
            name, kind, queue, ..
        }: SaidOfCapability,
    ) -> Self {
        let by_name = || kind_of(&name);
        let known = kind.as_deref().filter(|kind| [ACTION, CAPACITY].contains(kind));
        Self {
            kind: known.unwrap_or_else(by_name).to_owned(),
            queues: queue.unwrap_or(false),
            name,
        }
    }
}

/// An action that a node carries out.
pub const ACTION: &str = "action";

/// What a node has room for.
const CAPACITY: &str = "capacity";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    name: String,
    node_id: String,
    provider: Option<Provider>,
    capabilities: Vec<SaidOfCapability>,
    #[serde(rename = "max_agents")]
    _max_agents: u32,
    #[serde(rename = "tags")]
    _tags: Vec<String>,
    #[serde(rename = "repo_keys")]
    _repo_keys: Option<Vec<String>>,
    #[serde(rename = "version")]
    _version: String,
    #[serde(rename = "machine_id")]
    _machine_id: Option<String>,
    #[serde(rename = "resume_cursor")]
    _resume_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    #[serde(rename = "provider")]
    _provider: Option<Provider>,
    #[serde(rename = "load")]
    _load: Option<f64>,
    #[serde(rename = "load_reported")]
    _load_reported: Option<bool>,
    #[serde(rename = "active_agents")]
    _active_agents: u32,
    #[serde(rename = "handlers_live")]
    _handlers_live: bool,
    #[serde(rename = "name")]
    _name: Option<String>,
    #[serde(rename = "node_id")]
    _node_id: Option<String>,
    #[serde(rename = "capabilities")]
    _capabilities: Option<Vec<SaidOfCapability>>,
    #[serde(rename = "max_agents")]
    _max_agents: Option<u32>,
    #[serde(rename = "version")]
    _version: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deregister {
    #[serde(rename = "provider")]
    _provider: Option<Provider>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentRegister {
    name: String,
    #[serde(rename = "invocation_id")]
    _invocation_id: Option<String>,
    #[serde(rename = "session_ref")]
    _session_ref: Option<String>,
    #[serde(rename = "resumable")]
    _resumable: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentRecover {
    name: String,
    expected_agent_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentDeregister {
    agent_id: String,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acknowledge {
    agent: String,
    up_to_seq: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    invocation_id: String,
    /// Null is an output, too.
    #[serde(default, deserialize_with = "said")]
    output: Option<Value>,
    error: Option<String>,
}

/// Reads a value that is there, be it null.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sync {
    agents: Vec<Synced>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Synced {
    #[serde(rename = "agent_id")]
    _agent_id: String,
    name: String,
    #[serde(rename = "invocation_id")]
    _invocation_id: Option<String>,
    #[serde(rename = "session_ref")]
    _session_ref: Option<String>,
}

/// Reads a frame.
///
/// # Errors
///
/// [`Misunderstood`], with what would be accepted.
pub fn read(text: &str) -> Result<Incoming, Misunderstood> {
    let invalid = |id: Option<String>, message: String| Misunderstood {
        id,
        code: "invalid_message",
        message,
    };
    let mut frame: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| invalid(None, format!("a frame is a JSON object: {error}")))?;
    let id = match frame.remove("id") {
        None => None,
        Some(Value::String(id)) => Some(id),
        Some(other) => return Err(invalid(None, format!("\"id\" is {other}; accepted: a string"))),
    };
    let version = frame.remove("v");
    if version.as_ref().and_then(Value::as_u64) != Some(VERSION) {
        let given = version.map_or_else(|| "missing".to_owned(), |given| given.to_string());
        let message = format!("\"v\" is {}; accepted: {VERSION}", shown(&given));
        return Err(invalid(id, message));
    }
    let kind = frame.remove("type");
    let Some(kind) = kind.as_ref().and_then(Value::as_str) else {
        let known = TYPES.join(", ");
        return Err(invalid(id, format!("\"type\" is no string; accepted: {known}")));
    };
    match meant(kind, frame) {
        Ok(what) => Ok(Incoming { id, what }),
        Err((code, message)) => Err(Misunderstood { id, code, message }),
    }
}

fn meant(kind: &str, frame: Map<String, Value>) -> Result<What, (&'static str, String)> {
    match kind {
        "node.register" => {
            let Register {
                name,
                node_id,
                provider,
                capabilities,
                ..
            } = fields(kind, frame)?;
            Ok(What::Registers {
                name,
                node_id,
                instance: provider.map(Instance::from),
                capabilities: capabilities.into_iter().map(Capability::from).collect(),
            })
        }
        "node.heartbeat" => fields(kind, frame).map(|Heartbeat { .. }| What::Says(Said::Beats)),
        "node.deregister" => fields(kind, frame).map(|Deregister { .. }| What::Says(Said::Leaves)),
        "agent.register" => {
            let AgentRegister { name: agent, .. } = fields(kind, frame)?;
            Ok(What::Adopts { agent })
        }
        "agent.recover" => {
            let AgentRecover {
                name,
                expected_agent_id,
            } = fields(kind, frame)?;
            if super::agent_of(&expected_agent_id) != Some(&name) {
                let given = shown(&expected_agent_id);
                let message = format!("\"expected_agent_id\" is {given:?}, which is not {name:?}'s");
                return Err(("agent_not_found", message));
            }
            Ok(What::Adopts { agent: name })
        }
        "agent.deregister" => {
            let AgentDeregister { agent_id, name } = fields(kind, frame)?;
            let agent = name.or_else(|| super::agent_of(&agent_id).map(str::to_owned));
            let agent = agent.ok_or_else(|| {
                let given = shown(&agent_id);
                let message = format!("\"agent_id\" is {given:?}; accepted: the id of an agent of this node");
                ("agent_not_found", message)
            })?;
            Ok(What::Says(Said::Drops { agent }))
        }
        "delivery.ack" => {
            let Acknowledge { agent, up_to_seq } = fields(kind, frame)?;
            let up_to = up_to_seq;
            Ok(What::Acknowledges(Said::Acknowledges { agent, up_to }))
        }
        "inventory.sync" => {
            let Sync { agents } = fields(kind, frame)?;
            let agents = agents.into_iter().map(|agent| agent.name).collect();
            Ok(What::Says(Said::Has { agents }))
        }
        "action.result" => {
            let Ended {
                invocation_id: invocation,
                output,
                error,
            } = fields(kind, frame)?;
            let result = match (output, error) {
                (Some(output), None) => Ok(output.to_string().into()),
                (None, Some(error)) => Err(error.into()),
                (Some(_), Some(_)) | (None, None) => {
                    let message =
                        "action.result has \"output\", or \"error\", which is a string: one of them";
                    return Err(("invalid_message", message.to_owned()));
                }
            };
            Ok(What::Says(Said::Ends { invocation, result }))
        }
        "node.spawn" => {
            let message =
                "relay does not take node.spawn: it starts agents as workers of an agent or of the person";
            Err(("not_supported", message.to_owned()))
        }
        _ => {
            let (given, known) = (shown(kind), TYPES.join(", "));
            let message = format!("unknown type {given:?}; accepted: {known}");
            Err(("invalid_message", message))
        }
    }
}

/// Tells whether what is called so is a capacity where nothing says what it is.
pub fn is_capacity(name: &str) -> bool {
    kind_of(name) == CAPACITY
}

/// Returns the kind of a capability that does not say it.
fn kind_of(name: &str) -> &'static str {
    if name.starts_with("spawn:") || name.starts_with("relay:") || name == "release" {
        CAPACITY
    } else {
        ACTION
    }
}

/// Reads the fields of a frame of one type, and no others.
fn fields<T: DeserializeOwned>(kind: &str, frame: Map<String, Value>) -> Result<T, (&'static str, String)> {
    serde_json::from_value(Value::Object(frame))
        .map_err(|error| ("invalid_message", format!("{kind}: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(frame: Value) -> Result<What, Misunderstood> {
        read(&frame.to_string()).map(|incoming| incoming.what)
    }

    fn register() -> Value {
        json!({
            "v": 1, "id": "1", "type": "node.register", "name": "n", "node_id": "node_n", "capabilities": [],
            "max_agents": 1, "tags": [], "version": "1",
        })
    }

    #[test]
    fn each_type_is_read_as_its_real_clients_send_it() {
        let direct = json!({
            "v": 1, "id": "sdk-direct-1", "type": "node.register", "node_id": "node_direct_agt_bob",
            "name": "direct-agt_bob", "capabilities": [], "max_agents": 1, "tags": ["implicit", "direct", "sdk"],
            "version": "5.0.7",
        });
        let registered = read(&direct.to_string()).expect("it is understood");
        assert_eq!(registered.id.as_deref(), Some("sdk-direct-1"));
        let provider = json!({"name": "broker", "instance_id": "i"});
        let mut broker = register();
        broker["provider"] = provider;
        broker["capabilities"] = json!([{"name": "spawn:claude", "metadata": {}}, {"name": "sum", "queue": true}, {"name": "odd", "kind": "of a kind"}]);
        broker["resume_cursor"] = Value::Null;
        let What::Registers {
            instance,
            capabilities,
            ..
        } = said(broker).expect("it is understood")
        else {
            panic!("it registers");
        };
        assert_eq!(instance.expect("one").id, "i");
        assert_eq!(
            capabilities,
            [
                ("spawn:claude", "capacity", false),
                ("sum", "action", true),
                ("odd", "action", false)
            ]
            .map(|(name, kind, queues)| Capability {
                name: name.to_owned(),
                kind: kind.to_owned(),
                queues
            })
        );
        let beat = json!({
            "v": 1, "type": "node.heartbeat", "node_id": "n", "load": null, "active_agents": 1, "handlers_live": false,
        });
        assert_eq!(said(beat), Ok(What::Says(Said::Beats)));
        let ack = json!({"v": 1, "type": "delivery.ack", "agent": "bob", "up_to_seq": 7});
        let agent = "bob".to_owned();
        assert_eq!(
            said(ack),
            Ok(What::Acknowledges(Said::Acknowledges { agent, up_to: 7 }))
        );
        let sync = json!({"v": 1, "type": "inventory.sync", "agents": [{"agent_id": "agt_w", "name": "w"}]});
        let agents = vec!["w".to_owned()];
        assert_eq!(said(sync), Ok(What::Says(Said::Has { agents })));
        let drop = json!({"v": 1, "type": "agent.deregister", "agent_id": "agt_w"});
        let agent = "w".to_owned();
        assert_eq!(said(drop), Ok(What::Says(Said::Drops { agent })));
        let ended = |result: Value| {
            let mut frame = json!({"v": 1, "type": "action.result", "invocation_id": "inv_1"});
            frame
                .as_object_mut()
                .expect("one")
                .extend(result.as_object().expect("one").clone());
            match super::tests::said(frame) {
                Ok(What::Says(Said::Ends { invocation, result })) => {
                    assert_eq!(invocation, "inv_1");
                    Ok(result)
                }
                Ok(other) => panic!("that is {other:?}"),
                Err(told) => Err(told.message),
            }
        };
        assert_eq!(
            ended(json!({"output": {"sum": 3}})),
            Ok(Ok(r#"{"sum":3}"#.into()))
        );
        assert_eq!(ended(json!({"output": null})), Ok(Ok("null".into())));
        assert_eq!(ended(json!({"error": "no"})), Ok(Err("no".into())));
        for neither_nor_both in [json!({}), json!({"output": 1, "error": "no"})] {
            let told = ended(neither_nor_both).expect_err("one of them is wanted");
            assert!(told.contains("one of them"), "{told}");
        }
        let recover = json!({"v": 1, "type": "agent.recover", "name": "w", "expected_agent_id": "agt_w"});
        let agent = "w".to_owned();
        assert_eq!(said(recover), Ok(What::Adopts { agent }));
    }

    #[test]
    fn a_missing_an_extra_and_a_wrong_field_are_named() {
        let frames = [
            register(),
            json!({"v": 1, "id": "1", "type": "node.heartbeat", "active_agents": 1, "handlers_live": true}),
            json!({"v": 1, "id": "1", "type": "agent.register", "name": "w"}),
            json!({"v": 1, "id": "1", "type": "agent.recover", "name": "w", "expected_agent_id": "agt_w"}),
            json!({"v": 1, "id": "1", "type": "agent.deregister", "agent_id": "agt_w"}),
            json!({"v": 1, "id": "1", "type": "delivery.ack", "agent": "w", "up_to_seq": 1}),
            json!({"v": 1, "id": "1", "type": "inventory.sync", "agents": []}),
        ];
        let result =
            json!({"v": 1, "id": "1", "type": "action.result", "invocation_id": "inv_1", "output": 1});
        let mut extra = result.clone();
        extra["colour"] = json!("red");
        assert!(
            said(extra)
                .expect_err("nobody knows it")
                .message
                .contains("`colour`")
        );
        let mut less = result;
        less.as_object_mut().expect("an object").remove("invocation_id");
        assert!(
            said(less)
                .expect_err("it is needed")
                .message
                .contains("`invocation_id`")
        );
        for frame in frames {
            assert!(said(frame.clone()).is_ok(), "{frame}");
            let mut extra = frame.clone();
            extra["colour"] = json!("red");
            let told = said(extra).expect_err("nobody knows it");
            assert!(told.message.contains("`colour`"), "{told:?}");
            assert_eq!((told.id.as_deref(), told.code), (Some("1"), "invalid_message"));
            for field in frame.as_object().expect("an object").keys() {
                if ["v", "id", "type"].contains(&field.as_str()) {
                    continue;
                }
                let mut less = frame.clone();
                less.as_object_mut().expect("an object").remove(field);
                let told = said(less).expect_err("it is needed");
                assert!(told.message.contains(&format!("`{field}`")), "{told:?}");
                let mut wrong = frame.clone();
                wrong[field] = json!({"no": "such"});
                assert_eq!(said(wrong).expect_err("it is wrong").code, "invalid_message");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_told_what_one_is() {
        let told = |text: &str| read(text).expect_err("it is none").message;
        assert!(
            told("[]").starts_with("a frame is a JSON object"),
            "{}",
            told("[]")
        );
        assert_eq!(told("{}"), "\"v\" is missing; accepted: 1");
        assert_eq!(told(r#"{"v": 2}"#), "\"v\" is 2; accepted: 1");
        assert_eq!(told(r#"{"id": 7}"#), "\"id\" is 7; accepted: a string");
        assert!(told(r#"{"v": 1, "type": 1}"#).starts_with("\"type\" is no string; accepted: node.register"));
        assert!(told(r#"{"v": 1, "type": "x"}"#).starts_with("unknown type \"x\"; accepted: node.register"));
        let spawn = read(r#"{"v": 1, "id": "9", "type": "node.spawn", "input": {}}"#).expect_err("not yet");
        assert_eq!((spawn.id.as_deref(), spawn.code), (Some("9"), "not_supported"));
    }
}
