//! What of relay's stands in a file of JSON, and how it is put in and taken out. It must not know which editor's file it is.

use super::command::is_hook;
use super::json::{self, Flaw, Json, Step};

/// Under this name relay is among an editor's servers.
pub const NAME: &str = "relay";

/// An array of names, among which there is one of relay's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The way to the array.
    pub list: &'static [&'static str],
    /// What stands there for relay.
    pub name: &'static str,
    /// It is written there whatever a person has decided.
    pub is_always: bool,
}

/// Which parts of relay's a file may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// The object that has a member for each MCP server.
    pub servers: Option<&'static str>,
    /// The arrays in which relay is named.
    pub listed: &'static [Listed],
    /// The object that has a member for each event, an array of groups of hooks.
    pub hooks: Option<&'static str>,
}

/// What of relay's is in a file, or is to be in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The entry among the servers.
    pub server: Option<Json>,
    /// The arrays in which it is named.
    pub listed: Vec<Listed>,
    /// The groups of each event, with relay's hooks alone in them.
    pub hooks: Vec<(String, Vec<Json>)>,
    /// All that is in a file that is relay's as a whole.
    pub whole: Option<String>,
}

impl Parts {
    /// Tells whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what of them relay may have written: not an entry of its name of which `is_relays` says that it leads to another program.
    pub fn own(&self, is_relays: impl Fn(&Json) -> bool) -> Self {
        let server = self.server.clone().filter(is_relays);
        Self {
            server,
            ..self.clone()
        }
    }

    /// Tells whether there is nothing but relay's name in arrays such as a person writes too.
    pub fn has_rule_alone(&self) -> bool {
        self.server.is_none() && self.hooks.is_empty() && self.listed.iter().all(|listed| listed.name != NAME)
    }

    /// Tells whether others say the same.
    pub fn same(&self, other: &Self) -> bool {
        let server = match (&self.server, &other.server) {
            (Some(own), Some(other)) => own.same(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        server && self.listed == other.listed && self.same_hooks(other)
    }

    /// Tells whether the hooks of others say the same, in whichever order the events stand; or what does in a file of its own what hooks do.
    pub fn same_hooks(&self, other: &Self) -> bool {
        self.whole == other.whole
            && self.hooks.len() == other.hooks.len()
            && self
                .hooks
                .iter()
                .all(|(event, groups)| same_groups(groups, other.groups(event)))
    }

    fn groups(&self, event: &str) -> &[Json] {
        let found = self.hooks.iter().find(|(known, _)| known == event);
        found.map_or(&[], |(_, groups)| groups)
    }
}

/// Reads what of relay's is in a text.
///
/// # Errors
///
/// When the text is no JSON, or has something else where relay's parts would be.
pub fn parts(text: &str, shape: Shape) -> Result<Parts, Flaw> {
    let mut parts = Parts::default();
    if let Some(servers) = shape.servers {
        parts.server = json::get(text, &[Step::Key(servers), Step::Key(NAME)])?;
    }
    for listed in shape.listed {
        if !places_of_name(text, listed)?.is_empty() {
            parts.listed.push(*listed);
        }
    }
    if let Some(hooks) = shape.hooks {
        for event in events(text, hooks)? {
            let own = groups(text, hooks, &event)?.iter().filter_map(own_part).collect();
            parts.hooks.push((event, own));
        }
        parts.hooks.retain(|(_, groups)| !groups.is_empty());
    }
    Ok(parts)
}

/// Returns a text with these parts of relay's and no others.
///
/// # Errors
///
/// As [`parts`].
pub fn with(text: &str, shape: Shape, wanted: &Parts) -> Result<String, Flaw> {
    let there = parts(text, shape)?;
    let mut text = text.to_owned();
    if let (Some(servers), Some(server)) = (shape.servers, &wanted.server)
        && !there.server.as_ref().is_some_and(|there| there.same(server))
    {
        text = json::set(&text, &[servers, NAME], server)?;
    }
    for listed in wanted
        .listed
        .iter()
        .filter(|listed| !there.listed.contains(listed))
    {
        text = json::push(&text, listed.list, &Json::text(listed.name))?;
    }
    let Some(hooks) = shape.hooks else {
        return Ok(text);
    };
    for (event, groups) in &there.hooks {
        if !same_groups(groups, wanted.groups(event)) {
            let keeps = !wanted.groups(event).is_empty();
            text = without_hooks(text, hooks, event, keeps)?;
        }
    }
    for (event, groups) in &wanted.hooks {
        if !same_groups(groups, there.groups(event)) {
            for group in groups {
                text = json::push(&text, &[hooks, event], group)?;
            }
        }
    }
    if wanted.hooks.is_empty() && !there.hooks.is_empty() && json::is_bare(&text, &[Step::Key(hooks)])? {
        text = json::remove(&text, &[Step::Key(hooks)])?;
    }
    Ok(text)
}

/// Returns a text without these parts of relay's; none if there is nothing else in it and it was not there before. What held nothing but
/// them goes with them, unless it is in the text as it was before.
///
/// # Errors
///
/// As [`parts`].
pub fn without(text: &str, shape: Shape, own: &Parts, before: Option<&str>) -> Result<Option<String>, Flaw> {
    let mut text = text.to_owned();
    let drop_bare = |text: String, way: &[&str]| {
        let steps: Vec<Step<'_>> = steps(way).collect();
        let was = before.map_or(Ok(None), |before| json::get(before, &steps));
        // What was before may be something else by now.
        let was = was.ok().flatten().is_some();
        if was || !json::is_bare(&text, &steps)? {
            return Ok(text);
        }
        json::remove(&text, &steps)
    };
    if let (Some(servers), Some(_)) = (shape.servers, &own.server) {
        text = json::remove(&text, &[Step::Key(servers), Step::Key(NAME)])?;
        text = drop_bare(text, &[servers])?;
    }
    for listed in &own.listed {
        let was = before.map_or(Ok(Vec::new()), |before| places_of_name(before, listed));
        if was.is_ok_and(|was| !was.is_empty()) {
            continue;
        }
        for at in places_of_name(&text, listed)?.into_iter().rev() {
            let way = steps(listed.list).chain([Step::At(at)]).collect::<Vec<_>>();
            text = json::remove(&text, &way)?;
        }
        for end in (1..=listed.list.len()).rev() {
            text = drop_bare(text, &listed.list[..end])?;
        }
    }
    if let Some(hooks) = shape.hooks {
        for (event, _) in &own.hooks {
            text = without_hooks(text, hooks, event, true)?;
            text = drop_bare(text, &[hooks, event])?;
        }
        if !own.hooks.is_empty() {
            text = drop_bare(text, &[hooks])?;
        }
    }
    let had_root = before.map_or(Ok(None), |before| json::get(before, &[]));
    if had_root.ok().flatten().is_some() || !json::is_bare(&text, &[])? {
        return Ok(Some(text));
    }
    let left = json::without_root(&text)?;
    Ok((before.is_some() || !left.trim().is_empty()).then_some(left))
}

/// Takes relay's hooks out of an event's groups, and the groups that are empty then; also the event if it has none left and is not kept.
fn without_hooks(mut text: String, hooks: &str, event: &str, keeps: bool) -> Result<String, Flaw> {
    let way = [Step::Key(hooks), Step::Key(event)];
    for (at, group) in groups(&text, hooks, event)?.iter().enumerate().rev() {
        let own: Vec<usize> = places_of_hooks(group).collect();
        if own.len() == handlers(group).len() && !own.is_empty() {
            text = json::remove(&text, &[way[0], way[1], Step::At(at)])?;
            continue;
        }
        for handler in own.into_iter().rev() {
            let way = [
                way[0],
                way[1],
                Step::At(at),
                Step::Key("hooks"),
                Step::At(handler),
            ];
            text = json::remove(&text, &way)?;
        }
    }
    if !keeps && json::is_bare(&text, &way)? {
        text = json::remove(&text, &way)?;
    }
    Ok(text)
}

/// The events that have groups.
fn events(text: &str, hooks: &str) -> Result<Vec<String>, Flaw> {
    let there = json::get(text, &[Step::Key(hooks)])?;
    let Some(Json::Object(members)) = there else {
        // That it is an object is seen by a step into it.
        return json::get(text, &[Step::Key(hooks), Step::Key("")]).map(|_| Vec::new());
    };
    Ok(members.into_iter().map(|(event, _)| event).collect())
}

/// The groups of an event; something else that stands there has no hooks of relay's.
fn groups(text: &str, hooks: &str, event: &str) -> Result<Vec<Json>, Flaw> {
    let there = json::get(text, &[Step::Key(hooks), Step::Key(event)])?;
    Ok(match there {
        Some(Json::List(groups)) => groups,
        Some(Json::Plain(_) | Json::Text(_) | Json::Object(_)) | None => Vec::new(),
    })
}

fn handlers(group: &Json) -> &[Json] {
    group.get("hooks").and_then(Json::as_list).unwrap_or_default()
}

/// Where in a group relay's hooks are.
fn places_of_hooks(group: &Json) -> impl Iterator<Item = usize> {
    let is_own = |handler: &Json| {
        handler
            .get("command")
            .and_then(Json::as_text)
            .is_some_and(is_hook)
    };
    let handlers = handlers(group).iter().enumerate();
    handlers
        .filter(move |(_, handler)| is_own(handler))
        .map(|(at, _)| at)
}

/// Tells whether a group has a hook of relay's.
pub fn is_own_group(group: &Json) -> bool {
    places_of_hooks(group).next().is_some()
}

/// A group with relay's hooks alone; none if it has none.
fn own_part(group: &Json) -> Option<Json> {
    let Json::Object(members) = group else {
        return None;
    };
    let own: Vec<Json> = places_of_hooks(group)
        .map(|at| handlers(group)[at].clone())
        .collect();
    if own.is_empty() {
        return None;
    }
    let member = |(key, value): &(String, Json)| {
        let value = if key == "hooks" {
            Json::List(own.clone())
        } else {
            value.clone()
        };
        (key.clone(), value)
    };
    Some(Json::Object(members.iter().map(member).collect()))
}

fn same_groups(own: &[Json], others: &[Json]) -> bool {
    own.len() == others.len() && own.iter().zip(others).all(|(own, other)| own.same(other))
}

fn steps<'a>(way: &'a [&'a str]) -> impl Iterator<Item = Step<'a>> {
    way.iter().map(|key| Step::Key(key))
}

/// Where in an array of names relay's is.
fn places_of_name(text: &str, listed: &Listed) -> Result<Vec<usize>, Flaw> {
    let way: Vec<Step<'_>> = steps(listed.list).collect();
    let there = json::get(text, &way)?;
    let names = match &there {
        None => return Ok(Vec::new()),
        Some(there) => there.as_list(),
    };
    let Some(names) = names else {
        // That it is an array is seen by a step into it.
        let way: Vec<Step<'_>> = way.into_iter().chain([Step::At(0)]).collect();
        return json::get(text, &way).map(|_| Vec::new());
    };
    let named = names
        .iter()
        .enumerate()
        .filter(|(_, name)| name.as_text() == Some(listed.name));
    Ok(named.map(|(at, _)| at).collect())
}
