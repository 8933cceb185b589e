//! The supervisor without processes, for tests and for fuzzing, with a router under the control of
//! an attacker.
//!
//! [`Model::send`] is that router. For all its messages, the supervisor grants only resources that
//! the configuration names, creates no other files, and continues.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use howdah_sys::log::Log;
use howdah_sys::packet::{self, Received};
use howdah_wire::messages::{ApplicationSpec, FromSupervisor, MAX_MESSAGE};

use super::state::Tree;
use crate::grants::{Grants, Names, SocketAccess};
use crate::options::Options;
use crate::router::Router;

/// A supervisor without processes, and the router's end of the socket.
pub struct Model {
    directory: tempfile::TempDir,
    pub(super) tree: Tree,
    router: OwnedFd,
    /// Files that existed at the start.
    before: BTreeSet<String>,
}

/// An answer of the supervisor and its descriptors.
pub type Answer = (FromSupervisor, Vec<OwnedFd>);

impl Model {
    /// Creates a supervisor whose configuration names the file `good` as listener and log,
    /// `good.pem` as key, and the application `good`. `is_serving`: a router has served before.
    pub fn new(is_serving: bool) -> io::Result<Model> {
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name).display().to_string();
        fs::create_dir(at("state"))?;
        for name in ["good.pem", "bad.pem"] {
            fs::write(at(name), format!("-----BEGIN PRIVATE KEY-----\n{name}\n"))?;
        }
        let access = SocketAccess { mode: 0o600, ..SocketAccess::default() };
        let grants = Grants {
            listeners: BTreeMap::from([(format!("unix:{}", at("good")), access)]),
            logs: BTreeSet::from([at("good")]),
            caches: BTreeSet::from([at("state/good.cache")]),
            log_sockets: BTreeSet::new(),
            tls_files: BTreeSet::from([at("good.pem")]),
            programs: BTreeSet::from([at("good")]),
            certificates: BTreeSet::new(),
            managed: Names {
                whole: BTreeSet::from(["good".to_owned()]),
                prefixes: vec!["good.".to_owned()],
            },
            applications: HashMap::from([("good".to_owned(), ApplicationSpec::new("site"))]),
            jobs: BTreeMap::new(),
            shares_timers: true,
            site_logs: BTreeMap::new(),
            sites: BTreeSet::new(),
            mail: HashMap::new(),
            telemetry: None,
            has_dashboard: false,
            shutdown_delay: std::time::Duration::ZERO,
            shutdown_timeout: None,
        };
        let options = Options {
            certificates: Some(directory.path().join("state")),
            state: Some(directory.path().join("state")),
            control: Some(format!("unix:{}", at("control"))),
            ..Options::default()
        };
        let log = Log::new(File::create(at("supervisor.log"))?.into());
        let mut tree = Tree::new(options, log, b"{}".to_vec(), grants);
        let (ours, router) = packet::pair()?;
        for socket in [&ours, &router] {
            rustix::fs::fcntl_setfl(socket, rustix::fs::OFlags::NONBLOCK)?;
        }
        // No process has this id, so signals to it have no effect.
        tree.router = Some(Router::model(u32::MAX >> 1, ours));
        tree.has_served = is_serving;
        tree.carries_out_file_tasks = true;
        let mut model = Model { directory, tree, router, before: BTreeSet::new() };
        model.before = model.files();
        Ok(model)
    }

    /// Returns the path of a file in the model's directory. An absolute path stays as it is.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Sends a packet as the router and lets the supervisor process it. Returns the answers. Error:
    /// a resource that an answer must not contain.
    pub fn send(&mut self, packet: &[u8], files: &[OwnedFd]) -> Result<Vec<Answer>, String> {
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        packet::send(&self.router, packet, &files).map_err(|error| error.to_string())?;
        let mut buffer = vec![0; MAX_MESSAGE];
        self.tree.on_router(&mut buffer);
        let mut answers = Vec::new();
        while let Ok(Received::Packet(length, files)) = packet::receive(&self.router, &mut buffer) {
            let answer = FromSupervisor::decode(&buffer[..length]);
            answers.push((answer.map_err(|_| "the supervisor sent a malformed message")?, files));
        }
        answers.iter().try_for_each(|(message, files)| self.check(message, files))?;
        Ok(answers)
    }

    /// Checks that the server continues and has created or started only resources that the
    /// configuration names. Error: any other one.
    pub fn check_whole(&self) -> Result<(), String> {
        let mut made = self.files();
        made.retain(|name| !self.before.contains(name));
        made.retain(|name| {
            let stored = name.strip_prefix("state/certs/");
            let is_granted = stored.is_some_and(|name| name == "good" || name.starts_with("good."));
            !is_granted && !matches!(name.as_str(), "good" | "state/certs" | "state/good.cache")
        });
        if !made.is_empty() {
            return Err(format!("files were made: {made:?}"));
        }
        if self.tree.programs.pids().next().is_some() {
            return Err("a program was started that other users can change".to_owned());
        }
        if self.tree.upgrade.is_in_progress() {
            return Err("an upgrade has begun".to_owned());
        }
        if self.tree.has_served && self.tree.shutdown.is_some() {
            Err("the server ends".to_owned())
        } else {
            Ok(())
        }
    }

    /// Checks that an answer has only descriptors of resources that the configuration names.
    fn check(&self, message: &FromSupervisor, files: &[OwnedFd]) -> Result<(), String> {
        let is_good = match message {
            FromSupervisor::Bound { address } => *address == format!("unix:{}", self.path("good")),
            FromSupervisor::LogOpened { path, .. } => *path == self.path("good"),
            FromSupervisor::CacheOpened { path, .. } => *path == self.path("state/good.cache"),
            FromSupervisor::FileRead { .. } => files.iter().all(|file| {
                let text = fs::read_to_string(format!("/proc/self/fd/{}", file.as_raw_fd()));
                text.is_ok_and(|text| text.contains("good.pem"))
            }),
            FromSupervisor::Usage { .. } => files.iter().all(|file| {
                let text = fs::read_to_string(format!("/proc/self/fd/{}", file.as_raw_fd()));
                text.is_ok_and(|text| text.starts_with("{\"month\":"))
            }),
            // The jobs of a model that has none.
            FromSupervisor::Jobs { .. } => files.iter().all(|file| {
                let text = fs::read_to_string(format!("/proc/self/fd/{}", file.as_raw_fd()));
                text.is_ok_and(|text| text == "{}")
            }),
            // Each process of the system can read them.
            FromSupervisor::NameFiles {} => files.iter().all(|file| {
                let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
                let allowed = ["/etc/hosts", "/etc/resolv.conf", "/dev/null"];
                let mut allowed = allowed.iter().map(|path| fs::canonicalize(path).ok());
                path.is_ok_and(|path| allowed.any(|other| other == Some(path.clone())))
            }),
            _ => false,
        };
        if files.is_empty() || is_good {
            Ok(())
        } else {
            Err(format!(
                "{message:?} has {} \
            descriptors",
                files.len()
            ))
        }
    }

    /// Returns the files in the model's directory, by their paths below it.
    fn files(&self) -> BTreeSet<String> {
        let root = self.directory.path();
        let below = |path: &Path| -> Vec<String> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.path());
            names
                .filter_map(|path| Some(path.strip_prefix(root).ok()?.display().to_string()))
                .collect()
        };
        let all = [root.to_owned(), root.join("state"), root.join("state/certs")];
        all.iter().flat_map(|path| below(path)).collect()
    }
}
