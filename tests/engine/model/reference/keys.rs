//! Posts that are sent again.

use relay::engine::address::Warning;

use super::posts::Post;
use super::*;

impl Model {
    /// Finds the answer to the first post of a key. None if there is none, which is the same as none that is known.
    pub(super) fn answer_before(
        &mut self,
        now: Timestamp,
        from: &AgentName,
        post: &Post,
    ) -> Result<Option<mail::Reply>, Refusal> {
        let Some(key) = &post.options.idempotency_key else {
            return Ok(None);
        };
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            self.marks.reach(Mark::BadKey);
            let given = cut(key);
            return Err(Refusal::Mail(mail::Refusal::InvalidKey { given }));
        }
        let mine = |keyed: &&Keyed| keyed.from == *from && keyed.key == *key;
        let Some(at) = self.keyed.iter().rposition(|keyed| mine(&keyed)) else {
            self.marks.reach_if(
                self.keyed.iter().any(|keyed| keyed.key == *key),
                Mark::KeyOfAnother,
            );
            return Ok(None);
        };
        let keyed = self.keyed[at].clone();
        if keyed.at.plus_millis(IDEMPOTENCY_MS) <= now {
            self.marks.reach(Mark::KeyTooOld);
            return Ok(None);
        }
        if keyed.forgotten {
            self.marks.reach(Mark::KeyForgotten);
            return Ok(None);
        }
        if keyed.said != said(post) {
            self.marks.reach(Mark::KeyOfOtherContent);
            let key = cut(key);
            return Err(Refusal::Mail(mail::Refusal::OtherContent { key }));
        }
        self.marks.reach(Mark::PostedBefore);
        self.marks
            .reach_if(post.options.await_ms.is_some(), Mark::PostedBeforeDoesNotWait);
        Ok(Some(keyed.answer))
    }

    /// Keeps the answer to a post that has a key.
    pub(super) fn keep_answer(
        &mut self,
        message: &Message,
        key: Option<String>,
        said: Said,
        posted: &mail::Reply,
    ) {
        let Some(key) = key else { return };
        let mut answer = posted.clone();
        let mail::Reply::Posted {
            warnings, absence, ..
        } = &mut answer
        else {
            unreachable!("it was accepted")
        };
        let more = warnings.iter().cloned().chain([Warning::Repeated]).collect();
        *warnings = more;
        *absence = None;
        self.keyed.push(Keyed {
            from: message.from.clone(),
            key,
            at: message.ts,
            said,
            answer,
            forgotten: false,
        });
        let too_many = self.keyed.len().saturating_sub(self.bounds.idempotency_max);
        for oldest in &mut self.keyed[..too_many] {
            oldest.forgotten = true;
        }
    }
}

/// Returns all that a post says.
pub(super) fn said(post: &Post) -> Said {
    let mail::PostOptions {
        thread,
        reply_to,
        metadata,
        ..
    } = &post.options;
    let belongs = [thread, reply_to, metadata].map(Clone::clone);
    (post.to.clone(), post.kind, post.body.clone(), belongs)
}

/// Leaves the first 80 characters of a text.
fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(80).collect();
    if text.chars().count() > 80 {
        cut.push('\u{2026}');
    }
    cut
}
