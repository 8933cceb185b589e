//! A router under the control of an attacker sends arbitrary messages.
//!
//! The test plays the router at the other end of the socket. For all its messages, the supervisor
//! grants only resources that the configuration names, creates no other files, and continues.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::time::Instant;

use howdah_wire::messages::{ChangeOutcome, FromSupervisor, JobOrder, SiteUsed, ToSupervisor};
use howdah_wire::queue::WorkerId;
use howdah_wire::region::Geometry;
use proptest::prelude::*;

use super::id::Id;
use super::model::{Answer, Model};
use crate::grants::{Grants, SocketAccess};

/// Names that the router requests; the configuration has those that begin with `good`.
const NAMES: [&str; 6] = ["good", "good.pem", "bad", "../bad", "/etc/passwd", ""];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => "[a-z./:*\0]{0,20}",
    ]
}

/// Generates a message; if the flag is true, its names are replaced by paths in the model's
/// directory.
fn message() -> impl Strategy<Value = (bool, ToSupervisor)> {
    let numbers = (0u32..4, 0u16..4, any::<u16>(), any::<u8>(), any::<u64>());
    let message = (0u8..29, name(), numbers).prop_map(|(kind, name, numbers)| {
        let (application, index, incarnation, signal, number) = numbers;
        let worker = WorkerId { index, incarnation };
        let short = number as u32 % 4;
        match kind {
            0 => ToSupervisor::Bind { address: name, backlog: number as u32 },
            1 => ToSupervisor::Bind { address: format!("unix:{name}"), backlog: 1 },
            2 => ToSupervisor::Unbind { address: format!("unix:{name}") },
            3 => {
                let geometry = Geometry::for_pool(1 + short, 1);
                ToSupervisor::Start { application, name, generation: short, geometry }
            }
            4 => ToSupervisor::Spawn { application },
            5 => ToSupervisor::Kill { application, worker, signal },
            6 => ToSupervisor::Trace { application, worker, number: short },
            7 => ToSupervisor::Stop { application, grace_ms: number },
            8 => ToSupervisor::Prepared { generation: short },
            9 => ToSupervisor::Serving {},
            10 => ToSupervisor::Finished {},
            11 => ToSupervisor::OpenLog { path: name },
            12 => ToSupervisor::Measure { application },
            13 => ToSupervisor::StoreCertificate { name },
            14 => ToSupervisor::ReadFile { path: name },
            15 => ToSupervisor::Applied { generation: short, outcome: ChangeOutcome::Done },
            16 => ToSupervisor::Refuse { message: name },
            17 => ToSupervisor::Unload { application },
            18 => ToSupervisor::RenewalsHeld {},
            19 => ToSupervisor::OpenCache { path: name },
            20 => ToSupervisor::OpenNameFiles {},
            21 => ToSupervisor::CheckFiles { application },
            22 => {
                let used = SiteUsed {
                    site: name,
                    requests: number,
                    errors: number,
                    received: number,
                    sent: number,
                    php_us: number,
                };
                ToSupervisor::Used { sites: vec![used; short as usize] }
            }
            23 => ToSupervisor::ReadUsage { number: short, month: Some(name) },
            24 => ToSupervisor::ReadJobs { number: short, applications: Some(vec![name]) },
            25 => ToSupervisor::ReadJobLog { number: short, application: name.clone(), job: name },
            26 => {
                let order = JobOrder::Run;
                ToSupervisor::OrderJob {
                    number: short,
                    application: name.clone(),
                    job: name,
                    order,
                }
            }
            27 => ToSupervisor::RestartJobs { application: name },
            28 => {
                let (job, token) = (name.clone(), Some(name.clone()));
                ToSupervisor::RunClaimed { application: name, job, time: number, token }
            }
            _ => ToSupervisor::Run {
                number: short,
                program: name,
                arguments: vec!["present".into(), "_acme-challenge.a.".into(), "x".into()],
                environment: Vec::new(),
                timeout_ms: number,
            },
        }
    });
    (any::<bool>(), message)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_router_that_was_taken_over_gets_what_the_configuration_names_alone(
        messages in proptest::collection::vec((message(), 0usize..3), 1..40),
    ) {
        let mut model = Model::new(true).unwrap();
        for ((is_path, message), files) in messages {
            let message = match (is_path, message) {
                (true, ToSupervisor::OpenLog { path }) => {
                    ToSupervisor::OpenLog { path: model.path(&path) }
                }
                (true, ToSupervisor::OpenCache { path }) => {
                    ToSupervisor::OpenCache { path: model.path(&format!("state/{path}.cache")) }
                }
                (true, ToSupervisor::ReadFile { path }) => {
                    ToSupervisor::ReadFile { path: model.path(&path) }
                }
                (true, ToSupervisor::Bind { address, backlog }) => {
                    let address = match address.strip_prefix("unix:") {
                        Some(path) => format!("unix:{}", model.path(path)),
                        None => address,
                    };
                    ToSupervisor::Bind { address, backlog }
                }
                (_, message) => message,
            };
            let files: Vec<OwnedFd> =
                (0..files).map(|_| File::open("/dev/zero").unwrap().into()).collect();
            let sent = model.send(&message.encode(), &files);
            prop_assert!(sent.is_ok(), "{:?}: {:?}", message, sent);
        }
        prop_assert_eq!(model.check_whole(), Ok(()));
    }

    #[test]
    fn bytes_that_are_no_message_change_nothing(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..200), 1..20),
    ) {
        let mut model = Model::new(true).unwrap();
        for packet in packets {
            let sent = model.send(&packet, &[]);
            prop_assert!(sent.is_ok(), "{:?}", sent);
        }
        prop_assert_eq!(model.check_whole(), Ok(()));
    }
}

fn ask(model: &mut Model, message: &ToSupervisor) -> Vec<Answer> {
    model.send(&message.encode(), &[]).unwrap()
}

#[test]
fn what_the_configuration_names_can_be_had() {
    let mut model = Model::new(true).unwrap();
    let path = model.path("good");
    let answers = ask(&mut model, &ToSupervisor::OpenLog { path });
    assert_eq!(answers[0].1.len(), 1, "{:?}", answers[0].0);
    let path = model.path("good.pem");
    let answers = ask(&mut model, &ToSupervisor::ReadFile { path });
    assert_eq!(answers[0].1.len(), 1, "{:?}", answers[0].0);
    fs::remove_file(model.path("good")).unwrap();
    let address = format!("unix:{}", model.path("good"));
    let answers = ask(&mut model, &ToSupervisor::Bind { address, backlog: 1 });
    assert_eq!(answers[0].1.len(), 1, "{:?}", answers[0].0);
}

#[test]
fn a_file_that_the_configuration_does_not_name_is_refused_and_reported() {
    let mut model = Model::new(true).unwrap();
    let path = model.path("bad.pem");
    let answers = ask(&mut model, &ToSupervisor::ReadFile { path: path.clone() });
    let [(FromSupervisor::FileRead { error }, files)] = &answers[..] else { panic!("{answers:?}") };
    assert!(files.is_empty() && error.contains("is not allowed by the configuration"), "{error}");
    let log = fs::read_to_string(model.path("supervisor.log")).unwrap();
    assert!(log.contains("[alert]") && log.contains(&path), "{log}");
}

#[test]
fn the_control_socket_is_not_handed_out_as_a_listener() {
    let mut model = Model::new(true).unwrap();
    let address = format!("unix:{}", model.path("control"));
    model.tree.sockets.bind(&address, 1, 0o600).unwrap();
    let grants = &mut model.tree.changes.current.grants;
    grants.listeners.insert(address.clone(), SocketAccess::default());
    let bind = ToSupervisor::Bind { address, backlog: 1 };
    let answers = ask(&mut model, &bind);
    let [(FromSupervisor::BindFailed { message, .. }, files)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(files.is_empty() && message.contains("the control API"), "{message}");
}

/// A look at users is a process that asks directory services.
#[test]
fn a_router_causes_one_look_at_users_however_often_it_says_that_it_serves() {
    let mut model = Model::new(true).unwrap();
    let is_wanted = |model: &mut Model| std::mem::take(&mut model.tree.users.must_look);
    ask(&mut model, &ToSupervisor::Serving {});
    assert!(is_wanted(&mut model));
    ask(&mut model, &ToSupervisor::Serving {});
    ask(&mut model, &ToSupervisor::CheckFiles { application: 1 });
    assert!(!is_wanted(&mut model));
}

#[test]
fn a_router_learns_of_users_only_for_its_own_applications() {
    let mut model = Model::new(true).unwrap();
    let own = model.tree.id(1);
    model.tree.users.changed = vec![Id { router: own.router - 1, number: 0 }, own];
    for (application, expected) in [(0, None), (1, Some("the ids of its user".to_owned()))] {
        let answers = ask(&mut model, &ToSupervisor::CheckFiles { application });
        let checked = FromSupervisor::FilesChecked { application, changed: expected };
        assert_eq!(answers.first().map(|answer| &answer.0), Some(&checked));
    }
}

/// A router asks while it prepares a configuration, before it learns that the server ends.
#[test]
fn no_socket_is_opened_once_the_server_ends() {
    let mut model = Model::new(true).unwrap();
    let path = model.path("good");
    model.tree.shut_down(true);
    let bind = ToSupervisor::Bind { address: format!("unix:{path}"), backlog: 1 };
    let answers = ask(&mut model, &bind);
    let Some((FromSupervisor::BindFailed { message, .. }, _)) = answers.last() else {
        panic!("{answers:?}")
    };
    assert!(message.contains("is being stopped"), "{message}");
    assert!(model.tree.sockets.addresses().is_empty());
}

#[test]
fn a_server_that_ends_before_it_has_started_does_not_say_that_it_serves_nothing() {
    for ends in [false, true] {
        let mut model = Model::new(false).unwrap();
        if ends {
            model.tree.shut_down(false);
        }
        ask(&mut model, &ToSupervisor::Serving {});
        let log = fs::read_to_string(model.path("supervisor.log")).unwrap();
        assert_eq!(log.contains("started: "), !ends, "{log}");
    }
}

#[test]
fn a_configuration_counts_once_the_router_has_prepared_what_was_to_be_applied() {
    let mut model = Model::new(true).unwrap();
    let prepared = |generation| ToSupervisor::Prepared { generation };
    assert!(ask(&mut model, &prepared(1)).is_empty(), "nothing is being applied");
    let next = Grants { logs: BTreeSet::from([model.path("next")]), ..Grants::default() };
    let generation = model.tree.changes.begin(b"{\"next\":1}".to_vec(), next).unwrap();
    assert!(ask(&mut model, &prepared(generation + 1)).is_empty());
    assert_eq!(model.tree.changes.current.document.as_slice(), b"{}");
    let answers = ask(&mut model, &prepared(generation));
    let expected = FromSupervisor::Commit { generation, error: String::new() };
    assert_eq!(answers.first().map(|answer| &answer.0), Some(&expected));
    assert_eq!(fs::read(model.path("state/conf.json")).unwrap(), b"{\"next\":1}");
    assert!(ask(&mut model, &prepared(generation)).is_empty(), "it is stored once");
    let path = model.path("good");
    let answers = ask(&mut model, &ToSupervisor::OpenLog { path });
    assert!(answers[0].1.is_empty(), "the old one does not count any more");
    assert!(model.tree.changes.application("good", 0, Instant::now()).is_some());
}

#[test]
fn a_first_configuration_can_be_refused_and_a_later_one_cannot_end_the_server() {
    let refuse = ToSupervisor::Refuse { message: "no".to_owned() };
    let mut model = Model::new(false).unwrap();
    ask(&mut model, &refuse);
    assert!(model.tree.shutdown.is_some());
    let mut model = Model::new(true).unwrap();
    ask(&mut model, &refuse);
    ask(&mut model, &ToSupervisor::Finished {});
    assert!(model.tree.shutdown.is_none());
}

#[test]
fn a_router_cannot_fill_the_log_with_what_it_is_refused() {
    let mut model = Model::new(true).unwrap();
    for number in 0..500 {
        let path = model.path(&format!("bad{number}"));
        ask(&mut model, &ToSupervisor::OpenLog { path });
    }
    let log = fs::read_to_string(model.path("supervisor.log")).unwrap();
    // Sending them may take several seconds on a busy machine.
    assert!(log.lines().count() < 400, "{}", log.lines().count());
}

#[test]
fn a_certificate_is_taken_from_memory_and_from_no_file() {
    let mut model = Model::new(true).unwrap();
    let store = ToSupervisor::StoreCertificate { name: "good".to_owned() }.encode();
    let file = File::open(model.path("bad.pem")).unwrap();
    let answers = model.send(&store, &[file.into()]).unwrap();
    let [(FromSupervisor::Stored { error }, _)] = &answers[..] else { panic!("{answers:?}") };
    assert!(error.contains("not a memory file"), "{error}");
    let memory = crate::memory::memory_file("certificate", b"text").unwrap();
    let answers = model.send(&store, &[memory]).unwrap();
    let expected = FromSupervisor::Stored { error: String::new() };
    assert_eq!(answers.first().map(|answer| &answer.0), Some(&expected));
}

/// Sends counts for these sites, and returns the counts of a month.
fn count(model: &mut Model, sites: &[String], month: Option<&str>) -> Result<String, String> {
    for some in sites.chunks(500) {
        let used = some.iter().map(|site| {
            let (requests, most) = (1, u64::MAX);
            let site = site.clone();
            SiteUsed { site, requests, errors: most, received: most, sent: most, php_us: most }
        });
        ask(model, &ToSupervisor::Used { sites: used.collect() });
    }
    let question = ToSupervisor::ReadUsage { number: 7, month: month.map(str::to_owned) };
    for (answer, files) in ask(model, &question) {
        if let FromSupervisor::Usage { number: 7, error } = answer {
            let text = crate::memory::read_memory_file(files, u64::MAX);
            return if error.is_empty() {
                Ok(text.map(|text| String::from_utf8(text).unwrap()).unwrap_or_default())
            } else {
                Err(error)
            };
        }
    }
    Err("no answer".to_owned())
}

#[test]
fn a_router_cannot_count_for_names_without_end_nor_lower_a_count() {
    let mut model = Model::new(true).unwrap();
    let mut names: Vec<_> = (0..12_000).map(|number| format!("made up {number}")).collect();
    names.extend(["good".to_owned(), "x".repeat(300), "a\"\n\u{1b}".to_owned()]);
    let text = count(&mut model, &names, None).unwrap();
    let usage = crate::usage_file::parse(text.as_bytes()).unwrap();
    assert_eq!(usage.sites.len(), 10_002, "10000, the known one, and one for all others");
    assert_eq!((usage.sites["good"].requests, usage.sites["(other)"].requests), (1, 2002));
    let first = usage.sites["good"];
    let text = count(&mut model, &["good".to_owned()], None).unwrap();
    let second = crate::usage_file::parse(text.as_bytes()).unwrap().sites["good"];
    assert_eq!((second.requests, second.sent), (2, first.sent), "the highest number stays");
}

#[test]
fn a_router_reads_counts_of_months_and_no_other_files() {
    let mut model = Model::new(true).unwrap();
    for month in ["../conf", "", "2026-1", "2026-13", "2026-11/../../x"] {
        assert!(count(&mut model, &[], Some(month)).unwrap_err().contains("2026-11"), "{month}");
    }
    let none = count(&mut model, &[], Some("2001-01"));
    assert_eq!(none.as_deref(), Ok("{\"month\":\"2001-01\",\"sites\":{}}"));
    let stored = r#"{"month": "2001-02", "sites": {"shop": {"requests": 5}}}"#;
    fs::write(model.path("state/usage-2001-02.json"), stored).unwrap();
    assert!(count(&mut model, &[], Some("2001-02")).unwrap().contains("\"requests\":5"));
    for year in 3000..3100 {
        assert!(count(&mut model, &[], Some(&format!("{year}-01"))).is_ok());
    }
    assert!(count(&mut model, &["good".to_owned()], None).unwrap().contains("good"));
}
