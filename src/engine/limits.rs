//! Every bound of the engine: its value, its unit and the reason for it.
//!
//! Reaching a bound is a refusal that the caller sees, never a silent drop. Where something is forgotten instead, its bound says
//! so.

/// Most names with commas between them in one address: more than anybody writes out, and each is looked for.
pub const ADDRESSES_MAX: usize = 32;

/// Longest name, in bytes. Names stand in every message and four times in the tool schemas, and the path of a worker's socket, for which
/// the system has some hundred bytes, ends with those of its project and its agent.
pub const AGENT_NAME_BYTES_MAX: usize = 32;

/// Most agents in a roster: the roster stands in the tool schemas, which every session pays for.
pub const AGENTS_MAX: usize = 32;

/// Room for all agent names of a roster together, in bytes, each with three for its quotes and comma.
///
/// `tools/list` stays under 4 kB: its text without names is under 2 kB, and the roster stands in it four times.
pub const ROSTER_BYTES_MAX: usize = 440;

/// Most names that a refusal lists. Of more, it lists the nearest.
pub const KNOWN_SHOWN_MAX: usize = AGENTS_MAX;

/// How many the nearest are.
pub const KNOWN_NEAREST: usize = 8;

/// Longest text that an agent says of itself, in bytes: a path of a deep directory.
pub const PROFILE_BYTES_MAX: usize = 1_024;

/// Longest name of a thread, in bytes. It stands in every message of the thread.
pub const THREAD_BYTES_MAX: usize = 128;

/// How many messages a reply has that were asked for and are there, however little room it has: a part of one counts.
pub const NEVER_FEWER: usize = 1;

/// Most clients that are each shown a message in parts, from the first one on: of more, one begins again that was shown none of the latest
/// [`IDLE_PARTS`], or else the one that has come least far.
pub const READERS_MAX: usize = 16;

/// So many parts of a message are shown to others before a client that was shown some of it counts as one that reads no more.
pub const IDLE_PARTS: u64 = 64;

/// So many clients that were shown one part of a message each, and are gone, are one client that takes another name for each call; and so many
/// connections without a name that are gone are one client's.
pub const GONE_MIN: usize = 2;

/// Most messages of an inbox that are kept in mind once they were read, so that they can be shown again and answered by their id.
/// The oldest is forgotten first: it was read.
pub const RECENT_MAX: usize = 50;

/// Most body bytes of them, but for a longer one alone.
pub const RECENT_BYTES_MAX: usize = 256 * 1024;

/// For how long after its last contact an agent counts as active, in milliseconds: two minutes, as Thrum has it.
pub const ACTIVE_MS: i64 = 120_000;

/// For how long a transient agent is there after its last session has ended, in milliseconds: time for its process to connect
/// again.
pub const TRANSIENT_MS: i64 = 30_000;

/// The same, in milliseconds, of one that was given its name and whose client has a connection for each call: nothing tells when that has
/// ended, and clients close connections that rest.
pub const UNNAMED_MS: i64 = 3_600_000;

/// Longest name of a node, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 128;

/// How long after the end of its connection a node holds its agents, in milliseconds: as long as Agent Relay counts a silent node
/// as live, and several attempts of its clients to connect again.
pub const NODE_GONE_MS: i64 = 45_000;

/// How long an instance of a node has to be silent before another one may take its place, in milliseconds: two of the 12 s that
/// Agent Relay's broker lets pass between heartbeats.
pub const INSTANCE_MS: i64 = 24_000;

/// Most frames of an agent that its node has not acknowledged. A node that is slow with one agent takes those of the others.
pub const FRAMES_MAX: usize = 64;

/// How long after the first failure a push is tried again, in milliseconds, at the most; each further failure in a row doubles it.
pub const PUSH_BACKOFF_MS: i64 = 1_000;

/// How long it becomes, in milliseconds: five minutes, so that a target that comes back is found soon.
pub const PUSH_BACKOFF_MS_MAX: i64 = 5 * 60 * 1_000;

/// After how many attempts a delivery is given up that the target does not take: about an hour after the first.
pub const PUSH_ATTEMPTS_MAX: u32 = 20;

/// Longest name of an action, in bytes.
pub const ACTION_NAME_BYTES_MAX: usize = 128;

/// Longest schema of what an action takes or gives, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 16 * 1024;

/// Longest input, output or error of an invocation, in bytes: what is larger belongs into a file.
pub const INVOCATION_BYTES_MAX: usize = 64 * 1024;

/// How long the handler of an action has to answer, in milliseconds: an hour, in which an agent does a piece of work.
pub const INVOCATION_MS: i64 = 60 * 60 * 1_000;

/// Longest time that a read may wait, in seconds: Claude Code gives up on a call after 300 silent ones.
pub const WAIT_SECONDS_MAX: u32 = 280;

/// How long a reply that was passed stays in doubt on a connection that lives on, in milliseconds: time for a broken
/// connection to show, and for a client to say that it does not want the answer.
pub const DOUBT_MS: i64 = 20_000;

/// How long what a program's hook was answered stays in doubt, in milliseconds: half an hour, in which a model thinks, or a tool runs,
/// and the program says nothing.
pub const SURFACED_MS: i64 = 30 * 60 * 1_000;

/// The same of what a program was woken with, in milliseconds: its turn begins within the second, if its person is not being asked.
pub const WOKEN_MS: i64 = 2 * 60 * 1_000;

/// Most bytes that a model is shown in a turn without asking for them, with what frames them: 8 kB of one body, or a dozen of short ones.
/// Of more than 10,000 characters from a hook Claude Code shows its model the beginning alone.
pub const SURFACED_BYTES_MAX: usize = 9 * 1_024;

/// Most bytes that frame a message which a model is shown, beside those that each line and each special character of its body takes.
pub const FRAME_BYTES_MAX: usize = 640;

/// How often a program is woken in vain, before it is not woken again until it has been heard of.
pub const WAKES_IN_VAIN_MAX: u8 = 3;

/// How long a program that is idle has said nothing before it counts as one that nothing wakes, in milliseconds: its waiter may be on its way.
pub const ASLEEP_MS: i64 = 5_000;

/// Most programs with open sessions. Of more, the one that was silent the longest is gone, of those that cannot be woken: its next event
/// opens another.
pub const PROGRAMS_MAX: usize = 1_024;

/// How long a program that cannot be woken is silent before its session ends, in milliseconds: an hour. Nothing is lost by that: its
/// next event opens another.
pub const PROGRAM_GONE_MS: i64 = 60 * 60 * 1_000;

/// How late the end of a doubt may be acted on, in milliseconds. One that ends later was slept through with the machine,
/// client and all, and begins anew. Far more than a busy machine delays a timer.
pub const DOUBT_LATE_MS_MAX: i64 = 5_000;

/// How long after the end of its doubt a reply on a stream may be confirmed by the next keep-alive, in milliseconds: longer than
/// keep-alives are apart, and what is more was slept through.
pub const OVERDUE_MS_MAX: i64 = DOUBT_MS + DOUBT_LATE_MS_MAX;

/// How long after the sign that a reply was read its call may still be cancelled, in milliseconds. A client that gives a call
/// up sends its cancellation and its next call over two connections, which may overtake each other; the answer that came
/// between was thrown away.
pub const CANCEL_GRACE_MS: i64 = 2_000;

/// Longest reason that a receipt may give, in bytes: a line that says what went wrong.
pub const REASON_BYTES_MAX: usize = 1_024;

/// Longest metadata that a receipt may have, in bytes as JSON: what programs read of it, no longer than what people do.
pub const RECEIPT_METADATA_BYTES_MAX: usize = 1_024;

/// How far ahead a delivery may be deferred, in milliseconds: a day. What an agent does not want for longer it had better not take.
pub const DEFERRAL_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// How long after that what was read may stay unconfirmed while nothing happens, in milliseconds. Every input confirms what is
/// due; a timer for each reply would wake the relay for each.
pub const SETTLE_SLACK_MS: i64 = 1_000;

/// Fewest digits by which a message may be named instead of its whole id: as many as are shown to the person, and enough that no two of
/// those that are kept in mind are likely to begin alike.
pub const ID_DIGITS_MIN: usize = 8;

/// Most agents that the person holds at a time, each by its name: far more than a person watches. Beyond that there is the hold on all.
pub const HOLDS_MAX: usize = 1_024;

/// Longest way to write how somebody takes a message, in bytes: an emoji of several parts, or its name between colons.
pub const EMOJI_BYTES_MAX: usize = 64;

/// Longest idempotency key of a post, in bytes: several times a UUID.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// For how long after a post its idempotency key is known, in milliseconds: a day, longer than any client tries again. It is
/// forgotten then, and a post with it is a new one.
pub const IDEMPOTENCY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Longest task of a worker, in bytes: a page of instructions with what is to be read first. It goes to a program as one argument, of which
/// Linux takes 128 kB.
pub const TASK_BYTES_MAX: usize = 64 * 1024;

/// Longest name of a model that a worker is to have, in bytes.
pub const MODEL_BYTES_MAX: usize = 128;

/// How deep workers may be started by workers: one that starts one that starts a third. Of more nobody keeps an account, and a model that
/// starts another to do its own task would go on for ever.
pub const WORKER_DEPTH_MAX: usize = 3;

/// Most of the last lines of a worker that has ended, as its parent is told them.
pub const LAST_LINES_MAX: usize = 40;

/// Most bytes of them: what a model reads without a thought of its own for it.
pub const LAST_LINES_BYTES_MAX: usize = 4 * 1024;

/// How long a worker has to start, in milliseconds: a program is loaded in a second or two, on a busy machine in ten.
pub const WORKER_START_MS: i64 = 30_000;

/// How long a worker that was started may say nothing, in milliseconds, before its parent is told that it has not spoken: a minute, in which an
/// agent CLI has begun its first turn, unless it asks its person something.
pub const WORKER_SILENT_MS: i64 = 60_000;

/// The bounds that a server or a simulation may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bounds {
    /// Longest body of one message, in bytes of UTF-8.
    pub body_bytes_max: usize,
    /// Most messages of one inbox, handed-over but unconfirmed ones included.
    pub inbox_messages_max: usize,
    /// Most body bytes of one inbox, handed-over but unconfirmed ones included.
    pub inbox_bytes_max: usize,
    /// Most replies of one inbox that were read and may still be cancelled. Of more, the one that was read first is confirmed: a
    /// cancellation that comes later for it comes too late.
    pub read_max: usize,
    /// Most deliveries of an agent that its node has acknowledged and for which it is to give a receipt. Of more, no frames go out.
    pub awaited_max: usize,
    /// Most sessions that are open at a time.
    pub sessions_max: usize,
    /// Most waits that are parked at a time, over all agents.
    pub waits_max: usize,
    /// Most agents, those of the roster included.
    pub agents_max: usize,
    /// Most projects.
    pub projects_max: usize,
    /// Most groups, over all projects.
    pub groups_max: usize,
    /// Most members of one group, and most agents that are named as those that may ask for an action.
    pub members_max: usize,
    /// Longest description of a group, in bytes.
    pub description_bytes_max: usize,
    /// Most channels, over all projects.
    pub channels_max: usize,
    /// Most nodes, over all projects.
    pub nodes_max: usize,
    /// Most actions, over all projects.
    pub actions_max: usize,
    /// Most invocations that are kept, those that have ended included. Of more, the one that ended first is forgotten; if none has ended,
    /// the next is refused.
    pub invocations_max: usize,
    /// Most bytes of what they ask and answer. Of more, the same.
    pub invocations_bytes_max: usize,
    /// Most posts whose idempotency keys are known. Of more, the oldest is forgotten, and a post with its key is a new one.
    pub idempotency_max: usize,
    /// How many times senders may take turns in a thread, or along replies, before a person has to say something there.
    pub hops_max: u32,
    /// Most steps of messages that are kept for the trace: one for an acceptance, one for each of its inboxes unless it is for one
    /// agent by its name, one for each delivery in a reply, and one for all that happens to a reply. Of more, the oldest is forgotten; nothing
    /// else depends on it.
    pub trace_max: usize,
    /// Most bytes of the messages that are kept with them: of their bodies and metadata. Of more, the oldest step is forgotten.
    pub trace_bytes_max: usize,
    /// Most workers that live at a time, those that start and those that end included; none are started if it is 0.
    pub workers_max: usize,
    /// Most reactions to one message, counting each agent's each way to take it.
    pub reactions_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // A long report with its diff fits; a file does not belong into a message.
            body_bytes_max: 1024 * 1024,
            // Far beyond what an agent can read; a sender that gets here talks to nobody.
            inbox_messages_max: 10_000,
            // 64 bodies of the greatest length: the inboxes of three roles and the person stay under 256 MiB.
            inbox_bytes_max: 64 * 1024 * 1024,
            // No client gives up a call behind so many later ones; what is kept for it stays in a processor's cache.
            read_max: 64,
            // Several times what a client asks for at once.
            awaited_max: 1_000,
            // A hundred times the agents of a large team; 4,096 streams take under 256 MB.
            sessions_max: 4_096,
            // One for every session.
            waits_max: 4_096,
            // Far more than a machine runs; an empty inbox takes less than a kilobyte.
            agents_max: 16_384,
            // A person works on a handful.
            projects_max: 256,
            // More than anybody keeps apart; a full list of them stays readable.
            groups_max: 1_024,
            members_max: 1_024,
            description_bytes_max: 1_024,
            channels_max: 1_024,
            // One for every agent that could be there.
            nodes_max: 16_384,
            // Dozens for each of a large team's agents.
            actions_max: 1_024,
            // What a team asks of each other in a day.
            invocations_max: 1_024,
            // Several kilobytes for each of them; 64 of the longest inputs.
            invocations_bytes_max: 4 * 1024 * 1024,
            // Hours of a busy team; some 300 bytes each.
            idempotency_max: 10_000,
            // Two agents that agree with each other for ever get here within the hour.
            hops_max: 100,
            // The latest two thousand messages or so, in 600 kB: with all of them relay stays under 8 MB.
            trace_max: 8_192,
            // Two kilobytes for each of them.
            trace_bytes_max: 4 * 1024 * 1024,
            // Each of them is an agent CLI of several hundred megabytes.
            workers_max: 16,
            // More than a person tells apart.
            reactions_max: 64,
        }
    }
}
