//! The supervisor: one process for each worker, which starts, watches and ends it.
//!
//! It reads orders from stdin and writes reports to stdout, a line of JSON each ([`Told`], [`Report`]). When stdin ends, relay has ended,
//! and so does the worker.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::net::UnixListener;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::clients::{Shared, Size, Wanted, serve};
use super::launch::{self, Output};
use super::limits::{
    FAREWELL, GRACE, INPUT_BYTES_MAX, KILL_AGAIN, NAME_LOOK, NAME_PATIENCE, READ_BYTES, SIDE_MAX,
};
use super::log::Log;
use super::order::{Report, Told};
use super::screen::{Screen, with_returns};
use super::{Files, Order, Status, processes, program};

type Orders = Lines<BufReader<tokio::io::Stdin>>;

/// Carries out the order that stdin brings, until the worker has ended and nothing of it is left.
///
/// # Errors
///
/// When stdin brings no order, or the system gives this process none of what it needs. Nothing was started then.
pub async fn supervise() -> io::Result<()> {
    // What is meant for relay's terminal does not reach it, such as Ctrl-C.
    let _is_leader = rustix::process::setsid();
    processes::adopt();
    // Before anything is started that they are to end.
    let mut signals = Ends::new()?;
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let first = orders.next_line().await?.unwrap_or_default();
    let order = match serde_json::from_str(&first) {
        Ok(Told::Start(order)) => *order,
        Ok(Told::End) => return Ok(()),
        Err(error) => {
            return Err(io::Error::other(format!(
                "it is started by relay serve, and was given no order: {error}"
            )));
        }
    };
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            match begin(order, &mut orders, &mut signals).await {
                Ok(mut worker) => worker.run(orders, &mut signals).await,
                Err(reason) => {
                    tell(&Report::Failed { reason });
                    Ok(())
                }
            }
        })
        .await
}

/// Tells relay something; it may have ended.
fn tell(report: &Report) {
    let mut line = serde_json::to_vec(report).expect("it is text and numbers");
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    let _gone = stdout.write_all(&line).and_then(|()| stdout.flush());
}

/// Where a worker writes, and where what it reads is written.
struct Line {
    ours: AsyncFd<OwnedFd>,
    /// Its own end is kept open, so that this one does not end when the worker closes it and opens it again.
    _theirs: OwnedFd,
    is_terminal: bool,
}

/// A worker that runs.
struct Worker {
    /// Its first process, which leads its group.
    first: Pid,
    status: Option<Status>,
    line: Line,
    log: Log,
    shared: Rc<Shared>,
    wanted: Wanted,
    /// What waits to be typed.
    input: Vec<u8>,
    socket: Option<Door>,
    /// When it is killed next, once it is to end.
    kill_at: Option<Instant>,
    _name: File,
}

/// The socket of those who attach.
struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Door {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// Why a worker was not started that was told to end before.
const NOT_WANTED: &str = "it was told to end before it was started";

/// Starts a worker.
///
/// # Errors
///
/// Why it was not started, and what to do. Nothing of it is left.
async fn begin(order: Order, orders: &mut Orders, ends: &mut Ends) -> Result<Worker, String> {
    let program = program::find(&order)?;
    let files = &order.files;
    let in_directory = |error| format!("cannot keep its log and its socket: {error}");
    files.make_directory().map_err(in_directory)?;
    // While it waits for its name it can be told to end, as later. One that is free it has at once.
    let name = tokio::select! {
        biased;
        name = lock(files) => name.map_err(in_directory)?,
        _ = orders.next_line() => return Err(NOT_WANTED.to_owned()),
        () = ends.next() => return Err(NOT_WANTED.to_owned()),
    };
    let Some(name) = name else {
        return Err("another worker of its name has not ended yet, or another relay of the same project has one; try again in a moment, or choose another name".to_owned());
    };
    let size = (order.rows.clamp(1, SIDE_MAX), order.cols.clamp(1, SIDE_MAX));
    let system = |error: io::Error| format!("the system gives it no terminal: {error}");
    let (line, started) = if order.in_terminal {
        let (line, path) = terminal(size).map_err(system)?;
        (line, launch::start(&order, program, Output::Terminal(&path)))
    } else {
        let (line, pipe) = output_pipe().map_err(system)?;
        (line, launch::start(&order, program, Output::Pipe(pipe)))
    };
    let (first, said) = started.map_err(|error| format!("the system starts no process: {error}"))?;
    let mut reason = String::new();
    let said = pipe::Receiver::from_owned_fd(said);
    let heard = match said {
        Ok(mut said) => said.read_to_string(&mut reason).await,
        Err(error) => Err(error),
    };
    if let Err(error) = heard {
        reason = error.to_string();
    }
    if !reason.is_empty() {
        // It has nothing below it yet.
        let _gone = rustix::process::kill_process(first, Signal::KILL);
        return Err(reason);
    }
    let socket = match listen(files) {
        Ok(socket) => Some(socket),
        Err(error) => {
            trouble(format!("nobody can attach to {}: {error}", files.name()));
            None
        }
    };
    tell(&Report::Started {
        pid: first.as_raw_nonzero().get(),
    });
    let (shared, wanted) = Shared::new(Screen::new(size));
    Ok(Worker {
        first,
        status: None,
        line,
        log: Log::begin(files.clone(), size),
        shared,
        wanted,
        input: Vec::new(),
        socket,
        kill_at: None,
        _name: name,
    })
}

/// Waits for the end of one that had the name before; none if it does not come.
async fn lock(files: &Files) -> io::Result<Option<File>> {
    let last = Instant::now() + NAME_PATIENCE;
    loop {
        let locked = files.lock()?;
        if locked.is_some() || Instant::now() > last {
            return Ok(locked);
        }
        sleep(NAME_LOOK).await;
    }
}

/// Makes a terminal; returns the path of the worker's end.
fn terminal(size: Size) -> io::Result<(Line, PathBuf)> {
    let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let path = rustix::pty::ptsname(&ours, Vec::new())?;
    let path = PathBuf::from(path.into_string().map_err(io::Error::other)?);
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(&path, flags, rustix::fs::Mode::empty())?;
    rustix::termios::tcsetwinsize(&ours, winsize(size))?;
    Ok((line(ours, theirs, true)?, path))
}

/// Makes a pipe for what a worker without a terminal writes; returns the worker's end.
fn output_pipe() -> io::Result<(Line, io::PipeWriter)> {
    let (ours, theirs) = io::pipe()?;
    let kept = theirs.try_clone()?;
    Ok((line(ours.into(), kept.into(), false)?, theirs))
}

fn winsize((ws_row, ws_col): Size) -> Winsize {
    Winsize {
        ws_row,
        ws_col,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

#[expect(
    deprecated,
    reason = "what may take its place is unsafe, for types that exchange their descriptor; this one never does"
)]
fn line(ours: OwnedFd, theirs: OwnedFd, is_terminal: bool) -> io::Result<Line> {
    let flags = rustix::fs::fcntl_getfl(&ours)?;
    rustix::fs::fcntl_setfl(&ours, flags | OFlags::NONBLOCK)?;
    Ok(Line {
        ours: AsyncFd::new(ours)?,
        _theirs: theirs,
        is_terminal,
    })
}

/// Listens where those come who attach. Who had the name before has ended.
fn listen(files: &Files) -> io::Result<Door> {
    let path = files.socket();
    let _there_may_be_none = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let door = Door { listener, path };
    std::fs::set_permissions(&door.path, std::fs::Permissions::from_mode(0o600))?;
    Ok(door)
}

fn trouble(reason: String) {
    tell(&Report::Trouble { reason });
}

impl Worker {
    /// Watches it until it has ended and nothing of it is left, and tells so.
    async fn run(&mut self, mut orders: Orders, ends: &mut Ends) -> io::Result<()> {
        let mut children = signal(SignalKind::child())?;
        let mut is_told = true;
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let reaped = processes::reap(self.first);
            if reaped.first.is_some() {
                self.status = reaped.first;
            }
            if reaped.all {
                break;
            }
            if self.status.is_some() {
                // What it leaves behind ends with it.
                self.begin_end();
            }
            tokio::select! {
                told = orders.next_line(), if is_told => {
                    // Nobody but relay writes there, and it says nothing else.
                    is_told = false;
                    drop(told);
                    self.begin_end();
                }
                () = ends.next() => self.begin_end(),
                _ = children.recv() => {}
                ready = self.line.ours.readable() => {
                    let read = ready?.try_io(|ours| Ok(rustix::io::read(ours.get_ref(), &mut bytes[..])?));
                    if let Ok(read) = read {
                        let count = read?;
                        self.take(&bytes[..count]);
                    }
                }
                ready = self.line.ours.writable(), if !self.input.is_empty() => {
                    let written = ready?.try_io(|ours| Ok(rustix::io::write(ours.get_ref(), &self.input)?));
                    if let Ok(written) = written {
                        drop(self.input.drain(..written?));
                    }
                }
                Some(keys) = self.wanted.typed.recv(), if self.input.len() < INPUT_BYTES_MAX => {
                    if self.line.is_terminal {
                        self.input.extend(keys);
                    }
                }
                Ok(()) = self.wanted.size.changed() => {
                    let wanted = *self.wanted.size.borrow_and_update();
                    if let Some(size) = wanted {
                        self.resize(size);
                    }
                }
                stream = accept(self.socket.as_ref()) => {
                    if let Ok((stream, _)) = stream {
                        tokio::task::spawn_local(serve(Rc::clone(&self.shared), stream));
                    }
                }
                () = at(self.kill_at) => {
                    self.kill_at = Some(Instant::now() + KILL_AGAIN);
                    processes::signal(self.group(), Signal::KILL);
                }
            }
        }
        self.take_rest(&mut bytes);
        self.tell_end().await;
        Ok(())
    }

    /// Asks all of it to end, once, and sees to it that they do in time.
    fn begin_end(&mut self) {
        if self.kill_at.is_some() {
            return;
        }
        self.kill_at = Some(Instant::now() + GRACE);
        processes::signal(self.group(), Signal::TERM);
        // Who is stopped hears of it only then.
        processes::signal(self.group(), Signal::CONT);
    }

    /// Its group, while nobody else can have its number.
    fn group(&self) -> Option<Pid> {
        self.status.is_none().then_some(self.first)
    }

    /// Takes what it has written.
    fn take(&mut self, bytes: &[u8]) {
        let with_returns = (!self.line.is_terminal).then(|| with_returns(bytes));
        let bytes = with_returns.as_deref().unwrap_or(bytes);
        if let Some(reason) = self.log.write(bytes) {
            trouble(reason);
        }
        let mut screen = self.shared.screen.borrow_mut();
        screen.write(bytes);
        let answers = screen.take_answers();
        drop(screen);
        // Who reads none of its answers is given no more of them.
        if self.line.is_terminal && self.input.len() < INPUT_BYTES_MAX {
            self.input.extend(answers);
        }
        self.shared.change();
    }

    /// Takes what it had written when it ended.
    fn take_rest(&mut self, bytes: &mut [u8]) {
        loop {
            match rustix::io::read(self.line.ours.get_ref(), &mut *bytes) {
                Ok(0) => return,
                Ok(count) => self.take(&bytes[..count]),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Gives its terminal another size.
    fn resize(&mut self, (rows, cols): Size) {
        let size = (rows.clamp(1, SIDE_MAX), cols.clamp(1, SIDE_MAX));
        let (rows, cols) = self.shared.screen.borrow().shown().size();
        if !self.line.is_terminal || (rows.get(), cols.get()) == size {
            return;
        }
        self.shared.screen.borrow_mut().resize(size);
        let _it_is_one = rustix::termios::tcsetwinsize(self.line.ours.get_ref(), winsize(size));
        if let Some(reason) = self.log.resized(size) {
            trouble(reason);
        }
        self.shared.change();
    }

    /// Tells relay, and those who are attached, that it has ended.
    async fn tell_end(&mut self) {
        self.socket = None;
        let status = self.status.unwrap_or(Status::Signal(Signal::KILL.as_raw()));
        *self.shared.ended.borrow_mut() = Some(format!("it has ended with {status}"));
        self.shared.change();
        let all_gone = async {
            while self.shared.attached() > 0 {
                sleep(KILL_AGAIN).await;
            }
        };
        let _in_time = timeout(FAREWELL, all_gone).await;
        let last_lines = self.shared.screen.borrow().last_lines();
        tell(&Report::Exited { status, last_lines });
    }
}

/// The signals that end a worker.
struct Ends([Signals; 4]);

impl Ends {
    /// Listens to them, and to all others that relay may have been told to ignore: what somebody listens to, a program that is started is not
    /// told to ignore any more.
    fn new() -> io::Result<Self> {
        let [hangup, interrupt, quit, terminate] = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
        ];
        for other in [
            Signal::ALARM,
            Signal::USR1,
            Signal::USR2,
            Signal::TSTP,
            Signal::TTIN,
            Signal::TTOU,
            Signal::WINCH,
            Signal::XCPU,
            Signal::XFSZ,
            Signal::VTALARM,
            Signal::PROF,
            Signal::URG,
        ] {
            let _nobody_cares = signal(SignalKind::from_raw(other.as_raw()))?;
        }
        Ok(Self([
            signal(hangup)?,
            signal(interrupt)?,
            signal(quit)?,
            signal(terminate)?,
        ]))
    }

    async fn next(&mut self) {
        let [hangup, interrupt, quit, terminate] = &mut self.0;
        tokio::select! {
            _ = hangup.recv() => {}
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

async fn accept(door: Option<&Door>) -> io::Result<(tokio::net::UnixStream, tokio::net::unix::SocketAddr)> {
    match door {
        Some(door) => door.listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
