//! `relay prompt`: prints the kickoff prompt of one role, ready to be the first message of its session.
//!
//! The text is the kickoff skill's: the templates in `plugin/` are compiled in, and this file only says what stands for each
//! placeholder when nothing is known of the project. It must not know what a message is or whether a server runs.

use std::io::{self, Write};

use clap::{Args, ValueEnum};

const PM_TEMPLATE: &str = include_str!("../../plugin/skills/multi-agent-kickoff/templates/pm-prompt.md");
const DEV_TEMPLATE: &str = include_str!("../../plugin/skills/multi-agent-kickoff/templates/dev-prompt.md");
const RELAY_PARAGRAPH: &str =
    include_str!("../../plugin/skills/multi-agent-kickoff/templates/relay-paragraph.md");

/// Print the kickoff prompt of a role, ready to paste as the first message of its session.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Prompt {
    /// The role that the session takes.
    pub role: PromptRole,
    /// The port that relay listens on, for the address named in the prompt.
    #[arg(long, default_value_t = 7331, value_parser = super::port)]
    pub port: u16,
}

/// The three sessions of a lift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PromptRole {
    /// The one that directs and reviews.
    Pm,
    /// The first developer.
    DevA,
    /// The second developer.
    DevB,
}

/// Writes the prompt to stdout.
///
/// # Errors
///
/// When stdout cannot be written to: closed by its reader, or the disk behind it is full.
pub fn run(args: Prompt) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(render(args.role, args.port).as_bytes())?;
    stdout.flush()
}

/// The role's prompt with every placeholder filled, without the template's words to the user. It ends in one line break.
#[must_use]
pub fn render(role: PromptRole, port: u16) -> String {
    let (template, own) = match role {
        PromptRole::Pm => (PM_TEMPLATE, pm_values()),
        PromptRole::DevA => (DEV_TEMPLATE, dev_values("A", "dev-a", "dev-b")),
        PromptRole::DevB => (DEV_TEMPLATE, dev_values("B", "dev-b", "dev-a")),
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
    text.replace("<<RELAY_URL>>", &format!("http://localhost:{port}")) + "\n"
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

fn pm_values() -> Vec<(&'static str, String)> {
    let no_plan = "not given here";
    vec![
        ("<<ROLE>>", "pm".to_owned()),
        ("<<DEV_A_BRANCH>>", "`lift/dev-a`".to_owned()),
        ("<<DEV_A_PLAN>>", no_plan.to_owned()),
        ("<<DEV_B_BRANCH>>", "`lift/dev-b`".to_owned()),
        ("<<DEV_B_PLAN>>", no_plan.to_owned()),
    ]
}

fn dev_values(letter: &str, role: &str, peer: &str) -> Vec<(&'static str, String)> {
    let worktree = format!(
        "one of your own beside the repository; if it is not there yet, \
         `git worktree add \"../$(basename \"$PWD\")-{role}\" -b lift/{role}` makes it"
    );
    let plan = "No plan is given here: `pm`'s first directive says what to build. Wait for it before you change anything.";
    vec![
        ("<<ROLE>>", role.to_owned()),
        ("<<DEV_LETTER>>", letter.to_owned()),
        ("<<DEV_ROLE>>", role.to_owned()),
        ("<<PEER_ROLE>>", peer.to_owned()),
        ("<<DEV_BRANCH>>", format!("`lift/{role}`")),
        ("<<DEV_WORKTREE>>", worktree),
        ("<<DEV_PLAN>>", plan.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: [(PromptRole, &str); 3] = [
        (PromptRole::Pm, "pm"),
        (PromptRole::DevA, "dev-a"),
        (PromptRole::DevB, "dev-b"),
    ];

    #[test]
    fn no_placeholder_is_left_in_any_prompt() {
        for (role, name) in ROLES {
            let text = render(role, 7331);
            assert!(!text.contains("<<"), "{name}: {text}");
            assert!(!text.contains(">>"), "{name}: {text}");
        }
    }

    #[test]
    fn each_role_reads_and_posts_under_its_own_name() {
        for (role, name) in ROLES {
            let text = render(role, 7331);
            for call in [
                format!("post_message(from=\"{name}\", to="),
                format!("read_messages(for=\"{name}\")"),
                format!("list_pending(for=\"{name}\")"),
            ] {
                assert!(text.contains(&call), "{name} lacks {call}");
            }
            for (_, other) in ROLES.into_iter().filter(|(_, other)| *other != name) {
                assert!(
                    !text.contains(&format!("for=\"{other}\"")),
                    "{name} reads for {other}"
                );
                assert!(
                    !text.contains(&format!("from=\"{other}\"")),
                    "{name} posts as {other}"
                );
            }
        }
    }

    #[test]
    fn the_roles_are_named_as_on_the_wire() {
        let names: Vec<String> = PromptRole::value_variants()
            .iter()
            .map(|role| {
                role.to_possible_value()
                    .expect("no role is hidden")
                    .get_name()
                    .to_owned()
            })
            .collect();
        assert_eq!(names, ["pm", "dev-a", "dev-b"]);
    }

    #[test]
    fn the_two_developers_differ_in_name_and_peer_only() {
        let swapped = render(PromptRole::DevA, 7331)
            .replace("dev-a", "dev-?")
            .replace("dev-b", "dev-a")
            .replace("dev-?", "dev-b")
            .replace("DEV-A", "DEV-B");
        // The list of the three names is the same for both.
        let swapped = swapped.replace("`dev-b` and `dev-a`", "`dev-a` and `dev-b`");
        assert_eq!(swapped, render(PromptRole::DevB, 7331));
    }

    #[test]
    fn the_words_to_the_user_are_left_out() {
        for (role, name) in ROLES {
            let text = render(role, 7331);
            assert!(text.starts_with("You are "), "{name}: {text}");
            assert!(!text.contains("For the user:"), "{name}: {text}");
            assert!(
                text.ends_with('\n') && !text.ends_with("\n\n"),
                "{name} ends in one line break"
            );
        }
    }

    #[test]
    fn the_address_carries_the_port() {
        assert!(render(PromptRole::Pm, 7331).contains("(http://localhost:7331)"));
        assert!(render(PromptRole::DevB, 4000).contains("(http://localhost:4000)"));
    }
}
