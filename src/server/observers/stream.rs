//! The stream of an observer: a WebSocket over which each event goes out as it comes, once and in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::ws::close_code;
use axum::http::HeaderName;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::{self, Message};

use super::journal::{Cursor, Forgotten, Journal, Page, Since};
use super::view::View;
use crate::server::Shared;
use crate::server::limits::{
    EVENTS_AT_ONCE, OBSERVER_CHECK_EVERY, OBSERVER_LAST_PATIENCE, OBSERVERS_MAX, SOCKET_PING_EVERY,
    SOCKET_SILENCE,
};
use crate::server::websocket::{Gone, Socket, Upgrade};

/// What an observer is told whose events were forgotten before it took them.
const TOO_SLOW: &str =
    "too slow: events were forgotten before they were taken; come back with ?since=SEQ, the latest you have";

/// Says in the answer to an upgrade behind which event the stream begins, for those who have none of it yet.
const SEQ: HeaderName = HeaderName::from_static("relay-seq");

/// One of the observers that may be there at a time, until it is dropped.
pub(in crate::server) struct Admitted(Arc<Shared>);

/// Lets one more observer in; none if as many are there as may be.
pub(in crate::server) fn admit(shared: &Arc<Shared>) -> Option<Admitted> {
    let is_in = shared.owner.journal().admit(OBSERVERS_MAX);
    is_in.then(|| Admitted(Arc::clone(shared)))
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.owner.journal().dismiss();
    }
}

/// Takes the connection of an observer. `may` says, each time anew, what it is shown; or why it is shown nothing any more.
pub(in crate::server) fn upgrade(
    admitted: Admitted,
    since: Since,
    upgrade: Upgrade,
    may: impl Fn(&Shared) -> Result<View, String> + Send + Sync + 'static,
) -> Response {
    let Since {
        cursor,
        behind,
        missed,
    } = since;
    let shared = Arc::clone(&admitted.0);
    // Once it is a WebSocket, its connection is waited for here alone.
    let under_way = shared.sockets.token();
    let mut response = upgrade.then(async move |socket| {
        let mut stream = Stream { socket, cursor };
        let ending = match stream.begin(behind, missed).await {
            Ok(()) => stream.serve(&shared, &may).await,
            Err(Gone) => Ending::Gone,
        };
        if let Ending::Told { code, reason } = ending {
            stream.tell(code, &reason).await;
        }
        drop((under_way, admitted));
    });
    response.headers_mut().insert(SEQ, behind.into());
    response
}

/// How a stream ends.
enum Ending {
    /// Its observer is gone.
    Gone,
    /// It is told why.
    Told { code: u16, reason: String },
}

impl From<Gone> for Ending {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

/// What an observer says.
#[derive(Deserialize)]
struct Said {
    r#type: String,
}

fn text(frame: &Value) -> Message {
    Message::Text(frame.to_string().into())
}

struct Stream {
    socket: Socket,
    /// Where it goes on.
    cursor: Cursor,
}

impl Stream {
    /// Tells whether some of what was asked for is forgotten.
    async fn begin(&mut self, behind: u64, missed: bool) -> Result<(), Gone> {
        if !missed {
            return Ok(());
        }
        let reason = "some of the events behind \"since\" are forgotten; these are all that are kept";
        let told = text(&json!({"type": "events.missed", "seq": behind, "reason": reason}));
        self.socket.write(told).await
    }

    async fn serve(&mut self, shared: &Shared, may: &impl Fn(&Shared) -> Result<View, String>) -> Ending {
        let journal = shared.owner.journal();
        let _reading = journal.reading();
        let too_late = async {
            shared.stop.cancelled().await;
            tokio::time::sleep(OBSERVER_LAST_PATIENCE).await;
        };
        tokio::pin!(too_late);
        let stopping = || Ending::Told {
            code: close_code::AWAY,
            reason: "relay is stopping".to_owned(),
        };
        let mut heard = Instant::now();
        let mut pinged = heard;
        let mut checks = tokio::time::interval(OBSERVER_CHECK_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Before it is read what there is, so that nothing comes in between unnoticed.
            let grown = journal.grown();
            // What has happened before the stop is shown still.
            let is_stopping = shared.stop.is_cancelled();
            let more = tokio::select! {
                biased;
                more = self.catch_up(shared, journal, may) => match more {
                    Ok(more) => more,
                    Err(ending) => return ending,
                },
                () = &mut too_late => return stopping(),
            };
            match (is_stopping, more) {
                (true, true) => continue,
                (true, false) => return stopping(),
                (false, _) => {}
            }
            let waited = async {
                if !more {
                    grown.await;
                }
            };
            let step = tokio::select! {
                biased;
                () = shared.stop.cancelled() => continue,
                said = self.socket.recv() => {
                    heard = Instant::now();
                    self.hear(said).await
                }
                at = checks.tick() => {
                    if heard.elapsed() >= SOCKET_SILENCE {
                        return Ending::Gone;
                    }
                    if at - pinged < SOCKET_PING_EVERY {
                        continue;
                    }
                    pinged = at;
                    self.write(Message::Ping(bytes::Bytes::new())).await
                }
                () = waited => ControlFlow::Continue(()),
            };
            if step.is_break() {
                return Ending::Gone;
            }
        }
    }

    /// Writes some of what has happened, and tells whether there is more.
    async fn catch_up(
        &mut self,
        shared: &Shared,
        journal: &Journal,
        may: &impl Fn(&Shared) -> Result<View, String>,
    ) -> Result<bool, Ending> {
        let view = || {
            may(shared).map_err(|reason| Ending::Told {
                code: close_code::POLICY,
                reason,
            })
        };
        let of = view()?.of;
        let read = journal.read(&of, self.cursor, EVENTS_AT_ONCE);
        let Page { entries, next, more } = read.map_err(|Forgotten| Ending::Told {
            code: close_code::AGAIN,
            reason: TOO_SLOW.to_owned(),
        })?;
        // Made one after the other: together they may be large. Each is judged when it goes out, which may be long after the one before.
        for (number, entry) in entries {
            if !view()?.shows(&entry) {
                continue;
            }
            match journal.frames().share(shared.owner.budget(), &entry, &of, number) {
                Some(frame) => {
                    let _share = self.socket.account().share(frame.text.len());
                    self.socket.write_shared(&frame.text).await?;
                }
                None => self.socket.write(text(&entry.frame(&of, number))).await?,
            }
        }
        self.cursor = next;
        Ok(more)
    }

    /// Tells why it ends, and takes what still comes in for a moment: with something unread the system would break the connection off, and the
    /// reason might be lost with it.
    async fn tell(&mut self, code: u16, reason: &str) {
        let telling = async {
            if self.socket.close(code, reason).await.is_ok() {
                while let Some(Ok(_)) = self.socket.recv().await {}
            }
        };
        let _late = tokio::time::timeout(OBSERVER_LAST_PATIENCE, telling).await;
    }

    async fn write(&mut self, message: Message) -> ControlFlow<()> {
        match self.socket.write(message).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(Gone) => ControlFlow::Break(()),
        }
    }

    /// Takes what an observer says, which changes nothing: that it is there still, at the most.
    async fn hear(&mut self, said: Option<Result<Message, tungstenite::Error>>) -> ControlFlow<()> {
        let said = match said {
            Some(Ok(Message::Text(said))) => said,
            // An end is answered when the next thing is read, which is nothing.
            Some(Ok(
                Message::Binary(_)
                | Message::Ping(_)
                | Message::Pong(_)
                | Message::Close(_)
                | Message::Frame(_),
            )) => {
                return ControlFlow::Continue(());
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "the connection of an observer broke");
                return ControlFlow::Break(());
            }
            None => return ControlFlow::Break(()),
        };
        match serde_json::from_str::<Said>(&said) {
            Ok(Said { r#type }) if r#type == "ping" => self.write(text(&json!({"type": "pong"}))).await,
            Ok(_) | Err(_) => ControlFlow::Continue(()),
        }
    }
}
