//! Programs side by side: measured in turns, because the machine is not the same from one second to the next.

use crate::program::{Program, Server};

/// How often each program is measured; the medians are compared. Each goes first as often as any other, of two or of three.
pub const ROUNDS: usize = 6;

/// Prints the names of the columns that [`compare`] fills.
pub fn head(what: &str) {
    println!(
        "{what:<24} {:>12} {:>12} {:>7} {:>12} {:>7}",
        "relay", "bare axum", "ratio", "other relay", "ratio"
    );
}

/// Measures the servers in turns, each with what was prepared for it once, and prints a line. Another one begins each round: whoever
/// goes first finds the processors colder.
pub fn compare<P>(
    name: &str,
    programs: &[Program],
    prepare: impl Fn(&Server) -> P,
    measure: impl Fn(&Server, &P) -> f64,
) {
    let servers: Vec<Server> = programs.iter().map(Server::of).collect();
    let prepared: Vec<P> = servers.iter().map(prepare).collect();
    let mut rates = vec![Vec::new(); servers.len()];
    let mut ratios = vec![Vec::new(); servers.len()];
    for first in 0..ROUNDS {
        let mut measured = vec![0.0; servers.len()];
        for turn in 0..servers.len() {
            let at = (first + turn) % servers.len();
            measured[at] = measure(&servers[at], &prepared[at]);
        }
        for (at, rate) in measured.iter().enumerate() {
            rates[at].push(*rate);
            ratios[at].push(measured[0] / rate);
        }
    }
    print!("{name:<24} {:>12.0}", median(rates.remove(0)));
    for (rates, ratios) in rates.into_iter().zip(ratios.into_iter().skip(1)) {
        print!(" {:>12.0} {:>7.2}", median(rates), median(ratios));
    }
    println!();
}

/// Returns the value in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
