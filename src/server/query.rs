//! What the address of a session says: whose it is, and which tools it has.

use axum::http::{StatusCode, Uri};
use axum::response::Response;
use uuid::Uuid;

use super::refuse;
use crate::engine::agents::{Profile, Registration};
use crate::engine::{DEFAULT_PROJECT, Who, shown};
use crate::tools::{InvalidReplyBytes, Offer, Toolsets};

/// What is accepted.
const PARAMETERS: [&str; 11] = [
    "agent",
    "tools",
    "project",
    "role",
    "module",
    "cli",
    "parent",
    "cwd",
    "instance",
    "transient",
    "reply_kb",
];

/// What the address of a session asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// For whom it may speak.
    pub who: Who,
    /// What it has.
    pub offer: Offer,
}

impl Asked {
    /// Reads the query of a transport's address. Each parameter may stand there once, and an empty one counts as left out.
    ///
    /// # Errors
    ///
    /// The answer that says what is wrong.
    pub fn by(uri: &Uri, default: Toolsets) -> Result<Self, Box<Response>> {
        match uri.query() {
            None | Some("") => Ok(Self {
                who: of_nobody(default),
                offer: Offer {
                    toolsets: default,
                    reply_max: None,
                },
            }),
            Some(query) => Self::read(query, default).map_err(|reason| Box::new(bad(&reason))),
        }
    }

    fn read(query: &str, default: Toolsets) -> Result<Self, String> {
        let mut given: [Option<String>; PARAMETERS.len()] = Default::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(at) = PARAMETERS.iter().position(|known| *known == key) else {
                let (key, accepted) = (shown(&key), PARAMETERS.join(", "));
                return Err(format!("unknown query parameter {key:?}; accepted: {accepted}"));
            };
            if let Some(first) = given[at].replace(value.into_owned()) {
                return Err(twice(PARAMETERS[at], &first, given[at].as_deref()));
            }
        }
        // A role that is left empty still says that the agent is to be there.
        let names_role = given[3].is_some();
        let given = given.map(|value| value.filter(|value| !value.is_empty()));
        let [
            agent,
            tools,
            project,
            role,
            module,
            cli,
            parent,
            cwd,
            instance,
            transient,
            reply_kb,
        ] = given;
        let toolsets = match tools {
            Some(tools) => tools
                .parse()
                .map_err(|error| format!("query parameter \"tools\": {error}"))?,
            None => default,
        };
        let reply_max = reply_kb.map(|text| text.parse()).transpose();
        let reply_max =
            reply_max.map_err(|error: InvalidReplyBytes| format!("query parameter \"reply_kb\": {error}"))?;
        let offer = Offer { toolsets, reply_max };
        let instance = instance.map(|text| read_instance(&text)).transpose()?;
        let transient = read_transient(transient.as_deref())?;
        let profile = Profile {
            role,
            module,
            cli,
            parent,
            cwd,
        };
        let says_more = names_role || instance.is_some() || transient || profile != Profile::default();
        let Some(name) = agent else {
            if says_more || project.is_some() {
                let reason = "query parameter \"agent\" is missing: the others say something of an agent";
                return Err(format!("{reason}; accepted: agent=NAME beside them"));
            }
            let who = of_nobody(toolsets);
            return Ok(Self { who, offer });
        };
        let who = if says_more || toolsets.register() {
            Who::Registered(Box::new(Registration {
                project,
                name,
                profile,
                instance,
                transient,
                is_new: false,
            }))
        } else {
            Who::Agent(Some(match project.as_deref() {
                None | Some(DEFAULT_PROJECT) => name,
                Some(project) => format!("{project}:{name}"),
            }))
        };
        Ok(Self { who, offer })
    }
}

/// Returns for whom a session may speak whose address names nobody.
fn of_nobody(toolsets: Toolsets) -> Who {
    if toolsets.give_names() {
        Who::Unnamed
    } else {
        Who::Agent(None)
    }
}

fn read_instance(text: &str) -> Result<Uuid, String> {
    let accepted = "accepted: a UUID, of version 7 so that a later one is greater";
    text.parse()
        .map_err(|_| format!("query parameter \"instance\" is {:?}; {accepted}", shown(text)))
}

fn read_transient(text: Option<&str>) -> Result<bool, String> {
    match text {
        None => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(format!(
            "query parameter \"transient\" is {:?}; accepted: 1",
            shown(other)
        )),
    }
}

/// What is wrong with a query that names something twice, of which nobody can know what is meant.
fn twice(parameter: &str, first: &str, second: Option<&str>) -> String {
    let [first, second] = [first, second.unwrap_or_default()].map(shown);
    format!("query parameter {parameter:?} is given twice, {first:?} and {second:?}; accepted: once")
}

/// The answer to a query that names something twice.
pub(super) fn refuse_twice(parameter: &str, first: &str, second: Option<&str>) -> Response {
    bad(&twice(parameter, first, second))
}

fn bad(reason: &str) -> Response {
    refuse(StatusCode::BAD_REQUEST, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{Client, DEFAULT, ReplyBytes};

    fn read(query: &str) -> Result<Asked, String> {
        Asked::read(query, DEFAULT)
    }

    fn registered(registration: Registration) -> Who {
        Who::Registered(Box::new(registration))
    }

    #[test]
    fn an_address_names_an_agent_and_toolsets() {
        let thrum = "thrum".parse().expect("a toolset");
        for (query, agent, toolsets) in [
            ("agent=", None, DEFAULT),
            ("agent=pm", Some("pm"), DEFAULT),
            ("agent=pm&tools=", Some("pm"), DEFAULT),
            ("agent=p%20m", Some("p m"), DEFAULT),
            ("tools=thrum", None, thrum),
            ("tools=thrum&agent=pm", Some("pm"), thrum),
            ("agent=pm&project=default", Some("pm"), DEFAULT),
            ("agent=pm&project=web", Some("web:pm"), DEFAULT),
        ] {
            let who = Who::Agent(agent.map(str::to_owned));
            let reply_max = None;
            let asked = Asked {
                who,
                offer: Offer { toolsets, reply_max },
            };
            assert_eq!(read(query), Ok(asked), "{query}");
        }
    }

    #[test]
    fn an_address_says_how_much_of_a_reply_is_shown_and_else_the_client_does() {
        let served = |query, client| read(query).map(|asked| asked.offer.to(client).reply_max);
        let claude = Some(Client::ClaudeCode);
        assert_eq!(served("", None), Ok(ReplyBytes::LEAST_KNOWN));
        assert_eq!(served("reply_kb=", None), Ok(ReplyBytes::LEAST_KNOWN));
        assert_eq!(served("agent=pm", claude), Ok(Client::reply_max(claude)));
        assert_eq!(served("reply_kb=64", claude), Ok(ReplyBytes::kb(64)));
        assert_eq!(served("agent=pm&reply_kb=6", None), Ok(ReplyBytes::kb(6)));
    }

    #[test]
    fn an_address_that_says_something_of_its_agent_registers_it() {
        let named = || Registration {
            name: "a".to_owned(),
            ..Registration::default()
        };
        let role = |role: Option<&str>| Registration {
            profile: Profile {
                role: role.map(str::to_owned),
                ..Profile::default()
            },
            ..named()
        };
        for (query, registration) in [
            ("agent=a&role=", role(None)),
            ("agent=a&role=dev", role(Some("dev"))),
            ("agent=a&tools=agent-relay", named()),
            (
                "agent=a&transient=1&project=web",
                Registration {
                    transient: true,
                    project: Some("web".to_owned()),
                    ..named()
                },
            ),
            (
                "agent=a&instance=00000000-0000-0000-0000-000000000007&module=m&cli=c&parent=p&cwd=%2Fw",
                Registration {
                    instance: Some(Uuid::from_u128(7)),
                    profile: Profile {
                        role: None,
                        module: Some("m".to_owned()),
                        cli: Some("c".to_owned()),
                        parent: Some("p".to_owned()),
                        cwd: Some("/w".to_owned()),
                    },
                    ..named()
                },
            ),
        ] {
            assert_eq!(
                read(query).map(|asked| asked.who),
                Ok(registered(registration)),
                "{query}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let accepted = "agent, tools, project, role, module, cli, parent, cwd, instance, transient, reply_kb";
        let nobody = "query parameter \"agent\" is missing: the others say something of an agent; accepted: agent=NAME beside them";
        for (query, reason) in [
            ("role=dev", nobody.to_owned()),
            ("project=web", nobody.to_owned()),
            ("who=pm", format!("unknown query parameter \"who\"; accepted: {accepted}")),
            (
                "tools=x",
                "query parameter \"tools\": unknown toolset \"x\"; accepted: lift, thrum, agent-relay, or all, with commas between them"
                    .to_owned(),
            ),
            (
                "agent=a&instance=7",
                "query parameter \"instance\" is \"7\"; accepted: a UUID, of version 7 so that a later one is greater".to_owned(),
            ),
            (
                "reply_kb=5",
                "query parameter \"reply_kb\": \"5\" is no bound of a reply; accepted: a whole number of kB, 6 to 100000".to_owned(),
            ),
            (
                "agent=a&transient=yes",
                "query parameter \"transient\" is \"yes\"; accepted: 1".to_owned(),
            ),
            (
                "tools=lift&tools=",
                "query parameter \"tools\" is given twice, \"lift\" and \"\"; accepted: once".to_owned(),
            ),
        ] {
            assert_eq!(read(query), Err(reason), "{query}");
        }
    }
}
