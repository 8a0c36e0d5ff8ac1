//! The messaging sockets of Claude Code: the second way in which a session is woken, where no waiter stands by for it.
//!
//! A line of JSON that is written there is what another session says to this one, and begins its turn. No answer comes: what shows that
//! it did is the turn, as with a waiter. Claude Code drops all but some thirty in a burst, and one wake is on its way at a time. It
//! rejects what its person is being asked where a line says that it is urgent, so none does.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::Program;
use crate::engine::limits::{ASLEEP_MS, PROGRAMS_MAX};
use crate::engine::surfacing::{Command, Reply, Shown};
use crate::engine::{self, shown};
use crate::server::Shared;
use crate::server::owner::{Answered, Outcome, ProgramKey, Receipt};
use crate::tools::frame;

/// How long a program is to be idle before its socket is thought of: its waiter may be on its way.
const SETTLES: Duration = Duration::from_millis(ASLEEP_MS.unsigned_abs());

/// How soon it is asked again for a program whose agent was taken over, and how often it is looked whether the program runs still.
const AGAIN: Duration = Duration::from_secs(30);

/// How long a socket may take a line, which is a moment's work.
const PATIENCE: Duration = Duration::from_secs(5);

/// The messaging socket of a program, as its hook has named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Door(Arc<Path>);

impl Door {
    /// Takes a program's word for it. What the path leads to is looked at when it is used.
    ///
    /// # Errors
    ///
    /// Says what would be accepted.
    pub fn named(program: Program, path: &str) -> Result<Self, String> {
        let accepted = match program {
            Program::Claude if Path::new(path).is_absolute() => return Ok(Self(Path::new(path).into())),
            Program::Claude => "an absolute path",
            Program::Codex | Program::Gemini | Program::OpenCode => "nothing: only Claude Code has one",
        };
        Err(format!("socket is {:?}; accepted: {accepted}", shown(path)))
    }
}

/// The doors of all programs that have one, and what stands in for their waiters.
#[derive(Default)]
pub(in crate::server) struct Doors(Mutex<BTreeMap<ProgramKey, Known>>);

struct Known {
    door: Door,
    /// A request of the program's hooks is over: its waiter may be gone.
    rests: Arc<Notify>,
    stands_in: AbortHandle,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.stands_in.abort();
    }
}

/// Has a task stand in for a program's waiter, as long as the program has a door.
pub(super) fn opens(shared: &Arc<Shared>, key: &ProgramKey, door: &Door) {
    let mut doors = shared.doors.lock();
    if let Some(known) = doors.get_mut(key) {
        known.door = door.clone();
        return;
    }
    if doors.len() >= PROGRAMS_MAX {
        doors.retain(|key, _| shared.owner.known_program(key).is_some());
    }
    let rests = Arc::new(Notify::new());
    let task = stand_in(Arc::clone(shared), key.clone(), Arc::clone(&rests));
    let known = Known {
        door: door.clone(),
        rests,
        stands_in: tokio::spawn(task).abort_handle(),
    };
    doors.insert(key.clone(), known);
}

impl Doors {
    /// Forgets a program's door, and that something stands in for its waiter.
    pub fn closes(&self, key: &ProgramKey) {
        drop(self.lock().remove(key));
    }

    /// Has it looked whether a program is to be woken by its door, once a request of its hooks is over, however that ends.
    pub fn rests_behind(&self, key: &ProgramKey) -> Rests {
        Rests(self.lock().get(key).map(|known| Arc::clone(&known.rests)))
    }

    /// Forgets a door behind which nobody stands in any more.
    fn ends(&self, key: &ProgramKey, rests: &Arc<Notify>) {
        let mut doors = self.lock();
        // It may have been named anew meanwhile.
        if doors
            .get(key)
            .is_some_and(|known| Arc::ptr_eq(&known.rests, rests))
        {
            doors.remove(key);
        }
    }

    fn of(&self, key: &ProgramKey) -> Option<Door> {
        self.lock().get(key).map(|known| known.door.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ProgramKey, Known>> {
        self.0.lock().expect("nothing panics while it holds the doors")
    }
}

/// A request of a program's hooks; it is over when this is dropped.
pub(in crate::server) struct Rests(Option<Arc<Notify>>);

impl Drop for Rests {
    fn drop(&mut self) {
        if let Some(rests) = &self.0 {
            rests.notify_one();
        }
    }
}

/// What comes of standing in for a program's waiter.
enum Woken {
    /// The program is to be woken.
    With(Shown, Receipt),
    /// A waiter stands by for it.
    Elsewhere,
    /// Its agent was taken over.
    NotNow,
    /// It has no session any more, or its process is gone.
    Gone,
}

/// Stands in for a program's waiter whenever none stands by, until the program is gone, or the relay stops.
async fn stand_in(shared: Arc<Shared>, key: ProgramKey, rests: Arc<Notify>) {
    let stop = shared.stop.clone();
    let stands_in = async {
        rests.notified().await;
        loop {
            sleep(SETTLES).await;
            match woken(&shared, &key).await {
                Woken::With(told, receipt) => {
                    let mark = shared.mark(receipt.handover());
                    // Without its receipt the wake is undone, and comes by another way.
                    if let Err(error) = say(&shared, &key, &frame::framed(&told, Some(&mark))).await {
                        tracing::debug!(%error, "a messaging socket takes nothing");
                        return;
                    }
                    receipt.passed();
                }
                Woken::Elsewhere => rests.notified().await,
                Woken::NotNow => drop(timeout(AGAIN, rests.notified()).await),
                Woken::Gone => return,
            }
        }
    };
    if stop.run_until_cancelled(stands_in).await.is_some() {
        shared.doors.ends(&key, &rests);
    }
}

/// Waits until a program is to be woken, or that is another's to do.
async fn woken(shared: &Arc<Shared>, key: &ProgramKey) -> Woken {
    let ends = async {
        while shared.messaging.runs(&key.process) {
            sleep(AGAIN).await;
        }
    };
    tokio::select! {
        biased;
        () = ends => Woken::Gone,
        woken = asked(shared, key) => woken.unwrap_or(Woken::Gone),
    }
}

async fn asked(shared: &Arc<Shared>, key: &ProgramKey) -> Option<Woken> {
    let session = shared.owner.known_program(key)?;
    let Answered { answer, receipt } = match shared.owner.call(session, Command::StandsIn.into(), None)? {
        Outcome::Answered(answered) => answered,
        Outcome::Parked(mut parked) => parked.answered().await?,
    };
    Some(match answer {
        Ok(engine::Reply::Surfacing(Reply::Shown(told))) => Woken::With(told, receipt?),
        Ok(_) => Woken::Elsewhere,
        Err(_) => Woken::NotNow,
    })
}

/// Says a text to a program.
async fn say(shared: &Arc<Shared>, key: &ProgramKey, text: &str) -> io::Result<()> {
    let Some(Door(path)) = shared.doors.of(key) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let said = json!({"type": "user", "message": {"role": "user", "content": text}});
    let writes = async {
        let mut socket = shared.messaging.connect(&path).await?;
        socket.write_all(format!("{said}\n").as_bytes()).await?;
        socket.shutdown().await
    };
    timeout(PATIENCE, writes).await?
}
