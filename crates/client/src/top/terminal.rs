//! The terminal in full-screen mode. Whatever ends the program, the former mode is restored.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use howdah_sys::signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::keys::{self, Key};
use super::layout::{Line, Style};

/// Alternate screen, hidden cursor, no wrapping of long lines, reports of clicks and the wheel.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h";

/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal. Dropping it restores the former mode.
pub(super) struct Terminal {
    before: Termios,
    signals: OwnedFd,
    has_colours: bool,
}

/// What has happened.
pub(super) enum Wake {
    /// The program must end: by a signal, or the terminal is gone.
    End,
    /// Nothing, for the whole time.
    Timeout,
    /// The size has changed, or the program was continued.
    Redraw,
    Suspend,
    Keys(Vec<Key>),
}

impl Terminal {
    /// Enters the mode.
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let signals = signals::descriptor(&[
            signals::SIGTERM,
            signals::SIGHUP,
            signals::SIGINT,
            signals::SIGQUIT,
            signals::SIGWINCH,
            signals::SIGTSTP,
            signals::SIGCONT,
        ])?;
        let known = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        // https://no-color.org
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let terminal = Terminal { before, signals, has_colours: known && !unwanted };
        restore_after_panic(&terminal.before);
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        write(ENTER)
    }

    /// Gives the terminal back until the shell continues this program.
    pub(super) fn suspend(&self) -> io::Result<()> {
        restore(&self.before);
        signals::send(std::process::id(), signals::SIGSTOP)?;
        self.enter()
    }

    /// Returns the number of columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// Draws all lines of the screen.
    pub(super) fn draw(&self, lines: &[Line], size: (usize, usize)) -> io::Result<()> {
        write(&text(lines, size.0, self.has_colours))
    }

    /// Waits for keys and signals.
    pub(super) fn wait(&self, pause: Duration) -> io::Result<Wake> {
        let stdin = io::stdin();
        let mut ready = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        let pause =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
        if rustix::io::retry_on_intr(|| poll(&mut ready, Some(&pause)))? == 0 {
            return Ok(Wake::Timeout);
        }
        if ready[1].revents().contains(PollFlags::IN) {
            let signals: Vec<_> = std::iter::from_fn(|| signals::next(&self.signals)).collect();
            let mut wake = Wake::Redraw;
            for signal in signals {
                match signal {
                    signals::SIGWINCH => {}
                    signals::SIGCONT => self.enter()?, // the shell has its own mode
                    signals::SIGTSTP => wake = Wake::Suspend,
                    _ => return Ok(Wake::End),
                }
            }
            return Ok(wake);
        }
        let mut bytes = [0; 1024];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&stdin, &mut bytes))?;
        if length == 0 {
            return Ok(Wake::End);
        }
        Ok(Wake::Keys(keys::parse(bytes.get(..length).unwrap_or_default())))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

/// Restores the mode before the report of a panic, which would be lost with the alternate screen.
fn restore_after_panic(before: &Termios) {
    let (report, before) = (std::panic::take_hook(), before.clone());
    std::panic::set_hook(Box::new(move |panic| {
        restore(&before);
        report(panic);
    }));
}

fn restore(before: &Termios) {
    let _ = write(LEAVE);
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Returns the text that draws lines: each is cleared behind its text, and so is the rest of the
/// screen. Clearing all of it first flickers.
fn text(lines: &[Line], width: usize, has_colours: bool) -> String {
    let mut text = "\x1b[H".to_owned();
    for (index, Line { text: line, style }) in lines.iter().enumerate() {
        if index > 0 {
            text.push_str("\r\n");
        }
        let (start, line) = match style {
            Style::Heading | Style::Selected => ("\x1b[7m", format!("{line:<width$}")),
            Style::Alarm if has_colours => ("\x1b[31m", line.clone()),
            Style::Alarm | Style::Plain => ("", line.clone()),
        };
        text.push_str(start);
        text.push_str(&line);
        if !start.is_empty() {
            text.push_str("\x1b[m");
        }
        text.push_str("\x1b[K");
    }
    text.push_str("\x1b[J");
    text
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Set in the process that panics.
    const VARIABLE: &str = "HOWDAH_TEST_PANIC";

    #[test]
    fn the_mode_is_restored_before_the_report_of_a_panic() {
        const NAME: &str =
            "top::terminal::tests::the_mode_is_restored_before_the_report_of_a_panic";
        if std::env::var_os(VARIABLE).is_some() {
            let _terminal = Terminal::open().unwrap();
            panic!("in full-screen mode");
        }
        let program = std::env::current_exe().unwrap();
        let command = format!("stty -g; {} --exact {NAME} --nocapture; stty -g", program.display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
        let output = script.env(VARIABLE, "1").stdin(Stdio::null()).output();
        let Ok(output) = output else { return }; // there is no such program
        let text = String::from_utf8_lossy(&output.stdout);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words:?} in {text:?}"));
        assert!(at(ENTER) < at(LEAVE) && at(LEAVE) < at("in full-screen mode"), "{text:?}");
        let is_mode = |line: &&str| line.matches(':').count() > 20;
        let modes: Vec<_> = text.lines().map(str::trim).filter(is_mode).collect();
        assert!(modes.len() == 2 && modes[0] == modes[1], "{modes:?}");
    }

    #[test]
    fn without_colours_only_the_selection_stands_out() {
        let line = |text: &str, style| Line::new(text, style);
        let lines = [
            line("SITE", Style::Heading),
            line("a", Style::Alarm),
            line("b", Style::Selected),
            line("c", Style::Plain),
        ];
        let plain = text(&lines, 5, false);
        let expected = "\x1b[H\x1b[7mSITE \x1b[m\x1b[K\r\na\x1b[K\r\n\x1b[7mb    \x1b[m\x1b[K\r\nc\
                        \x1b[K\x1b[J";
        assert_eq!(plain, expected);
        assert!(text(&lines, 5, true).contains("\x1b[31ma\x1b[m"));
    }
}
