//! Which worker of this user's is meant, by its files alone: no relay is asked.

use super::discover::project_here;
use super::or_none::OrNone;
use super::project::{DataDirectory, Project};
use super::{Failure, visible};
use crate::engine::{AgentName, DEFAULT_PROJECT, InvalidName};
use crate::workers::Files;

/// Which worker.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The name of the worker, as relay says it: with its project before it, or without.
    #[arg(value_parser = worker)]
    name: AgentName,

    /// Its project; without it any that has a worker of the name: first one that runs, then that of .relay/config.json, then the default one.
    #[arg(
        long,
        value_name = "PROJECT",
        env = "RELAY_PROJECT",
        default_value = "",
        hide_default_value = true
    )]
    project: OrNone<Project>,
}

impl Which {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.name.local()
    }

    /// Finds its files; none if no worker of that name has ever run.
    pub fn find(&self, subcommand: &str) -> Result<Option<Files>, Failure> {
        let failed = |text: String| Failure::error(format!("relay {subcommand}: {text}"));
        let Some(data) = DataDirectory::by(|name| std::env::var_os(name)) else {
            return Err(failed(
                "neither XDG_DATA_HOME nor HOME says where workers' logs are; set one of them".to_owned(),
            ));
        };
        let named = self.name.project();
        let named = (named != DEFAULT_PROJECT).then(|| named.parse().expect("it was checked"));
        let projects: Vec<Project> = match named.or_else(|| self.project.0.clone()) {
            Some(project) => vec![project],
            None => data.projects_there(),
        };
        let found = projects
            .into_iter()
            .map(|project| {
                let files = Files::of(&data.project(&project), self.name());
                (project, files)
            })
            .filter(|(_, files)| files.has_run());
        let (running, ended): (Vec<_>, Vec<_>) = found.partition(|(_, files)| files.is_running());
        let mut found = if running.is_empty() { ended } else { running };
        if found.len() < 2 {
            return Ok(found.pop().map(|(_, files)| files));
        }
        let here = project_here(None).map_err(|error| failed(error.to_string()))?;
        for preferred in here.into_iter().chain([Project::default()]) {
            if let Some(at) = found.iter().position(|(project, _)| *project == preferred) {
                return Ok(Some(found.swap_remove(at).1));
            }
        }
        let names: Vec<String> = found.iter().map(|(project, _)| project.to_string()).collect();
        Err(failed(format!(
            "several projects have a worker {}: {}; choose one with --project",
            self.name(),
            names.join(", ")
        )))
    }

    /// Says that there is none.
    pub fn never_was(&self, subcommand: &str) -> String {
        let name = visible(self.name());
        let project = self.project.0.as_ref();
        let project = project.map_or_else(String::new, |project| format!(" in project {project}"));
        format!("relay {subcommand}: no worker {name} has run{project}")
    }
}

/// Takes the name of a worker, with its project before it or without.
fn worker(text: &str) -> Result<AgentName, InvalidName> {
    match text.split_once(':') {
        Some((project, name)) => AgentName::in_project(project, name),
        None => AgentName::new(text),
    }
}
