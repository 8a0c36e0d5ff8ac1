//! relay's entry among the servers in a file of TOML, changed in place; all else stays byte for byte.
//!
//! The library tells where each value stands; the text is cut and joined here, because what the library writes has lost its carriage
//! returns.

use std::ops::Range;

use toml_edit::{Array, Document, InlineTable, Item, Key, Table, TableLike, Value};

use super::json::{Flaw, Json};
use super::layout::newline;
use super::parts::{NAME, Parts};

/// Reads relay's entry.
///
/// # Errors
///
/// When the text is no TOML, or the servers are no table.
pub fn parts(text: &str, servers: &str) -> Result<Parts, Flaw> {
    let document = parse(text)?;
    let server = entry(text, &document, servers)?.map(of);
    Ok(Parts {
        server,
        ..Parts::default()
    })
}

/// Returns a text with this entry of relay's.
///
/// # Errors
///
/// As [`parts`]; and when an entry is there, or would have to be put, that is no table with a head of its own.
pub fn with(text: &str, servers: &str, wanted: &Parts) -> Result<String, Flaw> {
    let document = parse(text)?;
    let there = entry(text, &document, servers)?;
    let Some(Json::Object(members)) = &wanted.server else {
        return Ok(text.to_owned());
    };
    let newline = newline(text);
    let Some(there) = there else {
        let mut put = text.to_owned();
        match document.get_key_value(servers) {
            Some((key, table)) if table.as_inline_table().is_some_and(InlineTable::is_empty) => {
                // There are none that would have to be written otherwise.
                put.replace_range(of_member(text, key, table), "");
            }
            Some((_, table)) if table.as_table().is_none_or(Table::is_dotted) => {
                return Err(others_without_head(text, table, servers));
            }
            Some(_) | None => {}
        }
        if !put.is_empty() {
            put.push_str(if put.ends_with('\n') { "" } else { newline });
            put.push_str(newline);
        }
        put.push_str(&format!("[{servers}.{NAME}]{newline}"));
        for (key, value) in members {
            put.push_str(&line(key, value, newline));
        }
        return Ok(put);
    };
    let table = table_of(text, there, servers)?;
    let mut cuts: Vec<(Range<usize>, String)> = Vec::new();
    let mut added = String::new();
    let mut gone = Vec::new();
    for (key, value) in members {
        match table.get(key) {
            Some(there) if of(there).same(value) => {}
            Some(there) if there.is_value() => cuts.push((span(there), written(value))),
            Some(there) => {
                cut_item(text, there, &mut gone);
                added.push_str(&line(key, value, newline));
            }
            None => added.push_str(&line(key, value, newline)),
        }
    }
    for (key, item) in table {
        if !members.iter().any(|(wanted, _)| wanted == key) {
            cut_item(text, item, &mut gone);
        }
    }
    cuts.extend(gone.into_iter().map(|cut| (cut, String::new())));
    let head = table.span().filter(|_| !table.is_implicit());
    // Of one without a head there are tables below it alone, and the head may stand behind them.
    let behind_head = head.map_or(text.len(), |head| whole_lines(text, head).end);
    if table.is_implicit() {
        added = format!("{newline}[{servers}.{NAME}]{newline}{added}");
    }
    if !added.is_empty() {
        let break_before = if text[..behind_head].ends_with('\n') {
            ""
        } else {
            newline
        };
        cuts.push((behind_head..behind_head, format!("{break_before}{added}")));
    }
    Ok(replaced(text, cuts))
}

/// Returns a text without relay's entry, if that is among these parts, and what belongs to it; none if there is nothing else in it and it was not there before.
///
/// # Errors
///
/// As [`parts`].
pub fn without(text: &str, servers: &str, own: &Parts, before: Option<&str>) -> Result<Option<String>, Flaw> {
    let document = parse(text)?;
    let there = entry(text, &document, servers)?;
    let Some(there) = there.filter(|_| own.server.is_some()) else {
        return Ok(Some(text.to_owned()));
    };
    let mut cuts = Vec::new();
    if let Some((key, all)) = document
        .get_key_value(servers)
        .filter(|(_, all)| all.is_inline_table())
    {
        let others = all.as_inline_table().is_some_and(|all| all.len() > 1);
        if others {
            return without_inline(text, span(all)).map(Some);
        }
        cuts.push(of_member(text, key, all));
    } else {
        cut_item(text, there, &mut cuts);
    }
    let left = replaced(text, cuts.into_iter().map(|cut| (cut, String::new())).collect());
    let is_over = before.is_none() && left.trim().is_empty();
    Ok((!is_over).then_some(left))
}

/// Returns a text without relay's entry among others in a table of one line.
fn without_inline(text: &str, servers: Range<usize>) -> Result<String, Flaw> {
    let read = text[servers.clone()].parse::<Value>();
    let mut left = read.map_err(|error| Flaw::at(text, servers.start, error.to_string()))?;
    if let Some(table) = left.as_inline_table_mut() {
        table.remove(NAME);
        table.fmt();
    }
    let left = left.to_string().trim().to_owned();
    Ok(replaced(text, vec![(servers, left)]))
}

/// Returns how many signs of comments are in a text, beside those in its texts. In what cannot be read there are none.
pub fn comments(text: &str) -> usize {
    let Ok(document) = parse(text) else {
        return 0;
    };
    signs(text).saturating_sub(signs_in_texts(&of_table(document.as_table())))
}

fn signs(text: &str) -> usize {
    text.matches('#').count()
}

fn signs_in_texts(value: &Json) -> usize {
    match value {
        Json::Plain(_) => 0,
        Json::Text(text) => signs(text),
        Json::List(list) => list.iter().map(signs_in_texts).sum(),
        Json::Object(members) => members
            .iter()
            .map(|(key, value)| signs(key) + signs_in_texts(value))
            .sum(),
    }
}

fn parse(text: &str) -> Result<Document<&str>, Flaw> {
    Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Flaw::at(text, at, error.message().to_owned())
    })
}

fn entry<'a>(text: &str, document: &'a Document<&str>, servers: &str) -> Result<Option<&'a Item>, Flaw> {
    let Some(servers_item) = document.get(servers) else {
        return Ok(None);
    };
    let Some(table) = servers_item.as_table_like() else {
        let reason = format!("{servers:?} is something else; accepted: a table");
        return Err(Flaw::at(text, span(servers_item).start, reason));
    };
    Ok(table.get(NAME))
}

/// Returns the entry if it is a table with a head of its own, or has tables below it.
fn table_of<'a>(text: &str, entry: &'a Item, servers: &str) -> Result<&'a Table, Flaw> {
    let table = entry.as_table().filter(|table| !table.is_dotted());
    table.ok_or_else(|| no_head(text, entry, servers))
}

fn no_head(text: &str, item: &Item, servers: &str) -> Flaw {
    let reason = format!(
        "the servers are not written as install can change them; accepted: [{servers}.{NAME}] as a table of its own; take relay's entry out of the file, and install again"
    );
    Flaw::at(text, item.span().map_or(0, |span| span.start), reason)
}

fn others_without_head(text: &str, item: &Item, servers: &str) -> Flaw {
    let reason = format!(
        "the servers are not written as install can add one; accepted: each as a table of its own, such as [{servers}.NAME]; write them so, and install again"
    );
    Flaw::at(text, item.span().map_or(0, |span| span.start), reason)
}

/// Collects the lines of a member: of its value, of each value behind its dotted name, or of the tables that it is.
fn cut_item(text: &str, item: &Item, cuts: &mut Vec<Range<usize>>) {
    match item {
        Item::None => {}
        Item::Value(_) => cuts.push(whole_lines(text, span(item))),
        Item::Table(table) if table.is_dotted() => {
            table.iter().for_each(|(_, item)| cut_item(text, item, cuts));
        }
        Item::Table(table) => cut_tables(text, table, cuts),
        Item::ArrayOfTables(tables) => tables.iter().for_each(|table| cut_tables(text, table, cuts)),
    }
}

/// Collects the lines of a table and of those below it, each with the empty line before its head.
fn cut_tables(text: &str, table: &Table, cuts: &mut Vec<Range<usize>>) {
    if let Some(head) = table
        .span()
        .filter(|_| !table.is_implicit() && !table.is_dotted())
    {
        let mut whole = whole_lines(text, head);
        whole.end = whole.end.max(last_line(text, table));
        let blank = text[..whole.start].strip_suffix('\n');
        let blank = blank.map(|before| before.strip_suffix('\r').unwrap_or(before));
        match blank {
            Some(before) if before.is_empty() || before.ends_with('\n') => whole.start = before.len(),
            Some(_) | None => {}
        }
        cuts.push(whole);
    }
    for (_, item) in table {
        if let Some(table) = item.as_table().filter(|table| !table.is_dotted()) {
            cut_tables(text, table, cuts);
        } else if let Some(tables) = item.as_array_of_tables() {
            tables.iter().for_each(|table| cut_tables(text, table, cuts));
        }
    }
}

/// Returns where a member stands: its whole line, unless there is a comment in that.
fn of_member(text: &str, key: &Key, value: &Item) -> Range<usize> {
    let end = span(value).end;
    let own = key.span().map_or(end, |key| key.start)..end;
    let line = whole_lines(text, own.clone());
    if text[own.end..line.end].trim().is_empty() {
        line
    } else {
        own
    }
}

/// Returns where the last line ends that holds a value of a table.
fn last_line(text: &str, table: &Table) -> usize {
    let ends = table.iter().map(|(_, item)| match item {
        Item::Value(value) => value.span().map_or(0, |span| whole_lines(text, span).end),
        Item::Table(table) if table.is_dotted() => last_line(text, table),
        Item::None | Item::Table(_) | Item::ArrayOfTables(_) => 0,
    });
    ends.max().unwrap_or(0)
}

/// Widens a range to whole lines, each with its end.
fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[range.end..]
        .find('\n')
        .map_or(text.len(), |newline| range.end + newline + 1);
    start..end
}

fn span(item: &Item) -> Range<usize> {
    item.span().unwrap_or_default()
}

fn replaced(text: &str, mut cuts: Vec<(Range<usize>, String)>) -> String {
    cuts.sort_by_key(|(cut, _)| (cut.start, cut.end));
    let mut left = String::with_capacity(text.len());
    let mut kept = 0;
    for (cut, put) in cuts {
        left.push_str(&text[kept..cut.start.max(kept)]);
        left.push_str(&put);
        kept = cut.end.max(kept);
    }
    left.push_str(&text[kept..]);
    left
}

fn line(key: &str, value: &Json, newline: &str) -> String {
    format!("{key} = {}{newline}", written(value))
}

fn written(value: &Json) -> String {
    to_toml(value).to_string().trim().to_owned()
}

fn to_toml(value: &Json) -> Value {
    match value {
        Json::Plain(plain) => plain.parse().unwrap_or_else(|_| Value::from(plain.as_str())),
        Json::Text(text) => Value::from(text.as_str()),
        Json::List(list) => Value::Array(list.iter().map(to_toml).collect::<Array>()),
        Json::Object(members) => {
            Value::InlineTable(members.iter().map(|(key, value)| (key, to_toml(value))).collect())
        }
    }
}

fn of(item: &Item) -> Json {
    match item {
        Item::None => Json::Plain("null".to_owned()),
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(tables) => Json::List(tables.iter().map(|table| of_table(table)).collect()),
    }
}

fn of_table(table: &dyn TableLike) -> Json {
    Json::Object(
        table
            .iter()
            .map(|(key, item)| (key.to_owned(), of(item)))
            .collect(),
    )
}

fn of_value(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::Text(text.value().clone()),
        Value::Array(list) => Json::List(list.iter().map(of_value).collect()),
        Value::InlineTable(table) => of_table(table),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            Json::Plain(value.to_string().trim().to_owned())
        }
    }
}
