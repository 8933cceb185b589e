use std::io::{Read, Seek, Write};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use howdah_http::fixture::request;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use super::*;

struct Site {
    auth: BasicAuth,
    file: tempfile::NamedTempFile,
    log: Log,
    start: Instant,
}

impl Site {
    fn new(users: &str) -> Site {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(users.as_bytes()).unwrap();
        let users_file = file.path().to_owned();
        let config = howdah_config::BasicAuth { realm: "Staff".to_owned(), users_file };
        let log = Log::new(tempfile::tempfile().unwrap().into());
        Site { auth: BasicAuth::new(&config), file, log, start: Instant::now() }
    }

    /// Returns the user or the status of a request `seconds` after the start.
    fn ask(&self, seconds: u64, fields: &[(&str, &str)]) -> Result<String, u16> {
        let now = self.start + Duration::from_secs(seconds);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let request = request("/", fields);
        match runtime.block_on(self.auth.check(&request, now, &self.log)) {
            Ok(name) => Ok(String::from_utf8(name.to_vec()).unwrap()),
            Err(error) => {
                let challenge = "Basic realm=\"Staff\", charset=\"UTF-8\"";
                assert_eq!(self.auth.challenge(), challenge);
                Err(error.status())
            }
        }
    }

    fn logged(&self) -> String {
        let mut file = std::fs::File::from(self.log.handle().unwrap());
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn with(&self, seconds: u64, authorization: &str) -> Result<String, u16> {
        self.ask(seconds, &[("Authorization", authorization)])
    }
}

const SHA: &str = "{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=";
const BCRYPT: &str = "$2y$04$3jfO2TrbM9ffPhRb.SIkXOfP8D3azxrnzxo6NGgwKzAxuBNTxG7qK";

#[test]
fn the_right_password_lets_in() {
    let site = Site::new(&format!("ann:{SHA}\nbob:{BCRYPT}\n"));
    // ann:open sesame, bob:open sesame, ann:wrong, bob:wrong, eve:open sesame
    assert_eq!(site.with(0, "Basic YW5uOm9wZW4gc2VzYW1l"), Ok("ann".to_owned()));
    for _ in 0..2 {
        assert_eq!(site.with(0, "basic  Ym9iOm9wZW4gc2VzYW1l"), Ok("bob".to_owned()));
        assert_eq!(site.with(0, "Basic YW5uOndyb25n"), Err(401));
        assert_eq!(site.with(0, "Basic Ym9iOndyb25n"), Err(401));
        assert_eq!(site.with(0, "Basic ZXZlOm9wZW4gc2VzYW1l"), Err(401));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let users = runtime.block_on(site.auth.file.users(site.start, &site.log)).unwrap();
    assert_eq!(users.known().len(), 2, "what was wrong is not remembered");
}

#[test]
fn what_is_no_basic_authorization_is_asked_again() {
    let site = Site::new(&format!("ann:{SHA}\n:{SHA}\n"));
    assert_eq!(site.ask(0, &[]), Err(401));
    for value in [
        "",
        "Basic",
        "Basic ",
        "Basic !",
        "Basic YW5u",
        "Bearer YW5uOm9wZW4gc2VzYW1l",
        "Basic \u{e9}x",
    ] {
        assert_eq!(site.with(0, value), Err(401), "{value}");
    }
    let twice = ("Authorization", "Basic YW5uOm9wZW4gc2VzYW1l");
    assert_eq!(site.ask(0, &[twice, twice]), Err(401));
}

#[test]
fn a_changed_file_counts_after_a_second_and_a_missing_one_lets_nobody_in() {
    let site = Site::new(&format!("ann:{BCRYPT}\n"));
    let ann = "Basic YW5uOm9wZW4gc2VzYW1l";
    assert_eq!(site.with(0, ann), Ok("ann".to_owned()));
    std::fs::write(site.file.path(), format!("bob:{SHA}\n")).unwrap();
    assert_eq!(site.with(0, ann), Ok("ann".to_owned()));
    assert_eq!(site.with(1, ann), Err(401));
    assert_eq!(site.with(1, "Basic Ym9iOm9wZW4gc2VzYW1l"), Ok("bob".to_owned()));
    std::fs::write(site.file.path(), "").unwrap();
    assert_eq!(site.with(3, ann), Err(401));
    std::fs::remove_file(site.file.path()).unwrap();
    assert_eq!(site.with(5, ann), Err(500));
    assert_eq!(site.with(5, "Basic Ym9iOm9wZW4gc2VzYW1l"), Err(500));
}

/// The file is replaced by a FIFO between the check of the path and the open, which would wait for
/// a writer.
#[test]
fn a_file_that_is_exchanged_with_a_fifo_keeps_nobody_waiting() {
    let site = Site::new(&format!("ann:{SHA}\n"));
    let fifo = site.file.path().with_extension("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (path, ended) = (site.file.path().to_owned(), AtomicBool::new(false));
    let (told, hears) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                renameat_with(CWD, &path, CWD, &fifo, RenameFlags::EXCHANGE).unwrap();
            }
            std::fs::remove_file(&fifo).unwrap();
        });
        scope.spawn(|| {
            for seconds in 0..2000 {
                told.send(site.with(seconds, "Basic YW5uOm9wZW4gc2VzYW1l")).unwrap();
            }
        });
        for _ in 0..2000 {
            match hears.recv_timeout(Duration::from_secs(60)) {
                Ok(answer) => assert!(matches!(answer.as_deref(), Ok("ann") | Err(500))),
                // The thread that waits for the FIFO ends only with the process.
                Err(_) => std::process::abort(),
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(site.logged().contains("it is not a regular file"), "{}", site.logged());
}

#[test]
fn the_log_is_told_once_of_a_file_that_stays_away_and_again_after_it_was_there() {
    let site = Site::new(&format!("ann:{SHA}\n"));
    let ann = "Basic YW5uOm9wZW4gc2VzYW1l";
    let text = std::fs::read(site.file.path()).unwrap();
    for round in 0..2 {
        std::fs::remove_file(site.file.path()).unwrap();
        for seconds in 0..5 {
            assert_eq!(site.with(20 * round + seconds, ann), Err(500));
        }
        std::fs::write(site.file.path(), &text).unwrap();
        assert_eq!(site.with(20 * round + 10, ann), Ok("ann".to_owned()));
        let told = site.logged().matches("cannot read the users' file").count();
        assert_eq!(told as u64, round + 1, "{}", site.logged());
    }
}
