//! The processes of agent CLIs, watched: what the model of one was shown is back once its process is gone, though neither it nor its waiter
//! says so.
//!
//! It reports that a process is gone. What becomes of what was shown, the engine decides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::engine::Ending;
use crate::process::Process;
use crate::server::Shared;
use crate::server::owner::ProgramKey;

/// How often it is looked whether a process runs: what it was shown is back that soon, and a look reads one small file.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The process of an agent CLI, as its hooks name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cli {
    /// Its number, and when it was started.
    process: String,
    /// Where that number means it.
    namespace: String,
}

impl Cli {
    /// Takes a hook's word for it; none if it does not say both.
    ///
    /// # Errors
    ///
    /// Says what would be accepted.
    pub fn named(process: Option<String>, namespace: Option<String>) -> Result<Option<Self>, String> {
        let (Some(process), Some(namespace)) = (process, namespace) else {
            return Ok(None);
        };
        if Process::named(&process).is_some_and(|process| process.is_certain()) {
            return Ok(Some(Self { process, namespace }));
        }
        let given = crate::engine::shown(&process);
        Err(format!(
            "cli is {given:?}; accepted: the number of a process, a dash, and when it was started as the system counts that"
        ))
    }
}

/// The processes that are watched, by the programs that they are.
#[derive(Default)]
pub(in crate::server) struct Clis(Mutex<BTreeMap<ProgramKey, Watched>>);

struct Watched {
    process: String,
    looks: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.looks.abort();
    }
}

impl Clis {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ProgramKey, Watched>> {
        self.0
            .lock()
            .expect("nothing panics while it holds the processes of agent CLIs")
    }

    /// Forgets that a program is watched, if it is still that process; tells whether it was.
    fn forget(all: &mut BTreeMap<ProgramKey, Watched>, key: &ProgramKey, process: &str) -> bool {
        let is_it = all.get(key).is_some_and(|watched| watched.process == process);
        if is_it {
            all.remove(key);
        }
        is_it
    }
}

/// Has a program's session end with its process. Where that cannot be told it ends by its silence: in another namespace, or where nothing
/// is seen of the process now, though it has just run its hook.
pub(super) fn watch(shared: &Arc<Shared>, key: &ProgramKey, cli: Option<&Cli>) {
    let mut all = shared.clis.lock();
    let Some(Cli { process, namespace }) = cli else {
        all.remove(key);
        return;
    };
    if all.get(key).is_some_and(|watched| watched.process == *process) {
        return;
    }
    // A conversation may go on in another process, of which nothing may be known.
    all.remove(key);
    if !shared.messaging.shares(namespace) || !shared.messaging.runs(process) {
        return;
    }
    let looks = looks(Arc::clone(shared), key.clone(), process.clone());
    let watched = Watched {
        process: process.clone(),
        looks: tokio::spawn(looks).abort_handle(),
    };
    all.insert(key.clone(), watched);
}

/// Looks whether a process runs until it does not, which ends the program's session, or until that has ended.
async fn looks(shared: Arc<Shared>, key: ProgramKey, process: String) {
    while shared.stop.run_until_cancelled(sleep(LOOK_EVERY)).await.is_some() {
        // While another process, or another session of this one, cannot take its place.
        let mut all = shared.clis.lock();
        let session = shared.owner.known_program(&key);
        let runs = shared.messaging.runs(&process);
        if session.is_some() && runs {
            continue;
        }
        let is_watched = Clis::forget(&mut all, &key, &process);
        if let Some(session) = session.filter(|_| is_watched) {
            shared.doors.closes(&key);
            shared.owner.close(session, Ending::Broken);
        }
        return;
    }
}
