//! Which families of tools an agent asks for, by name. What is in them the relay says.

use std::fmt;
use std::str::FromStr;

use crate::engine::shown;

/// All of them, as an option and a query name them.
const ALL: &str = "all";

/// A family of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolset {
    /// What there is if nothing else is asked for.
    Lift,
    /// Needs to know who the agent is.
    Thrum,
    /// Makes whoever asks for it known to the others.
    AgentRelay,
}

impl Toolset {
    const ALL: [Self; 3] = [Self::Lift, Self::Thrum, Self::AgentRelay];

    fn as_str(self) -> &'static str {
        match self {
            Self::Lift => "lift",
            Self::Thrum => "thrum",
            Self::AgentRelay => "agent-relay",
        }
    }
}

/// The families that an agent asks for, each once, in its order; one at least. Written `lift,thrum`, or `all` for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolsets(Vec<Toolset>);

/// Why a text names no families of tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToolsets {
    /// There is no such family.
    #[error(
        "unknown toolset {name:?}; accepted: lift, thrum, agent-relay, or several with commas between them, or all"
    )]
    Unknown {
        /// As given, cut if it is long.
        name: String,
    },
    /// A family stands twice.
    #[error("toolset {0:?} is named twice; each is named once")]
    Twice(&'static str),
    /// Another family stands beside all of them.
    #[error("\"all\" stands for every toolset; leave out the others")]
    AllAndMore,
}

impl Toolsets {
    /// Tells whether a family is asked for.
    pub fn has(&self, toolset: Toolset) -> bool {
        self.0.contains(&toolset)
    }
}

/// `lift`, which is there if nothing is asked for.
impl Default for Toolsets {
    fn default() -> Self {
        Self(vec![Toolset::Lift])
    }
}

impl FromStr for Toolsets {
    type Err = InvalidToolsets;

    fn from_str(text: &str) -> Result<Self, InvalidToolsets> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if names == [ALL] {
            return Ok(Self(Toolset::ALL.to_vec()));
        }
        let mut toolsets = Vec::new();
        for name in names {
            if name == ALL {
                return Err(InvalidToolsets::AllAndMore);
            }
            let known = Toolset::ALL.into_iter().find(|toolset| toolset.as_str() == name);
            let toolset = known.ok_or_else(|| InvalidToolsets::Unknown { name: shown(name) })?;
            if toolsets.contains(&toolset) {
                return Err(InvalidToolsets::Twice(toolset.as_str()));
            }
            toolsets.push(toolset);
        }
        Ok(Self(toolsets))
    }
}

impl fmt::Display for Toolsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Toolset::ALL {
            return f.write_str(ALL);
        }
        let names: Vec<&str> = self.0.iter().map(|toolset| toolset.as_str()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolsets_are_read_and_written_by_their_names() {
        for (text, written) in [
            ("lift", "lift"),
            ("thrum", "thrum"),
            ("agent-relay, lift", "agent-relay,lift"),
            ("all", "all"),
            ("lift,thrum,agent-relay", "all"),
        ] {
            let toolsets: Toolsets = text.parse().expect(text);
            assert_eq!(toolsets.to_string(), written);
        }
        assert_eq!("lift".parse(), Ok(Toolsets::default()));
        let all: Toolsets = "all".parse().expect("all");
        assert!(Toolset::ALL.into_iter().all(|toolset| all.has(toolset)));
        assert!(!Toolsets::default().has(Toolset::Thrum));
    }

    #[test]
    fn what_names_no_toolsets_is_refused_with_what_is_accepted() {
        let unknown = |name: &str| InvalidToolsets::Unknown {
            name: name.to_owned(),
        };
        for (text, expected) in [
            ("", unknown("")),
            ("thrum,", unknown("")),
            ("Thrum", unknown("Thrum")),
            ("lift,mail", unknown("mail")),
            ("lift,thrum,lift", InvalidToolsets::Twice("lift")),
            ("all,lift", InvalidToolsets::AllAndMore),
            ("all,all", InvalidToolsets::AllAndMore),
        ] {
            assert_eq!(text.parse::<Toolsets>(), Err(expected), "{text}");
        }
    }
}
