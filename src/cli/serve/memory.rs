//! Has glibc give memory back to the system.
//!
//! Once a large piece was freed, glibc keeps pieces of that size for later, in each of its arenas: what many clients made relay hold for a moment
//! it would hold for good. It takes other orders only when a program starts, so relay starts itself once more with them. musl, with which the
//! packages are built, gives such pieces back anyway.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::workers::{OWN_TUNABLES, TUNABLES};

/// From how many bytes on a piece of memory is the system's own, and how many may be kept free: glibc's first values, which it then stays at.
/// <https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html>
const ORDERS: &str = "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072";

/// Starts this program once more with the same arguments, if that was not done yet and nobody has said otherwise. Where it cannot be, relay
/// goes on as it is.
pub fn give_back() {
    let was_set = std::env::var_os(TUNABLES).unwrap_or_default();
    let is_said = was_set.to_string_lossy().contains("glibc.malloc.");
    if is_said || std::env::var_os(OWN_TUNABLES).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let mut tunables = was_set.clone();
    if !tunables.is_empty() {
        tunables.push(OsString::from(":"));
    }
    tunables.push(OsString::from(ORDERS));
    command
        .args(arguments)
        .env(TUNABLES, tunables)
        // Kept for the programs that relay starts.
        .env(OWN_TUNABLES, was_set);
    // If it cannot, relay keeps memory that it has freed.
    let _cannot = command.exec();
}
