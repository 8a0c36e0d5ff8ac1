//! Hands what comes to a target, one after the other, and tells relay what became of each.

use std::collections::{BTreeMap, VecDeque};
use std::error::Error as StdError;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::agent::Agent;
use super::delivery::{AgentDeliveryAdapter, AgentSession, MessageReceipt, SessionAdapter};
use super::error::Error;
use super::events::AgentSessionEvent;
use super::message::RelayMessage;
use super::node::{Arrived, Shared, hold, stopped};

/// How often a target gets a message with which it fails by an error.
const ATTEMPTS_MAX: u32 = 5;

/// How long it waits for it the second time; twice as long each time.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);

/// How long relay may take for the last receipt once the runner is to stop.
const LAST_RECEIPT_PATIENCE: Duration = Duration::from_secs(3);

/// Of how many deliveries it is known what became of them. relay sends again what was not acknowledged, 64 at the most.
const KNOWN_MAX: usize = 4_096;

type OnResult = Box<dyn Fn(&RelayMessage, &MessageReceipt) + Send + Sync>;
type OnError = Box<dyn Fn(&RelayMessage, &(dyn StdError + 'static)) + Send + Sync>;

/// Takes the deliveries of an agent into a target.
///
/// - One message at a time, in the order in which they come.
/// - Each has a receipt: what the target says, or, where it fails by an error, that it is to come again after one second, two, four
///   and eight, and then that it failed.
/// - What was deferred is handed over again when its time has come.
/// - A delivery that comes again, since the connection broke, is not handed over again if the target was done with it, or before the
///   time to which it was deferred: its receipt is repeated.
/// - One runner has the agent: relay refuses a second one for as long as it hears of the first, and that one then waits for it to go,
///   trying again by itself ([`AgentSessionEvent::Disconnected`] says why).
/// - The connection is made again by itself, also after a restart of relay, if the agent came from [`Workspace::agent`].
///
/// [`Workspace::agent`]: crate::Workspace::agent
pub struct DeliveryRunner<A> {
    agent: Agent,
    target: A,
    on_result: OnResult,
    on_error: OnError,
}

impl<S: AgentSession> DeliveryRunner<SessionAdapter<S>> {
    /// Makes the runner of a session, which is let go at the end.
    pub fn for_session(agent: Agent, session: S) -> Self {
        Self::new(agent, SessionAdapter(session))
    }
}

impl<A: AgentDeliveryAdapter> DeliveryRunner<A> {
    /// Makes a runner. Nothing is asked yet.
    pub fn new(agent: Agent, target: A) -> Self {
        Self {
            agent,
            target,
            on_result: Box::new(|_, _| {}),
            on_error: Box::new(|_, _| {}),
        }
    }

    /// Calls a function with each receipt, once relay has it, or has said that it does not know the delivery any more.
    #[must_use]
    pub fn on_result(
        self,
        on_result: impl Fn(&RelayMessage, &MessageReceipt) + Send + Sync + 'static,
    ) -> Self {
        let on_result = Box::new(on_result);
        Self { on_result, ..self }
    }

    /// Calls a function where the target fails by an error, or a receipt cannot be given.
    #[must_use]
    pub fn on_error(
        self,
        on_error: impl Fn(&RelayMessage, &(dyn StdError + 'static)) + Send + Sync + 'static,
    ) -> Self {
        let on_error = Box::new(on_error);
        Self { on_error, ..self }
    }

    /// Connects the target, and begins. Relay need not be there yet: [`Agent::events`] tells when it is.
    ///
    /// # Errors
    ///
    /// [`Error::Capability`] where the agent has no token, and so cannot give receipts; [`Error::Target`].
    pub async fn start(self) -> Result<Running, Error> {
        self.agent.can_deliver()?;
        self.target.connect().await.map_err(Error::Target)?;
        let shared = Arc::new(Shared::default());
        let connection = {
            let (agent, shared) = (self.agent.clone(), Arc::clone(&shared));
            tokio::spawn(async move { hold(agent, &shared).await })
        };
        let worker = Worker {
            runner: self,
            shared: Arc::clone(&shared),
            known: Known::default(),
            attempts: BTreeMap::new(),
        };
        Ok(Running {
            shared,
            worker: Some(tokio::spawn(worker.run())),
            connection: Some(connection),
        })
    }
}

/// A runner at work. Dropped, it ends at once: a message that the target is busy with comes again.
pub struct Running {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
    connection: Option<JoinHandle<()>>,
}

impl Running {
    /// Begins with nothing more. What the target is busy with is finished and has its receipt; all else stays with relay. A relay that
    /// does not take the receipt within three seconds is not waited for: the message comes again.
    ///
    /// # Panics
    ///
    /// If the target has panicked: that has ended the runner, and the message comes again.
    pub async fn stop(mut self) {
        self.shared.queue.close();
        self.shared.closing.send_replace(true);
        for task in [self.worker.take(), self.connection.take()].into_iter().flatten() {
            if let Err(ended) = task.await
                && let Ok(panic) = ended.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for task in [self.worker.take(), self.connection.take()].into_iter().flatten() {
            task.abort();
        }
    }
}

/// What became of the latest deliveries, so that none is handed over twice, or before its time.
#[derive(Default)]
struct Known {
    receipts: BTreeMap<String, MessageReceipt>,
    order: VecDeque<String>,
}

impl Known {
    /// Finds the receipt to repeat for a delivery that comes again; none if it is to be handed over.
    fn receipt(&self, delivery: &str, now: SystemTime) -> Option<&MessageReceipt> {
        let receipt = self.receipts.get(delivery)?;
        match receipt {
            MessageReceipt::Deferred { available_at, .. } if whole_ms(*available_at) <= whole_ms(now) => None,
            MessageReceipt::Accepted { .. }
            | MessageReceipt::Delivered { .. }
            | MessageReceipt::Deferred { .. }
            | MessageReceipt::Failed { .. } => Some(receipt),
        }
    }

    /// Forgets a deferral that relay has: its clock says from then on when the time has come, which may be another's here.
    fn relay_has(&mut self, delivery: &str, receipt: &MessageReceipt) {
        if matches!(receipt, MessageReceipt::Deferred { .. }) {
            self.receipts.remove(delivery);
            self.order.retain(|known| known != delivery);
        }
    }

    fn keep(&mut self, delivery: &str, receipt: &MessageReceipt) {
        let before = self.receipts.insert(delivery.to_owned(), receipt.clone());
        if before.is_some() {
            self.order.retain(|known| known != delivery);
        }
        self.order.push_back(delivery.to_owned());
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.receipts.remove(&oldest);
        }
    }
}

/// Counts a moment in the milliseconds that relay keeps of it.
fn whole_ms(at: SystemTime) -> u128 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis())
}

struct Worker<A> {
    runner: DeliveryRunner<A>,
    shared: Arc<Shared>,
    known: Known,
    /// Of what the target failed with by an error, and gets again.
    attempts: BTreeMap<String, u32>,
}

/// Nothing is taken for a target that nobody hands it to, whether it was to stop or panicked.
impl<A> Drop for Worker<A> {
    fn drop(&mut self) {
        self.shared.stop.send_replace(true);
    }
}

impl<A: AgentDeliveryAdapter> Worker<A> {
    async fn run(mut self) {
        while let Some(arrived) = self.shared.queue.next().await {
            self.deliver(arrived).await;
        }
        if let Err(error) = self.runner.target.disconnect().await {
            let reason = format!("the target cannot be disconnected: {error}");
            self.runner
                .agent
                .events()
                .emit(AgentSessionEvent::Disconnected { reason });
        }
    }

    async fn deliver(&mut self, mut arrived: Arrived) {
        let id = arrived.context.id.clone();
        let now = self.runner.agent.client().now();
        let mut receipt = match self.known.receipt(&id, now) {
            Some(receipt) => receipt.clone(),
            None => {
                arrived.context.attempts = self.attempts.get(&id).copied().unwrap_or(0);
                self.hand_over(&arrived).await
            }
        };
        let told = match self.tell(&id, &receipt).await {
            // As of a deferral for more than a day: it would be refused for ever.
            Err(Error::Refused {
                status: 400,
                code,
                message,
            }) => {
                let refused = Error::Refused {
                    status: 400,
                    code,
                    message,
                };
                (self.runner.on_error)(&arrived.message, &refused);
                let reason = format!("its receipt was refused: {refused}");
                receipt = MessageReceipt::Failed {
                    reason,
                    retryable: true,
                    metadata: Value::Null,
                };
                self.known.keep(&id, &receipt);
                self.tell(&id, &receipt).await
            }
            told => told,
        };
        match told {
            Ok(()) => {
                self.known.relay_has(&id, &receipt);
                self.shared
                    .done
                    .send_replace((arrived.connection, arrived.number));
                self.emit(&arrived, &receipt);
                (self.runner.on_result)(&arrived.message, &receipt);
            }
            Err(error) => {
                (self.runner.on_error)(&arrived.message, &error);
                // It is not acknowledged, and so comes again over the next connection.
                self.shared.again.send_replace(arrived.connection);
            }
        }
    }

    /// Lets the target have a message.
    async fn hand_over(&mut self, arrived: &Arrived) -> MessageReceipt {
        let Arrived { message, context, .. } = arrived;
        let receipt = match self.runner.target.inject(message, context).await {
            Ok(receipt) => receipt,
            Err(error) => {
                (self.runner.on_error)(message, error.as_error());
                let attempts = context.attempts + 1;
                if attempts < ATTEMPTS_MAX {
                    if self.attempts.len() >= KNOWN_MAX {
                        // A relay that was started again has forgotten them.
                        self.attempts.clear();
                    }
                    self.attempts.insert(context.id.clone(), attempts);
                    let pause = ATTEMPT_PAUSE * 2_u32.pow(attempts - 1);
                    return MessageReceipt::deferred(
                        self.runner.agent.client().now() + pause,
                        error.to_string(),
                    );
                }
                let reason = error.to_string();
                MessageReceipt::Failed {
                    reason,
                    retryable: true,
                    metadata: Value::Null,
                }
            }
        };
        if !matches!(receipt, MessageReceipt::Deferred { .. }) {
            self.attempts.remove(&context.id);
        }
        self.known.keep(&context.id, &receipt);
        receipt
    }

    /// Gives relay the receipt.
    async fn tell(&self, id: &str, receipt: &MessageReceipt) -> Result<(), Error> {
        let agent = &self.runner.agent;
        let telling = agent.receipt(id, receipt);
        let given_up = async {
            stopped(&self.shared.closing).await;
            sleep(LAST_RECEIPT_PATIENCE).await;
        };
        let told = tokio::select! {
            biased;
            told = telling => told,
            () = given_up => Err(agent.client().unreachable(ErrorKind::TimedOut.into())),
        };
        match told {
            // Relay was started again, or has forgotten it: nobody waits for the receipt.
            Err(Error::Refused { status: 404, .. }) => Ok(()),
            told => told,
        }
    }

    fn emit(&self, arrived: &Arrived, receipt: &MessageReceipt) {
        let (message_id, delivery_id) = (arrived.message.id.clone(), arrived.context.id.clone());
        self.runner.agent.events().emit(match receipt.clone() {
            MessageReceipt::Accepted { .. } => AgentSessionEvent::Accepted {
                message_id,
                delivery_id,
            },
            MessageReceipt::Delivered { .. } => AgentSessionEvent::Delivered {
                message_id,
                delivery_id,
            },
            MessageReceipt::Deferred {
                available_at, reason, ..
            } => AgentSessionEvent::Deferred {
                message_id,
                delivery_id,
                available_at,
                reason,
            },
            MessageReceipt::Failed {
                reason, retryable, ..
            } => AgentSessionEvent::Failed {
                message_id,
                delivery_id,
                reason,
                retryable,
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_repeated_but_for_a_deferral_whose_time_has_come() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let mut known = Known::default();
        assert_eq!(known.receipt("a", at(0)), None);
        // Relay keeps it to the millisecond, and sends it again from then on.
        let deferred = MessageReceipt::deferred(at(1_000) + Duration::from_micros(700), "busy");
        known.keep("a", &deferred);
        assert_eq!(known.receipt("a", at(999)), Some(&deferred));
        assert_eq!(known.receipt("a", at(1_000)), None);
        let done = MessageReceipt::delivered();
        known.keep("a", &done);
        assert_eq!(known.receipt("a", at(999)), Some(&done));
        assert_eq!(known.receipt("a", at(1_000)), Some(&done));
    }

    #[test]
    fn of_a_deferral_that_relay_has_its_clock_says_when_the_time_has_come() {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let mut known = Known::default();
        let (deferred, done) = (
            MessageReceipt::deferred(at(1_000), "busy"),
            MessageReceipt::delivered(),
        );
        for (id, receipt) in [("a", &deferred), ("b", &done)] {
            known.keep(id, receipt);
            known.relay_has(id, receipt);
        }
        assert_eq!(known.receipt("a", at(0)), None, "relay has sent it");
        assert_eq!(known.receipt("b", at(0)), Some(&done));
        assert_eq!(known.order, ["b"]);
    }

    #[test]
    fn the_latest_receipts_are_known_also_of_what_was_deferred_before() {
        let now = SystemTime::UNIX_EPOCH;
        let mut known = Known::default();
        known.keep("deferred", &MessageReceipt::deferred(now, "busy"));
        let done = MessageReceipt::delivered();
        for number in 1..KNOWN_MAX {
            known.keep(&number.to_string(), &done);
        }
        known.keep("deferred", &done);
        known.keep("one more", &done);
        assert_eq!(known.receipt("deferred", now), Some(&done));
        assert_eq!(known.receipt("1", now), None);
        assert_eq!(known.receipt("2", now), Some(&done));
        assert_eq!((known.receipts.len(), known.order.len()), (KNOWN_MAX, KNOWN_MAX));
    }
}
