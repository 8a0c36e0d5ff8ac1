//! The agent's side of the bridge: rmcp's transport over stdin and stdout, which knows when an answer was taken.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::calls::{Calls, UNDER_WAY_MAX, Unusable};
use super::connection::Connect;
use super::lines::{Line, Lines, Refused, message};
use super::relay::Relay;

/// How long stdout may take what is left for it at the end, once there is nothing more to wait for.
const LAST_WRITE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// What a request is told that comes before the handshake.
const TOO_EARLY: &str = "this request came before the handshake; accepted: initialize first and then the rest, or in each request the _meta of MCP 2026-07-28";

/// stdin and stdout, as rmcp has them.
pub struct Stdio<R, C: Connect> {
    lines: Lines<R>,
    /// None once rmcp has closed the transport. It needs no bound: there is one answer for each request under way, and
    /// whatever else is written is waited for.
    stdout: Option<mpsc::UnboundedSender<Out>>,
    calls: Arc<Calls<C::Connection>>,
    relay: Arc<Relay<C>>,
    /// Is done before another line is heard.
    first: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The agent has made a handshake, or has asked in a version that has none.
    greeted: bool,
}

/// Something for stdout.
struct Out {
    /// Empty to find out whether stdout has a reader.
    bytes: Vec<u8>,
    /// The request that it answers.
    answers: Option<RequestId>,
    /// Ends when the bytes are written and flushed, or never will be.
    _done: oneshot::Sender<()>,
}

/// The task that writes to stdout.
pub struct Writing(JoinHandle<io::Result<()>>);

impl Writing {
    /// Waits until everything is written that can be.
    ///
    /// # Errors
    ///
    /// stdout's, if it did not take everything.
    pub async fn finish(mut self) -> io::Result<()> {
        let Ok(written) = tokio::time::timeout(LAST_WRITE_PATIENCE, &mut self.0).await else {
            self.0.abort();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "stdout does not take the answers",
            ));
        };
        written.map_err(io::Error::other)?
    }
}

impl<R: AsyncRead + Send + Unpin + 'static, C: Connect> Stdio<R, C> {
    /// Begins to write what comes; reads nothing yet.
    pub fn new(
        stdin: R,
        stdout: impl AsyncWrite + Send + Unpin + 'static,
        calls: Arc<Calls<C::Connection>>,
        relay: Arc<Relay<C>>,
    ) -> (Self, Writing) {
        let (sender, queue) = mpsc::unbounded_channel();
        let writing = tokio::spawn(write(stdout, queue, Arc::clone(&calls)));
        let stdio = Self {
            lines: Lines::new(stdin),
            stdout: Some(sender),
            calls,
            relay,
            first: None,
            greeted: false,
        };
        (stdio, Writing(writing))
    }

    /// Waits until there is something to hear; tells whether there may be.
    async fn listen(&mut self) -> bool {
        if let Some(first) = &mut self.first {
            tokio::select! {
                biased;
                () = self.calls.over() => return false,
                () = first => self.first = None,
                () = self.calls.given_up(false) => return false,
            }
            return true;
        }
        if self.lines.ended() {
            self.calls.all_settled().await;
            return false;
        }
        tokio::select! {
            biased;
            () = self.calls.over() => return false,
            () = self.calls.closed_by_relay() => {}
            some = self.lines.read() => {
                if some {
                    self.calls.stdin_read();
                } else {
                    self.calls.stdin_ended();
                    // A stdout without a reader fails then, and everything is over.
                    drop(self.put(Vec::new(), None));
                }
            }
        }
        true
    }

    /// Takes a line; returns what rmcp must know of it.
    fn hear(&mut self, line: &Line) -> Option<ClientJsonRpcMessage> {
        let message = match message(line) {
            Ok(message) => message,
            Err(mut refused) => {
                if self.calls.is_under_way(&refused.id) {
                    // It would be taken for the answer to that request.
                    refused.id = Value::Null;
                }
                self.refuse(&refused);
                return None;
            }
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                if !self.greeted && !self.greets(&request.request) {
                    let id = serde_json::to_value(&request.id).expect("an id is JSON");
                    let refused = line.flawed_handshake();
                    self.refuse(&refused.unwrap_or_else(|| Refused::no_message(id, TOO_EARLY)));
                    return None;
                }
                let listens = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                let begun = if listens {
                    self.calls.begin_to_listen(&request.id)
                } else {
                    self.calls.begin(&request.id)
                };
                if let Err(unusable) = begun {
                    self.refuse(&unusable.refusal(&request.id));
                    return None;
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                    && self.calls.cancel(id)
                {
                    // What the agent asks after it comes after it at the relay too.
                    let (relay, id) = (Arc::clone(&self.relay), id.clone());
                    self.first = Some(Box::pin(async move { relay.cancel(&id).await }));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        // Before the handshake there is nothing that anything but a request could be about.
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        (self.greeted || is_request).then_some(message)
    }

    /// Takes note of the agent's first requests; tells whether one may come before a handshake.
    fn greets(&mut self, request: &ClientRequest) -> bool {
        let asks_first = matches!(
            request,
            ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_)
        );
        let names_version = request.get_meta().protocol_version().is_some();
        self.greeted = matches!(request, ClientRequest::InitializeRequest(_)) || names_version && !asks_first;
        self.greeted || asks_first
    }

    fn refuse(&mut self, refused: &Refused) {
        self.first = Some(self.put(refused.bytes().into(), None));
    }

    /// Puts something into the queue for stdout; the future ends when stdout has taken it, or never will.
    fn put(
        &self,
        mut bytes: Vec<u8>,
        answers: Option<RequestId>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if !bytes.is_empty() {
            bytes.push(b'\n');
        }
        let (_done, taken) = oneshot::channel();
        if let Some(stdout) = &self.stdout {
            let _ = stdout.send(Out {
                bytes,
                answers,
                _done,
            });
        }
        Box::pin(async move {
            let _ = taken.await;
        })
    }
}

impl Unusable {
    /// The JSON-RPC error that says so.
    fn refusal(self, id: &RequestId) -> Refused {
        let id = serde_json::to_value(id).expect("an id is JSON");
        match self {
            // An error with the id would be taken for the answer to the other request.
            Self::IdInUse => {
                let reason =
                    format!("the id {id} is that of a request which is not answered yet; use another");
                Refused::no_message(Value::Null, reason)
            }
            Self::TooMany => Refused {
                id,
                code: -32603,
                reason: format!(
                    "{UNDER_WAY_MAX} requests are under way, the most that are accepted; wait for an answer"
                ),
            },
        }
    }
}

/// How a message was sent is known when the answers to all requests are: stdout's failure ends everything.
impl<R: AsyncRead + Send + Unpin + 'static, C: Connect> Transport<RoleServer> for Stdio<R, C> {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let answers = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let bytes = serde_json::to_vec(&message).expect("a message is JSON");
        let taken = self.put(bytes, answers);
        async move {
            taken.await;
            Ok(())
        }
    }

    /// Is dropped and called again by rmcp whenever something else happens: all that it has begun is kept.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.first.is_none()
                && let Some(line) = self.lines.take()
            {
                if let Some(message) = self.hear(&line) {
                    return Some(message);
                }
                continue;
            }
            if !self.listen().await {
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.stdout = None;
        Ok(())
    }
}

/// Writes until there is nothing more to come. What stdout does not take was never said.
async fn write<S: super::Connection>(
    mut stdout: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Out>,
    calls: Arc<Calls<S>>,
) -> io::Result<()> {
    let written = async {
        while let Some(out) = queue.recv().await {
            stdout.write_all(&out.bytes).await?;
            stdout.flush().await?;
            if let Some(id) = &out.answers {
                calls.written(id);
            }
        }
        Ok(())
    };
    let result = written.await;
    if result.is_err() {
        calls.break_off();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_begun_is_refused_with_its_id_unless_that_is_anothers() {
        let id = RequestId::Number(7);
        let refused = Unusable::TooMany.refusal(&id);
        assert_eq!((refused.id, refused.code), (Value::from(7), -32_603));
        let refused = Unusable::IdInUse.refusal(&id);
        assert_eq!((refused.id, refused.code), (Value::Null, -32_600));
    }
}
