//! The waiter behind a program: as `relay hook claude wait` is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use tokio::time::sleep;

use super::calls::{self, FOR_EVER};
use super::program::Program;
use super::world::Phase;
use crate::client::now_ms;

/// How soon a waiter looks for its relay again, at first and in the end.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_LAST: Duration = Duration::from_secs(2);

/// How often it looks for the process that it waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Program {
    /// Stands by until there is something for the program, or the program has ended, or another stands by for it.
    pub async fn waits(self: Arc<Self>, own: u64, mut rng: Rng) {
        let mut looks = rng.fork();
        let outlives = tokio::select! {
            biased;
            outlives = self.stands_by(own, &mut rng) => outlives,
            () = self.ends() => true,
        };
        if outlives {
            self.tells_of_end(&mut looks).await;
        }
    }

    /// Stands by until there is something for the program, or another stands by for it. Tells whether the program has ended meanwhile.
    async fn stands_by(&self, own: u64, rng: &mut Rng) -> bool {
        let habits = self.shared.plan.habits;
        let mut chance =
            |one_in: u32| one_in > 0 && self.shared.phase() == Phase::Faulty && rng.u32(0..one_in) == 0;
        let marks = &self.shared.marks;
        let mut pause = AGAIN_FIRST;
        let mut is_first = true;
        loop {
            if self.armed.load(Ordering::Relaxed) != own {
                marks.hit("waiter gave way while relay was away");
                return false;
            }
            let asked_ms = now_ms();
            let answer = calls::post(&self.shared.ledger, &self.path("/wait"), String::new(), FOR_EVER).await;
            match answer {
                Some(answer) if answer.status == 200 => {
                    if chance(habits.dies) {
                        marks.hit("waiter died with its text");
                        return false;
                    }
                    if !self.is_alive() {
                        marks.hit("text for a program that had ended");
                        return true;
                    }
                    let text = answer.body["text"].as_str().unwrap_or_default().to_owned();
                    answer.done();
                    if chance(habits.vanishes) {
                        marks.hit("wake vanished");
                        return false;
                    }
                    self.wake(text, asked_ms);
                    return false;
                }
                Some(answer) if answer.status == 204 => {
                    answer.done();
                    marks.hit("waiter superseded, or its program gone");
                    return false;
                }
                Some(answer) => {
                    answer.done();
                    marks.hit("waiter refused");
                }
                None => {
                    marks.hit_if(is_first, "waiter came again");
                    pause = AGAIN_FIRST;
                }
            }
            is_first = false;
            sleep(pause).await;
            pause = (pause * 2).min(AGAIN_LAST);
        }
    }

    /// Waits for the end of the process. Meanwhile it tells relay when the program has become idle without saying so.
    async fn ends(&self) {
        let mut was_busy = true;
        loop {
            sleep(LOOK_EVERY).await;
            if !self.is_alive() {
                return;
            }
            let is_busy = self.is_busy.load(Ordering::Relaxed);
            if was_busy && !is_busy {
                let event = json!({"hook_event_name": "Notification", "notification_type": "idle_prompt"});
                let Some(answer) = self.tells(&event).await else {
                    continue;
                };
                self.shared.marks.hit("found idle by its waiter");
                answer.done();
            }
            was_busy = is_busy;
        }
    }

    async fn tells_of_end(&self, rng: &mut Rng) {
        let untold = self.shared.plan.habits.untold;
        if untold > 0 && rng.u32(0..untold) == 0 {
            self.shared.marks.hit("end of a program told by nobody");
            return;
        }
        let event = json!({"hook_event_name": "SessionEnd", "reason": "other"});
        if let Some(answer) = self.tells(&event).await {
            self.shared.marks.hit("end of a program told by its waiter");
            answer.done();
        }
    }
}
