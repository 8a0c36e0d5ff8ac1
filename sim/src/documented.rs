//! docs/SIMULATION.md says as many bugs and marks of each suite as there are.

use crate::{marks, nodes, programs, tap, workers};

#[test]
fn the_numbers_in_the_document_are_those_of_the_tables() {
    let document = include_str!("../../docs/SIMULATION.md");
    // A line may end within a sentence.
    let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
    let each = |bugs: usize, file: &str, test: &str, marks: usize| {
        format!(
            "{bugs} seeded bugs (`{file}`), each caught within a stated number of seeds (`tests/{test}.rs`), and {marks} marks."
        )
    };
    for said in [
        format!(
            "{} seeded bugs, each caught within a stated number of seeds",
            tap::Bug::ALL.len()
        ),
        format!("{} marks that a campaign must reach", marks::REQUIRED.len()),
        each(
            nodes::bug::Bug::ALL.len(),
            "nodes/bug.rs",
            "nodes",
            nodes::REQUIRED.len(),
        ),
        each(
            programs::bug::Bug::ALL.len(),
            "programs/bug.rs",
            "programs",
            programs::REQUIRED.len(),
        ),
        each(
            workers::bug::Bug::ALL.len(),
            "workers/bug.rs",
            "workers",
            workers::REQUIRED.len(),
        ),
        each(
            workers::whole::bug::Bug::ALL.len(),
            "workers/whole/bug.rs",
            "workers_whole",
            workers::whole::REQUIRED.len(),
        ),
    ] {
        assert!(
            document.contains(&said),
            "docs/SIMULATION.md does not say: {said}"
        );
    }
}
