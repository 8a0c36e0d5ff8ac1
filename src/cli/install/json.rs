//! JSON with comments, changed in place: what is put in takes the look of what is there, what is taken out leaves no trace, and all
//! else stays byte for byte. It must not know what relay writes, nor where.
//!
//! The library tells where each value stands; the text is cut and joined here, because the library's own changes take empty lines and
//! comments with them.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::layout::{
    Layout, after_comments, comma_after, comments_of_line, ends_in_line_comment, line_indent, newline,
    starts_line,
};
use crate::json_halves::readable;

/// Comments and commas at the end are what the editors take that take more than JSON.
const TAKEN: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct Flaw {
    /// From 1 on.
    pub line: usize,
    /// In characters, from 1 on.
    pub column: usize,
    /// In words.
    pub reason: String,
}

impl Flaw {
    /// Names the place of a byte.
    pub fn at(text: &str, byte: usize, reason: String) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            reason,
        }
    }
}

/// A value that is put in, or that was found. The members of an object have an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`, `true`, `false` or a number, as it is written.
    Plain(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A string.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// An object.
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.map(|(key, value)| (key.to_owned(), value)).into())
    }

    /// Returns a member of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            Self::Plain(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// Returns a string's text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Plain(_) | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// Returns what is in an array.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            Self::Plain(_) | Self::Text(_) | Self::Object(_) => None,
        }
    }

    /// Tells whether another value says the same, whatever the order of its members.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(own), Self::Object(others)) => {
                let has =
                    |(key, value): &(String, Self)| other.get(key).is_some_and(|other| value.same(other));
                own.len() == others.len() && own.iter().all(has)
            }
            (Self::List(own), Self::List(others)) => {
                own.len() == others.len() && own.iter().zip(others).all(|(own, other)| own.same(other))
            }
            (Self::Plain(_) | Self::Text(_) | Self::List(_) | Self::Object(_), _) => self == other,
        }
    }

    fn of(value: &ast::Value<'_>) -> Self {
        match value {
            ast::Value::StringLit(text) => Self::Text(text.value.clone().into_owned()),
            ast::Value::NumberLit(number) => Self::Plain(number.value.to_owned()),
            ast::Value::BooleanLit(boolean) => Self::Plain(boolean.value.to_string()),
            ast::Value::NullKeyword(_) => Self::Plain("null".to_owned()),
            ast::Value::Array(list) => Self::List(list.elements.iter().map(Self::of).collect()),
            ast::Value::Object(object) => {
                let member =
                    |prop: &ast::ObjectProp<'_>| (prop.name.as_str().to_owned(), Self::of(&prop.value));
                Self::Object(object.properties.iter().map(member).collect())
            }
        }
    }
}

/// A step on the way to a value.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// Into the member of an object.
    Key(&'a str),
    /// Into the item of an array.
    At(usize),
}

/// Reads the value at the end of a way, if it is there.
///
/// # Errors
///
/// As [`find`]; and when the text is no JSON.
pub fn get(text: &str, way: &[Step<'_>]) -> Result<Option<Json>, Flaw> {
    let readable = readable(text);
    let Some(root) = parse(&readable)? else {
        return Ok(None);
    };
    Ok(find(text, &root, way)?.map(Json::of))
}

/// Puts a value at the end of a way: in place of the one that is there, or behind the last member of the innermost object of the way
/// that is there.
///
/// # Errors
///
/// As [`get`].
pub fn set(text: &str, way: &[&str], value: &Json) -> Result<String, Flaw> {
    let steps: Vec<Step<'_>> = way.iter().map(|key| Step::Key(key)).collect();
    let readable = readable(text);
    let Some(root) = parse(&readable)? else {
        return Ok(with_root(text, &nested(way, value)));
    };
    let layout = Layout::of(text, &root);
    if let Some(there) = find(text, &root, &steps)? {
        let Range { start, end } = span(there);
        let lines = layout.lines && text[..start].trim_end_matches([' ', '\t']).ends_with(':');
        let mut written = String::new();
        layout.write(value, line_indent(text, start), lines, &mut written);
        return Ok([&text[..start], &written, &text[end..]].concat());
    }
    for known in (0..way.len()).rev() {
        if let Some(parent) = find(text, &root, &steps[..known])? {
            let object = Container::of(text, parent, &steps[..known], Kind::Object)?;
            return Ok(object.with(text, &layout, Some(way[known]), &nested(&way[known + 1..], value)));
        }
    }
    unreachable!("the way to the root has no step")
}

/// Puts a value behind the last one of an array, which is made if it is not there.
///
/// # Errors
///
/// As [`get`]; and when what is there is no array.
pub fn push(text: &str, way: &[&str], value: &Json) -> Result<String, Flaw> {
    let steps: Vec<Step<'_>> = way.iter().map(|key| Step::Key(key)).collect();
    let readable = readable(text);
    if let Some(root) = parse(&readable)?
        && let Some(list) = find(text, &root, &steps)?
    {
        let list = Container::of(text, list, &steps, Kind::List)?;
        return Ok(list.with(text, &Layout::of(text, &root), None, value));
    }
    set(text, way, &Json::List(vec![value.clone()]))
}

/// Takes out the value at the end of a way; a text without it stays as it is.
///
/// # Errors
///
/// As [`get`].
pub fn remove(text: &str, way: &[Step<'_>]) -> Result<String, Flaw> {
    let readable = readable(text);
    let (Some((last, parents)), Some(root)) = (way.split_last(), parse(&readable)?) else {
        return Ok(text.to_owned());
    };
    let Some(parent) = find(text, &root, parents)? else {
        return Ok(text.to_owned());
    };
    if find(text, &root, way)?.is_none() {
        return Ok(text.to_owned());
    }
    let (container, at) = match *last {
        Step::Key(key) => {
            let object = parent.as_object();
            let at = object.and_then(|object| {
                object
                    .properties
                    .iter()
                    .position(|prop| prop.name.as_str() == key)
            });
            (Container::of(text, parent, parents, Kind::Object)?, at)
        }
        Step::At(at) => (Container::of(text, parent, parents, Kind::List)?, Some(at)),
    };
    Ok(at.map_or_else(|| text.to_owned(), |at| container.without(text, at)))
}

/// Tells whether the value at the end of a way is an object or an array in which there is nothing at all, not even a comment.
///
/// # Errors
///
/// As [`get`].
pub fn is_bare(text: &str, way: &[Step<'_>]) -> Result<bool, Flaw> {
    let readable = readable(text);
    let Some(root) = parse(&readable)? else {
        return Ok(false);
    };
    let there = find(text, &root, way)?;
    Ok(there.is_some_and(|there| {
        let Range { start, end } = span(there);
        let holds = matches!(there, ast::Value::Object(_) | ast::Value::Array(_));
        holds && text[start + 1..end - 1].trim().is_empty()
    }))
}

/// Tells whether there are comments in the value at the end of a way. In what cannot be read there are none.
pub fn has_comments(text: &str, way: &[Step<'_>]) -> bool {
    let readable = readable(text);
    let Ok(Some(root)) = parse(&readable) else {
        return false;
    };
    let there = find(text, &root, way).ok().flatten().map(span);
    there.is_some_and(|there| comments(&text[there]) > 0)
}

/// Returns how many comments are in a text. In what cannot be read there are none.
pub fn comments(text: &str) -> usize {
    let options = CollectOptions {
        comments: CommentCollectionStrategy::AsTokens,
        tokens: true,
    };
    let readable = readable(text);
    let parsed = parse_to_ast(&readable, &options, &TAKEN);
    let tokens = parsed.ok().and_then(|parsed| parsed.tokens);
    let is_comment = |token: &Token<'_>| matches!(token, Token::CommentLine(_) | Token::CommentBlock(_));
    let tokens = tokens.unwrap_or_default().into_iter();
    tokens.filter(|token| is_comment(&token.token)).count()
}

/// Returns what is around the root value, where that is an object or an array with nothing in it.
///
/// # Errors
///
/// When the text is no JSON.
pub fn without_root(text: &str) -> Result<String, Flaw> {
    Ok(match parse(&readable(text))? {
        None => text.to_owned(),
        Some(root) => {
            let Range { start, end } = span(&root);
            [&text[..start], &text[end..]].concat()
        }
    })
}

fn parse(text: &str) -> Result<Option<ast::Value<'_>>, Flaw> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &TAKEN);
    parsed.map(|parsed| parsed.value).map_err(|error| {
        let reason = error.kind().to_string().to_lowercase();
        Flaw::at(text, error.range().start, reason)
    })
}

/// Goes a way.
///
/// # Errors
///
/// When the way leads through something else than it says, or through a name that an object has twice.
fn find<'a>(
    text: &str,
    root: &'a ast::Value<'a>,
    way: &[Step<'_>],
) -> Result<Option<&'a ast::Value<'a>>, Flaw> {
    let mut value = root;
    for (at, step) in way.iter().enumerate() {
        let next = match *step {
            Step::Key(key) => {
                let Some(object) = value.as_object() else {
                    return Err(wrong_kind(text, value, &way[..at], Kind::Object));
                };
                let mut named = object.properties.iter().filter(|prop| prop.name.as_str() == key);
                let found = named.next();
                if let Some(second) = named.next() {
                    let reason = format!("{key:?} is there twice; accepted: once");
                    return Err(Flaw::at(text, second.range.start, reason));
                }
                found.map(|prop| &prop.value)
            }
            Step::At(index) => {
                let Some(list) = value.as_array() else {
                    return Err(wrong_kind(text, value, &way[..at], Kind::List));
                };
                list.elements.get(index)
            }
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn wrong_kind(text: &str, value: &ast::Value<'_>, way: &[Step<'_>], expected: Kind) -> Flaw {
    let what = match way.last() {
        None => "the file".to_owned(),
        Some(Step::Key(key)) => format!("{key:?}"),
        Some(Step::At(at)) => format!("item {at}"),
    };
    let expected = match expected {
        Kind::Object => "an object",
        Kind::List => "an array",
    };
    let reason = format!("{what} is something else; accepted: {expected}");
    Flaw::at(text, span(value).start, reason)
}

/// Wraps a value into objects, one for each step.
fn nested(way: &[&str], value: &Json) -> Json {
    let wrap = |inner, key: &&str| Json::Object(vec![((*key).to_owned(), inner)]);
    way.iter().rev().fold(value.clone(), wrap)
}

/// Puts the first value into a text that has none, behind what comments it has.
fn with_root(text: &str, value: &Json) -> String {
    let layout = Layout {
        newline: newline(text),
        ..Layout::default()
    };
    let mut written = text.to_owned();
    if !text.trim().is_empty() && !text.ends_with('\n') {
        written.push_str(layout.newline);
    }
    layout.write(value, "", true, &mut written);
    written.push_str(layout.newline);
    written
}

fn span(value: &ast::Value<'_>) -> Range<usize> {
    let range = value.range();
    range.start..range.end
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    List,
}

/// An object or an array by the places of what is in it.
struct Container {
    /// Of what is between its brackets.
    inner: Range<usize>,
    items: Vec<Range<usize>>,
}

impl Container {
    /// Finds it in the value at the end of a way.
    fn of(text: &str, value: &ast::Value<'_>, way: &[Step<'_>], expected: Kind) -> Result<Self, Flaw> {
        let Range { start, end } = span(value);
        let items = match (value, expected) {
            (ast::Value::Object(object), Kind::Object) => {
                let member = |prop: &ast::ObjectProp<'_>| prop.range.start..prop.range.end;
                object.properties.iter().map(member).collect()
            }
            (ast::Value::Array(list), Kind::List) => list.elements.iter().map(span).collect(),
            (_, Kind::Object | Kind::List) => return Err(wrong_kind(text, value, way, expected)),
        };
        let inner = start + 1..end - 1;
        Ok(Self { inner, items })
    }

    /// Returns the text with one more item in it, behind the others.
    fn with(&self, text: &str, layout: &Layout, key: Option<&str>, value: &Json) -> String {
        let own = line_indent(text, self.inner.start - 1);
        let lines = match self.items.first() {
            Some(first) => text[self.inner.start..first.start].contains('\n'),
            None => layout.lines,
        };
        let indent = match self.items.last() {
            Some(last) if lines && starts_line(text, last.start) => line_indent(text, last.start).to_owned(),
            Some(_) | None => format!("{own}{}", layout.unit),
        };
        let mut item = String::new();
        if let Some(key) = key {
            layout.write_key(key, &mut item);
        }
        layout.write(value, &indent, lines, &mut item);
        let newline = layout.newline;
        let Some(last) = self.items.last() else {
            let at = self.inner.start + after_comments(&text[self.inner.clone()]);
            let (before, after) = (&text[..at], &text[at..]);
            if !lines {
                return [before, &item, after].concat();
            }
            let ends_line = text[at..self.inner.end].contains('\n');
            let close = if ends_line {
                String::new()
            } else {
                format!("{newline}{own}")
            };
            return [before, newline, &indent, &item, &close, after].concat();
        };
        let comma = comma_after(text, last.end);
        let behind = comma.map_or(last.end, |comma| comma + 1);
        let at = if lines {
            behind + comments_of_line(&text[behind..])
        } else {
            behind
        };
        let separator = match (lines, layout.spaced) {
            (true, _) => format!("{newline}{indent}"),
            (false, true) => " ".to_owned(),
            (false, false) => String::new(),
        };
        let (first, second) = if comma.is_some() { ("", ",") } else { (",", "") };
        let parts = [
            &text[..last.end],
            first,
            &text[last.end..at],
            &separator,
            &item,
            second,
            &text[at..],
        ];
        parts.concat()
    }

    /// Returns the text without one of the items.
    fn without(&self, text: &str, at: usize) -> String {
        let item = &self.items[at];
        let own_comma = comma_after(text, item.end);
        let before = at.checked_sub(1).map(|before| &self.items[before]);
        let from = before.map_or(self.inner.start, |before| {
            comma_after(text, before.end).map_or(before.end, |comma| comma + 1)
        });
        let blank = text[..item.start].trim_end().len().max(from);
        let behind = own_comma.map_or(item.end, |comma| comma + 1);
        let rest = text[behind..].trim_start_matches([' ', '\t', '\r']);
        let shares_line =
            !rest.starts_with('\n') && behind + (text[behind..].len() - rest.len()) < self.inner.end;
        let after_line_comment = ends_in_line_comment(&text[from..item.start]);
        let keeps_line = (shares_line || after_line_comment && !rest.starts_with('\n'))
            && text[blank..item.start].contains('\n');
        let mut cuts = Vec::new();
        if let (Some(before), None) = (before, own_comma)
            && let Some(comma) = comma_after(text, before.end)
        {
            cuts.push(comma..comma + 1);
        }
        cuts.push(if keeps_line {
            item.start..item.end
        } else {
            blank..item.end
        });
        if let Some(comma) = own_comma {
            let spaces = text[behind..].len() - text[behind..].trim_start_matches([' ', '\t']).len();
            cuts.push(comma..if keeps_line { behind + spaces } else { behind });
        }
        let mut left = String::with_capacity(text.len());
        let mut kept = 0;
        for cut in cuts {
            left.push_str(&text[kept..cut.start]);
            kept = cut.end;
        }
        left.push_str(&text[kept..self.inner.end]);
        if self.items.len() == 1 && left[self.inner.start..].trim().is_empty() {
            left.truncate(self.inner.start);
        }
        left.push_str(&text[self.inner.end..]);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_the_line_of_an_item_that_is_taken_out_stays_in_it() {
        for (text, at, left) in [
            ("[\n  1, 2\n]", 0, "[\n  2\n]"),
            ("[\n  1, 2\n]", 1, "[\n  1\n]"),
            ("[\n  1, // one\n  2\n]", 0, "[\n  // one\n  2\n]"),
            ("[\n  1,\n  2\n]", 0, "[\n  2\n]"),
            ("[\n  1]", 0, "[]"),
        ] {
            assert_eq!(remove(text, &[Step::At(at)]), Ok(left.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn a_bracket_is_not_taken_into_a_comment_by_what_is_taken_out_before_it() {
        for (text, at, left) in [
            ("[ // has } and ]\n  1 ]", 0, "[ // has } and ]\n   ]"),
            ("[\n  1, // {\n  2]", 1, "[\n  1 // {\n  ]"),
            ("[\n  // [\n  1]", 0, "[\n  // [\n  ]"),
            ("[\n  1 // }\n  , 2]", 1, "[\n  1 // }\n  ]"),
        ] {
            assert_eq!(remove(text, &[Step::At(at)]), Ok(left.to_owned()), "{text:?}");
        }
    }

    /// What may stand between two tokens; the comments have all that could be taken for tokens.
    const BETWEEN: [&str; 6] = [
        "",
        " ",
        "\n  ",
        " // } ] , \" {\n  ",
        " /* } ] , \" { */ ",
        "\n  // a }, // b\n  /* c ], */\n",
    ];

    /// How often each comment is in a text.
    fn comments(text: &str) -> [usize; 4] {
        ["// } ] , \" {", "/* } ] , \" { */", "// a }, // b", "/* c ], */"]
            .map(|comment| text.matches(comment).count())
    }

    #[test]
    fn whatever_stands_around_an_item_its_removal_leaves_the_others_and_all_comments() {
        let texts = BETWEEN.iter().flat_map(|first| {
            BETWEEN.iter().flat_map(move |before_comma| {
                BETWEEN.iter().flat_map(move |behind_comma| {
                    BETWEEN.iter().flat_map(move |last| {
                        ["", ",", ", // }\n"].map(|end| [*first, *before_comma, *behind_comma, *last, end])
                    })
                })
            })
        });
        for [first, before_comma, behind_comma, last, end] in texts {
            for (open, close, items) in [("[", "]", ["1", "2"]), ("{", "}", ["\"a\": 1", "\"b\": 2"])] {
                let [one, two] = items;
                let alone = format!("{open}{first}{one}{last}{end}{close}");
                let both = format!("{open}{first}{one}{before_comma},{behind_comma}{two}{last}{end}{close}");
                for (text, at) in [(&alone, 0), (&both, 0), (&both, 1)] {
                    let step = |at: usize| match open {
                        "[" => Step::At(at),
                        _ => Step::Key(["a", "b"][at]),
                    };
                    let left = remove(text, &[step(at)]).expect("it is JSON");
                    let of = |text: &str| get(text, &[]).map(|found| found.map(|json| json.len()));
                    let before = of(text).expect("it is JSON").expect("it has a root");
                    assert_eq!(of(&left), Ok(Some(before - 1)), "{text:?} at {at}: {left:?}");
                    if before == 2 {
                        let other = get(text, &[step(1 - at)]);
                        let kept = get(&left, &[if open == "[" { Step::At(0) } else { step(1 - at) }]);
                        assert_eq!(kept, other, "{text:?} at {at}: {left:?}");
                    }
                    assert_eq!(comments(&left), comments(text), "{text:?} at {at}: {left:?}");
                }
            }
        }
    }

    impl Json {
        /// How many items or members it has.
        fn len(&self) -> usize {
            match self {
                Self::List(list) => list.len(),
                Self::Object(members) => members.len(),
                Self::Plain(_) | Self::Text(_) => 0,
            }
        }
    }
}
