//! How relay's parts stand in a file, by its format.

use super::json::{self, Flaw, Step};
use super::parts::{self, Parts, Shape};
use super::whole::What;
use super::{toml, whole};

/// The format of a file, and where relay's parts are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// JSON, with comments where the editor takes them.
    Json(Shape),
    /// TOML, with the servers below this table.
    Toml(&'static str),
    /// This, which is relay's as a whole.
    Whole(What, &'static str),
}

impl Content {
    /// Reads relay's parts.
    ///
    /// # Errors
    ///
    /// As [`parts::parts`] and [`toml::parts`].
    pub fn parts(self, text: &str) -> Result<Parts, Flaw> {
        match self {
            Self::Json(shape) => parts::parts(text, shape),
            Self::Toml(servers) => toml::parts(text, servers),
            Self::Whole(what, _) => Ok(whole::parts(what, text)),
        }
    }

    /// Puts relay's parts in.
    ///
    /// # Errors
    ///
    /// As [`parts::with`] and [`toml::with`].
    pub fn with(self, text: &str, wanted: &Parts) -> Result<String, Flaw> {
        match self {
            Self::Json(shape) => parts::with(text, shape, wanted),
            Self::Toml(servers) => toml::with(text, servers, wanted),
            Self::Whole(..) => Ok(wanted.whole.clone().unwrap_or_else(|| text.to_owned())),
        }
    }

    /// Tells whether there are comments in relay's entry among the servers, where relay's hooks may be in the same file.
    pub fn has_comments(self, text: &str) -> bool {
        match self {
            Self::Json(Shape { servers, .. }) => {
                let way = servers.map(|servers| [Step::Key(servers), Step::Key(parts::NAME)]);
                way.is_some_and(|way| json::has_comments(text, &way))
            }
            Self::Toml(_) | Self::Whole(..) => false,
        }
    }

    /// Returns how many comments are in a text.
    pub fn comments(self, text: &str) -> usize {
        match self {
            Self::Json(_) => json::comments(text),
            Self::Toml(_) => toml::comments(text),
            Self::Whole(..) => 0,
        }
    }

    /// Tells whether comments of a text are not in another one that takes its place, if one does.
    pub fn loses_comments(self, text: &str, new: Option<&str>) -> bool {
        self.comments(text) > new.map_or(0, |new| self.comments(new))
    }

    /// Takes these parts of relay's out.
    ///
    /// # Errors
    ///
    /// As [`parts::without`] and [`toml::without`].
    pub fn without(self, text: &str, own: &Parts, before: Option<&str>) -> Result<Option<String>, Flaw> {
        match self {
            Self::Json(shape) => parts::without(text, shape, own, before),
            Self::Toml(servers) => toml::without(text, servers, own, before),
            Self::Whole(..) => Ok(before.map(str::to_owned)),
        }
    }
}
