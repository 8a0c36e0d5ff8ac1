//! The JSON form of what happened to a message.

use super::messages::write_time;
use super::text::{Json, Object};
use crate::engine::handling::Handling;
use crate::engine::pushes::PushFailed;
use crate::engine::receipts::Receipt;
use crate::engine::trace::{Happened, Moment, Traced};
use crate::engine::{Carrier, Ending, PERSON, Sign};

/// Writes what happened to a message as `{"id", "from", "to", "kind", "accepted_at", "mode", "priority", "steps"}`, with `"deadline"` if it has one, where each step is `{"at", "agent", "seq",
/// "step"}`, with `"session"` and `"over"` if it was handed over, and `"taken_by"` if that was to the person out of an agent's inbox, and `"by"` if a sign told of it, or if it is held: for which hold, and `"after"` if its agent asked for it
/// again: by which message.
pub fn write(traced: &Traced, object: &mut Object<'_>) {
    let Traced {
        id,
        from,
        to,
        kind,
        handling,
        accepted_at,
        moments,
    } = traced;
    object.member("id").plain(&id.to_string());
    object.member("from").plain(from.as_str());
    object.member("to").plain(to.as_str());
    object.member("kind").plain(kind.as_str());
    write_time(*accepted_at, object.member("accepted_at"));
    let Handling {
        mode,
        priority,
        deadline,
    } = handling;
    if let Some(mode) = mode {
        object.member("mode").plain(mode.as_str());
    }
    object.member("priority").plain(priority.as_str());
    if let Some(deadline) = deadline {
        write_time(*deadline, object.member("deadline"));
    }
    object.member("steps").array(moments, write_step);
}

fn write_step(json: &mut Json<'_>, moment: &Moment) {
    let Moment { at, agent, seq, what } = moment;
    json.object(|object| {
        write_time(*at, object.member("at"));
        object.member("agent").plain(agent.as_str());
        object.member("seq").raw(&seq.0.to_string());
        let (step, by) = match what {
            Happened::Queued => ("queued", None),
            Happened::Brought(mode) => {
                object.member("mode").plain(mode.as_str());
                ("mode_of_agent", None)
            }
            Happened::HandedOver {
                session,
                carrier,
                person,
            } => {
                object.member("session").raw(&session.0.to_string());
                object.member("over").plain(over(*carrier));
                if *person && !agent.is_person() {
                    object.member("taken_by").plain(PERSON);
                }
                ("handed_over", None)
            }
            Happened::Read { by } => ("read", Some(by)),
            Happened::Awaited => ("receipt_awaited", None),
            Happened::PushFailed(failed) => (write_push(failed, object), None),
            Happened::Receipt(receipt, metadata) => {
                if let Some(metadata) = metadata {
                    object.member("metadata").raw(metadata);
                }
                (write_receipt(receipt, object), None)
            }
            Happened::Held(by) => {
                object.member("by").plain(by.as_str());
                ("held", None)
            }
            Happened::Allowed => ("allowed", None),
            Happened::Dropped => ("dropped", None),
            Happened::AskedAgain { after } => {
                object.member("after").plain(&after.to_string());
                ("asked_again", None)
            }
            Happened::Expired => ("expired", None),
            Happened::HandedOn { from } => {
                object.member("from").plain(from.as_str());
                ("handed_on", None)
            }
            Happened::Marked => ("marked_read", None),
            Happened::Undone { by } => ("undone", Some(by)),
            Happened::Delivered { by } => ("delivered", Some(by)),
        };
        object.member("step").plain(step);
        if let Some(by) = by {
            object.member("by").plain(sign(*by));
        }
    });
}

/// Writes why a push was in vain, and returns the word that stands for it.
fn write_push(failed: &PushFailed, object: &mut Object<'_>) -> &'static str {
    object.member("reason").string(&failed.error);
    match failed.again_at {
        Some(at) => {
            write_time(at, object.member("until"));
            "push_failed"
        }
        None => "given_up",
    }
}

/// Writes what an agent said of a delivery, and returns the word that stands for it.
fn write_receipt(receipt: &Receipt, object: &mut Object<'_>) -> &'static str {
    let (step, reason) = match receipt {
        Receipt::Done => ("receipted", None),
        Receipt::Accepted { retryable } => {
            object.member("retryable").boolean(*retryable);
            ("accepted", None)
        }
        Receipt::Failed { reason, retryable } => {
            object.member("retryable").boolean(*retryable);
            ("failed", reason.as_deref())
        }
        Receipt::Deferred { until, reason } => {
            write_time(*until, object.member("until"));
            ("deferred", reason.as_deref())
        }
    };
    if let Some(reason) = reason {
        object.member("reason").string(reason);
    }
    step
}

/// Returns the word that stands for the way to a session.
fn over(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Stream => "sse",
        Carrier::Exchange => "http",
        Carrier::Node => "node",
        Carrier::Hook => "hook",
        Carrier::Wake => "wake",
    }
}

/// Returns the word that stands for a sign on the wire.
pub fn sign(sign: Sign) -> &'static str {
    match sign {
        Sign::Passed => "passed",
        Sign::Followed => "followed",
        Sign::CalledAgain => "called_again",
        Sign::Acknowledged => "acknowledged",
        Sign::KeptAlive => "kept_alive",
        Sign::DoubtOver => "doubt_over",
        Sign::Settled => "settled",
        Sign::Listed => "listed",
        Sign::Seen => "seen",
        Sign::Unseen => "unseen",
        Sign::Receipted => "receipted",
        Sign::Failed => "failed",
        Sign::Deferred(_) => "deferred",
        Sign::DeferralOver => "deferral_over",
        Sign::NotTaken => "not_taken",
        Sign::GivenUp => "given_up",
        Sign::Redriven => "redriven",
        Sign::Ended(Ending::Orderly) => "ended",
        Sign::Ended(Ending::Broken) => "broken",
        Sign::Fenced => "taken_over",
        Sign::Cancelled => "cancelled",
        Sign::Lost => "lost",
    }
}
