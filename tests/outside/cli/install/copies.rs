//! What is kept of a file before something goes from it, and what is said of that.

use super::*;

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

#[test]
fn what_is_kept_already_is_not_kept_again() {
    let desk = Desk::new();
    let file = desk.project.join(".cursor/mcp.json");
    let kept = desk.backup(&file);
    let copies = || {
        let directory = kept.parent().expect("it lies in a directory");
        let mut names: Vec<String> = fs::read_dir(directory)
            .expect("it is there")
            .map(|entry| entry.expect("it is there").path())
            .map(|path| read(&path))
            .collect();
        names.sort();
        names
    };
    let texts = ["{\"mine\": 1}", "{\"mine\": 2}"];
    for _ in 0..3 {
        for text in texts {
            // Twice, as by `git checkout`.
            for _ in 0..2 {
                desk.write(&file, text);
                let told = format!("; as it was: {}", kept.display());
                let install = ["install", "--editor", "cursor"];
                desk.relay(&install).assert().code(0).stdout(contains(told));
                assert_eq!(read(&kept), text);
            }
        }
    }
    let all = copies();
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), 2, "{all:?}");
    assert!(all.len() <= 3, "{all:?}");
}
