//! What `docs/specifications/` says of the documents that relay was built from: each row is counted, and each test that it names is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [(&str, char); 5] = [
    ("relay-server-design", 'D'),
    ("relay-server-plan", 'P'),
    ("thrum-mcp-server", 'T'),
    ("agent-relay-mcp", 'A'),
    ("agent-relay-delivery", 'L'),
];

/// What may be said of a requirement, in the order in which they are counted.
const VERDICTS: [&str; 5] = ["holds", "better", "differs", "to be mended", "missing"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn page(name: &str) -> String {
    let path = root().join(format!("docs/specifications/{name}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of a page: each with its number, what is said of it, and why or where it is tested.
fn rows(page: &str, letter: char) -> Vec<(usize, &str, &str)> {
    let rows = page.lines().filter_map(|line| {
        let (number, rest) = line.strip_prefix("| ")?.strip_prefix(letter)?.split_once(" | ")?;
        let number = number.parse().ok()?;
        let mut cells = rest.strip_suffix(" |")?.splitn(3, " | ");
        let [_, verdict, why] = [cells.next()?, cells.next()?, cells.next()?];
        Some((number, verdict, why))
    });
    rows.collect()
}

/// The tests that a row names, each by its file and what it is called there.
fn tests(why: &str) -> Vec<(&str, &str)> {
    let quoted: Vec<&str> = why.split('`').skip(1).step_by(2).collect();
    let is_path = |text: &str| {
        let path = Path::new(text);
        path.components().count() > 1 && path.extension().is_some_and(|end| end == "rs" || end == "js")
    };
    let pairs = quoted
        .windows(2)
        .filter(|pair| is_path(pair[0]) && !is_path(pair[1]));
    pairs.map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn every_requirement_is_counted_by_what_is_said_of_it() {
    let index = page("README");
    for (name, letter) in PAGES {
        let page = page(name);
        let rows = rows(&page, letter);
        let written = page
            .lines()
            .filter(|line| line.starts_with(&format!("| {letter}")))
            .count();
        assert_eq!(rows.len(), written, "{name}: each row has four cells");
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, (number, verdict, _)) in rows.iter().enumerate() {
            assert_eq!(*number, place + 1, "{name}");
            assert!(VERDICTS.contains(verdict), "{letter}{number}: {verdict}");
            *counts.entry(verdict).or_default() += 1;
        }
        let [holds, better, differs, mended, missing] =
            VERDICTS.map(|verdict| counts.get(verdict).copied().unwrap_or_default());
        let all = rows.len();
        let summary = format!(
            "Of its {all} requirements these hold: {holds}; are better: {better}; differ: {differs}; are to be mended: {mended}; \
             are missing: {missing}."
        );
        assert!(page.contains(&summary), "{name}: {summary}");
        let row = format!("]({name}.md) | {all} | {holds} | {better} | {differs} | {mended} | {missing} |");
        assert!(index.contains(&row), "README.md: {row}");
    }
}

#[test]
fn every_test_that_a_requirement_names_is_there_and_none_that_holds_is_without() {
    for (name, letter) in PAGES {
        let page = page(name);
        for (number, verdict, why) in rows(&page, letter) {
            let tests = tests(why);
            assert!(
                verdict != "holds" || !tests.is_empty() || why.contains("no test yet"),
                "{letter}{number} names no test"
            );
            for (path, test) in tests {
                let text = fs::read_to_string(root().join(path));
                let text = text.unwrap_or_else(|error| panic!("{letter}{number}: {path}: {error}"));
                let is_there = if path.ends_with(".rs") {
                    text.contains(&format!("fn {test}("))
                } else {
                    text.contains(test)
                };
                assert!(is_there, "{letter}{number}: {path} has no {test}");
            }
        }
    }
}
