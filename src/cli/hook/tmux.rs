//! A pane of tmux, in which a program is told something as if its person had typed it there.
//!
//! What a program looks like it does not know, and neither does it decide when something is typed. No setting of tmux is changed.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// How long a command may take that only asks or tells something.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it is told.
const TOLD_MS: &str = "4000";

/// What is asked of a pane, in front of what it shows: the title may have spaces.
const FORMAT: &str = "#{pane_input_off} #{cursor_x} #{cursor_y} #{pane_tty} #{pane_title}";

/// The pane in which this process runs, on the server that `TMUX` names.
#[derive(Debug)]
pub(super) struct Pane {
    /// Its name, which no other pane of the server has had.
    id: String,
    /// The name of the buffer by which it is given something.
    buffer: String,
}

/// What is seen of a pane at a moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub title: String,
    /// The line in which the cursor is, without what is blank at its end.
    pub line: String,
    /// In which column of it, from 0 on.
    pub column: usize,
    /// Its terminal, as `ps` calls it.
    terminal: String,
}

impl Pane {
    /// Returns the one in which this process runs, if its person wants relay to type there: `RELAY_TMUX=1`.
    pub fn wanted() -> Option<Self> {
        let variable = |name| std::env::var_os(name)?.into_string().ok();
        let is_wanted = variable("RELAY_TMUX")? == "1" && !variable("TMUX")?.is_empty();
        let id = variable("TMUX_PANE").filter(|id| id.starts_with('%'))?;
        let buffer = format!("relay-{}", std::process::id());
        is_wanted.then_some(Self { id, buffer })
    }

    /// Looks at it; nothing if it is gone, or takes nothing.
    pub async fn look(&self) -> Option<Seen> {
        let look = ["display-message", "-p", "-t", &self.id, FORMAT, ";"];
        let capture = ["capture-pane", "-p", "-t", &self.id];
        let shown = tmux(&[&look[..], &capture[..]].concat(), "").await?;
        Seen::parse(&shown)
    }

    /// Has what runs in it paste a text: what it takes for keys is not in it, if it tells the two apart. Tells whether that was done.
    pub async fn paste(&self, text: &str) -> bool {
        self.give(text, &["-p"]).await
    }

    /// Presses Enter in it, and in no other pane and no mode of tmux, as `send-keys` may. Tells whether that was done.
    pub async fn enter(&self) -> bool {
        // A line break is a carriage return there.
        self.give("\n", &[]).await
    }

    async fn give(&self, text: &str, options: &[&str]) -> bool {
        let load = ["load-buffer", "-b", &self.buffer, "-", ";"];
        let paste = ["paste-buffer", "-d", "-b", &self.buffer, "-t", &self.id];
        let done = tmux(&[&load[..], &paste, options].concat(), text).await.is_some();
        if !done {
            // Else others may read it.
            let _removed = tmux(&["delete-buffer", "-b", &self.buffer], "").await;
        }
        done
    }

    /// Tells whoever looks at it something, for a few seconds: tmux shows no change of any pane meanwhile. What it expands must not be in that.
    pub async fn tell(&self, what: &'static str) {
        // Where nobody looks, nobody is told.
        let _told = tmux(&["display-message", "-d", TOLD_MS, "-t", &self.id, what], "").await;
    }
}

impl Seen {
    fn parse(shown: &str) -> Option<Self> {
        let mut lines = shown.lines();
        let mut fields = lines.next()?.splitn(5, ' ');
        let takes_nothing = fields.next()? != "0";
        let column = fields.next()?.parse().ok()?;
        let row: usize = fields.next()?.parse().ok()?;
        let terminal = fields.next()?.trim_start_matches("/dev/").to_owned();
        let title = fields.next()?.to_owned();
        let line = lines.nth(row)?.trim_end().to_owned();
        (!takes_nothing).then_some(Self {
            title,
            line,
            column,
            terminal,
        })
    }

    /// Tells whether a process has what is typed there: it has neither ended nor been stopped, and its terminal is no other one.
    pub async fn is_of(&self, process: &str) -> bool {
        let mut ps = Command::new("ps");
        ps.args(["-o", "stat=", "-o", "tty=", "-p", process]);
        let said = run(ps, "").await.unwrap_or_default();
        let mut fields = said.split_whitespace();
        let (state, terminal) = (fields.next().unwrap_or_default(), fields.next());
        state.contains('+') && !state.starts_with(['T', 't', 'Z']) && terminal == Some(&self.terminal)
    }
}

/// Runs commands of tmux, and gives what they print if all were carried out.
async fn tmux(arguments: &[&str], stdin: &str) -> Option<String> {
    let mut tmux = Command::new("tmux");
    // Whatever the language of this process is, what is shown stays as it is.
    tmux.arg("-u").args(arguments);
    run(tmux, stdin).await
}

async fn run(mut command: Command, stdin: &str) -> Option<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    let done = async {
        // What does not read it fails by itself.
        let _written = input.write_all(stdin.as_bytes()).await;
        drop(input);
        child.wait_with_output().await.ok()
    };
    let output = timeout(PATIENCE, done).await.ok()??;
    let printed = output.status.success().then_some(output.stdout)?;
    String::from_utf8(printed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_cursor_is_seen_and_a_pane_that_takes_nothing_is_not() {
        let seen = Seen {
            title: "◇  Ready (a project)".to_owned(),
            line: " > a".to_owned(),
            column: 4,
            terminal: "pts/3".to_owned(),
        };
        let shown = "4 1 /dev/pts/3 ◇  Ready (a project)\n > b\n > a  \n > c\n";
        assert_eq!(Seen::parse(&format!("0 {shown}")), Some(seen));
        assert_eq!(Seen::parse(&format!("1 {shown}")), None);
        assert_eq!(Seen::parse("0 4 1 /dev/pts/3 title\nonly one line\n"), None);
        assert_eq!(Seen::parse(""), None);
    }
}
