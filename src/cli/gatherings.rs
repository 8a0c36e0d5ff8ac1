//! `relay group` and `relay channel`: the person makes groups and channels, says who is in them, and removes them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Ask, Told};
use super::client::At;
use super::directory::addressed;
use super::person::require_person;
use super::{End, Failure};
use crate::terminal::visible;

/// `relay group`.
#[derive(Debug, clap::Args)]
pub struct Group {
    #[command(subcommand)]
    change: GroupChange,
}

#[derive(Debug, clap::Subcommand)]
enum GroupChange {
    /// Make a group with nobody in it.
    Make {
        /// Its name, with its project before it if that is another than the default one.
        group: String,
        /// What it is for.
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        #[command(flatten)]
        how: How,
    },
    /// Put agents into a group, or all of a role.
    #[command(override_usage = "relay group join [OPTIONS] <GROUP> [AGENT]...")]
    Join(GroupMembers),
    /// Take agents out of a group, or a role.
    #[command(override_usage = "relay group leave [OPTIONS] <GROUP> [AGENT]...")]
    Leave(GroupMembers),
    /// Remove a group.
    Remove {
        /// The group.
        group: String,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Debug, clap::Args)]
#[group(id = "members", required = true, multiple = true, args = ["agents", "roles"])]
struct GroupMembers {
    /// The group.
    group: String,
    /// The agents.
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// All agents of this role, whoever they are at the time.
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    #[command(flatten)]
    how: How,
}

/// `relay channel`.
#[derive(Debug, clap::Args)]
pub struct Channel {
    #[command(subcommand)]
    change: ChannelChange,
}

#[derive(Debug, clap::Subcommand)]
enum ChannelChange {
    /// Make a channel with agents in it.
    Make {
        /// Its name, with its project before it if that is another than the default one. The # may be left out.
        channel: String,
        /// Its first members.
        #[arg(value_name = "AGENT", required = true)]
        agents: Vec<String>,
        /// What it is about.
        #[arg(long, value_name = "TEXT", default_value = "")]
        topic: String,
        #[command(flatten)]
        how: How,
    },
    /// Put agents into a channel.
    Join(ChannelMembers),
    /// Take agents out of a channel; without anybody in it it is gone.
    Leave(ChannelMembers),
    /// Remove a channel.
    Remove {
        /// The channel.
        channel: String,
        #[command(flatten)]
        how: How,
    },
}

#[derive(Debug, clap::Args)]
struct ChannelMembers {
    /// The channel.
    channel: String,
    /// The agents.
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
struct How {
    /// Print what relay answers, as JSON, a line for each change.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// What the relay answers about a group.
#[derive(Deserialize)]
struct GroupAnswer {
    group: String,
    agent: Option<String>,
    role: Option<String>,
}

/// What the relay answers about a channel.
#[derive(Deserialize)]
struct ChannelAnswer {
    channel: String,
    members: Vec<String>,
}

/// Changes a group.
pub fn group(args: &Group) -> Result<End, Failure> {
    require("group")?;
    let change = |how: &How, what: Value, becomes: &str| {
        let ask = Ask {
            subcommand: "group",
            at: &how.at,
            path: "/api/group",
            what,
            json: how.json,
        };
        ask.tell(|GroupAnswer { group, agent, role }: GroupAnswer| {
            let group = visible(&addressed('@', &group)).into_owned();
            let role = role.map(|role| format!("{} (role)", visible(&addressed('@', &role))));
            Told::Text(match agent.map(|agent| visible(&agent).into_owned()).or(role) {
                Some(member) => format!("{member} {becomes} {group}\n"),
                None => format!("{group} {becomes}\n"),
            })
        })
    };
    match &args.change {
        GroupChange::Make {
            group,
            description,
            how,
        } => {
            let what = json!({"do": "make", "group": group, "description": description});
            change(how, what, "is made")
        }
        GroupChange::Remove { group, how } => {
            change(how, json!({"do": "remove", "group": group}), "is removed")
        }
        GroupChange::Join(members) => members.each("join", |what| change(&members.how, what, "is in")),
        GroupChange::Leave(members) => members.each("leave", |what| change(&members.how, what, "has left")),
    }
}

impl GroupMembers {
    /// Asks for one after the other, until one is refused.
    fn each(&self, what: &str, change: impl Fn(Value) -> Result<End, Failure>) -> Result<End, Failure> {
        let agents = self.agents.iter().map(|agent| ("agent", agent));
        let roles = self.roles.iter().map(|role| ("role", role));
        for (kind, member) in agents.chain(roles) {
            change(json!({"do": what, "group": self.group, kind: member}))?;
        }
        Ok(End::Done)
    }
}

/// Changes a channel.
pub fn channel(args: &Channel) -> Result<End, Failure> {
    require("channel")?;
    let (how, what) = match &args.change {
        ChannelChange::Make {
            channel,
            agents,
            topic,
            how,
        } => {
            let what = json!({"do": "make", "channel": channel, "topic": topic, "agents": agents});
            (how, what)
        }
        ChannelChange::Join(members) => (&members.how, members.asked("join")),
        ChannelChange::Leave(members) => (&members.how, members.asked("leave")),
        ChannelChange::Remove { channel, how } => (how, json!({"do": "remove", "channel": channel})),
    };
    let ask = Ask {
        subcommand: "channel",
        at: &how.at,
        path: "/api/channel",
        what,
        json: how.json,
    };
    ask.tell(|ChannelAnswer { channel, members }: ChannelAnswer| {
        let channel = visible(&addressed('#', &channel)).into_owned();
        let members: Vec<_> = members.iter().map(|member| visible(member)).collect();
        Told::Text(match &members[..] {
            [] => format!("{channel} is removed\n"),
            members => format!("in {channel}: {}\n", members.join(", ")),
        })
    })
}

impl ChannelMembers {
    fn asked(&self, what: &str) -> Value {
        json!({"do": what, "channel": self.channel, "agents": self.agents})
    }
}

fn require(subcommand: &str) -> Result<(), Failure> {
    require_person().map_err(|why| {
        Failure::usage(format!(
            "relay {subcommand}: {why}, and for others the person alone does that; ask them, or use your own tools"
        ))
    })
}
