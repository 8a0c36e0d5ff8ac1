//! `relay agents`, `relay groups` and `relay channels`: who there is; and `relay retire`, after which one is not.

use serde::Deserialize;
use serde_json::json;

use super::ask::{Ask, Told};
use super::client::At;
use super::messages::local_time;
use super::person::require_person;
use super::table::{fitted, table};
use super::{End, Failure};
use crate::terminal::visible;

/// `relay agents`.
#[derive(Debug, clap::Args)]
pub struct Agents {
    /// Only those of one project; of all projects if it is left out.
    #[arg(long)]
    project: Option<String>,

    /// Only those that are active: that did something in the last two minutes, or wait for something.
    #[arg(long)]
    active: bool,

    /// Print the answer as JSON: {"agents": [agent…]}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// `relay groups`.
#[derive(Debug, clap::Args)]
pub struct Groups {
    /// The group whose members are listed, with its project before it if that is another than the default one; all groups if it is left out.
    group: Option<String>,

    /// The project whose groups are meant; the default one if it is left out.
    #[arg(long)]
    project: Option<String>,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// `relay channels`.
#[derive(Debug, clap::Args)]
pub struct Channels {
    /// The channel whose members are listed, with its project before it if that is another than the default one; all channels if it is
    /// left out. The # before its name may be left out.
    channel: Option<String>,

    /// The project whose channels are meant; the default one if it is left out.
    #[arg(long)]
    project: Option<String>,

    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

/// `relay retire`.
#[derive(Debug, clap::Args)]
pub struct Retire {
    /// The agent, with its project before it if that is another than the default one.
    agent: String,

    /// Print the answer as JSON: {"retired": agent}.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    at: At,
}

#[derive(Deserialize)]
struct Retired {
    retired: String,
}

#[derive(Deserialize)]
struct AgentList {
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
struct Agent {
    agent: String,
    role: Option<String>,
    cli: Option<String>,
    parent: Option<String>,
    status: String,
    last_contact: Option<String>,
}

/// All groups, or one.
#[derive(Deserialize)]
#[serde(untagged)]
enum GroupAnswer {
    All {
        groups: Vec<Group>,
    },
    One {
        group: String,
        description: String,
        created_by: String,
        members: Vec<Member>,
        agents: Vec<String>,
    },
}

#[derive(Deserialize)]
struct Group {
    group: String,
    description: String,
    created_by: String,
    members: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Member {
    Agent(String),
    Role(String),
}

/// All channels, or one.
#[derive(Deserialize)]
#[serde(untagged)]
enum ChannelAnswer {
    All {
        channels: Vec<Channel>,
    },
    One {
        channel: String,
        topic: String,
        members: Vec<ChannelMember>,
    },
}

#[derive(Deserialize)]
struct Channel {
    channel: String,
    topic: String,
    members: usize,
}

#[derive(Deserialize)]
struct ChannelMember {
    agent: String,
    since: String,
}

/// Lists agents.
pub fn agents(args: &Agents) -> Result<End, Failure> {
    let ask = Ask {
        subcommand: "agents",
        at: &args.at,
        path: "/api/agents",
        what: json!({"project": args.project, "active_only": args.active}),
        json: args.json,
    };
    ask.tell(|answer: AgentList| agents_told(&answer))
}

fn agents_told(AgentList { agents }: &AgentList) -> Told {
    if agents.is_empty() {
        return Told::Nothing("no agents".to_owned());
    }
    let or_none = |said: &Option<String>| said.as_deref().map_or_else(|| "-".to_owned(), shown);
    let row = |agent: &Agent| {
        let role = match &agent.parent {
            Some(parent) => format!("{}, works for {}", or_none(&agent.role), shown(parent)),
            None => or_none(&agent.role),
        };
        let seen = agent.last_contact.as_deref().map(local_time);
        [
            shown(&agent.agent),
            shown(&agent.status),
            seen.map_or_else(|| "-".to_owned(), |seen| shown(&seen)),
            or_none(&agent.cli),
            role,
        ]
    };
    let head = ["agent", "status", "last contact", "cli", "role"];
    Told::Text(lines(&table(head, agents.iter().map(row))))
}

/// Lists groups, or the members of one.
pub fn groups(args: &Groups) -> Result<End, Failure> {
    let ask = Ask {
        subcommand: "groups",
        at: &args.at,
        path: "/api/groups",
        what: json!({"project": args.project, "name": args.group}),
        json: args.json,
    };
    ask.tell(|answer: GroupAnswer| groups_told(&answer))
}

fn groups_told(answer: &GroupAnswer) -> Told {
    let text = match answer {
        GroupAnswer::All { groups } => {
            let row = |group: &Group| {
                [
                    shown(&addressed('@', &group.group)),
                    group.members.to_string(),
                    shown(&group.created_by),
                    shown(&group.description),
                ]
            };
            let head = ["group", "members", "made by", "what it is for"];
            lines(&table(head, groups.iter().map(row)))
        }
        GroupAnswer::One {
            group,
            description,
            created_by,
            members,
            agents,
        } => {
            let member = |member: &Member| match member {
                Member::Agent(agent) => shown(agent),
                Member::Role(role) => format!("{} (role)", shown(&addressed('@', role))),
            };
            let mut text = headed(&shown(&addressed('@', group)), description);
            text += &format!("made by {}\n", shown(created_by));
            text += &format!("members: {}\n", joined(members.iter().map(member)));
            text += &format!("agents: {}\n", joined(agents.iter().map(|agent| shown(agent))));
            text
        }
    };
    Told::Text(text)
}

/// Lists channels, or the members of one.
pub fn channels(args: &Channels) -> Result<End, Failure> {
    let ask = Ask {
        subcommand: "channels",
        at: &args.at,
        path: "/api/channels",
        what: json!({"project": args.project, "name": args.channel}),
        json: args.json,
    };
    ask.tell(|answer: ChannelAnswer| channels_told(&answer))
}

fn channels_told(answer: &ChannelAnswer) -> Told {
    let text = match answer {
        ChannelAnswer::All { channels } => {
            let row = |channel: &Channel| {
                let name = shown(&addressed('#', &channel.channel));
                [name, channel.members.to_string(), shown(&channel.topic)]
            };
            let head = ["channel", "members", "topic"];
            lines(&table(head, channels.iter().map(row)))
        }
        ChannelAnswer::One {
            channel,
            topic,
            members,
        } => {
            let row = |member: &ChannelMember| [shown(&member.agent), shown(&local_time(&member.since))];
            let head = headed(&shown(&addressed('#', channel)), topic);
            head + &lines(&table(["member", "since"], members.iter().map(row)))
        }
    };
    Told::Text(text)
}

/// Has an agent removed, and its name freed.
pub fn retire(args: &Retire) -> Result<End, Failure> {
    if let Err(why) = require_person() {
        return Err(Failure::usage(format!(
            "relay retire: {why}, and only the person retires agents; ask them to"
        )));
    }
    let ask = Ask {
        subcommand: "retire",
        at: &args.at,
        path: "/api/retire",
        what: json!({"agent": args.agent}),
        json: args.json,
    };
    ask.tell(|Retired { retired }| Told::Text(format!("{} is retired\n", shown(&retired))))
}

/// Writes a name as the address that it is: its sign stands behind the project.
pub(super) fn addressed(sign: char, name: &str) -> String {
    match name.split_once(':') {
        Some((project, name)) => format!("{project}:{sign}{name}"),
        None => format!("{sign}{name}"),
    }
}

/// Shows what somebody else has written in one piece, which steers no terminal.
fn shown(text: &str) -> String {
    visible(text).into_owned()
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| fitted(line) + "\n").collect()
}

fn headed(name: &str, about: &str) -> String {
    if about.is_empty() {
        return format!("{name}\n");
    }
    format!("{name}: {}\n", shown(about))
}

fn joined(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return "nobody".to_owned();
    }
    names.join(", ")
}
