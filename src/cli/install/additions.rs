//! What a person has added to relay's parts, which stays when they are written anew.

use super::editors::{Editor, Id};
use super::json::Json;
use super::parts::Parts;
use super::said::{self, is_relays};
use super::{command, members};
use crate::cli::place::DEFAULT_PORT;

/// Adds to new parts what a person has added to the old ones, and returns what of the old entry is not, or not whole, in the new one.
/// What was said for another program, its secrets above all, is not for relay.
pub fn keep(new: &mut Parts, old: &Parts, editor: Id) -> Vec<String> {
    keep_of_hooks(new, old);
    let (Some(new), Some(old)) = (&mut new.server, &old.server) else {
        return Vec::new();
    };
    if is_relays(old) {
        members::keep(new, old, editor);
    }
    let is_agent = |key: &String| {
        let environment = old
            .get(key)
            .filter(|_| ["env", "environment"].contains(&key.as_str()));
        environment.is_some_and(|environment| said::is_agent_alone(new, old, environment))
    };
    let mut members = members::left_out(new, old);
    members.retain(|key| !is_agent(key));
    said::left_out(new, old).into_iter().chain(members).collect()
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

/// Tells whether a person has added something to relay's hooks in the file of an editor.
pub fn are_in_hooks(own: &Parts, editor: &Editor) -> bool {
    let Some(hooks) = &editor.hooks else {
        return false;
    };
    let plain = Parts {
        hooks: hooks.groups("relay", DEFAULT_PORT),
        ..Parts::default()
    };
    let mut added = plain.clone();
    keep_of_hooks(&mut added, own);
    !added.same_hooks(&plain)
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
