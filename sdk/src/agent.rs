//! What an agent says: messages, and receipts.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde_json::{Value, json};

use super::client::{Call, Client, Workspace, segment, text};
use super::delivery::MessageReceipt;
use super::error::{CapabilityError, Error};
use super::events::Events;
use super::message::{Handling, written};

/// How long a reason in a receipt may be, in bytes; relay refuses a receipt with a longer one.
const REASON_BYTES_MAX: usize = 1_024;

/// How long the metadata of a receipt may be, in bytes as JSON.
const METADATA_BYTES_MAX: usize = 1_024;

/// An agent, with its token. Clones are the same agent.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    client: Client,
    name: String,
    token: Mutex<Option<String>>,
    /// Where a new token comes from, if that is known.
    origin: Option<Workspace>,
    events: Events,
    /// One gets a new token at a time: each makes the one before useless.
    renewing: tokio::sync::Mutex<()>,
    /// For the keys of posts.
    random: Mutex<fastrand::Rng>,
}

/// A message as relay has accepted it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Posted {
    /// Its id.
    pub id: String,
    /// What its sender should know: a name that means several things, say.
    pub warnings: Vec<String>,
}

/// A node's id, its name and its token.
pub(crate) struct NodeToken {
    pub id: String,
    pub name: String,
    pub token: String,
}

impl Agent {
    pub(crate) fn new(
        client: Client,
        name: String,
        token: Option<String>,
        origin: Option<Workspace>,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            name,
            token: Mutex::new(token),
            origin,
            events: Events::default(),
            renewing: tokio::sync::Mutex::default(),
            random: Mutex::new(fastrand::Rng::new()),
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The relay that it belongs to.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// What happens to its deliveries.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Draws the keys of posts, and the pauses before a connection is made again, from a seed: a simulation wants that.
    pub fn seed(&self, seed: u64) {
        *self.0.random.lock().expect("nothing panics while it holds it") = fastrand::Rng::with_seed(seed);
    }

    pub(crate) fn draw(&self) -> u64 {
        self.0
            .random
            .lock()
            .expect("nothing panics while it holds it")
            .u64(..)
    }

    /// Sends a message to an address: an agent, a role, a group, or `user`, the person; `project:` before it names another project's.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection. It is tried again where the connection breaks, and adds one message all the same.
    pub async fn send(&self, to: &str, body: &str) -> Result<Posted, Error> {
        self.send_with(to, body, &Handling::default()).await
    }

    /// Sends a message, and says how it is to be brought.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]; `deadline_over` where its deadline is over.
    pub async fn send_with(&self, to: &str, body: &str, handling: &Handling) -> Result<Posted, Error> {
        let mut said = json!({"to": to, "text": body});
        handling.write(&mut said);
        let data = self.post("/v1/dm".to_owned(), said).await?;
        posted(&data["message"], &data)
    }

    /// Posts to a channel, with or without `#`. The agent joins it.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub async fn post_to(&self, channel: &str, body: &str) -> Result<Posted, Error> {
        self.post_to_with(channel, body, &Handling::default()).await
    }

    /// Posts to a channel, and says how the message is to be brought.
    ///
    /// # Errors
    ///
    /// As [`Self::send_with`].
    pub async fn post_to_with(
        &self,
        channel: &str,
        body: &str,
        handling: &Handling,
    ) -> Result<Posted, Error> {
        let channel = channel.strip_prefix('#').unwrap_or(channel);
        let path = format!("/v1/channels/{}/messages", segment(channel));
        self.say(path, body, handling).await
    }

    /// Answers a message that the agent got, or goes on with one of its own.
    ///
    /// # Errors
    ///
    /// As [`Self::send`]; `message_not_found` where relay does not know the message any more.
    pub async fn reply(&self, message_id: &str, body: &str) -> Result<Posted, Error> {
        self.reply_with(message_id, body, &Handling::default()).await
    }

    /// Answers a message, and says how the answer is to be brought.
    ///
    /// # Errors
    ///
    /// As [`Self::reply`]; `deadline_over` where its deadline is over.
    pub async fn reply_with(
        &self,
        message_id: &str,
        body: &str,
        handling: &Handling,
    ) -> Result<Posted, Error> {
        let path = format!("/v1/messages/{}/replies", segment(message_id));
        self.say(path, body, handling).await
    }

    async fn say(&self, path: String, body: &str, handling: &Handling) -> Result<Posted, Error> {
        let mut said = json!({"text": body});
        handling.write(&mut said);
        let data = self.post(path, said).await?;
        posted(&data, &data)
    }

    /// Has what is held for the agent ([`crate::DeliveryMode::Manual`]) come now. Returns how many messages that are.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection. It is tried once: where the answer was lost, what was held may come all the same, and how
    /// much that is would not be known by asking again.
    pub async fn flush(&self) -> Result<u64, Error> {
        const PATH: &str = "/v1/deliveries/flush";
        let data = self
            .ask(|token| Call::post(PATH, token, json!({})).unrepeated())
            .await?;
        data["flushed"].as_u64().ok_or_else(|| Error::Answer {
            call: format!("POST {PATH}"),
            reason: "\"flushed\" is no number".to_owned(),
        })
    }

    /// Joins a channel, which is made if need be.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection.
    pub async fn join(&self, channel: &str) -> Result<(), Error> {
        let channel = channel.strip_prefix('#').unwrap_or(channel);
        let path = format!("/v1/channels/{}/join", segment(channel));
        self.ask(|token| Call::post(&path, token, json!({})))
            .await
            .map(drop)
    }

    /// Says what became of a delivery. Of what it has accepted it may say later that it is done with it, or that it failed. Relay gets the
    /// first 1,024 bytes of a reason, and metadata that is an object and no longer than that.
    ///
    /// # Errors
    ///
    /// As [`Self::acknowledge`].
    pub async fn receipt(&self, delivery_id: &str, receipt: &MessageReceipt) -> Result<(), Error> {
        let (what, mut said, metadata) = match receipt {
            MessageReceipt::Accepted { retryable, metadata } => {
                let said = json!({"status": "accepted", "retryable": retryable});
                ("ack", said, metadata)
            }
            MessageReceipt::Delivered { metadata } => ("ack", json!({}), metadata),
            MessageReceipt::Deferred {
                available_at,
                reason,
                metadata,
            } => ("defer", deferral(*available_at, reason.as_deref()), metadata),
            MessageReceipt::Failed {
                reason,
                retryable,
                metadata,
            } => {
                let said = json!({"error": cut(reason), "retryable": retryable});
                ("fail", said, metadata)
            }
        };
        // Relay would refuse the receipt, of which the rest matters more.
        if metadata.is_object() && metadata.to_string().len() <= METADATA_BYTES_MAX {
            said["metadata"] = metadata.clone();
        }
        self.says(delivery_id, what, said).await
    }

    /// Says that it is done with a delivery.
    ///
    /// # Errors
    ///
    /// Relay's, and those of the connection; `delivery_not_found` where relay does not know the delivery any more.
    pub async fn acknowledge(&self, delivery_id: &str) -> Result<(), Error> {
        self.says(delivery_id, "ack", json!({})).await
    }

    /// Says that a delivery failed. It is not sent again. Relay gets the first 1,024 bytes of the reason.
    ///
    /// # Errors
    ///
    /// As [`Self::acknowledge`].
    pub async fn fail(&self, delivery_id: &str, reason: &str, retryable: bool) -> Result<(), Error> {
        let said = json!({"error": cut(reason), "retryable": retryable});
        self.says(delivery_id, "fail", said).await
    }

    /// Wants a delivery later. It is sent again then, and what comes after it passes. Relay gets the first 1,024 bytes of the reason.
    ///
    /// # Errors
    ///
    /// As [`Self::acknowledge`].
    pub async fn defer(
        &self,
        delivery_id: &str,
        until: SystemTime,
        reason: Option<&str>,
    ) -> Result<(), Error> {
        self.says(delivery_id, "defer", deferral(until, reason)).await
    }

    async fn says(&self, delivery_id: &str, what: &str, said: Value) -> Result<(), Error> {
        let path = format!("/v1/deliveries/{}/{what}", segment(delivery_id));
        self.ask(|token| Call::post(&path, token, said.clone()))
            .await
            .map(drop)
    }

    /// Gets its own node, with a new token.
    pub(crate) async fn node_token(&self) -> Result<NodeToken, Error> {
        const CALL: &str = "POST /v1/agent/node-token";
        let data = self
            .ask(|token| Call::post("/v1/agent/node-token", token, json!({})))
            .await?;
        Ok(NodeToken {
            id: text(&data, "node_id", CALL)?,
            name: text(&data, "node_name", CALL)?,
            token: text(&data, "token", CALL)?,
        })
    }

    /// Tells whether it can give receipts.
    pub(crate) fn can_deliver(&self) -> Result<(), CapabilityError> {
        match *self.0.token.lock().expect("nothing panics while it holds it") {
            Some(_) => Ok(()),
            None => Err(self.no_token()),
        }
    }

    fn no_token(&self) -> CapabilityError {
        CapabilityError {
            capability: "messaging.capabilities.serverDeliveryState",
            reason: format!(
                "{:?} has no token; get the agent by Workspace::agent or Client::agent_by_token",
                self.0.name
            ),
        }
    }

    async fn post(&self, path: String, body: Value) -> Result<Value, Error> {
        let key = format!("sdk-{:016x}{:016x}", self.draw(), self.draw());
        self.ask(|token| Call::post(path.clone(), token, body.clone()).once(key.clone()))
            .await
    }

    /// Makes a call with the agent's token, and once more with a new one if that is not good any more.
    async fn ask(&self, call: impl Fn(&str) -> Call<'_> + Send) -> Result<Value, Error> {
        let token = self.token()?;
        let refused = match self.0.client.call(call(&token)).await {
            Err(error) if error.is_unauthorized() => error,
            answered => return answered,
        };
        let Some(origin) = &self.0.origin else {
            return Err(refused);
        };
        let renewed = {
            let _one_at_a_time = self.0.renewing.lock().await;
            let there = self.token()?;
            if there == token {
                let renewed = origin.token_again(&self.0.name).await?;
                *self.0.token.lock().expect("nothing panics while it holds it") = Some(renewed.clone());
                renewed
            } else {
                there
            }
        };
        self.0.client.call(call(&renewed)).await
    }

    fn token(&self) -> Result<String, CapabilityError> {
        let token = self.0.token.lock().expect("nothing panics while it holds it");
        token.clone().ok_or_else(|| self.no_token())
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}

fn deferral(until: SystemTime, reason: Option<&str>) -> Value {
    let mut said = json!({"available_at": written(until)});
    if let Some(reason) = reason {
        said["reason"] = cut(reason).into();
    }
    said
}

/// Leaves of a reason what a receipt may have, in whole characters.
fn cut(reason: &str) -> &str {
    let mut ends = (0..=REASON_BYTES_MAX.min(reason.len())).rev();
    let end = ends.find(|end| reason.is_char_boundary(*end));
    &reason[..end.expect("0 is the boundary of a character")]
}

fn posted(message: &Value, data: &Value) -> Result<Posted, Error> {
    let warnings = data["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Posted {
        id: text(message, "id", "a post")?,
        warnings: warnings
            .iter()
            .filter_map(|warning| warning.as_str().map(str::to_owned))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters_and_only_if_it_is_too_long() {
        let whole = "x".repeat(REASON_BYTES_MAX);
        assert_eq!(cut(""), "");
        assert_eq!(cut(&whole), whole);
        assert_eq!(cut(&format!("{whole}x")), whole);
        let before = "x".repeat(REASON_BYTES_MAX - 3);
        assert_eq!(cut(&format!("{before}🦀🦀")), before);
        assert_eq!(cut(&format!("x{before}éé")), format!("x{before}é"));
    }
}
