//! What a model reads in the frames that relay shows it: one that knows what they look like, and takes them at their word.

/// What is in a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Framed {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// It says that more are there.
    pub has_notice: bool,
}

/// A message in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// It is said to have been shown before, maybe.
    pub is_marked: bool,
    /// What its sender wrote.
    pub body: String,
}

/// Reads a text.
pub fn read(text: &str) -> Framed {
    let mut framed = Framed::default();
    for line in text.lines() {
        if let Some(body) = line.strip_prefix("| ") {
            if let Some(message) = framed.messages.last_mut() {
                message.body.push_str(body);
            }
        } else if let Some(head) = line.strip_prefix("[relay] ") {
            framed.has_notice |= head.contains("; take it with") || head.contains("; take them with");
            if let Some((_, behind)) = head.split_once(", id ") {
                framed.messages.push(Message {
                    id: behind.chars().take(36).collect(),
                    is_marked: behind.ends_with(", which you may have been shown before"),
                    body: String::new(),
                });
            }
        }
    }
    framed
}
