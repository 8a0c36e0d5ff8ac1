//! Tables and spans of time as a person reads them in a terminal.

/// How wide a terminal is at the least, in characters.
const COLUMNS: usize = 80;

/// Writes rows under a head, each column as wide as its widest cell.
pub fn table<const WIDTH: usize>(
    head: [&str; WIDTH],
    rows: impl Iterator<Item = [String; WIDTH]>,
) -> Vec<String> {
    let rows: Vec<[String; WIDTH]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; WIDTH] = std::array::from_fn(|column| widest(column).unwrap_or(0));
    let line = |row: &[String; WIDTH]| {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Cuts a line to the width of a terminal.
pub fn fitted(line: &str) -> String {
    cut(line, COLUMNS).trim_end().to_owned()
}

/// Cuts a text to so many characters, at least one.
pub fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text.to_owned(),
        Some(_) => text.chars().take(columns - 1).chain(['…']).collect(),
    }
}

/// Writes a number of seconds in its two greatest units.
pub fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        (_, _, _) => format!("{days} d {} h", hours % 24),
    }
}
