//! What a person has added to relay's parts, which stays when they are written anew.

use super::editors::{Editor, Id};
use super::json::Json;
use super::parts::Parts;
use super::said::{self, is_relays};
use super::{command, members};
use crate::cli::place::DEFAULT_PORT;

/// What is said of hooks to which something was added that is not there any more.
pub const OF_HOOKS: &str = "what was added to its hooks";

/// Adds to new parts what a person has added to the old ones, and returns what of the old ones is not, or not whole, in the new ones.
/// What was said for another program, its secrets above all, is not for relay.
pub fn keep(new: &mut Parts, old: &Parts, editor: &Editor) -> Vec<String> {
    let keeps_hooks = if new.hooks.is_empty() {
        !are_in_hooks(old, editor)
    } else {
        keep_of_hooks(new, old)
    };
    let hooks = (!keeps_hooks).then(|| OF_HOOKS.to_owned());
    let entry = keep_of_entry(new, old, editor.id);
    entry.into_iter().chain(hooks).collect()
}

fn keep_of_entry(new: &mut Parts, old: &Parts, editor: Id) -> Vec<String> {
    let (Some(new), Some(old)) = (&mut new.server, &old.server) else {
        return Vec::new();
    };
    if is_relays(old, editor) {
        members::keep(new, old, editor);
    }
    let is_agent = |key: &String| {
        let environment = old
            .get(key)
            .filter(|_| ["env", "environment"].contains(&key.as_str()));
        environment.is_some_and(|environment| said::is_agent_alone(new, old, environment, editor))
    };
    let mut members = members::left_out(new, old);
    members.retain(|key| !is_agent(key));
    let way = (!is_relays(old, editor)).then(|| members::way(old)).flatten();
    way.into_iter()
        .chain(said::left_out(new, old, editor))
        .chain(members::of_other_way(new, old, editor))
        .chain(members)
        .collect()
}

/// Adds to new hooks what a person has added to the old ones of the same event: to their commands, members such as a time limit or
/// a matcher, and groups of the same hook. Tells whether all that was there is in them.
pub fn keep_of_hooks(new: &mut Parts, old: &Parts) -> bool {
    let mut keeps_all = true;
    for (event, old) in &old.hooks {
        match new.hooks.iter_mut().find(|(known, _)| known == event) {
            Some((_, groups)) => keeps_all &= keep_of_groups(groups, old),
            None => keeps_all = false,
        }
    }
    keeps_all
}

/// Takes over the old groups of an event, with the new hooks in them, and leaves the new groups whose hooks are in none of them.
fn keep_of_groups(new: &mut Vec<Json>, old: &[Json]) -> bool {
    let mut keeps_all = true;
    let mut groups: Vec<Json> = Vec::new();
    let mut is_kept = vec![false; new.len()];
    for old in old {
        let mut hooks = Vec::new();
        for hook in old.get("hooks").and_then(Json::as_list).unwrap_or_default() {
            let mut all = new.iter().enumerate();
            let found = all.find_map(|(at, new)| Some((at, with_additions(only_hook(new)?, hook)?)));
            let Some((at, (hook, keeps_hook))) = found else {
                keeps_all = false;
                continue;
            };
            keeps_all &= keeps_hook;
            is_kept[at] = true;
            if !hooks.iter().any(|known: &Json| known.same(&hook)) {
                hooks.push(hook);
            }
        }
        if hooks.is_empty() {
            continue;
        }
        let mut group = old.clone();
        set(&mut group, "hooks", Json::List(hooks));
        if !groups.iter().any(|known| known.same(&group)) {
            groups.push(group);
        }
    }
    let others = new.iter().zip(is_kept).filter(|(_, is_kept)| !is_kept);
    groups.extend(others.map(|(group, _)| group.clone()));
    *new = groups;
    keeps_all
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
    let keeps_all = keep_of_hooks(&mut added, own);
    let is_plain = |(event, groups): &(String, Vec<Json>)| {
        let plain = plain.hooks.iter().find(|(known, _)| known == event);
        plain.is_some_and(|(_, plain)| same_in_any_order(groups, plain))
    };
    !(keeps_all && added.hooks.iter().all(is_plain))
}

fn same_in_any_order(groups: &[Json], others: &[Json]) -> bool {
    let is_there = |group: &Json| others.iter().any(|other| group.same(other));
    groups.len() == others.len() && groups.iter().all(is_there)
}

fn only_hook(group: &Json) -> Option<&Json> {
    match group.get("hooks")?.as_list()? {
        [hook] => Some(hook),
        [] | [_, _, ..] => None,
    }
}

/// Returns a hook with what is added in another, and whether that is all of the other; nothing if that is not the same hook.
fn with_additions(new: &Json, old: &Json) -> Option<(Json, bool)> {
    let text = |hook: &Json| hook.get("command")?.as_text().map(str::to_owned);
    let command = command::with_additions(&text(new)?, &text(old)?)?;
    let mut hook = new.clone();
    set(&mut hook, "command", Json::Text(command));
    add_missing(&mut hook, old);
    let is_in =
        |(key, value): &(String, Json)| key == "command" || hook.get(key).is_some_and(|new| new.same(value));
    let keeps_all = matches!(old, Json::Object(members) if members.iter().all(is_in));
    Some((hook, keeps_all))
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
