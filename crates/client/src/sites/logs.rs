//! `howdah site logs`: the log of a site, or the lines of the server's log that name it.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use howdah_config::include::{SHARED, application_of_site};
use howdah_control::socket;
use howdah_questions::Status;
use howdah_sys::regular_file;

use super::document::{Document, Running};
use super::file::failed;
use crate::STATUS_TIMEOUT;
use crate::args::sites::SiteArgs;
use crate::client::encode;
use crate::failure::Failure;
use crate::find::connect_as_site_user;
use crate::output::{printable, write_out};

/// Time between two looks at the log for new lines.
const PAUSE: Duration = Duration::from_millis(250);

/// Maximum length of a line that is shown, in bytes.
const MAX_LINE: usize = 64 * 1024;

pub(super) fn run(
    document: &Document,
    name: &str,
    follow: bool,
    lines: usize,
) -> Result<(), Failure> {
    let file = match document.file_of(name) {
        Ok(file) => file.display().to_string(),
        Err(_) if document.sites.named.iter().any(|named| named == name) => String::new(),
        Err(failure) => return Err(failure),
    };
    let Some(Running { client, status }) = &document.server else {
        let document = document.file.display();
        return Err(Failure::Unreachable(format!(
            "no server with {document} runs, which would say where its log is"
        )));
    };
    let config = client.compiled().unwrap_or_default();
    let mut filter = Filter::new(name, &file, application_of_site(&config, name));
    let own = config.get("error_logs").and_then(|logs| logs.get(name)?.as_str());
    if let Some(own) = own {
        // A file of several sites has the lines of others, too.
        let logs = config.get("error_logs").and_then(|logs| logs.as_object());
        let count = logs.map_or(0, |logs| logs.values().filter(|log| **log == *own).count());
        filter.takes_all = count == 1;
        return of_file(Path::new(own), filter, follow, lines);
    }
    show(status, filter, follow, lines)
}

/// Shows the lines for the user of the site, who may read the log, and not the document. `None` if
/// this user may use the control socket, or no server answers users of sites.
pub(super) fn as_site_user(
    args: &SiteArgs,
    name: &str,
    follow: bool,
    lines: usize,
) -> Option<Result<(), Failure>> {
    let client = connect_as_site_user(&args.server).ok()?.with_timeout(STATUS_TIMEOUT);
    if client.address() != socket::site_users() {
        return None;
    }
    let show = || {
        // Says whether it is a site of this user.
        client.request("GET", &format!("/requests?limit=1&site={}", encode(name)), b"")?;
        let status: Status = client.get("/status")?;
        let mut shared = status.php.keys().filter(|application| application.starts_with(SHARED));
        let shared = match (shared.next(), shared.next()) {
            (Some(only), None) if !status.php.contains_key(name) => Some(only.as_str()),
            _ => None,
        };
        let filter = Filter::new(name, "", shared);
        if status.files.as_ref().is_some_and(|files| files.log == "journald") {
            eprintln!(
                "howdah: the log is the journal, which the groups adm and systemd-journal may read"
            );
        }
        self::show(&status, filter, follow, lines)
    };
    Some(show())
}

/// Shows the lines of the log that a filter chooses.
fn show(status: &Status, filter: Filter, follow: bool, lines: usize) -> Result<(), Failure> {
    let log = status.files.as_ref().map(|files| files.log.as_str()).unwrap_or_default();
    match log {
        "journald" => journal(filter, follow, lines),
        log if Path::new(log).is_absolute() => of_file(Path::new(log), filter, follow, lines),
        _ => Err(Failure::Failed(
            "the log of the server is its standard error, which goes where it was started (docker \
             logs, journalctl); start it with --log FILE or --log journald"
                .to_owned(),
        )),
    }
}

/// Chooses lines.
struct Filter {
    /// What a line about the site contains.
    words: [String; 3],
    /// The application that the site shares with others. Lines about it are about all of them,
    /// unless they name a site.
    shared: Option<String>,
    /// The last record was one about the site: indented lines continue it.
    is_inside: bool,
    /// All lines are about the site.
    takes_all: bool,
}

impl Filter {
    /// Chooses the lines about a site and its application, which it may share with others.
    fn new(name: &str, file: &str, application: Option<&str>) -> Filter {
        let shared = application.filter(|application| *application != name);
        let shared = shared.map(|application| format!("\"{application}\""));
        let words = [format!("\"{name}\""), format!("/{name}/"), file.to_owned()];
        Filter { words, shared, is_inside: false, takes_all: false }
    }

    /// Returns true for a line about the site.
    fn takes(&mut self, line: &str) -> bool {
        if self.takes_all {
            return true;
        }
        if !line.starts_with([' ', '\t']) {
            let mut words = self.words.iter().filter(|word| !word.is_empty());
            let shared = self.shared.as_ref().filter(|_| !line.contains(" of site \""));
            self.is_inside = words.any(|word| line.contains(word.as_str()))
                || shared.is_some_and(|shared| line.contains(shared.as_str()));
        }
        self.is_inside
    }
}

/// Reads lines up to the end of what is there, and hands over those about the site. Returns the
/// length of the lines, which end in a line feed unless the log has ended.
fn read(
    reader: &mut impl BufRead,
    filter: &mut Filter,
    mut take: impl FnMut(String),
) -> std::io::Result<u64> {
    let (mut line, mut length) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 || !line.ends_with(b"\n") {
            return Ok(length);
        }
        length = length.saturating_add(read as u64);
        line.truncate(MAX_LINE);
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if filter.takes(text) {
            take(format!("{}\n", printable(&text.replace('\t', "    "))));
        }
    }
}

fn of_file(path: &Path, mut filter: Filter, follow: bool, lines: usize) -> Result<(), Failure> {
    let open = || regular_file::open(path).map_err(|error| failed(path, error));
    let (file, mut there) = open()?;
    let mut last = VecDeque::new();
    let mut reader = BufReader::new(file);
    let mut at = read(&mut reader, &mut filter, |line| {
        last.push_back(line);
        if last.len() > lines {
            last.pop_front();
        }
    })
    .map_err(|error| failed(path, error))?;
    write_out(&Vec::from(last).concat())?;
    if !follow {
        return Ok(());
    }
    loop {
        thread::sleep(PAUSE);
        let mut new = String::new();
        let rotated = fs::metadata(path)
            .ok()
            .filter(|now| (now.dev(), now.ino()) != (there.dev(), there.ino()) || now.len() < at);
        let file = reader.get_mut();
        file.seek(SeekFrom::Start(at)).map_err(|error| failed(path, error))?;
        let mut rest = BufReader::new(&*file);
        at += read(&mut rest, &mut filter, |line| new.push_str(&line))
            .map_err(|error| failed(path, error))?;
        if rotated.is_some()
            && let Ok((file, now)) = open()
        {
            (reader, there, at) = (BufReader::new(file), now, 0);
        }
        write_out(&new)?;
    }
}

/// Shows the lines of the journal of systemd.
fn journal(mut filter: Filter, follow: bool, lines: usize) -> Result<(), Failure> {
    let mut command = Command::new("journalctl");
    command.args(["--identifier=howdah", "--output=short-iso", "--quiet", "--no-pager"]);
    if follow {
        command.args(["--follow", "--lines=1000"]);
    }
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = started
        .map_err(|error| Failure::Failed(format!("journalctl cannot be started: {error}")))?;
    let Some(output) = child.stdout.take() else { return Ok(()) };
    let mut reader = BufReader::<std::process::ChildStdout>::new(output);
    let mut last = VecDeque::new();
    let mut outcome = Ok(());
    let done = read(&mut reader, &mut filter, |line| {
        if follow {
            outcome = write_out(&line);
            return;
        }
        last.push_back(line);
        if last.len() > lines {
            last.pop_front();
        }
    });
    let _ = child.wait();
    done.map_err(|error| Failure::Failed(format!("journalctl: {error}")))?;
    outcome.and_then(|()| write_out(&Vec::from(last).concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_the_site_and_their_continuations_are_shown() {
        let log = "1 \"shop\" application 5 died\n    at index.php\n2 \"shop2\" application\n\
                   \u{20}   at other\n3 /etc/sites/shop.json: line 1\n4 \"/routes/shop/0\": x\n\
                   5 \"shared:wp:11\"\n6 \"shared:wp:1\" application 7 died\n\
                   7 \"shared:wp:1\" application 8 of site \"b\": GET /\n8 cut";
        let mut lines = Vec::new();
        let mut filter = Filter::new("shop", "/etc/sites/shop.json", Some("shared:wp:1"));
        let length = read(&mut log.as_bytes(), &mut filter, |line| lines.push(line)).unwrap();
        let shown: Vec<_> = lines.iter().map(|line| line.trim_start().get(..1)).collect();
        assert_eq!(shown, [Some("1"), Some("a"), Some("3"), Some("4"), Some("6")]);
        assert_eq!(length as usize, log.len() - "8 cut".len());
    }
}
