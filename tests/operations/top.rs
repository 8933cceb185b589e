//! `howdah top`: which of thirty sites hurts, and why, on a screen of 80 × 24; and the terminal
//! afterwards.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use harness::{Server, Site, eventually, programs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::faulty_sites::{FAULTS, GOOD, Visitors, serve};

/// A program in a terminal of its own, which `script` makes.
struct Screen {
    child: Child,
    keys: Option<ChildStdin>,
    written: Arc<Mutex<Vec<u8>>>,
    pid_file: PathBuf,
}

impl Screen {
    /// Starts `howdah top` on a screen of 80 × 24. The terminal's mode is printed before and
    /// afterwards.
    fn new(server: &Server, environment: &str, arguments: &str) -> Screen {
        let (program, control) = (programs::howdah(), server.site.control_socket());
        let pid_file = server.site.data().join("top.pid");
        let command = format!(
            "stty rows 24 cols 80; stty -g; \
             {environment} sh -c 'echo $$ > {}; exec {} top --control unix:{} {arguments}'; \
             echo ended $?; stty -g",
            pid_file.display(),
            program.display(),
            control.display(),
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut output, copy) = (child.stdout.take().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut some) {
                copy.lock().unwrap().extend_from_slice(&some[..length]);
            }
        });
        let keys = child.stdin.take();
        Screen { child, keys, written, pid_file }
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Returns the lines of the last complete screen, without emphasis.
    fn lines(&self) -> Vec<String> {
        let written = self.written();
        let frames = written.split("\x1b[H").skip(1);
        let whole = frames.filter_map(|frame| Some(frame.split_once("\x1b[J")?.0));
        let Some(frame) = whole.last() else { return Vec::new() };
        let plain = ["\x1b[K", "\x1b[7m", "\x1b[31m", "\x1b[m"];
        let plain = plain.iter().fold(frame.to_owned(), |text, code| text.replace(code, ""));
        plain.split("\r\n").map(|line| line.trim_end().to_owned()).collect()
    }

    /// Waits for a screen with these words.
    fn wait_for(&self, words: &str) -> Vec<String> {
        eventually(&format!("{words} on the screen"), || {
            let lines = self.lines();
            lines.iter().any(|line| line.contains(words)).then_some(lines)
        })
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.as_mut().unwrap().write_all(keys).unwrap();
    }

    fn pid(&self) -> i32 {
        fs::read_to_string(&self.pid_file).unwrap().trim().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Changes the size of the terminal, as its window does.
    fn resize(&self, rows: u32, columns: u32) {
        let terminal = fs::read_link(format!("/proc/{}/fd/0", self.pid())).unwrap();
        let [rows, columns] = [rows, columns].map(|number| number.to_string());
        let mut command = Command::new("stty");
        command.arg("-F").arg(terminal).args(["rows", &rows, "cols", &columns]);
        assert!(command.status().unwrap().success());
    }

    /// Waits for its end, and checks that the terminal is as before.
    fn end(mut self) -> ExitStatus {
        eventually("the program has ended", || self.written().contains("ended ").then_some(()));
        let status = self.child.wait().unwrap();
        let modes = eventually("the mode afterwards", || {
            let written = self.written().replace("\x1b[?1049l", "\r\n");
            let is_mode = |line: &&str| line.contains(':') && line.matches(':').count() > 20;
            let modes: Vec<_> = written.split("\r\n").filter(is_mode).map(str::to_owned).collect();
            (modes.len() == 2).then_some(modes)
        });
        assert_eq!(modes[0], modes[1], "the mode of the terminal");
        let written = self.written();
        assert!(is_restored(&written), "{written:?}");
        status
    }
}

/// Returns true if all modes of the screen that were set last are reset.
fn is_restored(written: &str) -> bool {
    let last = |code: &str| written.rfind(code);
    [("?1049h", "?1049l"), ("?25l", "?25h"), ("?7l", "?7h"), ("?1000h", "?1000l")]
        .into_iter()
        .all(|(set, reset)| last(set).is_some() && last(reset) > last(set))
}

#[test]
fn each_of_six_faults_among_thirty_sites_is_named_on_a_small_screen() {
    let server = serve();
    let _visitors = Visitors::of(&server);
    let mut screen = Screen::new(&server, "", "");
    for (name, _, words) in FAULTS {
        eventually(&format!("{name} is named"), || {
            let lines = screen.lines();
            assert!(lines.len() <= 24, "{lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
            let mut of_site = lines.iter().filter(|line| line.starts_with(name));
            let is_named = |line: &String| words.iter().any(|word| line.contains(word));
            of_site.any(is_named).then_some(())
        });
    }
    // The site with its process.
    screen.press(b"/sleeps\r\r");
    let lines = screen.wait_for("index.php, GET /sleeps");
    assert!(lines[0].ends_with("site sleeps"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("Running")), "{lines:#?}");
    screen.press(b"\x1b");
    screen.wait_for("filter: sleeps (1 shown)");
    screen.press(b"q");
    assert!(screen.end().success());
    // Without a terminal: all lines, whole.
    let control = format!("unix:{}", server.site.control_socket().display());
    let top = |words: &[&str]| {
        let command = &mut Command::new(programs::howdah());
        let output = programs::run(command.args(["top", "--control", &control]).args(words));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = top(&["--all", "--sort", "name"]);
    assert!(!text.contains('\x1b'), "{text:?}");
    assert!(text.lines().filter(|line| line.starts_with("good")).count() == GOOD, "{text}");
    let answer: Value = serde_json::from_str(&top(&["--json", "--site", "forks"])).unwrap();
    let site = &answer["sites"][0];
    assert_eq!((site["site"].as_str(), site["active"].as_bool()), (Some("forks"), Some(true)));
    assert!(site["notices"][0].as_str().unwrap().ends_with("programs of scripts"), "{site}");
}

/// A server with a small site.
fn small() -> Server {
    let site = Site::script("a.php", "echo 1;");
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(json!({})).serve()
}

#[test]
fn the_terminal_is_as_before_whatever_ends_it() {
    let server = small();
    for keys in [&b"q"[..], b"\x03"] {
        let mut screen = Screen::new(&server, "", "");
        screen.wait_for("q quit");
        screen.press(keys);
        assert!(screen.end().success());
    }
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let screen = Screen::new(&server, "", "");
        screen.wait_for("q quit");
        screen.signal(signal);
        assert!(screen.end().success(), "{signal:?}");
    }
}

#[test]
fn another_size_of_the_terminal_is_drawn_at_once() {
    let server = small();
    // Nothing else draws.
    let mut screen = Screen::new(&server, "", "--all --interval 3600");
    screen.wait_for("q quit");
    for (rows, columns) in [(40, 120), (10, 40), (1, 1), (24, 80)] {
        screen.resize(rows, columns);
        eventually(&format!("a screen of {columns} × {rows}"), || {
            let lines = screen.lines();
            let written = screen.written();
            let frame = written.rsplit("\x1b[H").find(|frame| frame.contains("\x1b[J"))?;
            // Headings have the width of the screen.
            let heading =
                frame.split_once("\x1b[7m").and_then(|(_, rest)| rest.split_once("\x1b[m"));
            let width = heading.map(|(heading, _)| heading.chars().count());
            let has_width = width.is_none_or(|width| width == columns as usize);
            let fits = lines.iter().all(|line| line.chars().count() <= columns as usize);
            (lines.len() == rows as usize && has_width && fits).then_some(())
        });
    }
    screen.press(b"q");
    assert!(screen.end().success());
}

#[test]
fn it_is_suspended_and_continued() {
    let server = small();
    let mut screen = Screen::new(&server, "", "");
    screen.wait_for("q quit");
    screen.press(b"\x1a");
    let before = eventually("the terminal is given back", || {
        let written = screen.written();
        is_restored(&written).then_some(written.len())
    });
    screen.signal(Signal::CONT);
    eventually("it is drawn again", || screen.written()[before..].contains("q quit").then_some(()));
    screen.press(b"h");
    screen.wait_for("any key leads back");
    screen.press(b"qq");
    assert!(screen.end().success());
}

#[test]
fn a_dead_server_is_no_reason_for_colours_or_an_end() {
    let server = small();
    let mut screen = Screen::new(&server, "NO_COLOR=1", "--all --interval 0.2");
    screen.wait_for("site");
    assert!(!screen.written().contains("\x1b[31m"));
    drop(server.end(Signal::TERM));
    screen.wait_for("no server answers");
    screen.press(b"q");
    assert!(screen.end().success());
}
