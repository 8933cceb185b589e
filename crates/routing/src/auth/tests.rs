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
        Self::with_members(users, None)
    }

    fn with_members(users: &str, members: Option<howdah_config::Members>) -> Site {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(users.as_bytes()).unwrap();
        let config = howdah_config::BasicAuth {
            realm: Template::literal("Staff"),
            users_file: Template::literal(file.path().to_str().unwrap()),
            condition: None,
            members,
        };
        let log = Log::new(tempfile::tempfile().unwrap().into());
        Site { auth: BasicAuth::new(&config), file, log, start: Instant::now() }
    }

    /// Returns the user or the status of a request `seconds` after the start.
    fn ask(&self, seconds: u64, fields: &[(&str, &str)]) -> Result<String, u16> {
        let now = self.start + Duration::from_secs(seconds);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let request = request("/", fields);
        let source = VariableSource::of(&request, self.start);
        match runtime.block_on(self.auth.check(&source, now, &self.log)) {
            Ok(name) => Ok(String::from_utf8(name.to_vec()).unwrap()),
            Err(error) => {
                let challenge = b"Basic realm=\"Staff\", charset=\"UTF-8\"";
                assert_eq!(self.auth.challenge(&source), challenge);
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
    let Files::One(file) = &site.auth.files else { panic!("the name has no variables") };
    let users = runtime.block_on(file.users(site.start, &site.log)).unwrap();
    assert_eq!(users.known().len(), 2, "what was wrong is not remembered");
}

/// Scenario: Apache's `Require user eve` and `Require group staff`.
#[test]
fn only_named_users_and_members_of_groups_enter() {
    let mut groups = tempfile::NamedTempFile::new().unwrap();
    groups.write_all(b"Staff: bob nobody\nother: ann\n").unwrap();
    let members = howdah_config::Members {
        users: vec!["eve".to_owned()],
        groups_file: Some(groups.path().to_owned()),
        groups: vec!["staff".to_owned()],
    };
    let users = format!("ann:{SHA}\nbob:{SHA}\neve:{SHA}\n");
    let site = Site::with_members(&users, Some(members.clone()));
    let basic = |text: &str| format!("Basic {}", howdah_text::base64::encode(text.as_bytes()));
    for (credentials, expected) in [
        ("eve:open sesame", Ok("eve".to_owned())),
        ("bob:open sesame", Ok("bob".to_owned())),
        ("ann:open sesame", Err(401)),
        ("eve:wrong", Err(401)),
        ("nobody:open sesame", Err(401)),
    ] {
        assert_eq!(site.with(0, &basic(credentials)), expected, "{credentials}");
    }
    std::fs::remove_file(groups.path()).unwrap();
    assert_eq!(site.with(5, &basic("bob:open sesame")), Err(500), "nobody without the file");
    assert_eq!(site.with(5, &basic("eve:open sesame")), Ok("eve".to_owned()));
    let none = howdah_config::Members { groups_file: None, users: Vec::new(), ..members };
    let site = Site::with_members(&users, Some(none));
    assert_eq!(site.with(0, &basic("eve:open sesame")), Err(401));
}

#[test]
fn a_realm_is_escaped_and_cannot_add_a_field() {
    let of = |realm: &str, target: &str| {
        let config = howdah_config::BasicAuth {
            realm: Template::parse(realm).unwrap(),
            users_file: Template::literal("/none"),
            condition: None,
            members: None,
        };
        let request = request(target, &[]);
        let source = VariableSource::of(&request, Instant::now());
        String::from_utf8(BasicAuth::new(&config).challenge(&source)).unwrap()
    };
    let expected = r#"Basic realm="My \"Site\" \\ a", charset="UTF-8""#;
    assert_eq!(of("My \"Site\" \\ $arg_a", "/?a=a"), expected);
    let expected = r#"Basic realm="\", x=1X-Evil: 1", charset="UTF-8""#;
    assert_eq!(of("$arg_a", "/?a=%22,%20x=1%0d%0aX-Evil:%201"), expected);
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
