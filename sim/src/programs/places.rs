//! The places in which programs run, one after the other: each is killed, or ends in order, or its machine is gone.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::plan::Key;
use super::program::{Program, Running};
use super::world::Shared;
use crate::client::now_ms;

/// Runs programs in one place of the plan, one after the other, until its machine is gone.
pub async fn runs(shared: Shared, slot: usize) {
    let mut number = None;
    loop {
        let run = shared.next_run();
        let mut rng = Rng::with_seed(shared.plan.seed ^ ((run + 1) << 20));
        let habits = shared.plan.habits;
        let same = number.take().filter(|_| habits.same_number > 0 && rng.bool());
        shared
            .marks
            .hit_if(same.is_some(), "program started with the number of one before");
        let own: String = same.unwrap_or_else(|| format!("{}", 1_000 + run));
        number = Some(own.clone());
        shared.alive().insert(own.clone());
        let (program, woken) = Program::new(shared.clone(), slot, own.clone(), run);
        if program.plan.has_door {
            shared.doors.opens(&program);
        }
        let killed = {
            let shared = shared.clone();
            let ms = match habits.runs_ms_max {
                0 => u64::MAX,
                max => now_ms() + rng.u64(500..max),
            };
            let is_killed = ms < shared.plan.duration_ms;
            async move {
                if is_killed {
                    sleep(Duration::from_millis(ms.saturating_sub(now_ms()))).await;
                    shared.marks.hit("program killed");
                } else {
                    std::future::pending().await
                }
            }
        };
        shared
            .log
            .trace(now_ms(), format_args!("run {run} of place {slot} as {own}"));
        let running = Running::new(program, woken, rng.fork());
        tokio::select! {
            biased;
            () = killed => {}
            () = running.runs() => {}
        }
        shared.log.trace(now_ms(), format_args!("end of run {run}"));
        shared.alive().remove(&own);
        let pause_ms = shared.plan.known_ms() + rng.u64(..3_000);
        sleep(Duration::from_millis(pause_ms)).await;
    }
}

impl Shared {
    /// Names the next message of a program.
    pub fn next_key(&self, slot: usize) -> Key {
        let sender = self.plan.senders.len() + slot;
        let number = self
            .log
            .history()
            .posts
            .keys()
            .filter(|key| key.sender == sender)
            .count();
        Key { sender, number }
    }
}
