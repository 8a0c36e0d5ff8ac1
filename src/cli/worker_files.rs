//! Which worker of this user's is meant, by its files alone: no relay is asked.

use super::discover::project_here;
use super::or_none::OrNone;
use super::project::{DataDirectory, Project};
use super::{Failure, visible};
use crate::engine::{AgentName, InvalidName};
use crate::workers::Files;

/// Which worker.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The name of the worker, as relay says it: with its project before it, or without.
    #[arg(value_parser = worker)]
    name: Named,

    /// Its project, where its name says none; without it any that has a worker of the name: first one that runs, then that of .relay/config.json, then the default one.
    #[arg(
        long,
        value_name = "PROJECT",
        env = "RELAY_PROJECT",
        default_value = "",
        hide_default_value = true
    )]
    project: OrNone<Project>,
}

/// A worker as it was named.
#[derive(Debug, Clone)]
struct Named {
    agent: AgentName,
    /// Its project stands before it.
    is_whole: bool,
}

impl Which {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.name.agent.local()
    }

    /// Returns what names it in another command, with its project if one was named.
    pub fn said(&self) -> String {
        let name = self.name();
        match (&self.project.0, self.name.is_whole) {
            (_, true) => format!("{}:{name}", self.name.agent.project()),
            (Some(project), false) => format!("{project}:{name}"),
            (None, false) => name.to_owned(),
        }
    }

    /// Finds its project and its files; none if no worker of that name has ever run.
    pub fn find(&self, subcommand: &str) -> Result<Option<(Project, Files)>, Failure> {
        let failed = |text: String| Failure::error(format!("relay {subcommand}: {text}"));
        let Some(data) = DataDirectory::by(|name| std::env::var_os(name)) else {
            return Err(failed(
                "neither XDG_DATA_HOME nor HOME says where workers' logs are; set one of them".to_owned(),
            ));
        };
        let files_in = |project: &Project| Files::of(&data.project(project), self.name());
        let named = self.name.agent.project();
        let named: Option<Project> = self.name.is_whole.then(|| named.parse().expect("it was checked"));
        // A project's own relay calls its agents so, too, to those of others.
        let named = named.filter(|named| *named != Project::default() || files_in(named).has_run());
        let projects: Vec<Project> = match named.or_else(|| self.project.0.clone()) {
            Some(project) => vec![project],
            None => data.projects_there(),
        };
        let found = projects
            .into_iter()
            .map(|project| {
                let files = files_in(&project);
                (project, files)
            })
            .filter(|(_, files)| files.has_run());
        let (running, ended): (Vec<_>, Vec<_>) = found.partition(|(_, files)| files.is_running());
        let mut found = if running.is_empty() { ended } else { running };
        if found.len() < 2 {
            return Ok(found.pop());
        }
        let here = project_here(None).map_err(|error| failed(error.to_string()))?;
        for preferred in here.into_iter().chain([Project::default()]) {
            if let Some(at) = found.iter().position(|(project, _)| *project == preferred) {
                return Ok(Some(found.swap_remove(at)));
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
        format!("relay {subcommand}: no worker {} has run", visible(&self.said()))
    }
}

/// Takes the name of a worker, with its project before it or without.
fn worker(text: &str) -> Result<Named, InvalidName> {
    let parts = text.split_once(':');
    let agent = match parts {
        Some((project, name)) => AgentName::in_project(project, name),
        None => AgentName::new(text),
    };
    let is_whole = parts.is_some();
    agent.map(|agent| Named { agent, is_whole })
}
