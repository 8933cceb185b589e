//! `howdah top`: shows the pools of applications periodically, until `q` is pressed.

use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::{clock, signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::client::Client;
use crate::failure::Failure;
use crate::pools::{Sample, screen};

/// Shows the pools of applications until `q` is pressed.
pub(super) fn run(client: &Client, pause: Duration) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::Failed(
            "top needs a terminal; \"howdah status APPLICATION\" prints the same once".to_owned(),
        ));
    }
    let failed = |error: std::io::Error| Failure::Failed(format!("the terminal: {error}"));
    let begun = Instant::now();
    let sample = || -> Result<Sample, Failure> {
        let pools = client.get("/pools")?;
        let status = client.get("/status")?;
        Ok(Sample { pools, status, at: begun.elapsed() })
    };
    // Without a server, this fails before the screen opens.
    let mut now = sample()?;
    let mut before: Option<Sample> = None;
    let mut terminal = Terminal::open().map_err(failed)?;
    loop {
        let mut time = String::new();
        clock::local_time(&mut time);
        let size = terminal.size();
        terminal.draw(&screen(&now, before.as_ref(), &time, size)).map_err(failed)?;
        match terminal.wait(pause).map_err(failed)? {
            Wake::End => return Ok(()),
            Wake::Redraw => {}
            Wake::Timeout => match sample() {
                Ok(next) => before = Some(std::mem::replace(&mut now, next)),
                // The server may be restarting.
                Err(Failure::Unreachable(_)) => now.pools.clear(),
                Err(failure) => return Err(failure),
            },
        }
    }
}

enum Wake {
    End,
    Redraw,
    Timeout,
}

/// The terminal in full-screen mode. Dropping it restores the former mode.
struct Terminal {
    before: Termios,
    signals: OwnedFd,
}

impl Terminal {
    fn open() -> std::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let signals = signals::descriptor(&[signals::SIGTERM, signals::SIGHUP, signals::SIGWINCH])?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw)?;
        let terminal = Terminal { before, signals };
        // Alternate screen, hidden cursor.
        terminal.write("\x1b[?1049h\x1b[?25l")?;
        Ok(terminal)
    }

    /// Returns the number of columns and rows.
    fn size(&self) -> (usize, usize) {
        match tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        let mut text = "\x1b[H".to_owned();
        // Clears each line behind its text, and the rest of the screen: clearing all of it first
        // flickers.
        text.push_str(&lines.join("\x1b[K\r\n"));
        text.push_str("\x1b[K\x1b[J");
        self.write(&text)
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut output = std::io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()
    }

    fn wait(&self, pause: Duration) -> std::io::Result<Wake> {
        let stdin = std::io::stdin();
        let mut ready = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        let pause =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
        if poll(&mut ready, Some(&pause))? == 0 {
            return Ok(Wake::Timeout);
        }
        if ready[1].revents().contains(PollFlags::IN) {
            let signals: Vec<_> = std::iter::from_fn(|| signals::next(&self.signals)).collect();
            let ends = signals.iter().any(|signal| *signal != signals::SIGWINCH);
            return Ok(if ends { Wake::End } else { Wake::Redraw });
        }
        let mut keys = [0; 64];
        let read = rustix::io::read(&stdin, &mut keys)?;
        // `q`, Ctrl-C, Ctrl-D, or a closed terminal.
        let ends = |key: &u8| matches!(key, b'q' | b'Q' | 0x03 | 0x04);
        let end = read == 0 || keys.iter().take(read).any(ends);
        Ok(if end { Wake::End } else { Wake::Redraw })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}
