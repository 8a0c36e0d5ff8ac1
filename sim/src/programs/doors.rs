//! The messaging sockets of programs: how relay reaches those whose waiters are gone.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use relay::server::{Messaging, Socket};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use super::program::Program;
use crate::client::now_ms;

/// More than a wake has.
const ROOM: usize = 64 * 1024;

/// Where the socket of a program is, by its number.
pub fn path_of(number: &str) -> String {
    format!("/tmp/cc-socks/{number}.sock")
}

/// The programs that have one. One whose machine has lost power is gone from here by itself.
#[derive(Clone, Default)]
pub struct Doors(Arc<Mutex<BTreeMap<String, Weak<Program>>>>);

impl Doors {
    /// A program has started.
    pub fn opens(&self, program: &Arc<Program>) {
        let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        doors.insert(path_of(&program.number), Arc::downgrade(program));
    }

    /// Finds the program that has a socket, if it runs.
    fn at(&self, path: &Path) -> Option<Arc<Program>> {
        let doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let program = doors.get(path.to_str()?)?.upgrade()?;
        program.is_alive().then_some(program)
    }
}

type Later<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

impl Messaging for Doors {
    fn runs(&self, process: &str) -> bool {
        self.at(Path::new(&path_of(process))).is_some()
    }

    /// Whether a program is gone, its own hooks say, or its silence.
    fn shares(&self, _: &str) -> bool {
        false
    }

    fn connect<'a>(&'a self, path: &'a Path) -> Later<'a, Box<dyn Socket>> {
        Box::pin(async move {
            let Some(program) = self.at(path) else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            let (relay, mut own) = tokio::io::duplex(ROOM);
            tokio::spawn(async move {
                let mut line = String::new();
                if own.read_to_string(&mut line).await.is_err() {
                    return;
                }
                let said: Value = serde_json::from_str(&line).unwrap_or_default();
                if let Some(text) = said["message"]["content"].as_str() {
                    program.shared.marks.hit("woken by its messaging socket");
                    // As Claude Code shows it.
                    program.wake(
                        format!("Another Claude session sent a message:\n{text}"),
                        now_ms(),
                    );
                }
            });
            Ok(Box::new(relay) as Box<dyn Socket>)
        })
    }
}
