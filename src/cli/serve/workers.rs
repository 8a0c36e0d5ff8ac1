//! Starts workers as processes of this machine: what the engine wants of them becomes an order to a supervisor ([`crate::workers`]), and what
//! that says goes back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;

use super::super::discover::nearest_config;
use super::super::project::{DataDirectory, Project};
use crate::engine::workers::{ExitStatus, Happened, Start};
use crate::engine::{DEFAULT_PROJECT, WorkerId};
use crate::server::{Reports, Starter, Token};
use crate::workers::{Cli, Config, Directories, Event, Files, OpenFiles, Order, Status, Task, start};

/// Starts the workers of a relay.
pub struct Processes {
    relay: Arc<Relay>,
    running: Running,
}

/// What all workers of a relay have from it.
pub struct Relay {
    /// The address that it listens on: a loopback address.
    pub host: IpAddr,
    /// Its port.
    pub port: u16,
    /// What it asks for.
    pub token: Option<Token>,
    /// The project whose own it is.
    pub project: Project,
    /// The directory that it was started in; none if that was gone already.
    pub directory: Option<PathBuf>,
    /// How many files it might have open before it raised that for itself; its workers are given that.
    pub open_files: OpenFiles,
    /// The program that relay is, as it was found when relay started: its file may be another one since.
    pub program: String,
}

/// By what each worker that has not ended is told to.
type Running = Arc<Mutex<BTreeMap<WorkerId, CancellationToken>>>;

impl Processes {
    /// Makes what starts the workers of a relay, and has what is left of earlier ones removed. Call it within a runtime of tokio.
    pub fn of(relay: Relay) -> Self {
        tokio::task::spawn_blocking(|| {
            let Some(data) = DataDirectory::by(|name| std::env::var_os(name)) else {
                return;
            };
            for project in data.projects_there() {
                remove_ended(&data.project(&project));
            }
        });
        Self {
            relay: Arc::new(relay),
            running: Running::default(),
        }
    }
}

impl Relay {
    /// Finds out how a worker is started. Reads files.
    fn order(&self, wanted: &Start) -> Result<Order, String> {
        let cli: Cli = wanted
            .cli
            .parse()
            .map_err(|unknown: crate::workers::UnknownCli| unknown.to_string())?;
        let Some(directory) = &self.directory else {
            return Err(
                "the directory that relay was started in was gone already; start relay in one that is there"
                    .to_owned(),
            );
        };
        let config = match nearest_config(directory) {
            Some((file, Ok(bytes))) => Config::parse(&file, &bytes).map_err(|flaw| flaw.to_string())?,
            Some((file, Err(error))) => return Err(format!("cannot read {}: {error}", file.display())),
            None => Config::default(),
        };
        let directories = Directories {
            relay: directory,
            config: &config,
        };
        let parent = wanted.parent_cwd.as_deref().map(Path::new);
        let cwd = directories.of_worker(wanted.cwd.as_deref(), parent);
        let Some(data) = DataDirectory::by(|name| std::env::var_os(name)) else {
            return Err(
                "neither XDG_DATA_HOME nor HOME says where its log goes; set one of them for relay"
                    .to_owned(),
            );
        };
        let project = match wanted.agent.project() {
            // As it is called where this relay is one of several.
            DEFAULT_PROJECT => self.project.clone(),
            other => other.parse().expect("an agent's project is one"),
        };
        let name = wanted.agent.local();
        let files = data.project(&project);
        remove_ended(&files);
        let task = Task {
            cli,
            name: name.to_owned(),
            instance: wanted.instance,
            project: project.to_string(),
            parent: wanted.parent.seen_from(wanted.agent.project()).into_owned(),
            text: wanted.task.clone(),
            model: wanted.model.clone(),
            cwd: cwd.map_err(|error| error.to_string())?,
            host: self.host,
            port: self.port,
            token: self.token.as_ref().map(|token| token.reveal().to_owned()),
            open_files: self.open_files,
            program: self.program.clone(),
            files: Files::of(&files, name),
        };
        task.order(&config)
    }
}

/// Removes the logs of workers that have ended, but for the last ones of a project.
fn remove_ended(project: &Path) {
    if let Err(error) = Files::remove_ended(project) {
        let project = project.display();
        tracing::warn!("cannot remove what is left of workers that have ended in {project}: {error}");
    }
}

fn locked(running: &Running) -> MutexGuard<'_, BTreeMap<WorkerId, CancellationToken>> {
    running.lock().expect("nothing panics while it holds them")
}

impl Starter for Processes {
    fn start(&self, wanted: Start, reports: Reports) {
        let end = CancellationToken::new();
        let worker = wanted.worker;
        locked(&self.running).insert(worker, end.clone());
        let (relay, running) = (Arc::clone(&self.relay), Arc::clone(&self.running));
        tokio::spawn(async move {
            // Files may be on a disk that is slow.
            let ordered = tokio::task::spawn_blocking(move || relay.order(&wanted)).await;
            let order = ordered.unwrap_or_else(|failed| Err(failed.to_string()));
            let last = match order {
                Ok(_) if end.is_cancelled() => Happened::FailedToStart {
                    reason: "it was released before it was started".to_owned(),
                },
                Ok(order) => follow(order, &end, &reports).await,
                Err(reason) => Happened::FailedToStart { reason },
            };
            locked(&running).remove(&worker);
            reports.happened(last);
        });
    }

    fn end(&self, worker: WorkerId) {
        if let Some(end) = locked(&self.running).get(&worker) {
            end.cancel();
        }
    }
}

/// Starts a worker and follows it to its end, which is returned.
async fn follow(order: Order, end: &CancellationToken, reports: &Reports) -> Happened {
    let (handle, mut events) = start(order);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = end.cancelled() => {
                handle.end();
                events.recv().await
            }
        };
        match event {
            Some(Event::Started { pid: _ }) => reports.happened(Happened::Started),
            Some(Event::FailedToStart { reason }) => return Happened::FailedToStart { reason },
            Some(Event::Exited { status, last_lines }) => {
                return Happened::Exited {
                    status: match status {
                        Status::Code(code) => ExitStatus::Code(code),
                        Status::Signal(signal) => ExitStatus::Signal(signal),
                    },
                    last_lines: last_lines.join("\n"),
                };
            }
            None => {
                return Happened::Exited {
                    status: ExitStatus::Unseen,
                    last_lines: String::new(),
                };
            }
        }
    }
}
