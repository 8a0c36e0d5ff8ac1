//! What runs on a machine: the programs of nodes, web hooks and observers, and whoever posts.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use relay_sdk::{
    AdapterFailure, Agent, Client, DeliveryRunner, Error, Handling, MessageContext, MessageReceipt,
    RelayMessage, Workspace, adapter,
};
use tokio::time::sleep;

use super::actions::caller::Caller;
use super::actions::handler::Handler;
use super::api::Api;
use super::fleets::moves::mover;
use super::fleets::program::Program;
use super::history::{Given, Post, Posted, Shown};
use super::holds::Person;
use super::hooks::Hook;
use super::listers::Lister;
use super::observers;
use super::plan::{Fate, fate_of, node_name, poster_name, text};
use super::world::{SimConnect, World};
use crate::client::{SERVER, now_ms};
use crate::marks::Marks;

/// How long a program waits before it asks again for what it cannot do without.
const ASK_AGAIN: Duration = Duration::from_millis(700);

/// Where programs run: it does not matter to relay.
const WORKSPACE: &str = "default";

/// The channel that all are in.
const ALL: &str = "general";

impl World {
    /// A machine: the programs of its nodes, and its posters.
    pub async fn work(self, number: usize) -> turmoil::Result {
        for (node, plan) in self.plan.nodes.iter().enumerate() {
            let instances = [Some(plan.on), plan.twin_on];
            for _ in instances.iter().filter(|on| **on == Some(number)) {
                let process = self.processes.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(self.program(node, process, number));
            }
        }
        for (hook, _) in self
            .plan
            .hooks
            .iter()
            .enumerate()
            .filter(|(_, on)| **on == number)
        {
            let hook = Hook {
                agent: self.plan.nodes.len() + hook,
                on: number,
                process: self.processes.fetch_add(1, Ordering::Relaxed),
                log: self.log.clone(),
                marks: self.marks.clone(),
            };
            tokio::spawn(hook.clone().takes());
            tokio::spawn(hook.says(self.client()));
        }
        for (observer, _) in self
            .plan
            .observers
            .iter()
            .enumerate()
            .filter(|(_, on)| **on == number)
        {
            let (had, log) = (Arc::clone(&self.had), self.log.clone());
            let (marks, ledger) = (self.marks.clone(), self.ledger.clone());
            tokio::spawn(observers::observer(observer, had, log, marks, ledger));
        }
        self.work_for_several(number);
        let mut posting = Vec::new();
        for (poster, plan) in self.plan.posters.iter().enumerate() {
            if plan.on == number {
                posting.push(tokio::spawn(self.poster(poster)));
            }
        }
        for task in posting {
            task.await?;
        }
        // The programs go on.
        std::future::pending().await
    }

    /// The programs of nodes for several agents, who moves those, who lists, and who asks.
    fn work_for_several(&self, number: usize) {
        let (plan, first_agent) = (&self.plan.fleets, self.plan.first_of_fleets());
        let api = Api(self.ledger.clone());
        for (fleet, node) in plan
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.on == number)
        {
            let process = self.processes.fetch_add(1, Ordering::Relaxed);
            let program = Program {
                number: fleet,
                plan: *node,
                first_agent,
                process,
                rng: Rng::with_seed(self.plan.seed ^ (process << 20)),
                offers: self.plan.actions.queues.get(fleet).copied(),
                handler: Handler::new(api.clone(), self.log.clone(), self.marks.clone(), process),
                fleets: Arc::clone(&self.fleets),
                api: api.clone(),
                log: self.log.clone(),
                marks: self.marks.clone(),
                connections: Arc::clone(&self.connections),
            };
            tokio::spawn(program.runs());
        }
        for (lister, _) in self
            .plan
            .listers
            .iter()
            .enumerate()
            .filter(|(_, on)| **on == number)
        {
            let process = self.processes.fetch_add(1, Ordering::Relaxed);
            let lister = Lister {
                agent: self.plan.first_of_listers() + lister,
                process,
                rng: Rng::with_seed(self.plan.seed ^ (process << 20)),
                disk: Arc::clone(&self.listers[lister]),
                api: api.clone(),
                log: self.log.clone(),
                marks: self.marks.clone(),
            };
            tokio::spawn(lister.runs());
        }
        let holds = &self.plan.holds;
        if holds.on == number && !holds.steps.is_empty() {
            let person = Person {
                plan: holds.clone(),
                next: Arc::clone(&self.next_hold),
                seed: self.plan.seed,
                api: api.clone(),
                log: self.log.clone(),
            };
            tokio::spawn(person.runs());
        }
        let actions = &self.plan.actions;
        if actions.caller_on == number && !actions.asks.is_empty() {
            let process = self.processes.fetch_add(1, Ordering::Relaxed);
            let caller = Caller {
                plan: actions.clone(),
                first_agent,
                rng: Rng::with_seed(self.plan.seed ^ (process << 20)),
                disk: Arc::clone(&self.caller),
                api: api.clone(),
                log: self.log.clone(),
                marks: self.marks.clone(),
            };
            tokio::spawn(caller.runs());
        }
        if plan.mover_on == number && !plan.moves.is_empty() {
            let (fleets, log, marks) = (Arc::clone(&self.fleets), self.log.clone(), self.marks.clone());
            tokio::spawn(mover(plan.clone(), first_agent, fleets, api, log, marks));
        }
    }

    fn client(&self) -> Client {
        let now = || SystemTime::UNIX_EPOCH + turmoil::since_epoch().unwrap_or_default();
        let address = format!("http://localhost:{}", SERVER.1);
        Client::with(&address, SimConnect(self.ledger.clone()), now).expect("an address")
    }

    /// The program of a node: it hands what comes to a target until its machine is gone.
    fn program(&self, node: usize, process: u64, on: usize) -> impl Future<Output = ()> + Send + use<> {
        let (client, log, marks) = (self.client(), self.log.clone(), self.marks.clone());
        let (busy, seed) = (Arc::clone(&self.busy), self.plan.seed);
        async move {
            let agent = register(&client, &node_name(node), seed ^ (process << 20)).await;
            let target = {
                let log = log.clone();
                adapter(
                    node_name(node),
                    move |message: RelayMessage, context: MessageContext| {
                        let (log, marks, busy) = (log.clone(), marks.clone(), Arc::clone(&busy));
                        async move {
                            let shown = Shown {
                                node,
                                process,
                                text: message.text.clone(),
                                delivery: context.id.clone(),
                                redelivered: context.redelivered,
                                attempts: context.attempts,
                                at_ms: now_ms(),
                            };
                            log.trace(now_ms(), format_args!("{shown:?}"));
                            log.history().shown.push(shown);
                            busy[on].fetch_add(1, Ordering::Relaxed);
                            let said = say(&message.text, &context, &marks).await;
                            // A crash has set it to nothing.
                            let _ = busy[on].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |many| {
                                many.checked_sub(1)
                            });
                            said
                        }
                    },
                )
            };
            let runner = DeliveryRunner::new(agent, target).on_result(move |message, receipt| {
                let given = Given {
                    node,
                    delivery: delivery_of(&message.id, node),
                    is_final: !matches!(receipt, MessageReceipt::Deferred { .. }),
                    at_ms: now_ms(),
                };
                log.trace(now_ms(), format_args!("{given:?}"));
                log.history().receipts.push(given);
            });
            let _running = runner.start().await.expect("it has a token");
            std::future::pending::<()>().await
        }
    }

    fn poster(&self, poster: usize) -> impl Future<Output = ()> + Send + use<> {
        let (client, log, plan) = (self.client(), self.log.clone(), Arc::clone(&self.plan));
        let next_posts = Arc::clone(&self.next_posts);
        async move {
            let seed = plan.seed ^ ((poster as u64 + 1) << 50);
            let agent = register(&client, &poster_name(poster), seed).await;
            let posts = &plan.posters[poster].posts;
            loop {
                let number = next_posts[poster].fetch_add(1, Ordering::Relaxed);
                let Some(post) = posts.get(number) else { return };
                sleep(Duration::from_millis(post.pause_ms)).await;
                let body = text(poster, number, post);
                let sent_ms = now_ms();
                let now = SystemTime::UNIX_EPOCH + turmoil::since_epoch().unwrap_or_default();
                let handling = Handling {
                    deadline: post.deadline_ms.map(|ms| now + Duration::from_millis(ms)),
                    ..Handling::default()
                };
                let posted = match post.to {
                    Some(to) => agent.send_with(&node_name(to), &body, &handling).await,
                    None => agent.post_to_with(ALL, &body, &handling).await,
                };
                let outcome = match posted {
                    Ok(_) => Posted::Accepted,
                    Err(Error::Refused {
                        status: 400..=499,
                        message,
                        ..
                    }) => Posted::Refused(message),
                    Err(_) => Posted::Unknown,
                };
                let post = Post {
                    poster,
                    to: post.to,
                    text: body,
                    sent_ms,
                    ended_ms: now_ms(),
                    outcome,
                };
                log.trace(now_ms(), format_args!("{post:?}"));
                log.history().posts.push(post);
            }
        }
    }
}

/// Names the delivery of a message to a node's agent, as relay does.
fn delivery_of(message: &str, node: usize) -> String {
    format!("del_{message}_agt_{}", node_name(node))
}

/// Comes to an agent, however long it takes.
async fn register(client: &Client, name: &str, seed: u64) -> Agent {
    loop {
        let agent = async {
            let workspace: Workspace = client.workspace(WORKSPACE).await?;
            workspace.agent(name).await
        };
        match agent.await {
            Ok(agent) => {
                agent.seed(seed);
                return agent;
            }
            Err(_) => sleep(ASK_AGAIN).await,
        }
    }
}

/// What a target says of a message.
async fn say(text: &str, context: &MessageContext, marks: &Marks) -> Result<MessageReceipt, AdapterFailure> {
    let (fate, busy_ms) = fate_of(text);
    sleep(Duration::from_millis(busy_ms)).await;
    Ok(match fate {
        Fate::Delivered => MessageReceipt::delivered(),
        Fate::Accepted => MessageReceipt::accepted(),
        Fate::Failed => MessageReceipt::failed("it is not wanted"),
        Fate::Deferred(_) if context.redelivered => MessageReceipt::delivered(),
        Fate::Deferred(ms) => {
            let now = SystemTime::UNIX_EPOCH + turmoil::since_epoch().unwrap_or_default();
            MessageReceipt::deferred(now + Duration::from_millis(ms), "not now")
        }
        Fate::Error(times) if context.attempts < times => {
            marks.hit("target failed by an error");
            return Err(AdapterFailure::new("not yet"));
        }
        Fate::Error(_) => MessageReceipt::delivered(),
    })
}
