//! How a text of JSON is laid out: where lines begin, where comments stand, and how something more is written so that it looks the same.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;

use super::json::Json;

/// How a text is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// How lines end.
    pub newline: &'static str,
    /// What a level more is indented by.
    pub unit: String,
    /// Members have lines of their own.
    pub lines: bool,
    /// There is a space behind colons and commas.
    pub spaced: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            newline: "\n",
            unit: "  ".to_owned(),
            lines: true,
            spaced: true,
        }
    }
}

impl Layout {
    /// Finds it by the root and its first member.
    pub fn of(text: &str, root: &ast::Value<'_>) -> Self {
        let whole = root.range();
        let whole = whole.start..whole.end;
        let mut layout = Self {
            newline: newline(text),
            ..Self::default()
        };
        let first = root.as_object().and_then(|object| object.properties.first());
        let Some(first) = first else {
            return layout;
        };
        layout.lines = text[whole.clone()].contains('\n');
        layout.spaced =
            layout.lines || text[first.name.range().end..first.value.range().start].contains([' ', '\t']);
        if starts_line(text, first.range.start) {
            let own = line_indent(text, whole.start);
            let indent = line_indent(text, first.range.start);
            layout.unit = indent.strip_prefix(own).unwrap_or(indent).to_owned();
        }
        layout
    }

    /// Writes the name of a member.
    pub fn write_key(&self, key: &str, into: &mut String) {
        into.push_str(&written(key));
        into.push_str(if self.spaced { ": " } else { ":" });
    }

    /// Writes a value that stands in a line with this indentation.
    pub fn write(&self, value: &Json, indent: &str, lines: bool, into: &mut String) {
        let deeper = format!("{indent}{}", self.unit);
        let next = |into: &mut String, is_first: bool, lines: bool| {
            into.push_str(if is_first { "" } else { "," });
            if lines {
                into.push_str(self.newline);
                into.push_str(&deeper);
            } else if !is_first && self.spaced {
                into.push(' ');
            }
        };
        let close = |into: &mut String, bracket: char, lines: bool| {
            if lines {
                into.push_str(self.newline);
                into.push_str(indent);
            }
            into.push(bracket);
        };
        match value {
            Json::Plain(plain) => into.push_str(plain),
            Json::Text(text) => into.push_str(&written(text)),
            Json::List(list) => {
                let is_plain = |item: &Json| matches!(item, Json::Plain(_) | Json::Text(_));
                let lines = lines && !list.iter().all(is_plain);
                into.push('[');
                for (at, item) in list.iter().enumerate() {
                    next(into, at == 0, lines);
                    self.write(item, &deeper, lines, into);
                }
                close(into, ']', lines);
            }
            Json::Object(members) => {
                let lines = lines && !members.is_empty();
                into.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    next(into, at == 0, lines);
                    self.write_key(key, into);
                    self.write(value, &deeper, lines, into);
                }
                close(into, '}', lines);
            }
        }
    }
}

/// Writes a string as JSON does.
fn written(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The kind of line break that a text has; `\n` if it has none.
pub fn newline(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((line, _)) if line.ends_with('\r') => "\r\n",
        Some(_) | None => "\n",
    }
}

/// Returns the white space at the beginning of the line in which a byte stands.
pub fn line_indent(text: &str, at: usize) -> &str {
    let line = &text[text[..at].rfind('\n').map_or(0, |newline| newline + 1)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Tells whether there is nothing but white space before a byte in its line.
pub fn starts_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.is_empty() || before.ends_with('\n')
}

/// A comment at the beginning of a text.
fn comment(text: &str) -> Option<&str> {
    if text.starts_with("//") {
        let end = text.find('\n').unwrap_or(text.len());
        return Some(text[..end].trim_end_matches('\r'));
    }
    let inside = text.strip_prefix("/*")?;
    let end = inside.find("*/").map_or(text.len(), |end| end + 4);
    Some(&text[..end])
}

/// Returns the comments of a text that has nothing else but white space up to some token, each with its place.
fn comments(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].len() - text[at..].trim_start().len();
        let comment = comment(&text[at..])?;
        let range = at..at + comment.len();
        at = range.end;
        Some(range)
    })
}

/// Returns where the comma is that follows a value, if one does.
pub fn comma_after(text: &str, end: usize) -> Option<usize> {
    let rest = &text[end..];
    let at = after_comments(rest);
    let token = rest[at..].trim_start();
    token.starts_with(',').then(|| text.len() - token.len())
}

/// Returns where the last comment ends of those at the beginning of a text.
pub fn after_comments(text: &str) -> usize {
    comments(text).last().map_or(0, |last| last.end)
}

/// Returns where the last of the comments ends that stand in the first line of a text.
pub fn comments_of_line(text: &str) -> usize {
    let line = text.find('\n').unwrap_or(text.len());
    let of_line = comments(text).take_while(|comment| comment.end <= line);
    of_line.last().map_or(0, |last| last.end)
}

/// Tells whether the last comment at the beginning of a text runs to the end of its line.
pub fn ends_in_line_comment(text: &str) -> bool {
    comments(text)
        .last()
        .is_some_and(|last| text[last].starts_with("//"))
}
