use super::*;
use crate::bytes::{Decoder, Encode, Malformed};
use crate::queue::WorkerId;
use crate::region::Geometry;

const WORKER: WorkerId = WorkerId { index: 3, incarnation: 0x1234 };

fn text(text: &str) -> String {
    text.to_owned()
}

fn spec() -> ApplicationSpec {
    let pair = || vec![(text("name"), text("value"))];
    let sandbox = Sandbox {
        read: vec![text("/r")],
        write: vec![text("/w")],
        execute: vec![text("/x"), text("/y")],
        required: true,
    };
    ApplicationSpec {
        name: text("site"),
        php_version: text("8.2"),
        roots: pair(),
        releases: true,
        user: Some(text("user")),
        group: None,
        working_directory: Some(text("/work")),
        priority: Some(25),
        umask: Some(0o27),
        environment: pair(),
        environment_files: pair(),
        missing_variables: pair(),
        ini_file: None,
        worker: Some(WorkerScript {
            script: text("/srv/worker.php"),
            root: text("/srv"),
            warm_up: Some(text("/")),
            has_fallback: true,
            watch: vec!["/srv/src".to_owned()],
        }),
        ini_admin: pair(),
        ini_user: Vec::new(),
        script_directories: vec![text("/scripts")],
        no_script_directories: vec![text("/uploads")],
        script_extensions: vec![text(".phtml")],
        stdout: Some(text("/out")),
        stderr: None,
        htaccess: true,
        route_settings: vec![text("memory_limit")],
        takes_fastcgi: true,
        requests: 1 << 40,
        memory: 7,
        rlimits: vec![(text("nofile"), Some(9)), (text("core"), None)],
        isolation: Isolation {
            user_namespace: true,
            uidmap: vec![IdRange { inside: 1, outside: 2, size: 3 }],
            rootfs: Some(text("/root")),
            cgroup: Some(text("sites")),
            cgroup_settings: pair(),
            limits: Some(ResourceLimits {
                group: text("application-a"),
                memory: Some(1 << 40),
                cpu: Some(1500),
                processes: None,
            }),
            sandbox: Some(sandbox),
            ..Isolation::default()
        },
        geometry: Geometry::for_pool(3, 2),
    }
}

fn user() -> ProcessUser {
    let groups = vec![33, 44];
    ProcessUser { uid: 33, gid: 34, groups, name: text("www-data"), home: text("/var/www") }
}

/// Encodes each message, decodes it, and refuses it cut short or with a byte too many.
macro_rules! assert_read_back {
    ($type:ty: $($message:expr),* $(,)?) => {$(
        let (message, packet) = ($message, $message.encode());
        assert_eq!(<$type>::decode(&packet), Ok(message));
        for cut in 0..packet.len() {
            assert!(<$type>::decode(&packet[..cut]).is_err(), "{:?} of {} bytes", $message, cut);
        }
        assert_eq!(<$type>::decode(&[&packet[..], &[0]].concat()), Err(Malformed));
    )*};
}

#[test]
fn every_message_is_read_back_whole() {
    let usage = Usage { worker: WORKER, pss: 1, private: 2, peak: 3, cpu_us: 4, delay_us: 1 << 50 };
    assert_read_back!(ToPrototype:
        ToPrototype::Hello {
            spec: spec(),
            tmp: text("/tmp"),
            sendmail: text("/s"),
            user: Some(user()),
            variables: vec![(text("A"), text("b"))],
        },
        ToPrototype::Measure { workers: vec![WORKER, WorkerId { index: 0, incarnation: 0 }] },
    );
    assert_read_back!(ToTemplate: ToTemplate::Fork { worker: WORKER });
    assert_read_back!(FromTemplate:
        FromTemplate::Booted { boot_us: 7 },
        FromTemplate::Unshareable { boot_us: 7, reason: text("it has opened socket:[1]") },
        FromTemplate::Failed { message: text("no"), in_warm_up: true },
        FromTemplate::Forked { worker: WORKER, pid: 77 },
        FromTemplate::NotForked { worker: WORKER, message: text("no") },
    );
    assert_read_back!(FromPrototype:
        FromPrototype::Booted { boot_us: 7, template: Some(77), without: String::new() },
        FromPrototype::Booted { boot_us: 7, template: None, without: text("it has opened a.db") },
        FromPrototype::Changed { path: text("/srv/a.php") },
        FromPrototype::Fallback { problem: Some(text("it has ended")) },
        FromPrototype::Fallback { problem: None },
        FromPrototype::Noticed { problem: Problem::at("key", "text"), is_note: true },
        FromPrototype::Noticed { problem: Problem::of("text"), is_note: false },
        FromPrototype::Failed { problem: Problem::no_root("root", "text") },
        FromPrototype::Settings {
            values: vec![(text("memory_limit"), text("128M"))],
            files: vec![text("/etc/php.ini")],
        },
        FromPrototype::Traced { number: 5, stack: Ok(vec![text("#0 a()"), text("#1 b()")]) },
        FromPrototype::Traced { number: 5, stack: Err(text("it has ended")) },
        FromPrototype::Measured { base: 1, memory_limit: Some(2), workers: vec![usage.clone()] },
        FromPrototype::Measured { base: 1, memory_limit: None, workers: Vec::new() },
    );
    for status in [Exit::Status(7), Exit::Signal(9), Exit::OutOfMemory, Exit::OverLimit] {
        assert_read_back!(FromPrototype:
            FromPrototype::Died { worker: WORKER, pid: 5, status, was_idle: true },
        );
    }
    let outcomes = [
        ChangeOutcome::Done,
        ChangeOutcome::NotApplied(text("a")),
        ChangeOutcome::NotStored(text("b")),
        ChangeOutcome::NotRestarted(text("c")),
        ChangeOutcome::Upgrading,
    ];
    for outcome in outcomes {
        assert_read_back!(ToControl: ToControl::Applied { outcome: outcome.clone() });
    }
    assert_read_back!(ToSupervisor:
        ToSupervisor::Bind { address: text("*:80"), backlog: 511 },
        ToSupervisor::Kill { application: 1, worker: WORKER, signal: 15 },
        ToSupervisor::Serving {},
        ToSupervisor::ReadJobs { number: 3, applications: Some(vec![text("a")]) },
        ToSupervisor::ReadJobLog { number: 3, application: text("a"), job: text("b") },
        ToSupervisor::RestartJobs { application: text("a") },
        ToSupervisor::RunClaimed {
            application: text("a"), job: text("b"), time: 60, token: Some(text("c")),
        },
    );
    for order in [JobOrder::Run, JobOrder::Pause, JobOrder::Resume] {
        assert_read_back!(ToSupervisor:
            ToSupervisor::OrderJob { number: 3, application: text("a"), job: text("b"), order },
        );
    }
    assert_read_back!(FromSupervisor: FromSupervisor::Jobs { number: 3, error: text("no") });
    assert_read_back!(FromSupervisor:
        FromSupervisor::ClaimRun {
            application: text("a"), job: text("b"), time: 60, keep: 600, is_exclusive: true,
        },
        FromSupervisor::HoldRun { application: text("a"), job: text("b"), token: text("c") },
        FromSupervisor::EndRun { application: text("a"), job: text("b"), token: text("c") },
    );
    assert_read_back!(FromSupervisor: FromSupervisor::Leaving { milliseconds: 1 << 40 });
    assert_read_back!(FromSupervisor: FromSupervisor::Quit { graceful: true, is_replaced: true });
    assert_read_back!(FromControl: FromControl::ReadDocument { tables: true });
    assert_read_back!(FromControl: FromControl::CompileDocument {});
    assert_read_back!(ToRouter:
        ToRouter::Ask { number: 1, question: text("\"Status\"") },
        ToRouter::Forget { number: 1 });
    assert_read_back!(FromRouter: FromRouter::Answer { number: 1, error: text("no") });
    assert_read_back!(ToZygote:
        ToZygote::Load { user: Some(7), ini_file: None }, ToZygote::Fork {});
    assert_read_back!(FromZygote:
        FromZygote::Ready {},
        FromZygote::Forked { pid: 5 },
        FromZygote::Unfit { reason: text("no") },
    );
    assert_read_back!(ToSuccessor:
        ToSuccessor::Listeners { sockets: vec![(text("*=80"), true), (text("unix=/s"), false)] },
        ToSuccessor::TakeOver {},
        ToSuccessor::Refused { since: 1, reason: text("no") },
    );
    for remote in ["192.0.2.1:443", "[fe80::1%3]:65535"] {
        assert_read_back!(ToFormerRouter: ToFormerRouter::Datagram {
            socket: text("udp:*:443"),
            remote: remote.parse().unwrap(),
            local: Some([127, 0, 0, 1].into()),
            ecn: Some(2),
            data: vec![0x40; 1200],
        });
    }
    assert_read_back!(FromSuccessor:
        FromSuccessor::Ready {},
        FromSuccessor::Failed { message: text("no") },
    );
    assert_read_back!(ToWorker:
        ToWorker::Descriptors { ticket: 1 },
        ToWorker::Status { ticket: 2 },
        ToWorker::OutputTaken { ticket: 3 },
    );
}

/// A server of another version must be able to read it, and say which version speaks.
#[test]
fn the_greeting_of_an_upgrade_never_changes() {
    let bytes = [1, 7, 0, 0, 0, 5, 0, 0, 0, b'1', b'.', b'2', b'.', b'3'];
    let (protocol, version) = (7, "1.2.3".to_owned());
    let hello = ToSuccessor::Hello { protocol, version: version.clone() };
    assert_eq!((hello.encode(), ToSuccessor::decode(&bytes)), (bytes.to_vec(), Ok(hello)));
    let hello = FromSuccessor::Hello { protocol, version };
    assert_eq!((hello.encode(), FromSuccessor::decode(&bytes)), (bytes.to_vec(), Ok(hello)));
}

#[test]
fn values_that_a_field_cannot_have_are_refused() {
    let exit = |kind, value| Exit::take(&mut Decoder(&[kind, value]));
    assert_eq!(exit(1, 9), Ok(Exit::Signal(9)));
    assert_eq!((exit(2, 1), exit(4, 0)), (Err(Malformed), Err(Malformed)));
    assert_eq!(bool::take(&mut Decoder(&[2])), Err(Malformed));
    assert_eq!(ChangeOutcome::take(&mut Decoder(&[5])), Err(Malformed));
    assert_eq!(String::take(&mut Decoder(&[1, 0, 0, 0, 0xff])), Err(Malformed));
    let owner = |index: u16| WorkerId::take(&mut Decoder(&[index.to_le_bytes(), [7, 0]].concat()));
    assert_eq!(owner(WorkerId::LIMIT - 1).map(|owner| owner.incarnation), Ok(7));
    assert_eq!(owner(WorkerId::LIMIT), Err(Malformed));
    let mut many = Vec::new();
    many.put_u32(5);
    many.extend_from_slice(&[1; 5]);
    assert_eq!(Vec::<u8>::take(&mut Decoder(&many)), Ok(vec![1; 5]));
    assert_eq!(Vec::<u8>::take(&mut Decoder(&many[..8])), Err(Malformed));
    let mut geometry = Vec::new();
    Geometry { slots: 3, ..Geometry::for_pool(1, 1) }.put(&mut geometry);
    assert_eq!(Geometry::take(&mut Decoder(&geometry)), Err(Malformed));
}

#[test]
fn bundles_are_read_back_and_a_cut_one_is_refused() {
    let bundles = [("a", &b"one"[..]), ("b", b"")];
    let bytes = put_bundles(bundles);
    assert_eq!(take_bundles(&bytes).unwrap(), bundles);
    assert_eq!(take_bundles(&bytes[..bytes.len() - 1]), Err(Malformed));
    assert_eq!(take_bundles(&[]), Ok(Vec::new()));
}

#[test]
fn the_end_of_a_process_and_a_problem_have_words() {
    assert_eq!(Exit::Status(7).to_string(), "exited with status 7");
    assert_eq!(Exit::Signal(9).to_string(), "exited on signal 9");
    assert!(Exit::OutOfMemory.to_string().contains("out of memory"));
    assert_eq!(Problem::at("key", "text").to_string(), "key: text");
    assert_eq!(Problem::of("text").to_string(), "text");
}
