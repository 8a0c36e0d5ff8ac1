//! `relay worker`, which nobody types: the supervisor of a worker ([`crate::workers`]), and the step before its program.

use super::{End, Failure, block_on};

/// `relay worker`.
#[derive(Debug, clap::Args)]
pub struct Worker {
    /// What it is, if not the supervisor.
    #[arg(value_enum)]
    step: Option<Step>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Step {
    /// It becomes the program.
    Launch,
}

/// Supervises a worker, or becomes it.
pub fn run(args: &Worker) -> Result<End, Failure> {
    match args.step {
        Some(Step::Launch) => crate::workers::launch(),
        None => block_on(crate::workers::supervise())?
            .map_err(|error| Failure::error(format!("relay worker: {error}")))?,
    }
    Ok(End::Done)
}
