//! Deliveries as they are expected: of the messages of a relay, counted in the order in which it accepts them.

use super::*;

/// The n-th message that a relay accepts, at its place in its inbox; posted at the start.
pub fn message(n: u8, seq: u64, from: &str, to: &str) -> Delivery {
    sent(n, seq, from, Recipient::agent(&name(to)))
}

/// The same, to whomever.
pub fn sent(n: u8, seq: u64, from: &str, to: Recipient) -> Delivery {
    Delivery {
        seq: Seq(seq),
        message: Arc::new(Message {
            id: MessageId(id(n)),
            from: name(from),
            to,
            kind: Kind::Status,
            body: format!("body {n}"),
            ts: START,
            context: None,
        }),
        mode: Mode::Immediate,
        redelivered: false,
    }
}

/// The n-th message of a relay whose messages all go from `pm` to `dev-a`.
pub fn nth(n: u8) -> Delivery {
    message(n, u64::from(n) - 1, "pm", "dev-a")
}

/// The same message, as what it belongs to has it.
pub fn within(context: Context, delivery: &Delivery) -> Delivery {
    let mode = context.handling.mode.unwrap_or_default();
    let message = Message {
        context: Some(Box::new(context)),
        ..(*delivery.message).clone()
    };
    Delivery {
        message: Arc::new(message),
        mode,
        ..delivery.clone()
    }
}

/// The same delivery at another place.
pub fn at(seq: u64, delivery: &Delivery) -> Delivery {
    Delivery {
        seq: Seq(seq),
        ..delivery.clone()
    }
}

/// The same message, posted that many milliseconds after the start.
pub fn posted_at(ms: i64, delivery: &Delivery) -> Delivery {
    let message = Message {
        ts: START.plus_millis(ms),
        ..(*delivery.message).clone()
    };
    Delivery {
        message: Arc::new(message),
        ..delivery.clone()
    }
}

pub fn again(delivery: &Delivery) -> Delivery {
    Delivery {
        redelivered: true,
        ..delivery.clone()
    }
}
