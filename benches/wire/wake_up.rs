//! How long it takes from a post to the answer of the read that waited for it.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use super::client::{Call, Caller, HttpCaller, SseCaller, post, read, read_waiting, waits};
use super::program::{Server, runtime};

/// How often it is measured.
const TIMES: usize = 1_000;

/// Asks for something, and hears the answer later.
trait Waiter: Send {
    async fn ask(&mut self, call: &Call);
    async fn answer(&mut self);
}

/// Measures over each transport, and beside many reads that wait for something else.
pub fn measure() {
    println!();
    over("SSE", 0, SseCaller::connect);
    over("HTTP", 0, HttpCaller::connect);
    over("stdio", 0, Bridge::connect);
    over("HTTP", 1_000, HttpCaller::connect);
}

fn over<W: Waiter, F: Future<Output = W>>(transport: &str, others: usize, connect: impl Fn(u16) -> F) {
    let server = Server::relay();
    let port = server.port;
    let micros = runtime().block_on(async {
        let mut reader = connect(port).await;
        reader.ask(&read::<HttpCaller>("pm")).await;
        reader.answer().await;
        let mut parked = Vec::new();
        for other in 0..others {
            parked.push(park(port, other).await);
        }
        let mut writer = HttpCaller::connect(port).await;
        let message = post::<HttpCaller>("dev-a", "pm", "wake up");
        let waiting = read_waiting::<HttpCaller>("pm");
        let mut micros = Vec::new();
        for _ in 0..TIMES {
            reader.ask(&waiting).await;
            while waits(port).await <= others {
                tokio::task::yield_now().await;
            }
            let started = Instant::now();
            writer.ask(&message).await;
            reader.answer().await;
            micros.push(started.elapsed().as_secs_f64() * 1e6);
            writer.answer().await;
        }
        micros.sort_by(f64::total_cmp);
        micros
    });
    let name = format!("post to wake-up, {transport}");
    let beside = if others == 0 {
        String::new()
    } else {
        format!(", beside {others} other waits")
    };
    println!(
        "{name:<24}median {:.0} us, 99 % {:.0} us ({TIMES} times){beside}",
        micros[TIMES / 2],
        micros[TIMES * 99 / 100]
    );
}

/// Has an agent of its own wait.
async fn park(port: u16, other: usize) -> HttpCaller {
    let agent = format!("w{other}");
    let mut caller = HttpCaller::connect_to(port, &format!("/mcp?agent={agent}&role=worker")).await;
    caller.call(&read::<HttpCaller>(&agent)).await;
    caller.ask(&read_waiting::<HttpCaller>(&agent)).await;
    caller
}

impl Waiter for SseCaller {
    async fn ask(&mut self, call: &Call) {
        self.send(call).await;
    }

    async fn answer(&mut self) {
        Self::answer(self).await;
    }
}

impl Waiter for HttpCaller {
    async fn ask(&mut self, call: &Call) {
        self.send(call).await;
    }

    async fn answer(&mut self) {
        Self::answer(self).await;
    }
}

/// An agent's end of `relay mcp`.
struct Bridge {
    child: Child,
    stdin: pipe::Sender,
    stdout: BufReader<pipe::Receiver>,
    requests: u64,
}

impl Bridge {
    async fn connect(port: u16) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_relay"))
            .args(["mcp", "--port", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the bridge starts");
        let stdin = OwnedFd::from(child.stdin.take().expect("it is a pipe"));
        let stdout = OwnedFd::from(child.stdout.take().expect("it is a pipe"));
        let mut bridge = Self {
            child,
            stdin: pipe::Sender::from_owned_fd(stdin).expect("it is a pipe"),
            stdout: BufReader::new(pipe::Receiver::from_owned_fd(stdout).expect("it is a pipe")),
            requests: 0,
        };
        let handshake = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;
        bridge.line(handshake).await;
        bridge.answer().await;
        bridge
            .line(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        bridge
    }

    async fn line(&mut self, message: &[u8]) {
        let line = [message, b"\n"].concat();
        self.stdin.write_all(&line).await.expect("the bridge reads");
    }
}

impl Waiter for Bridge {
    async fn ask(&mut self, call: &Call) {
        // No id is used twice in a session.
        self.requests += 1;
        let request = std::str::from_utf8(&call.request).expect("JSON is text");
        let request = request.replacen("\"id\":1", &format!("\"id\":{}", self.requests), 1);
        self.line(request.as_bytes()).await;
    }

    async fn answer(&mut self) {
        let mut line = Vec::new();
        let read = self.stdout.read_until(b'\n', &mut line).await;
        assert!(read.expect("the bridge answers") > 0, "the bridge has ended");
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
