//! Which worker of this user's is meant, by its files alone: no relay is asked.

use std::ffi::OsStr;

use super::project::{DataDirectory, Project};
use super::{Failure, visible};
use crate::engine::AgentName;
use crate::workers::Files;

/// Which worker.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The name of the worker.
    #[arg(value_parser = AgentName::new)]
    name: AgentName,

    /// Its project; every project is looked at if it is left out.
    #[arg(long, value_name = "PROJECT", env = "RELAY_PROJECT")]
    project: Option<Project>,
}

impl Which {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Finds its files; none if no worker of that name has ever run.
    pub fn find(&self, subcommand: &str) -> Result<Option<Files>, Failure> {
        let failed = |text: String| Failure::error(format!("relay {subcommand}: {text}"));
        let Some(data) = DataDirectory::by(|name| std::env::var_os(name)) else {
            return Err(failed(
                "neither XDG_DATA_HOME nor HOME says where workers' logs are; set one of them".to_owned(),
            ));
        };
        let projects: Vec<Project> = match &self.project {
            Some(project) => vec![project.clone()],
            None => projects(&data),
        };
        let mut found: Vec<(Project, Files)> = projects
            .into_iter()
            .map(|project| {
                let files = Files::of(&data.project(&project), self.name());
                (project, files)
            })
            .filter(|(_, files)| files.has_run())
            .collect();
        if found.len() < 2 {
            return Ok(found.pop().map(|(_, files)| files));
        }
        let running: Vec<usize> = (0..found.len()).filter(|at| found[*at].1.is_running()).collect();
        if let [one] = running[..] {
            return Ok(Some(found.swap_remove(one).1));
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
        let project = self.project.as_ref();
        let project = project.map_or_else(String::new, |project| format!(" in project {project}"));
        format!("relay {subcommand}: no worker {name} has run{project}")
    }
}

/// The projects that have a directory.
fn projects(data: &DataDirectory) -> Vec<Project> {
    let entries = std::fs::read_dir(data.projects()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let mut projects: Vec<Project> = names
        .filter_map(|name| OsStr::to_str(&name)?.parse().ok())
        .collect();
    projects.sort();
    projects
}
