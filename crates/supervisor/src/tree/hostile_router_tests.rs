//! A router that strangers have taken over sends whatever it likes.
//!
//! The test is the router at the other end of the socket. Whatever it sends, the supervisor gives it
//! what the configuration names and nothing else, makes no file elsewhere, and goes on.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use howdah_sys::log::Log;
use howdah_sys::packet::{self, Received};
use howdah_wire::messages::{FromSupervisor, MAX_MESSAGE, Outcome, ToSupervisor};
use howdah_wire::queue::Owner;
use howdah_wire::region::Geometry;
use proptest::prelude::*;

use super::Tree;
use crate::fixture;
use crate::grants::{Grants, Names};
use crate::options::Options;
use crate::router::Router;

/// A supervisor without processes, and the router's end of the socket.
struct Scene {
    directory: tempfile::TempDir,
    tree: Tree,
    router: OwnedFd,
}

/// Names that the router asks for; the configuration has those that begin with `good`.
const NAMES: [&str; 6] = ["good", "good.pem", "bad", "../bad", "/etc/passwd", ""];

impl Scene {
    fn new(is_serving: bool) -> Scene {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::create_dir(at("state")).unwrap();
        for name in ["good.pem", "bad.pem"] {
            fs::write(at(name), format!("-----BEGIN PRIVATE KEY-----\n{name}\n")).unwrap();
        }
        let grants = Grants {
            listeners: BTreeSet::from([format!("unix:{}", at("good"))]),
            logs: BTreeSet::from([at("good")]),
            tls_files: BTreeSet::from([at("good.pem")]),
            programs: BTreeSet::from([at("good")]),
            certificates: BTreeSet::new(),
            managed: Names {
                whole: BTreeSet::from(["good".to_owned()]),
                prefixes: vec!["good.".to_owned()],
            },
            applications: HashMap::from([("good".to_owned(), fixture::spec())]),
        };
        let options = Options {
            certificates: Some(directory.path().join("state")),
            state: Some(directory.path().join("state")),
            control: Some(format!("unix:{}", at("control"))),
            ..Options::default()
        };
        let log = Log::new(File::create(at("supervisor.log")).unwrap().into());
        let mut tree = Tree::new(options, log, b"{}".to_vec(), grants);
        let (ours, router) = packet::pair().unwrap();
        for socket in [&ours, &router] {
            rustix::fs::fcntl_setfl(socket, rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        // No process has this id, so that signals to it reach nobody.
        tree.router = Some(Router::test(u32::MAX >> 1, ours));
        tree.served = is_serving;
        Scene { directory, tree, router }
    }

    fn path(&self, name: &str) -> String {
        match name.starts_with('/') {
            true => name.to_owned(),
            false => self.directory.path().join(name).to_str().unwrap().to_owned(),
        }
    }

    /// Sends a packet as the router and has the supervisor take it. Returns what it answers.
    fn send(&mut self, packet: &[u8], files: &[OwnedFd]) -> Vec<(FromSupervisor, Vec<OwnedFd>)> {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        packet::send(&self.router, packet, &files).unwrap();
        let mut buffer = vec![0; MAX_MESSAGE];
        self.tree.on_router(&mut buffer);
        let mut answers = Vec::new();
        while let Ok(Received::Packet(length, files)) = packet::receive(&self.router, &mut buffer) {
            answers.push((FromSupervisor::decode(&buffer[..length]).unwrap(), files));
        }
        answers
    }

    /// Checks that an answer has nothing that the configuration does not name.
    fn check(&self, message: &FromSupervisor, files: &[OwnedFd]) {
        let is_good = match message {
            FromSupervisor::Bound { address } => *address == format!("unix:{}", self.path("good")),
            FromSupervisor::LogOpened { path, .. } => *path == self.path("good"),
            FromSupervisor::FileRead { .. } => files.iter().all(|file| {
                let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
                fs::read_to_string(link).unwrap().contains("good.pem")
            }),
            _ => false,
        };
        assert!(files.is_empty() || is_good, "{message:?} has {} descriptors", files.len());
    }

    fn made(&self) -> BTreeSet<String> {
        let listed = |path: &Path| {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
        };
        let root = self.directory.path();
        let all = [root.to_owned(), root.join("state"), root.join("state/certs")];
        let below = |path: &String| path[root.to_str().unwrap().len() + 1..].to_owned();
        all.iter().flat_map(|path| listed(path)).map(|path| below(&path)).collect()
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => "[a-z./:*\0]{0,20}",
    ]
}

/// A message, for whose names a path in the scene's directory may be put.
fn message() -> impl Strategy<Value = (bool, ToSupervisor)> {
    let numbers = (0u32..4, 0u16..4, any::<u16>(), any::<u8>(), any::<u64>());
    let message = (0u8..18, name(), numbers).prop_map(|(kind, name, numbers)| {
        let (application, index, incarnation, signal, number) = numbers;
        let worker = Owner { index, incarnation };
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
            15 => ToSupervisor::Applied { generation: short, outcome: Outcome::Done },
            16 => ToSupervisor::Refuse { message: name },
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
        let mut scene = Scene::new(true);
        let before = scene.made();
        for ((is_path, message), files) in messages {
            let message = match (is_path, message) {
                (true, ToSupervisor::OpenLog { path }) => {
                    ToSupervisor::OpenLog { path: scene.path(&path) }
                }
                (true, ToSupervisor::ReadFile { path }) => {
                    ToSupervisor::ReadFile { path: scene.path(&path) }
                }
                (true, ToSupervisor::Bind { address, backlog }) => {
                    let address = match address.strip_prefix("unix:") {
                        Some(path) => format!("unix:{}", scene.path(path)),
                        None => address,
                    };
                    ToSupervisor::Bind { address, backlog }
                }
                (_, message) => message,
            };
            let files: Vec<OwnedFd> =
                (0..files).map(|_| File::open("/dev/zero").unwrap().into()).collect();
            for (answer, files) in scene.send(&message.encode(), &files) {
                scene.check(&answer, &files);
            }
            prop_assert!(scene.tree.ending.is_none(), "{message:?} ends the server");
        }
        let mut made = scene.made();
        made.retain(|name| !before.contains(name));
        made.retain(|name| !matches!(name.as_str(), "good" | "state/certs"));
        prop_assert!(made.is_empty(), "{made:?}");
        let program = scene.tree.programs.pids().count();
        prop_assert_eq!(program, 0, "what others could have written is not run");
    }

    #[test]
    fn bytes_that_are_no_message_change_nothing(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..200), 1..20),
    ) {
        let mut scene = Scene::new(true);
        let before = scene.made();
        for packet in packets {
            for (answer, files) in scene.send(&packet, &[]) {
                scene.check(&answer, &files);
            }
        }
        prop_assert_eq!(scene.made(), before);
    }
}

#[test]
fn what_the_configuration_names_can_be_had() {
    let mut scene = Scene::new(true);
    let path = scene.path("good");
    let answers = scene.send(&ToSupervisor::OpenLog { path }.encode(), &[]);
    assert_eq!(answers[0].1.len(), 1, "{:?}", answers[0].0);
    let path = scene.path("good.pem");
    let answers = scene.send(&ToSupervisor::ReadFile { path }.encode(), &[]);
    assert_eq!(answers[0].1.len(), 1, "{:?}", answers[0].0);
    scene.check(&answers[0].0, &answers[0].1);
    fs::remove_file(scene.path("good")).unwrap();
    let address = format!("unix:{}", scene.path("good"));
    let answers = scene.send(&ToSupervisor::Bind { address, backlog: 1 }.encode(), &[]);
    assert_eq!(answers[0].1.len(), 1, "{:?}", answers[0].0);
}

#[test]
fn a_file_that_the_configuration_does_not_name_is_refused_and_reported() {
    let mut scene = Scene::new(true);
    let path = scene.path("bad.pem");
    let answers = scene.send(&ToSupervisor::ReadFile { path: path.clone() }.encode(), &[]);
    let [(FromSupervisor::FileRead { error }, files)] = &answers[..] else { panic!("{answers:?}") };
    assert!(files.is_empty() && error.contains("is not named by the configuration"), "{error}");
    let log = fs::read_to_string(scene.path("supervisor.log")).unwrap();
    assert!(log.contains("[alert]") && log.contains(&path), "{log}");
}

#[test]
fn the_control_socket_is_not_handed_out_as_a_listener() {
    let mut scene = Scene::new(true);
    let address = format!("unix:{}", scene.path("control"));
    scene.tree.sockets.bind(&address, 1, 0o600).unwrap();
    scene.tree.changes.current.grants.listeners.insert(address.clone());
    let bind = ToSupervisor::Bind { address, backlog: 1 };
    let answers = scene.send(&bind.encode(), &[]);
    let [(FromSupervisor::BindFailed { message, .. }, files)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(files.is_empty() && message.contains("the control API"), "{message}");
}

#[test]
fn a_configuration_counts_once_the_router_has_prepared_what_was_to_be_applied() {
    let mut scene = Scene::new(true);
    let prepared = |generation| ToSupervisor::Prepared { generation }.encode();
    assert!(scene.send(&prepared(1), &[]).is_empty(), "nothing is being applied");
    let next = Grants { logs: BTreeSet::from([scene.path("next")]), ..Grants::default() };
    let generation = scene.tree.changes.begin(b"{\"next\":1}".to_vec(), next).unwrap();
    assert!(scene.send(&prepared(generation + 1), &[]).is_empty());
    assert_eq!(scene.tree.changes.current.document, b"{}");
    let answers = scene.send(&prepared(generation), &[]);
    let expected = FromSupervisor::Commit { generation, error: String::new() };
    assert_eq!(answers.first().map(|answer| &answer.0), Some(&expected));
    assert_eq!(fs::read(scene.path("state/conf.json")).unwrap(), b"{\"next\":1}");
    assert!(scene.send(&prepared(generation), &[]).is_empty(), "it is stored once");
    let path = scene.path("good");
    let answers = scene.send(&ToSupervisor::OpenLog { path }.encode(), &[]);
    assert!(answers[0].1.is_empty(), "the old one does not count any more");
    assert!(scene.tree.changes.application("good", 0, Instant::now()).is_some());
}

#[test]
fn a_first_configuration_can_be_refused_and_a_later_one_cannot_end_the_server() {
    let refuse = ToSupervisor::Refuse { message: "no".to_owned() }.encode();
    let mut scene = Scene::new(false);
    scene.send(&refuse, &[]);
    assert!(scene.tree.ending.is_some());
    let mut scene = Scene::new(true);
    scene.send(&refuse, &[]);
    scene.send(&ToSupervisor::Finished {}.encode(), &[]);
    assert!(scene.tree.ending.is_none());
}

#[test]
fn a_router_cannot_fill_the_log_with_what_it_is_refused() {
    let mut scene = Scene::new(true);
    for number in 0..500 {
        let path = scene.path(&format!("bad{number}"));
        scene.send(&ToSupervisor::OpenLog { path }.encode(), &[]);
    }
    let log = fs::read_to_string(scene.path("supervisor.log")).unwrap();
    // A busy machine may take several seconds for them.
    assert!(log.lines().count() < 400, "{}", log.lines().count());
}
