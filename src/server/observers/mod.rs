//! Observers: whoever is shown what happens, and takes no part in it. Nothing is delivered here, and nobody waits for one.
//!
//! [`journal`] keeps the latest events, each an [`entry`], [`view`] says what of them somebody is shown, [`events`] how each is written, [`frames`] that long ones are written once, and [`stream`] has them
//! go out over a WebSocket as they come.

mod entry;
mod events;
mod frames;
mod journal;
mod stream;
mod view;

pub(super) use entry::SessionEvent;
pub(super) use journal::{Ahead, Journal, Of, Page, Since};
pub(super) use stream::{admit, upgrade};
pub(super) use view::{Filters, Limits, Scope, View};
