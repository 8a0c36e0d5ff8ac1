//! What goes through all the messages that are kept: the search for some, and the conversations of a workspace.
//!
//! The engine shows them part by part, and serves others in between; what is in a part is looked at here, while nobody waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::asked::{Asked, limit_of, not_accepted};
use super::envelope::{Answer, Data, Failure};
use super::events::forbidden;
use super::tokens::{Holder, Kind};
use super::{channels, records};
use crate::engine::address::Home;
use crate::engine::records::{Of, Range, Record};
use crate::engine::trace::ShownTo;
use crate::engine::{AgentName, ChannelName, Message, ResolvedBy, Timestamp};
use crate::server::limits::{
    CONVERSATIONS_SHOWN, CONVERSATIONS_SHOWN_MAX, RECORDS_SHOWN_MAX, SEARCH_BYTES_MAX, SEARCH_SHOWN,
    SEARCH_WORDS_MAX,
};
use crate::server::nodes;
use crate::server::observers::{Scope, View};

/// `GET /v1/search`: the newest first.
pub(super) async fn search(asked: Asked) -> Answer {
    let who = match asked.any_holder()? {
        Holder::Node(_) => return Err(no_node()),
        holder @ (Holder::Workspace(_) | Holder::Agent(_) | Holder::Observer { .. }) => {
            Looker::of(&asked, &holder, Scope::Search)?
        }
    };
    let wanted = format!("1 to {RECORDS_SHOWN_MAX}");
    let words = format!("1 to {SEARCH_WORDS_MAX} words of up to {SEARCH_BYTES_MAX} bytes in all");
    let id = "the id of a message";
    let [q, channel, from, limit, before, after] = asked.query([
        ("q", &words),
        ("channel", "the name of a channel of the workspace"),
        ("from", "the name of an agent"),
        ("limit", &wanted),
        ("before", id),
        ("after", id),
    ])?;
    let sought = Sought {
        words: Words::of(&q.unwrap_or_default(), &words)?,
        channel: channel
            .map(|name| channels::named(&name, &who.workspace))
            .transpose()?,
        from: from
            .map(|name| sender(&name, &who.workspace, &asked.shared.home))
            .transpose()?,
    };
    let limit = limit_of(limit, SEARCH_SHOWN, RECORDS_SHOWN_MAX)?;
    let mut kept = Kept::between(before, after);
    let mut found: Vec<Value> = Vec::new();
    while let Some(part) = kept.next(&asked, &who).await? {
        let here = part
            .iter()
            .filter(|record| who.may_see(record) && sought.is(&record.message));
        found.extend(
            here.take(limit - found.len())
                .map(|record| result(&record.message, &who.workspace)),
        );
        if found.len() == limit {
            break;
        }
    }
    Ok(Data::ok(found.into()))
}

fn no_node() -> Failure {
    let [agent, workspace, observer, node] =
        [Kind::Agent, Kind::Workspace, Kind::Observer, Kind::Node].map(Kind::words);
    let reason = format!("this address wants {agent}, {workspace} or {observer}; this is {node}");
    Failure::new(StatusCode::UNAUTHORIZED, "observer_token_required", reason)
}

/// `GET /v1/dm/conversations/all`: those of all agents of a workspace, the latest first.
pub(super) async fn conversations(asked: Asked) -> Answer {
    let who = match asked.any_holder()? {
        Holder::Agent(_) | Holder::Node(_) => {
            asked.workspace()?;
            unreachable!("it is not the key of a workspace")
        }
        holder @ (Holder::Workspace(_) | Holder::Observer { .. }) => Looker::of(&asked, &holder, Scope::Dms)?,
    };
    let wanted = format!("1 to {CONVERSATIONS_SHOWN_MAX}");
    let [limit] = asked.query([("limit", &wanted)])?;
    let limit = limit_of(limit, CONVERSATIONS_SHOWN, CONVERSATIONS_SHOWN_MAX)?;
    let mut order: Vec<String> = Vec::new();
    let mut known: BTreeMap<String, Conversation> = BTreeMap::new();
    let mut kept = Kept::between(None, None);
    while let Some(part) = kept.next(&asked, &who).await? {
        for Record { message, .. } in part.iter().filter(|record| who.may_see(record)) {
            if message.to.by() == ResolvedBy::Channel {
                continue;
            }
            let id = nodes::conversation_id(message);
            if let Some(conversation) = known.get_mut(&id) {
                conversation.messages += 1;
                conversation.begun = message.ts;
            } else if order.len() < limit {
                order.push(id.clone());
                known.insert(id, Conversation::of(message));
            }
        }
    }
    let shown = order.iter().map(|id| known[id].shown(id, &who.workspace));
    Ok(Data::ok(shown.collect()))
}

/// Whoever looks through messages.
struct Looker {
    workspace: String,
    shown_to: ShownTo,
    /// What of that, if it is an observer.
    view: Option<View>,
}

impl Looker {
    /// An observer needs a scope; all others are shown what they are shown elsewhere.
    fn of(asked: &Asked, holder: &Holder, scope: Scope) -> Result<Self, Failure> {
        let workspace = holder.workspace().to_owned();
        let (shown_to, view) = match holder {
            Holder::Observer { id, turn, .. } => {
                let now = asked.shared.owner.now();
                let view = asked.shared.api.observers.view(*id, *turn, scope, now);
                (
                    ShownTo::Project(workspace.clone()),
                    Some(view.map_err(forbidden)?),
                )
            }
            Holder::Workspace(_) | Holder::Agent(_) | Holder::Node(_) => (records::shown_to(holder), None),
        };
        Ok(Self {
            workspace,
            shown_to,
            view,
        })
    }

    fn may_see(&self, record: &Record) -> bool {
        self.view.as_ref().is_none_or(|view| view.has(&record.message))
    }
}

/// The messages that are kept, part by part, the newest first.
struct Kept {
    before: Option<String>,
    after: Option<String>,
    has_begun: bool,
    has_ended: bool,
}

impl Kept {
    fn between(before: Option<String>, after: Option<String>) -> Self {
        Self {
            before,
            after,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Goes on. What is forgotten meanwhile is the oldest: with the end of a part all behind it is, and with `after` nothing that it leaves out.
    async fn next(&mut self, asked: &Asked, who: &Looker) -> Result<Option<Vec<Record>>, Failure> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        while !self.has_ended {
            let range = Range {
                before: self.before.clone(),
                after: self.after.clone(),
                ..records::latest()
            };
            let wanted = range.limit;
            match records::list_for(asked, Of::All, range, who.shown_to.clone()).await {
                Ok(part) => {
                    self.has_ended = part.len() < wanted;
                    self.before = part.last().map(|record| record.message.id.to_string());
                    // Others are served in between.
                    tokio::task::yield_now().await;
                    return Ok(Some(part));
                }
                Err(failure) if is_first || !failure.is("message_not_found") => return Err(failure),
                Err(_) => self.has_ended = self.after.take().is_none(),
            }
        }
        Ok(None)
    }
}

/// What is looked for.
struct Sought {
    words: Words,
    /// In a channel of the workspace.
    channel: Option<ChannelName>,
    /// Sent by an agent.
    from: Option<AgentName>,
}

impl Sought {
    fn is(&self, message: &Message) -> bool {
        self.channel
            .as_ref()
            .is_none_or(|channel| message.to.is_channel(channel))
            && self.from.as_ref().is_none_or(|from| message.from == *from)
            && self.words.are_in(&message.body)
    }
}

/// Words, in lower case.
struct Words(Vec<String>);

impl Words {
    fn of(text: &str, accepted: &str) -> Result<Self, Failure> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if text.len() > SEARCH_BYTES_MAX || !(1..=SEARCH_WORDS_MAX).contains(&words.len()) {
            return Err(not_accepted("q", text, accepted));
        }
        Ok(Self(words))
    }

    fn are_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.0.iter().all(|word| text.contains(word))
    }
}

/// A conversation, as far as its messages are kept.
struct Conversation {
    latest: Arc<Message>,
    begun: Timestamp,
    messages: usize,
}

impl Conversation {
    fn of(latest: &Arc<Message>) -> Self {
        Self {
            latest: Arc::clone(latest),
            begun: latest.ts,
            messages: 1,
        }
    }

    fn shown(&self, id: &str, workspace: &str) -> Value {
        let latest = &*self.latest;
        let is_direct = latest.to.by() == ResolvedBy::Name;
        let names = records::participants(latest).map(|agent| agent.seen_from(workspace).into_owned());
        json!({
            "id": id,
            "channel_id": id,
            "type": if is_direct { "1:1" } else { "group" },
            "name": (!is_direct).then_some(latest.to.as_str()),
            "participants": names.collect::<Vec<String>>(),
            "last_message": {
                "id": latest.id.to_string(),
                "text": latest.body,
                "agent_id": nodes::agent_id(&latest.from),
                "agent_name": latest.from.seen_from(workspace),
                "created_at": latest.ts.to_string(),
            },
            "message_count": self.messages,
            "created_at": self.begun.to_string(),
        })
    }
}

/// Writes a message that was found.
fn result(message: &Message, workspace: &str) -> Value {
    let place = nodes::place_of(message);
    let conversation = (message.to.by() != ResolvedBy::Channel).then(|| place.clone());
    json!({
        "channel_name": message.to.channel_name().unwrap_or(&place),
        "id": message.id.to_string(),
        "channel_id": place,
        "conversation_id": conversation,
        "agent_id": nodes::agent_id(&message.from),
        "agent_name": message.from.seen_from(workspace),
        "text": message.body,
        "thread_id": message.thread(),
        "created_at": message.ts.to_string(),
        "relevance_score": 0,
    })
}

/// Reads the name of an agent as it is seen from a workspace; the person has one, too.
fn sender(given: &str, workspace: &str, home: &Home) -> Result<AgentName, Failure> {
    if given == AgentName::person().as_str() {
        return Ok(AgentName::person());
    }
    let (project, name) = home.parted(workspace, given);
    AgentName::in_project(project, name).map_err(Failure::invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_somewhere_in_the_text_in_whatever_case() {
        let are_in = |words: &str, text: &str| Words::of(words, "").expect("some words").are_in(text);
        assert!(are_in("Build  FAILED", "the rebuild has failed"));
        assert!(are_in("straße", "STRAßE 7") && are_in("ÄRGER", "ärger"));
        assert!(!are_in("build failed", "the build went well"));
        assert!(are_in("100%", "100% done") && !are_in("100%", "100 done"));
    }

    #[test]
    fn there_are_as_many_words_as_the_bounds_have_it() {
        let taken = |text: String| Words::of(&text, "").is_ok();
        assert!(taken("a ".repeat(SEARCH_WORDS_MAX)) && taken("a".repeat(SEARCH_BYTES_MAX)));
        assert!(!taken("a ".repeat(SEARCH_WORDS_MAX + 1)) && !taken("a".repeat(SEARCH_BYTES_MAX + 1)));
        assert!(!taken(String::new()) && !taken(" \n".to_owned()));
    }
}
