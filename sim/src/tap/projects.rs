//! What it takes to be wrong about projects.

use std::sync::Arc;

use relay::engine::{ChannelName, Command, Delivery, GroupName, Message, Recipient, groups, mail};

use super::{Bug, Tap};
use crate::plan::projects::{parted, project_of, whole};
use crate::plan::team::{CHANNEL, GROUP};

/// The project whose channel, or whose group, is taken for those of all.
const SHARED: &str = "default";

/// To whom a message goes that a bug leads astray, and what its readers are shown.
struct Astray {
    to: String,
    shown: Option<Recipient>,
}

impl Tap {
    /// Has what one session's agent says about projects mean something else.
    pub(super) fn mistake_projects(&mut self, own: Option<&str>, command: &mut Command) {
        self.disguise = None;
        // What goes astray would fill inboxes that are small.
        let Some(own) = own.map(project_of).filter(|_| !self.is_tight()) else {
            return;
        };
        match command {
            Command::Mail(mail::Command::Post { to, options, .. }) => {
                // What is awaited then is another law's.
                let awaits = options.as_ref().is_some_and(|options| options.await_ms.is_some());
                if let Some(astray) = self.lead_astray(own, to).filter(|_| !awaits) {
                    *to = astray.to;
                    self.disguise = astray.shown;
                }
            }
            Command::Mail(mail::Command::Read {
                options: Some(options),
                ..
            }) if self.has(Bug::ChannelShared) => {
                let channel = options.channel.as_mut();
                let is_shared = |channel: &&mut String| parted(&whole(own, channel)).1 == CHANNEL;
                if let Some(channel) = channel.filter(is_shared) {
                    *channel = format!("{SHARED}:{CHANNEL}");
                }
            }
            Command::Groups(
                groups::Command::Create { name: group, .. }
                | groups::Command::Add { group, .. }
                | groups::Command::Remove { group, .. },
            ) if self.has(Bug::GroupShared) => *group = format!("{SHARED}:{group}"),
            Command::Mail(_)
            | Command::Agents(_)
            | Command::Groups(_)
            | Command::Channels(_)
            | Command::Watches(_)
            | Command::Resource(_)
            | Command::Nodes(_)
            | Command::Receipts(_)
            | Command::Trace(_)
            | Command::Workers(_)
            | Command::Surfacing(_)
            | Command::Actions(_)
            | Command::Holds(_)
            | Command::Records(_) => {}
        }
    }

    fn lead_astray(&self, own: &str, written: &str) -> Option<Astray> {
        let address = whole(own, written);
        let (project, target) = parted(&address);
        if !target.starts_with(['@', '#', '*']) {
            let to = self.namesake(own, project, target, written.contains(':'))?;
            return Some(Astray { to, shown: None });
        }
        let (to, shown) = if self.has(Bug::BroadcastSpills) && target == "@everyone" {
            ("*:*".to_owned(), Recipient::everyone(Some(project)))
        } else if self.has(Bug::BroadcastStaysHome) && address == "*:*" && own == SHARED {
            // Elsewhere there may be nobody else.
            ("@everyone".to_owned(), Recipient::everyone(None))
        } else if self.has(Bug::ChannelShared) && target == CHANNEL {
            let channel = ChannelName::in_project(project, &CHANNEL[1..]).expect("the plan's are legal");
            (format!("{SHARED}:{CHANNEL}"), Recipient::channel(&channel))
        } else if self.has(Bug::GroupShared) && target.strip_prefix('@') == Some(GROUP) {
            let group = GroupName::in_project(project, GROUP).expect("the plan's are legal");
            (format!("{SHARED}:@{GROUP}"), Recipient::group(&group))
        } else {
            return None;
        };
        let shown = Some(shown);
        Some(Astray { to, shown })
    }

    /// Finds another agent that has the name of the one that is meant, where a bug takes it for that.
    fn namesake(&self, own: &str, project: &str, name: &str, is_named: bool) -> Option<String> {
        let pending = self.engine.status().pending;
        let mut inboxes = pending.iter().map(|(inbox, _)| inbox);
        let mut namesake = |is_it: &dyn Fn(&str) -> bool| {
            inboxes
                .find(|inbox| inbox.local() == name && is_it(inbox.project()))
                .map(|inbox| format!("{}:{name}", inbox.project()))
        };
        if self.has(Bug::NamesakeReached) && !is_named {
            namesake(&|other| other != own)
        } else if self.has(Bug::ProjectUnheeded) && project != own {
            namesake(&|other| other == own)
        } else {
            None
        }
    }

    /// Takes note of a message that is accepted: what it is to be shown as, if it was led astray.
    pub(super) fn note_disguise(&mut self, message: &Message) {
        if let Some(to) = self.disguise.take() {
            self.disguised.insert(message.id, to);
        }
    }

    /// Shows what was led astray as what it was sent as.
    pub(super) fn disguise(&self, shown: &mut [Delivery]) {
        for delivery in shown {
            if let Some(to) = self.disguised.get(&delivery.message.id) {
                let message = Message {
                    to: to.clone(),
                    ..Message::clone(&delivery.message)
                };
                delivery.message = Arc::new(message);
            }
        }
    }
}
