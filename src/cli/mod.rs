//! The command line: a file per subcommand.
//!
//! stdout belongs to the message log in `serve`, to the protocol in `mcp`, to the text in `prompt` and `connection-hint`, and to
//! what was asked for in all others; everything else goes to stderr.

mod ask;
mod attach;
mod client;
mod config;
mod connection_hint;
mod definition;
mod directory;
mod discover;
mod doctor;
mod flush;
mod gatherings;
mod health;
mod hold;
mod hook;
mod identity;
mod install;
mod key;
mod logs;
pub mod mcp;
pub(crate) mod messages;
mod mode;
mod or_none;
mod peek;
mod pending;
mod person;
mod place;
mod project;
mod prompt;
mod read;
mod reader;
mod redrive;
mod register;
mod release;
mod send;
mod serve;
mod show;
mod socket;
mod spawn;
mod status;
mod stdin;
mod stop;
mod stops;
mod table;
mod tail;
mod top;
mod trace;
mod work_tree;
mod worker;
mod worker_files;

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::diagnostics::{self, Diagnostics};
use crate::process::quoted;
use crate::terminal::{visible, visible_lines};

/// The message bus for coding agents on one machine.
#[derive(Debug, Parser)]
#[command(name = "relay", version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// How Claude Code has what relay install does not write.
const KICKOFF: &str = "The skill that writes the prompts of a lift, multi-agent-kickoff, comes with relay's plugin for Claude Code, not by this. For one \
session: claude --plugin-dir path/to/relay/plugin. For all: copy plugin/skills/multi-agent-kickoff of relay's repository into ~/.claude/skills/.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the relay in this terminal, which becomes its message log.
    Serve(serve::Serve),
    /// Put a message into a role's inbox, from you or from the role that you name.
    Send(send::Send),
    /// Answer a message, in its thread.
    Reply(show::Reply),
    /// Show one message, with all of its text, and take nothing.
    Show(show::Show),
    /// Take the messages out of your inbox, or out of the one that you name, one after the other.
    Read(read::Read),
    /// Show the messages in your inbox, or in the one that you name, and take none.
    Peek(peek::Peek),
    /// Tell how many messages wait in your inbox, or in the one that you name, and what they are for.
    Pending(pending::Pending),
    /// Take one message out of your inbox, or out of the one that you name, and wait for it.
    Wait(read::Wait),
    /// Have the messages that are held for an agent brought to it.
    Flush(flush::Flush),
    /// Say how an agent is brought what its senders say nothing of, or tell how it is.
    Mode(mode::Mode),
    /// Hold what an agent gets and sends, or all messages, until you let them pass; or show what is held.
    Hold(hold::Hold),
    /// Let a held message pass, or end a hold.
    Allow(hold::Allow),
    /// Take a held message away from all for whom it is held, for good.
    Drop(hold::Drop),
    /// Tell what happened to a message: who was handed it, and whether it arrived.
    Trace(trace::Trace),
    /// Show what happens as it does: messages, their deliveries, and trouble.
    Tail(tail::Tail),
    /// Show agents, messages and what becomes of them in a terminal, and send some.
    Top(top::Top),
    /// Send again what was pushed to a web hook in vain and given up, or list it.
    Redrive(redrive::Redrive),
    /// Start an agent as a worker of yours.
    Spawn(spawn::Spawn),
    /// End a worker, whosever it is.
    Release(release::Release),
    /// Tell who is connected or waiting, and what is unread.
    Status(status::Status),
    /// List the agents, and whether they are active.
    Agents(directory::Agents),
    /// Remove an agent that is not used any more, and free its name.
    Retire(directory::Retire),
    /// List the groups, or who is in one.
    Groups(directory::Groups),
    /// List the channels, or who is in one.
    Channels(directory::Channels),
    /// Make a group, put agents into it or take them out, or remove it.
    Group(gatherings::Group),
    /// Make a channel, put agents into it or take them out, or remove it.
    Channel(gatherings::Channel),
    /// Show what a worker has written, also one that has ended.
    Logs(logs::Logs),
    /// Bring a worker's terminal into yours; Ctrl-] leaves it, and it goes on.
    Attach(attach::Attach),
    /// Print a new key of a workspace, for programs that speak the API of Agent Relay.
    Key(key::Key),
    /// End the relay that runs on this machine in order, and nothing else.
    Stop(stop::Stop),
    /// Connect agent CLIs and editors to relay, and let their hooks call it.
    #[command(after_help = KICKOFF)]
    Install(install::Install),
    /// Take out of the files of agent CLIs and editors what relay install has put in.
    Uninstall(install::Uninstall),
    /// Tell which agent CLIs and editors are connected to relay, and what to do about those that are not well.
    Doctor(doctor::Doctor),
    /// Tell which relay, project and agent relay's commands would use here, and what says so.
    Config(config::Config),
    /// Write down who an agent is, so that relay mcp finds it.
    Register(register::Register),
    /// Connect an agent over stdio to the relay that runs on this machine.
    Mcp(mcp::Mcp),
    /// Carry an event of an agent's program to the relay, and its answer back: for the hooks of Claude Code, Codex and Gemini CLI.
    Hook(hook::Hook),
    /// Print the kickoff prompt of a role, ready to paste into its agent.
    Prompt(prompt::Prompt),
    /// Print what completes the command line of relay in a shell.
    Completions(definition::Completions),
    /// Write the manual pages of relay and of its subcommands into a directory.
    Man(definition::Man),
    #[command(hide = true)]
    ConnectionHint(connection_hint::ConnectionHint),
    #[command(hide = true)]
    Worker(worker::Worker),
}

/// How a subcommand ended that met no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All was done.
    Done,
    /// There is nothing there.
    Nothing,
    /// What was waited for did not come in time.
    TimedOut,
    /// The program whose waiter it is is to begin a turn.
    Wakes,
    /// All was told, and not all of it is well.
    Unwell,
}

/// What a subcommand says on stderr when it did not do what it was asked for.
#[derive(Debug)]
struct Failure {
    text: String,
    exit_code: u8,
}

impl Failure {
    fn error(text: String) -> Self {
        let exit_code = 1;
        Self { text, exit_code }
    }

    fn usage(text: String) -> Self {
        let exit_code = 2;
        Self { text, exit_code }
    }
}

/// Returns what the command line may be. An empty variable of relay's is one that is not set; an empty option is what it is.
fn command_line() -> clap::Command {
    let without_variable = |arg: clap::Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) {
            arg.env(None::<&'static str>)
        } else {
            arg
        }
    };
    let without_variables = |subcommand: clap::Command| {
        let own = subcommand.mut_args(without_variable);
        own.mut_subcommands(|inner| inner.mut_args(without_variable))
    };
    let command = Cli::command().mut_subcommands(without_variables);
    command.disable_version_flag(true).arg(version())
}

/// The option that prints the version; `-v` is that of Agent Relay's command.
fn version() -> clap::Arg {
    let version = clap::Arg::new("version").short('V').visible_short_alias('v');
    let version = version.long("version").help("Print version");
    version.action(clap::ArgAction::Version)
}

/// Runs the command line and returns the process's exit code: 0 if all was done, 1 after an error, 2 for bad usage, 3 if
/// there was nothing to read, 4 if something did not come in time.
pub fn main() -> ExitCode {
    let given = command_line().try_get_matches();
    let cli = match given.and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => cli,
        Err(answer) => return tell(answer),
    };
    if let Command::Serve(_) = cli.command {
        serve::give_memory_back();
    }
    let _diagnostics = Diagnostics::start();
    let result = match cli.command {
        Command::Serve(args) => done(serve::run(args).map_err(|error| error.to_string())),
        Command::Send(args) => send::run(args),
        Command::Reply(args) => show::reply(&args),
        Command::Show(args) => show::run(&args),
        Command::Read(args) => read::run(&args),
        Command::Peek(args) => peek::run(&args),
        Command::Pending(args) => pending::run(&args),
        Command::Wait(args) => read::wait_for_one(&args),
        Command::Flush(args) => flush::run(&args),
        Command::Mode(args) => mode::run(&args),
        Command::Hold(args) => hold::hold(&args),
        Command::Allow(args) => hold::allow(&args),
        Command::Drop(args) => hold::drop(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Tail(args) => tail::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Redrive(args) => redrive::run(&args),
        Command::Spawn(args) => spawn::run(&args),
        Command::Release(args) => release::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Agents(args) => directory::agents(&args),
        Command::Retire(args) => directory::retire(&args),
        Command::Groups(args) => directory::groups(&args),
        Command::Channels(args) => directory::channels(&args),
        Command::Group(args) => gatherings::group(&args),
        Command::Channel(args) => gatherings::channel(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Attach(args) => attach::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Uninstall(args) => install::undo(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Register(args) => register::run(args),
        Command::Mcp(args) => mcp::main(args),
        Command::Hook(args) => Ok(hook::run(&args)),
        Command::Prompt(args) => done(prompt::run(args).map_err(|error| format!("relay prompt: {error}"))),
        Command::Completions(args) => definition::complete(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Man(args) => definition::write_pages(&args),
        Command::ConnectionHint(args) => {
            done(connection_hint::run(args).map_err(|error| format!("relay connection-hint: {error}")))
        }
    };
    match result {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Nothing) => ExitCode::from(3),
        Ok(End::TimedOut) => ExitCode::from(4),
        Ok(End::Wakes) => ExitCode::from(hook::WAKES),
        Ok(End::Unwell) => ExitCode::FAILURE,
        Err(Failure { text, exit_code }) => {
            say(&text);
            ExitCode::from(exit_code)
        }
    }
}

/// Prints help, the version, or what is wrong with the arguments, which cannot steer the terminal from there and show
/// nothing of a token.
fn tell(mut answer: clap::Error) -> ExitCode {
    hide_token(&mut answer);
    if answer.kind() == ErrorKind::InvalidUtf8
        && let Some(name) = variable_without_utf8()
    {
        answer = Cli::command().error(ErrorKind::InvalidUtf8, format!("{name} is no UTF-8"));
    }
    let shown = |text: &String| visible(text).into_owned();
    let values: Vec<_> = answer
        .context()
        .filter_map(|(kind, value)| {
            let shown = if let ContextValue::String(text) = value {
                ContextValue::String(shown(text))
            } else if let ContextValue::Strings(texts) = value {
                ContextValue::Strings(texts.iter().map(shown).collect())
            } else {
                return None;
            };
            (*value != shown).then_some((kind, shown))
        })
        .collect();
    if !values.is_empty() {
        // What clap suggests repeats the argument as it was given.
        answer.remove(ContextKind::Suggested);
    }
    for (kind, value) in values {
        answer.insert(kind, value);
    }
    let _ = answer.print();
    let code = u8::try_from(answer.exit_code()).unwrap_or(1);
    // To the program whose hook it is, 2 means that its turn is to be stopped, or begun.
    let is_hook = std::env::args_os()
        .nth(1)
        .is_some_and(|subcommand| subcommand == "hook");
    ExitCode::from(if is_hook { code.min(1) } else { code })
}

/// Returns the first of the subcommand's variables whose value is no UTF-8, if no argument is none.
fn variable_without_utf8() -> Option<String> {
    let arguments: Option<Vec<_>> = std::env::args_os()
        .map(|argument| argument.into_string().ok())
        .collect();
    let command = command_line();
    let mut asked = &command;
    for argument in arguments?.iter().skip(1) {
        asked = asked.find_subcommand(argument).unwrap_or(asked);
    }
    let mut variables = asked.get_arguments().filter_map(clap::Arg::get_env);
    let name = variables.find(|name| std::env::var_os(name).is_some_and(|value| value.to_str().is_none()));
    Some(name?.to_string_lossy().into_owned())
}

/// Takes a refused token out of an error, and what may be the second word of one that was given without quotes.
fn hide_token(error: &mut clap::Error) {
    let is_token = |argument: &str| argument == "--token" || argument.starts_with("--token=");
    let is_given = || std::env::args_os().any(|given| is_token(&given.to_string_lossy()));
    let kind = match (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidSubcommand),
    ) {
        (_, Some(ContextValue::String(word))) if !mcp::McpCommand::has_subcommand(word) && is_given() => {
            ContextKind::InvalidSubcommand
        }
        (Some(ContextValue::String(argument)), _) if argument.starts_with("--token ") => {
            ContextKind::InvalidValue
        }
        (Some(ContextValue::String(argument)), _) if !argument.starts_with('-') && is_given() => {
            ContextKind::InvalidArg
        }
        _ => return,
    };
    if error.get(kind).is_some() {
        error.insert(kind, ContextValue::String("(not shown)".to_owned()));
    }
}

fn done(result: Result<(), String>) -> Result<End, Failure> {
    result.map(|()| End::Done).map_err(Failure::error)
}

/// Says something on stderr, if anybody listens there.
fn say(text: &str) {
    diagnostics::say(&visible_lines(&messages::with_local_times(text)));
}

/// Runs a future to its end on this thread, if the system gives this process what that takes.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = runtime(&mut tokio::runtime::Builder::new_current_thread(), 1);
    let runtime =
        runtime.map_err(|error| Failure::error(format!("relay cannot wait for anything: {error}")))?;
    let result = runtime.block_on(future);
    // A name that the system is still looking up holds up nothing.
    runtime.shutdown_background();
    Ok(result)
}

/// How many files a runtime opens, and then some: one to wait for sockets with, one to be woken by, and a pair for signals.
const RUNTIME_FILES: usize = 16;

/// Makes a runtime with timers and sockets. tokio panics where there is no file for its signals, or no thread, so it is looked first whether
/// there are so many threads.
fn runtime(
    builder: &mut tokio::runtime::Builder,
    threads: usize,
) -> std::io::Result<tokio::runtime::Runtime> {
    let stderr = std::io::stderr();
    let files: std::io::Result<Vec<_>> = (0..RUNTIME_FILES)
        .map(|_| std::os::fd::AsFd::as_fd(&stderr).try_clone_to_owned())
        .collect();
    drop(files?);
    let all_are_there = std::sync::RwLock::new(());
    std::thread::scope(|scope| {
        let _not_yet = all_are_there.write();
        for _ in 0..threads {
            let waits = || drop(all_are_there.read());
            std::thread::Builder::new()
                .spawn_scoped(scope, waits)
                .map_err(no_thread)?;
        }
        Ok::<_, std::io::Error>(())
    })?;
    builder.enable_all().build()
}

/// Says what the system did not give.
fn no_thread(error: std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("the system gives it no thread: {error}"))
}

/// Returns the command of a shell that is this program.
fn ourselves() -> String {
    quoted(&own_program())
}

/// Returns the program that this is: `relay` if that is what the shell finds under that name, else its path.
fn own_program() -> String {
    let Ok(path) = std::env::current_exe() else {
        return "relay".to_owned();
    };
    let found = std::env::var_os("PATH").and_then(|directories| {
        let mut candidates = std::env::split_paths(&directories).map(|directory| directory.join("relay"));
        candidates.find(|candidate| candidate.is_file())
    });
    let same = found.is_some_and(|found| found.canonicalize().ok() == path.canonicalize().ok());
    if same {
        "relay".to_owned()
    } else {
        path.to_string_lossy().into_owned()
    }
}

/// How many inboxes are named of those that had something unread when relay stopped.
const UNREAD_NAMED: usize = 12;

/// Says what was unread and is now gone, in a half sentence; nothing if nothing was. Of many inboxes those are named that had most, in
/// the order in which they came.
fn unread_text<Name: std::fmt::Display>(unread: impl Iterator<Item = (Name, u64)>) -> String {
    let mut unread: Vec<_> = unread.enumerate().collect();
    if unread.is_empty() {
        return String::new();
    }
    unread.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
    let others = unread.split_off(unread.len().min(UNREAD_NAMED));
    unread.sort_by_key(|(place, _)| *place);
    let mut told: Vec<String> = unread
        .iter()
        .map(|(_, (name, count))| format!("{name} {count}"))
        .collect();
    if !others.is_empty() {
        let count: u64 = others.iter().map(|(_, (_, count))| count).sum();
        told.push(format!("{count} in {} others", others.len()));
    }
    format!("; unread, now gone: {}", told.join(", "))
}

/// The address under which programs on this machine reach a relay that listens on `host`.
///
/// A relay without a token answers to its loopback names only, so an IPv4 loopback address is `localhost`; one that listens
/// on every address is reached there too.
fn url(host: IpAddr, port: u16) -> String {
    match host {
        IpAddr::V4(v4) if v4.is_loopback() || v4.is_unspecified() => format!("http://localhost:{port}"),
        IpAddr::V6(v6) if v6.is_unspecified() => format!("http://localhost:{port}"),
        IpAddr::V4(_) | IpAddr::V6(_) => format!("http://{}", SocketAddr::new(host, port)),
    }
}

/// Takes a port that can be connected to.
fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err("a port is a number from 1 to 65535".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_inboxes_with_something_unread_those_are_named_that_had_most() {
        let told = |counts: &[u64]| {
            let named = counts
                .iter()
                .enumerate()
                .map(|(at, count)| (format!("a{at}"), *count));
            unread_text(named)
        };
        let twelve = [1, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
        let all =
            "; unread, now gone: a0 1, a1 9, a2 1, a3 1, a4 1, a5 1, a6 1, a7 1, a8 1, a9 1, a10 1, a11 1";
        assert_eq!(told(&twelve), all);
        let more = [twelve.as_slice(), &[2, 3]].concat();
        let most = "; unread, now gone: a0 1, a1 9, a2 1, a3 1, a4 1, a5 1, a6 1, a7 1, a8 1, a9 1, a12 2, a13 3, 2 in 2 others";
        assert_eq!(told(&more), most);
    }

    #[test]
    fn a_relay_is_reached_at_localhost_unless_it_listens_elsewhere_only() {
        for (host, expected) in [
            ("127.0.0.1", "http://localhost:4000"),
            ("0.0.0.0", "http://localhost:4000"),
            ("::", "http://localhost:4000"),
            ("::1", "http://[::1]:4000"),
            ("192.0.2.7", "http://192.0.2.7:4000"),
            ("2001:db8::7", "http://[2001:db8::7]:4000"),
        ] {
            assert_eq!(url(host.parse().expect("an address"), 4000), expected, "{host}");
        }
    }
}
