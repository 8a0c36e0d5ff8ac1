//! The messaging sockets of Claude Code: the second way in which a session is woken, where no waiter stands by for it.
//!
//! A line of JSON that is written there is what another session says to this one, and begins its turn. No answer comes: what shows that
//! it did is the turn, as with a waiter. Claude Code drops all but some thirty in a burst, and one wake is on its way at a time. It
//! rejects what its person is being asked where a line says that it is urgent, so none does.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::Program;
use crate::engine::limits::ASLEEP_MS;
use crate::engine::surfacing::{Command, Reply, Shown};
use crate::engine::{self, shown};
use crate::server::Shared;
use crate::server::owner::{Answered, Outcome, ProgramKey, Receipt};
use crate::tools::frame;

/// How long a program is to be idle before its socket is thought of, in milliseconds: its waiter may be on its way.
const SETTLES: Duration = Duration::from_millis(ASLEEP_MS.unsigned_abs());

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

/// The doors of all programs that have named one.
#[derive(Default)]
pub(in crate::server) struct Doors(Mutex<BTreeMap<ProgramKey, Known>>);

struct Known {
    door: Door,
    /// Something stands in for the program's waiter already.
    is_watched: bool,
}

impl Doors {
    /// Takes note of a program's door, or that it has none, or none any more.
    pub fn knows(&self, key: &ProgramKey, door: Option<Door>) {
        let mut doors = self.0.lock().expect("nothing panics while it holds the doors");
        match (door, doors.get_mut(key)) {
            (Some(door), Some(known)) => known.door = door,
            (Some(door), None) => {
                let is_watched = false;
                drop(doors.insert(key.clone(), Known { door, is_watched }));
            }
            (None, _) => drop(doors.remove(key)),
        }
    }

    /// Returns a program's door, if it is there.
    fn of(&self, key: &ProgramKey) -> Option<Door> {
        let doors = self.0.lock().expect("nothing panics while it holds the doors");
        doors.get(key).map(|known| known.door.clone())
    }

    /// Tells whether a program has a door that nothing watches, which something does from now on.
    fn watches(&self, key: &ProgramKey) -> bool {
        let mut doors = self.0.lock().expect("nothing panics while it holds the doors");
        let known = doors.get_mut(key);
        known.is_some_and(|known| !std::mem::replace(&mut known.is_watched, true))
    }

    fn watches_no_more(&self, key: &ProgramKey) {
        let mut doors = self.0.lock().expect("nothing panics while it holds the doors");
        if let Some(known) = doors.get_mut(key) {
            known.is_watched = false;
        }
    }
}

/// Has something stand in for a program's waiter once a request of its hooks is over, however it ends.
pub(super) struct StandsIn<'a> {
    shared: &'a Arc<Shared>,
    key: ProgramKey,
}

impl<'a> StandsIn<'a> {
    pub fn behind(shared: &'a Arc<Shared>, key: ProgramKey) -> Self {
        Self { shared, key }
    }
}

impl Drop for StandsIn<'_> {
    fn drop(&mut self) {
        if self.shared.doors.watches(&self.key) {
            tokio::spawn(stand_in(Arc::clone(self.shared), self.key.clone()));
        }
    }
}

/// Stands in for a program's waiter until one stands by, or the program has gone.
async fn stand_in(shared: Arc<Shared>, key: ProgramKey) {
    let stop = shared.stop.clone();
    while stop
        .run_until_cancelled(tokio::time::sleep(SETTLES))
        .await
        .is_some()
    {
        let Some((told, receipt)) = woken(&shared, &key).await else {
            break;
        };
        let mark = shared.mark(receipt.handover());
        let text = frame::framed(&told, Some(&mark));
        // Without its receipt the wake is undone, and comes by another way.
        match say(&shared, &key, &text).await {
            Ok(()) => drop(receipt.passed()),
            Err(error) => {
                tracing::debug!(%error, "a messaging socket takes nothing");
                shared.doors.knows(&key, None);
                break;
            }
        }
    }
    shared.doors.watches_no_more(&key);
}

/// Waits until a program is to be woken; nothing comes if that is another's to do, or nobody's any more.
async fn woken(shared: &Arc<Shared>, key: &ProgramKey) -> Option<(Shown, Receipt)> {
    let session = shared.owner.known_program(key)?;
    let Answered { answer, receipt } = match shared.owner.call(session, Command::StandsIn.into(), None)? {
        Outcome::Answered(answered) => answered,
        Outcome::Parked(mut parked) => parked.answered().await?,
    };
    match answer {
        Ok(engine::Reply::Surfacing(Reply::Shown(told))) => Some((told, receipt?)),
        Ok(_) | Err(_) => None,
    }
}

/// Says a text to a program.
async fn say(shared: &Arc<Shared>, key: &ProgramKey, text: &str) -> io::Result<()> {
    let Some(Door(path)) = shared.doors.of(key) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let said = json!({"type": "user", "message": {"role": "user", "content": text}});
    let writes = async {
        let mut socket = shared.pushes.network.messaging(&path).await?;
        socket.write_all(format!("{said}\n").as_bytes()).await?;
        socket.shutdown().await
    };
    tokio::time::timeout(PATIENCE, writes).await?
}
