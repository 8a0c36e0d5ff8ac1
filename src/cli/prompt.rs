//! `relay prompt`: prints the kickoff prompt of one role, ready to be the first message of its session.
//!
//! The text is the kickoff skill's: the templates in `plugin/` are compiled in, and this file only says what stands for each
//! placeholder when nothing is known of the project. It must not know what a message is or whether a server runs.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _};

use super::place::DEFAULT_PORT;
use crate::engine::{AgentName, Roster};

const PM_TEMPLATE: &str = include_str!("../../plugin/skills/multi-agent-kickoff/templates/pm-prompt.md");
const DEV_TEMPLATE: &str = include_str!("../../plugin/skills/multi-agent-kickoff/templates/dev-prompt.md");
const RELAY_PARAGRAPH: &str =
    include_str!("../../plugin/skills/multi-agent-kickoff/templates/relay-paragraph.md");

/// The role that directs; all others are developers.
const PM: &str = "pm";

/// Print the kickoff prompt of a role, ready to paste as the first message of its session.
#[derive(Debug, Args)]
pub struct Prompt {
    /// The role that the session takes: pm directs, any other is a developer.
    role: String,
    /// All roles of the lift, separated by commas: pm and at least one developer.
    #[arg(long, value_name = "ROLES", default_value = "pm,dev-a,dev-b", value_parser = super::serve::roster)]
    roles: Roster,
    /// The port that relay listens on, for the address named in the prompt.
    #[arg(long, env = "RELAY_PORT", default_value_t = DEFAULT_PORT, value_parser = super::port)]
    port: u16,
    /// The address that relay listens on, for the address named in the prompt.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = super::serve::host)]
    host: IpAddr,
}

/// Why there is no prompt. Nothing was printed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NoPrompt {
    /// The prompts say who directs and who develops; a roster that lacks either has no general prompts.
    #[error("the roles {roster} make no lift; accepted: pm and at least one more, such as pm,dev-a")]
    NoLift {
        /// As given.
        roster: Roster,
    },
    /// The role is not in the roster.
    #[error("unknown role {role:?}; known roles: {roster} (name others with --roles)")]
    UnknownRole {
        /// As given, cut if it is long.
        role: String,
        /// As given.
        roster: Roster,
    },
}

/// Writes the prompt to stdout. A role or a roster that there is no prompt for is bad usage, and ends the process with 2.
///
/// # Errors
///
/// When stdout cannot be written to: closed by its reader, or the disk behind it is full.
pub fn run(args: Prompt) -> io::Result<()> {
    let url = super::url(args.host, args.port);
    let text = match render(&args.role, &args.roles, &url) {
        Ok(text) => text,
        Err(why) => super::Cli::command().error(ErrorKind::InvalidValue, why).exit(),
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The role's prompt with every placeholder filled, without the template's words to the user. It ends in one line break.
fn render(role: &str, roster: &Roster, url: &str) -> Result<String, NoPrompt> {
    let developers: Vec<&AgentName> = roster.names().iter().filter(|name| name.as_str() != PM).collect();
    if roster.find(PM).is_none() || developers.is_empty() {
        return Err(NoPrompt::NoLift {
            roster: roster.clone(),
        });
    }
    let Some(role) = roster.find(role) else {
        return Err(NoPrompt::UnknownRole {
            role: crate::engine::shown(role),
            roster: roster.clone(),
        });
    };
    let (template, own) = if role.as_str() == PM {
        (PM_TEMPLATE, pm_values(&developers))
    } else {
        (DEV_TEMPLATE, dev_values(role, &developers))
    };
    let (_to_the_user, prompt) = template
        .split_once("\n---\n")
        .expect("a template has a line of dashes");

    // The paragraph comes first, because it has placeholders of its own.
    let mut text = prompt
        .trim()
        .replace("<<RELAY_PARAGRAPH>>", RELAY_PARAGRAPH.trim());
    for (placeholder, value) in own {
        text = text.replace(placeholder, &value);
    }
    for (placeholder, value) in COMMON_VALUES {
        text = text.replace(placeholder, value);
    }
    Ok(text
        .replace("<<ROLE>>", role.as_str())
        .replace("<<ROSTER>>", &listed(roster.names()))
        .replace("<<RELAY_URL>>", url)
        + "\n")
}

/// What a prompt says where the kickoff skill would name something of the project.
const COMMON_VALUES: [(&str, &str); 5] = [
    ("<<RELEASE>>", "this lift"),
    ("<<PROJECT>>", "the repository that this session was opened in"),
    ("<<MAIN_BRANCH>>", "the repository's main branch"),
    (
        "<<CHECKS>>",
        "the project's own tests and linters, as its README or its CI names them",
    ),
    (
        "<<REQUIRED_READING>>",
        "The project's README, its instructions for agents, and what the user or the first directive names.",
    ),
];

fn pm_values(developers: &[&AgentName]) -> Vec<(&'static str, String)> {
    let streams: Vec<String> = developers
        .iter()
        .map(|role| format!("| `{role}` | `lift/{role}` | not given here |"))
        .collect();
    vec![
        ("<<DEVELOPERS>>", listed(developers)),
        ("<<FIRST_DEV_TITLE>>", title(developers[0])),
        ("<<STREAMS>>", streams.join("\n")),
    ]
}

fn dev_values(role: &AgentName, developers: &[&AgentName]) -> Vec<(&'static str, String)> {
    let peers: Vec<_> = developers.iter().filter(|&&peer| peer != role).collect();
    let peers = if peers.is_empty() {
        "none, you are the only one".to_owned()
    } else {
        listed(&peers)
    };
    let worktree = format!(
        "one of your own beside the repository; if it is not there yet, \
         `git worktree add \"../$(basename \"$PWD\")-{role}\" -b lift/{role}` makes it"
    );
    let plan = "No plan is given here: `pm`'s first directive says what to build. Wait for it before you change anything.";
    vec![
        ("<<DEV_TITLE>>", title(role)),
        ("<<DEV_ROLE>>", role.to_string()),
        ("<<PEERS>>", peers),
        ("<<DEV_BRANCH>>", format!("`lift/{role}`")),
        ("<<DEV_WORKTREE>>", worktree),
        ("<<DEV_PLAN>>", plan.to_owned()),
    ]
}

/// A developer's name as it stands in the headings of blocks.
fn title(role: &AgentName) -> String {
    role.as_str().to_uppercase()
}

/// Lists names as a sentence does: `` `pm`, `dev-a` and `dev-b` ``.
fn listed(names: &[impl std::fmt::Display]) -> String {
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        text.push_str(match at {
            0 => "",
            _ if at + 1 == names.len() => " and ",
            _ => ", ",
        });
        text.push_str(&format!("`{name}`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://localhost:7331";

    fn roster(names: &str) -> Roster {
        super::super::serve::roster(names).expect("a roster")
    }

    /// Each role of a lift with its prompt: alone, the usual three, and more.
    fn prompts() -> Vec<(Roster, String, String)> {
        let rosters = ["pm,dev", "pm,dev-a,dev-b", "qa,pm,dev-a,ops_2,dev-b"].map(roster);
        let prompt = |roster: &Roster, role: &AgentName| {
            let text = render(role.as_str(), roster, URL).expect("a prompt");
            (roster.clone(), role.to_string(), text)
        };
        rosters
            .iter()
            .flat_map(|roster| roster.names().iter().map(move |role| prompt(roster, role)))
            .collect()
    }

    #[test]
    fn no_placeholder_is_left_in_any_prompt() {
        for (roster, role, text) in prompts() {
            assert!(!text.contains("<<"), "{role} of {roster}: {text}");
            assert!(!text.contains(">>"), "{role} of {roster}: {text}");
        }
    }

    #[test]
    fn each_role_reads_and_posts_under_its_own_name() {
        for (roster, role, text) in prompts() {
            for call in [
                format!("post_message(from=\"{role}\", to="),
                format!("read_messages(for=\"{role}\")"),
                format!("list_pending(for=\"{role}\")"),
            ] {
                assert!(text.contains(&call), "{role} of {roster} lacks {call}");
            }
            for other in roster.names().iter().filter(|other| other.as_str() != role) {
                assert!(
                    !text.contains(&format!("for=\"{other}\"")),
                    "{role} reads for {other}"
                );
                assert!(
                    !text.contains(&format!("from=\"{other}\"")),
                    "{role} posts as {other}"
                );
            }
        }
    }

    #[test]
    fn each_prompt_names_the_roster_and_nobody_else() {
        for (roster, role, text) in prompts() {
            let names = listed(roster.names());
            assert!(
                text.contains(&format!("the names are {names}.")),
                "{role} of {roster}: {text}"
            );
            let others = "`user` (the person), `@group`, `#channel`, or `*` or `@everyone` for all";
            assert!(text.contains(others), "{role} of {roster}: {text}");
            for stranger in ["dev-a", "dev-b"]
                .into_iter()
                .filter(|name| roster.find(name).is_none())
            {
                for name in [format!("`{stranger}`"), stranger.to_uppercase()] {
                    assert!(
                        !text.contains(&name),
                        "{role} of {roster} is told of {name}: {text}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_prompt_names_the_developers_that_its_role_works_with() {
        let roster = roster("pm,dev-a,qa,ops");
        for (role, told) in [
            ("pm", "Your developers: `dev-a`, `qa` and `ops`. They"),
            ("dev-a", "streams of their own: `qa` and `ops`. You"),
            ("qa", "streams of their own: `dev-a` and `ops`. You"),
            ("ops", "## STATUS UPDATE — OPS\n"),
        ] {
            let text = render(role, &roster, URL).expect("a prompt");
            assert!(text.contains(told), "{role}: {text}");
        }
        let text = render("pm", &roster, URL).expect("a prompt");
        let streams = "|---|---|---|\n\
            | `dev-a` | `lift/dev-a` | not given here |\n\
            | `qa` | `lift/qa` | not given here |\n\
            | `ops` | `lift/ops` | not given here |\n\n";
        assert!(text.contains(streams), "{text}");
    }

    #[test]
    fn a_roster_without_a_pm_or_a_developer_has_no_prompts() {
        for names in ["dev-a,dev-b", "pm"] {
            let roster = roster(names);
            let role = roster.names()[0].to_string();
            assert_eq!(
                render(&role, &roster, URL),
                Err(NoPrompt::NoLift {
                    roster: roster.clone()
                })
            );
        }
    }

    #[test]
    fn the_two_developers_differ_in_name_and_peer_only() {
        let prompt = |role| render(role, &Roster::default(), URL).expect("a prompt");
        let swapped = prompt("dev-a")
            .replace("dev-a", "dev-?")
            .replace("dev-b", "dev-a")
            .replace("dev-?", "dev-b")
            .replace("DEV-A", "DEV-B");
        // The list of the three names is the same for both.
        let swapped = swapped.replace("`dev-b` and `dev-a`", "`dev-a` and `dev-b`");
        assert_eq!(swapped, prompt("dev-b"));
    }

    #[test]
    fn the_words_to_the_user_are_left_out() {
        for (roster, role, text) in prompts() {
            assert!(text.starts_with("You are "), "{role} of {roster}: {text}");
            assert!(!text.contains("For the user:"), "{role} of {roster}: {text}");
            assert!(
                text.ends_with('\n') && !text.ends_with("\n\n"),
                "{role} of {roster} ends in one line break"
            );
        }
    }

    #[test]
    fn a_developer_is_told_its_branch_as_the_pm_is_and_whether_it_is_the_only_one() {
        let alone = render("dev", &roster("pm,dev"), URL).expect("a prompt");
        let none = "streams of their own: none, you are the only one. You";
        assert!(alone.contains(none), "{alone}");
        let roster = roster("pm,dev-a,qa");
        let [own, pm] = ["qa", "pm"].map(|role| render(role, &roster, URL).expect("a prompt"));
        assert!(pm.contains("| `qa` | `lift/qa` |"), "{pm}");
        assert!(own.contains("- Your branch: `lift/qa`, from"), "{own}");
        assert!(own.contains("-qa\" -b lift/qa` makes it"), "{own}");
    }
}
