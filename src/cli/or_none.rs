//! An option that may be left empty, as the value of a variable that is not set is.

use std::str::FromStr;

use super::project::Project;
use crate::engine::{AgentName, InvalidName};

/// A value, or none where the text is empty.
#[derive(Debug, Clone)]
pub struct OrNone<T>(pub Option<T>);

impl FromStr for OrNone<AgentName> {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let given = Some(text).filter(|text| !text.is_empty());
        given.map(AgentName::new).transpose().map(Self)
    }
}

impl FromStr for OrNone<Project> {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let given = Some(text).filter(|text| !text.is_empty());
        given.map(str::parse).transpose().map(Self)
    }
}
