//! Whether it is known whose sessions those of an entry's bridge are: with some toolsets it does not start without a name.

use std::path::Path;

use super::editors::Id;
use super::json::Json;
use super::said::Said;
use crate::cli::identity::choice::Identities;
use crate::cli::own_program;

/// Says why the bridge of an entry of an editor does not start in a directory for want of a name; nothing if it does, or needs none.
pub fn lacks_name(entry: &Json, editor: Id, directory: &Path) -> Option<String> {
    if !Said::of(entry, editor).needs_name() {
        return None;
    }
    let given = |name: &str| {
        let variables = ["env", "environment"].iter().filter_map(|key| entry.get(key));
        let mut said = variables.filter_map(|variables| variables.get(name)?.as_text());
        said.next().map(str::to_owned)
    };
    let variable = |name: &str| {
        let own = || std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        given(name).or_else(own)
    };
    let identities = Identities::seen_from(directory, own_program());
    let reason = identities.choose(None, variable).err()?.to_string();
    let reason = reason.lines().next().unwrap_or_default();
    Some(format!(
        "with these toolsets its bridge does not start without a name: {}",
        reason.trim_end_matches(':')
    ))
}
