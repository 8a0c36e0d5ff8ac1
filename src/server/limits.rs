//! Every bound of the shell: its value, its unit and the reason for it. The engine has its own
//! ([`crate::engine::limits`]).
//!
//! Reaching a bound is a refusal that the caller sees, or a line that the person sees. Where something is forgotten instead,
//! its bound says so.

use std::time::Duration;

// Connections.

/// Most connections at a time; the next one waits in the system's queue. Every stream has one, and its calls come over a second.
pub const CONNECTIONS_MAX: usize = 10_000;

/// How long a connection may take for the head of its first request, and for any head that it has begun: what a
/// silent flood can cost another client.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// How many times [`HEAD_PATIENCE`] a connection may rest between two requests: five minutes, longer than the pools of clients
/// keep one, so that it is the client who closes it.
pub const IDLE_ROUNDS_MAX: u32 = 60;

/// How long nothing is accepted after the system could not, for want of files for instance.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often the person is told that connections cannot be accepted.
pub const COMPLAINT_EVERY: Duration = Duration::from_secs(60);

/// How long the end of a relay waits for its connections to finish.
pub const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long it waits before that for its workers to end: longer than whoever has started them lets them take, before it makes them.
pub const WORKERS_PATIENCE: Duration = Duration::from_secs(20);

// Sockets.

/// How long a peer may take nothing that it was sent before a connection counts as broken, so that a reply which a dead
/// network has swallowed is taken back, not counted as read: shorter than the engine's doubt.
///
/// A kernel counts both: bytes that are not acknowledged, and bytes for which a peer that does not read has no room.
/// tcp(7), `TCP_USER_TIMEOUT`: "transmitted data may remain unacknowledged, or buffered data may remain untransmitted (due to
/// zero window size)".
pub const ACKNOWLEDGE_PATIENCE: Duration = Duration::from_secs(10);

/// How often relay looks whether a peer over the unix socket, for which a write has to wait, has taken something.
pub const LOOK_AT_SLOW: Duration = Duration::from_secs(1);

/// How long relay waits, after it has closed its own end behind a reply that matters, for the peer to close its own. A peer
/// that does not has not been seen to read the reply.
pub const LINGER: Duration = Duration::from_secs(3);

/// How often relay looks again for the end of a peer that has only sent its last byte, with a reply in doubt that it may
/// still read.
pub const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How many times it looks: for longer than the engine doubts.
pub const LOOKS_MAX: u32 = 100;

// Requests.

/// Most sessions of one connection, each of another client that names itself: a proxy may carry several.
pub const CLIENTS_MAX: usize = 16;

/// Longest request body, in bytes: a message body of 1 MiB may take six bytes for each of its own in JSON.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Longest path that proxies say they have taken off, in bytes: as much as a part of an address has that anybody writes.
pub const PREFIX_BYTES_MAX: usize = 256;

/// Longest body that is read to its end though it is too long, in bytes, so that its request is answered by its id; nothing of it is kept.
pub const PASSED_OVER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How much room is made for a body that is announced and did not come at once, in bytes.
pub const ROOM_BYTES: usize = 64 * 1024;

/// How long a request body may take to arrive, so that a trickling client does not hold its buffer for ever.
pub const REQUEST_PATIENCE: Duration = Duration::from_secs(30);

/// How many cancellations are remembered that came before the requests which they are about. The oldest is forgotten first.
pub const EARLY_MAX: usize = 1_024;

/// For how long, in milliseconds: as long as the body of the request may take.
pub const EARLY_MS: i64 = 30_000;

/// Longest text of a request's id, in bytes; one that is longer is refused. Of a session's id too; requests that have a
/// longer one cannot be cancelled by a request.
pub const REQUEST_ID_BYTES_MAX: usize = 256;

/// Most arguments of a call that is read here: each name is looked for among those before it.
pub const ARGUMENTS_MAX: usize = 16;

// What a person asks.

/// Most bytes of what is said at `/health`: of as many agents, nodes, sessions and waits as the engine's bounds allow.
pub const HEALTH_BYTES_MAX: usize = 16 * 1024 * 1024;

// The API.

/// Most workspaces that are made by name: as many as the engine takes projects.
pub const WORKSPACES_MAX: usize = 256;

/// Most keys of one workspace: a program that starts anew asks for a new one. Of more, the one that was not used for the longest is
/// forgotten; whoever has it is told that it is not known.
pub const WORKSPACE_KEYS_MAX: usize = 256;

/// Most agents that have a token: as many as the engine takes agents. Of more, the one that was not used for the longest is
/// forgotten.
pub const AGENT_TOKENS_MAX: usize = 16_384;

/// Most agents of which is kept what they said of themselves in the API, as many; of more, it is not shown.
pub const AGENT_CARDS_MAX: usize = 16_384;

/// Most bytes of that: a paragraph, and a few values.
pub const AGENT_CARD_BYTES_MAX: usize = 4_096;

/// How many messages are shown to whoever goes back to them, if it does not say how many it wants.
pub const RECORDS_SHOWN: usize = 50;

/// Most messages that are shown at a time: as many as Agent Relay's broker asks for.
pub const RECORDS_SHOWN_MAX: usize = 200;

/// Most messages that are looked at for an answer that is about several, as a list of conversations is. Nobody else is served meanwhile: a few
/// hundred microseconds.
pub const RECORDS_LOOKED_AT_MAX: usize = 500;

/// How many messages are found by whoever looks for some, if it does not say how many it wants: as many as Agent Relay finds.
pub const SEARCH_SHOWN: usize = 20;

/// Longest text that is looked for, in bytes: a sentence.
pub const SEARCH_BYTES_MAX: usize = 256;

/// Most words in it: each is looked for in each message.
pub const SEARCH_WORDS_MAX: usize = 16;

/// How many conversations of a workspace are shown to whoever asks for all of them, if it does not say how many it wants.
pub const CONVERSATIONS_SHOWN: usize = 100;

/// Most of them that are shown at a time.
pub const CONVERSATIONS_SHOWN_MAX: usize = 500;

/// Most events of agents' sessions that are kept, of all agents together; of more, the oldest is forgotten. A busy worker says some hundred
/// of them an hour.
pub const SESSION_EVENTS_MAX: usize = 4_096;

/// Most bytes of what they say.
pub const SESSION_EVENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most bytes that one says: the end of a tool's output.
pub const SESSION_EVENT_BYTES_MAX: usize = 64 * 1024;

/// Most agents whose events are counted: as many as may be there. Of more, those of which no event is kept are forgotten, and count from 1 again.
pub const SESSION_COUNTERS_MAX: usize = 16_384;

/// How many of them are shown to whoever asks, if it does not say how many it wants.
pub const SESSION_EVENTS_SHOWN: usize = 50;

/// Most of them that are shown at a time.
pub const SESSION_EVENTS_SHOWN_MAX: usize = 500;

// What waits for clients.

/// Most bytes of all answers and frames together that wait for their clients to take them. Of more, connections are cut: some
/// twenty of the largest messages in JSON, and far more than all ordinary clients together leave unread.
pub const WAITING_BYTES_MAX: usize = 128 * 1024 * 1024;

/// So many of each connection's own do not count among them: most answers, and no more than a connection has in buffers.
pub const FREE_BYTES: usize = 4 * 1024;

/// From how many bytes on an answer with messages in it is made in pieces, and how long each is at the least.
pub const PIECE_BYTES: usize = 64 * 1024;

// Streams.

/// How often `relay serve` writes to an idle stream: shorter than the engine's doubt, so that something was written behind
/// every reply before that ends.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a call waits for its stream to come back: a few times what a client waits before it reconnects.
pub const STREAM_PATIENCE: Duration = Duration::from_secs(1);

/// How many bytes may wait for a client that does not read its stream before its calls are refused.
pub const UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many events may wait for a client that does not read its stream before its calls are refused.
pub const UNREAD_EVENTS_MAX: usize = 1_024;

/// How many bytes of a long text go into a WebSocket at a time: each has a buffer for as much.
pub const FRAGMENT_BYTES: usize = 64 * 1024;

/// From how many bytes of a message's text on its frame is made once for all observers, and not by each for itself.
pub const SHARED_FRAME_BYTES_MIN: usize = 16 * 1024;

/// How long a client that has opened a stream is given to make a handshake. One that makes none has come back, and is told
/// which of its calls have lost their stream. A new one sends its handshake within milliseconds.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_millis(500);

/// How long a call may be on its way: one that arrives so soon after its id was told to have lost its stream may have been made
/// before that was heard.
pub const ON_ITS_WAY_MAX: Duration = Duration::from_secs(1);

// Waits whose stream was lost.

/// How long a client is given to come back. Claude Code gives a silent call up after five minutes.
pub const RETURN_PATIENCE: Duration = Duration::from_secs(600);

/// How many orphans are kept, and so at the most told to one client, whose stream takes them at once. The oldest is forgotten
/// first: its client waits until it gives up by itself.
pub const ORPHANS_MAX: usize = 1_000;

/// How many bytes of notes are behind before they are written anew: some hundred waits.
pub const STALE_BYTES_MAX: usize = 64 * 1024;

/// How long a relay waits at its start for the notes of the one before, which has freed the port: longer than that one takes to
/// end, [`STOP_PATIENCE`] and [`LOG_END_PATIENCE`].
pub const NOTES_PATIENCE: Duration = Duration::from_secs(3);

const _: () = assert!(NOTES_PATIENCE.as_millis() > STOP_PATIENCE.as_millis() + LOG_END_PATIENCE.as_millis());

// The log.

/// Most bytes of lines that wait for a slow stdout: some two thousand. More are counted and left out.
pub const LINES_BYTES_MAX: usize = 256 * 1024;

/// How long the end of a relay waits for the last lines to be written.
pub const LOG_END_PATIENCE: Duration = Duration::from_millis(500);

// Observers.

/// Most events that are kept for observers, of all workspaces together: some eight thousand messages to one agent each. An observer that falls
/// behind by more has missed something, and is told so. Far more than one step may come to, as when a full inbox is read or a message goes to
/// every agent: else nobody could keep up.
pub const EVENTS_MAX: usize = 32_768;

/// Most observers at a time: their connections are their own, and count for nothing else.
pub const OBSERVERS_MAX: u64 = 1_024;

/// Most bytes of the messages in them: as the engine keeps of what happened to messages.
pub const EVENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many events are looked at for an observer before others are served.
pub const EVENTS_AT_ONCE: usize = 128;

/// How many events are shown to whoever asks for them, if it does not say how many it wants.
pub const EVENTS_SHOWN: usize = 100;

/// Most events that are shown at a time.
pub const EVENTS_SHOWN_MAX: usize = 1_000;

/// Most tokens of observers in a workspace. Of more, one that was revoked is forgotten; if none was, the next is refused.
pub const OBSERVER_TOKENS_MAX: usize = 256;

/// Most bytes of all texts in the filters of a token: as many of the longest ids.
pub const FILTER_BYTES_MAX: usize = 64 * 1024;

/// How often it is looked whether an observer may look on still: its token expires by the clock.
pub const OBSERVER_CHECK_EVERY: Duration = Duration::from_secs(5);

/// How long at the stop an observer may take for the last events, and how long at any end for the reason: together less than relay waits for its
/// connections.
pub const OBSERVER_LAST_PATIENCE: Duration = Duration::from_millis(500);

const _: () = assert!(2 * OBSERVER_LAST_PATIENCE.as_millis() < STOP_PATIENCE.as_millis());

/// For how long nobody has to have asked for events before they are kept no more, in milliseconds: an hour, longer than who comes back was away.
pub const EVENTS_IDLE_MS: i64 = 60 * 60 * 1_000;

/// Most workspaces that events are numbered for: many times those that may be there at a time. Of more, all events are forgotten, and observers
/// are told so.
pub const EVENT_WORKSPACES_MAX: usize = 4_096;

/// Longest message of an observer, in bytes: it says nothing but that it is there.
pub const OBSERVER_MESSAGE_BYTES_MAX: usize = 64 * 1024;

// Nodes.

/// Longest frame of a node, in bytes: a list of all agents that it may have.
pub const NODE_FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most deliveries that an agent is shown at a time: all that its node may have sent it and it has given no receipt for, and then some.
pub const DELIVERIES_SHOWN_MAX: usize = 2_000;

/// Most news that wait for a node to take them, beside its frames: they wait for nothing, and what there is no room for is not told.
pub const NODE_NEWS_MAX: usize = 256;

/// How many frames are taken up for a node before it is heard: as many as the engine lets one agent have unacknowledged.
pub const NODE_FRAMES_AT_ONCE: usize = 64;

// Pushes.

/// How long a target may take to answer what is pushed to it, from the look for its address on.
pub const PUSH_PATIENCE: Duration = Duration::from_secs(10);

/// Most pushes to one target at a time: of as many agents.
pub const PUSHES_AT_ONCE_MAX: usize = 32;

/// Longest address of a target, in bytes.
pub const PUSH_URL_BYTES_MAX: usize = 2_048;

/// Longest answer of a target that is read, in bytes: it says in a few words whether it has taken what was pushed.
pub const PUSH_ANSWER_BYTES_MAX: usize = 64 * 1024;

// WebSockets.

/// How many bytes of a WebSocket are read at a time: each has a buffer of that size for as long as it is open. What is read is small, but for
/// a list of agents now and then.
pub const SOCKET_READ_BYTES: usize = 8 * 1024;

/// How many bytes of several messages are gathered, at the least, before they are written: enough that a write costs little by the message, and
/// no more in memory than one of them may take by itself.
pub const SOCKET_BYTES_AT_ONCE: usize = 64 * 1024;

/// How often whoever has a WebSocket is pinged. A node that has not registered by then has ended.
pub const SOCKET_PING_EVERY: Duration = Duration::from_secs(15);

/// How long it may say nothing, not even in answer to a ping.
pub const SOCKET_SILENCE: Duration = Duration::from_secs(45);

/// How long it may take for what is written to it at once, beside what the length of that allows.
pub const SOCKET_WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How many bytes of that it has to take in a millisecond: a tenth of what a slow tunnel carries.
pub const SOCKET_BYTES_PER_MS_MIN: usize = 16;

/// Most agents whose sessions are noted for the next run: as many as there can be at once. Where there are more, it is not known who had one.
pub const KNOWN_AGENTS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_bounds_are_the_ones_in_force() {
        const MIB: usize = 1024 * 1024;
        let contract = include_str!("../../docs/CONTRACT.md");
        let s = |patience: Duration| patience.as_secs();
        let documented = [
            (
                "HTTP request",
                format!("{} MiB, {} s", REQUEST_BYTES_MAX / MIB, s(REQUEST_PATIENCE)),
            ),
            ("connections", thousands(CONNECTIONS_MAX)),
            (
                "sessions of one connection, each of another `Mcp-Session-Id`",
                CLIENTS_MAX.to_string(),
            ),
            (
                "clients that are shown parts of one message",
                crate::engine::limits::READERS_MAX.to_string(),
            ),
            (
                "a connection that asks for nothing, or does not end the head of a request that it began after the last answer",
                format!("{} s ({} s ", s(HEAD_PATIENCE), s(2 * HEAD_PATIENCE)),
            ),
            (
                "a connection between two requests",
                format!("{} minutes", s(HEAD_PATIENCE * IDLE_ROUNDS_MAX) / 60),
            ),
            (
                "id of a request, id of a session in a header",
                format!("{REQUEST_ID_BYTES_MAX} bytes"),
            ),
            (
                "cancellations that came before their requests",
                format!("the latest {}, for {} s", thousands(EARLY_MAX), EARLY_MS / 1_000),
            ),
            (
                "waits that lost their stream",
                format!(
                    "the latest {}, for {} minutes",
                    thousands(ORPHANS_MAX),
                    s(RETURN_PATIENCE) / 60
                ),
            ),
            (
                "events waiting in a stream that its client does not read",
                format!(
                    "{}, or {} MiB",
                    thousands(UNREAD_EVENTS_MAX),
                    UNREAD_BYTES_MAX / MIB
                ),
            ),
            (
                "answers and frames of all clients together that wait to be taken",
                format!(
                    "{} MiB, and {} KiB of each client's",
                    WAITING_BYTES_MAX / MIB,
                    FREE_BYTES / 1_024
                ),
            ),
        ];
        for (what, bound) in documented {
            let row = format!("| {what} | {bound}");
            assert!(contract.contains(&row), "docs/CONTRACT.md does not say: {row}");
        }
    }

    /// Writes a number as the documents do: `10,000`.
    fn thousands(number: usize) -> String {
        let (thousands, rest) = (number / 1_000, number % 1_000);
        match thousands {
            0 => rest.to_string(),
            _ => format!("{thousands},{rest:03}"),
        }
    }
}
