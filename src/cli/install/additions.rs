//! What a person has added to relay's parts, which stays when they are written anew.

use super::command;
use super::json::Json;
use super::parts::Parts;

/// The members of an entry that say how relay is reached; others are the person's.
const REACHED_BY: [&str; 7] = ["type", "url", "httpUrl", "serverUrl", "command", "args", "source"];

/// Adds to new parts what a person has added to the old ones.
pub fn keep(new: &mut Parts, old: &Parts) {
    if let (Some(new), Some(old)) = (&mut new.server, &old.server) {
        keep_of_server(new, old);
    }
    keep_of_hooks(new, old);
}

/// Adds to new hooks what a person has added to the old ones of the same event: to their commands, and members such as a time limit or
/// a matcher.
pub fn keep_of_hooks(new: &mut Parts, old: &Parts) {
    for (event, groups) in &mut new.hooks {
        let old = old.hooks.iter().find(|(known, _)| known == event);
        for group in groups {
            let was = old.and_then(|(_, old)| old.iter().find_map(|old| with_additions(group, old)));
            if let Some(was) = was {
                *group = was;
            }
        }
    }
}

/// Returns a group of one hook with what is added in another; nothing if that is not of the same hook.
fn with_additions(new: &Json, old: &Json) -> Option<Json> {
    let only = |group: &Json| match group.get("hooks")?.as_list()? {
        [hook] => Some(hook.clone()),
        [] | [_, _, ..] => None,
    };
    let (mut hook, old_hook) = (only(new)?, only(old)?);
    let text = |hook: &Json| hook.get("command")?.as_text().map(str::to_owned);
    let command = command::with_additions(&text(&hook)?, &text(&old_hook)?)?;
    set(&mut hook, "command", Json::Text(command));
    add_missing(&mut hook, &old_hook);
    let mut group = new.clone();
    set(&mut group, "hooks", Json::List(vec![hook]));
    add_missing(&mut group, old);
    Some(group)
}

fn set(object: &mut Json, key: &str, value: Json) {
    if let Json::Object(members) = object
        && let Some(member) = members.iter_mut().find(|(name, _)| name == key)
    {
        member.1 = value;
    }
}

/// Adds the members of another object that an object does not have.
fn add_missing(object: &mut Json, other: &Json) {
    let (Json::Object(members), Json::Object(others)) = (object, other) else {
        return;
    };
    for (key, value) in others {
        if members.iter().all(|(known, _)| known != key) {
            members.push((key.clone(), value.clone()));
        }
    }
}

/// Adds to a new entry what a person has added to the old one, where it reaches relay in the same way: over HTTP, or by a program.
fn keep_of_server(new: &mut Json, old: &Json) {
    let is_command = |entry: &Json| entry.get("command").is_some();
    let (Json::Object(members), Json::Object(old_members)) = (&mut *new, old) else {
        return;
    };
    let by_command = members.iter().any(|(key, _)| key == "command");
    if by_command != is_command(old) {
        return;
    }
    for (key, value) in old_members {
        let new = members.iter_mut().find(|(known, _)| known == key);
        match new {
            // Such as the headers: a token that was copied there gives way to the variable that holds it.
            Some((_, new)) => add_missing(new, value),
            None if REACHED_BY.contains(&key.as_str()) => {}
            None => members.push((key.clone(), value.clone())),
        }
    }
}
