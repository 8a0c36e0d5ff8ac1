//! The connection to the relay: its stream, what it says of itself, and what is asked of it. Says what comes, and decides nothing of it.

use std::time::Duration;

use futures_util::StreamExt as _;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::actions::Action;
use super::news::{self, Agent, Event, Message, News, Traced};
use super::state::Wish;
use crate::cli::client::{At, Client, ClientError};
use crate::cli::discover::Way;
use crate::cli::health::Health;
use crate::cli::place::Place;
use crate::cli::trace;
use crate::terminal::visible;

/// How long nothing may come, not even a ping, before the connection counts as broken: relay pings every 15 s.
const SILENCE: Duration = Duration::from_secs(60);

/// How often a relay is looked for that has gone away.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a relay is asked what it says of itself: what programs do is in no event.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How soon it is asked when something has happened, so that a burst asks once.
const ASK_SOON: Duration = Duration::from_millis(100);

/// Each how-manieth time its agents are asked for too. What they say of themselves changes seldom.
const AGENTS_EACH: u32 = 5;

/// Most inboxes that are looked into when a relay is found: more are no longer looked through by a person.
const INBOXES_MAX: usize = 32;

/// A relay that was found, and its stream.
pub struct Found {
    place: Place,
    health: Health,
    socket: WebSocketStream<TokioIo<Upgraded>>,
    inboxes: Vec<Message>,
    is_another: bool,
}

/// Which start of a relay has told what is in its inboxes, and how far its stream has been read.
#[derive(Debug, Default)]
struct Had {
    boot: Option<String>,
    seq: Option<u64>,
}

/// Follows relays, one start after the other.
pub struct Follow {
    at: At,
    had: Had,
    news: Sender<News>,
}

/// Nobody takes news any more.
struct Over;

impl Follow {
    /// Finds a relay.
    ///
    /// # Errors
    ///
    /// Why there is none, or none that shows what happens.
    pub async fn begin(at: At, news: Sender<News>) -> Result<(Self, Found), ClientError> {
        let had = Had::default();
        let mut follow = Self { at, had, news };
        let found = follow.find().await?;
        Ok((follow, found))
    }

    /// Tells what happens, until nobody wants to know it.
    pub async fn run(mut self, mut found: Found) {
        while let Ok(reason) = self.tell(found).await {
            if self.news.send(News::Lost(reason)).await.is_err() {
                return;
            }
            found = loop {
                sleep(LOOK_EVERY).await;
                match self.find().await {
                    Ok(found) => break found,
                    Err(error) if error.is_away() => {}
                    Err(error) => {
                        // It counts from a clock that was set back.
                        if matches!(error, ClientError::Refused { .. }) {
                            self.had.seq = Some(0);
                        }
                        if self.news.send(News::Lost(error.to_string())).await.is_err() {
                            return;
                        }
                    }
                }
                if self.news.is_closed() {
                    return;
                }
            };
        }
    }

    /// Finds the relay, opens its stream, and looks what is in its inboxes: behind that, so that nothing comes in between unseen. Where it
    /// fails on the way, the next one looks again.
    async fn find(&mut self) -> Result<Found, ClientError> {
        let client = Client::find(&self.at).await?;
        let health = client.health.clone();
        let place = match client.place() {
            Way::Tcp(place) => place.clone(),
            Way::Unix(_) => return Err(client.not_understood()),
        };
        let since = self.had.seq.unwrap_or(0);
        let (socket, seq) = client.listen(&format!("/api/tail?since={since}")).await?;
        let is_another = self.had.boot != health.boot;
        let inboxes = if is_another {
            self.inboxes(&place, &health).await?
        } else {
            Vec::new()
        };
        self.had = Had {
            boot: health.boot.clone(),
            seq: seq.or(self.had.seq),
        };
        Ok(Found {
            place,
            health,
            socket,
            inboxes,
            is_another,
        })
    }

    /// Looks what is in the inboxes. That of an agent who is gone by now is left out.
    async fn inboxes(&self, place: &Place, health: &Health) -> Result<Vec<Message>, ClientError> {
        let mut inboxes = Vec::new();
        let roles = health.roles.iter().filter(|role| role.unread + role.held > 0);
        let mut client = Client::connect(place, self.at.token()).await?;
        for role in roles.take(INBOXES_MAX) {
            let asked = json!({"for": role.role});
            let answer = match client.ask("/api/peek", &asked, Duration::ZERO).await {
                Err(ClientError::Refused { .. }) => continue,
                answer => answer?,
            };
            let messages = news::inbox(&answer, &role.role);
            inboxes.extend(messages.ok_or_else(|| client.not_understood())?);
        }
        client.done();
        Ok(inboxes)
    }

    /// Tells what happens at a relay, until its connection ends; returns why.
    async fn tell(&mut self, found: Found) -> Result<String, Over> {
        let Found {
            place,
            health,
            mut socket,
            inboxes,
            is_another,
        } = found;
        let news = self.news.clone();
        let connected = News::Connected {
            place: place.to_string(),
            health: Box::new(health),
            inboxes,
        };
        news.send(connected).await.map_err(|_| Over)?;
        let happened = Notify::new();
        let asking = ask(&place, &self.at, &news, &happened);
        let listening = async {
            let mut ended = "the connection to relay has ended".to_owned();
            while let Ok(Some(Ok(frame))) = timeout(SILENCE, socket.next()).await {
                match frame {
                    Frame::Text(json) => {
                        let Some((seq, event)) = news::event(&json) else {
                            continue;
                        };
                        self.had.seq = seq.or(self.had.seq);
                        happened.notify_one();
                        match event {
                            // Of another one that is told already, and the first one is asked for all that it has.
                            Some(Event::Missed) if is_another => {}
                            Some(event) => news.send(News::Event(event)).await.map_err(|_| Over)?,
                            None => {}
                        }
                    }
                    Frame::Close(Some(close)) => ended = close.reason.to_string(),
                    Frame::Close(None)
                    | Frame::Binary(_)
                    | Frame::Ping(_)
                    | Frame::Pong(_)
                    | Frame::Frame(_) => {}
                }
            }
            Ok(ended)
        };
        tokio::select! {
            ended = listening => ended,
            Over = asking => Err(Over),
        }
    }
}

/// Asks a relay again and again what it says of itself. That it does not answer is seen by its stream.
async fn ask(place: &Place, at: &At, news: &Sender<News>, happened: &Notify) -> Over {
    let mut known = 0;
    for time in 0_u32.. {
        if let Ok(mut client) = Client::connect(place, at.token()).await {
            let health = client.health.clone();
            let is_due = time % AGENTS_EACH == 0 || known != health.roles.len();
            known = health.roles.len();
            if news.send(News::Health(Box::new(health))).await.is_err() {
                return Over;
            }
            if is_due
                && let Some(agents) = agents(&mut client).await
                && news.send(News::Agents(agents)).await.is_err()
            {
                return Over;
            }
            client.done();
        }
        let soon = async {
            happened.notified().await;
            sleep(ASK_SOON).await;
        };
        let _sooner = timeout(ASK_EVERY, soon).await;
    }
    Over
}

/// Asks a relay for its agents, and which of them are workers; one that starts none does not say that.
async fn agents(client: &mut Client) -> Option<Vec<Agent>> {
    let answer = client.ask("/api/agents", &json!({}), Duration::ZERO).await.ok()?;
    let mut agents = news::agents(&answer)?;
    let answer = client.ask("/api/workers", &json!({}), Duration::ZERO).await.ok();
    let workers = answer
        .and_then(|answer| news::workers(&answer))
        .unwrap_or_default();
    for agent in &mut agents {
        agent.is_worker = workers.contains(&agent.name);
    }
    Some(agents)
}

/// Carries wishes out, one after the other, and tells what came of them.
pub async fn carry_out(at: At, mut wishes: Receiver<Wish>, news: Sender<News>) {
    while let Some(wish) = wishes.recv().await {
        let told = match wish {
            Wish::Trace(id) => {
                let answer = traced(&at, &id).await;
                let answer = answer.map_err(|error| error.to_string());
                News::Traced { id, answer }
            }
            Wish::Act(action) => {
                let outcome = act(&at, &action).await.map_err(|error| error.to_string());
                News::Done { action, outcome }
            }
        };
        if news.send(told).await.is_err() {
            return;
        }
    }
}

async fn traced(at: &At, id: &str) -> Result<Traced, ClientError> {
    let mut client = Client::find(at).await?;
    let asked = json!({"message": id});
    let answer = client.ask("/api/trace", &asked, Duration::ZERO).await?;
    let text = trace::told(&answer).ok_or_else(|| client.not_understood())?;
    let traced = Traced::of(&answer, text).ok_or_else(|| client.not_understood())?;
    client.done();
    Ok(traced)
}

async fn act(at: &At, action: &Action) -> Result<String, ClientError> {
    let mut client = Client::find(at).await?;
    let answer = client.ask(action.path(), &action.body(), Duration::ZERO).await?;
    client.done();
    Ok(visible(&action.done(&answer)).into_owned())
}

#[cfg(test)]
mod tests;
