//! Worker scripts and the applications that run them.

use std::path::PathBuf;

use howdah_wire::frame::Retirement;
use howdah_wire::messages::WorkerScript;
use howdah_wire::queue::WorkerId;

use super::{Answer, Application, Request, open_to_all};

/// The loop of a worker script; each request brings its own code.
pub const LOOP: &str =
    "while (frankenphp_handle_request(function () { eval($_SERVER['HTTP_CODE']); }));";

/// The same; a request may also bring code that runs after its response.
pub const PAUSING_LOOP: &str = "ini_set('session.save_path', sys_get_temp_dir());
    while (frankenphp_handle_request(function () { eval($_SERVER['HTTP_CODE']); })) {
        eval($_SERVER['HTTP_PAUSE'] ?? '');
    }";

/// A worker script in a directory of its own.
pub struct Script {
    pub directory: tempfile::TempDir,
    pub warm_up: Option<String>,
    pub has_fallback: bool,
}

impl Script {
    pub fn new(code: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        open_to_all(directory.path());
        let script = Script { directory, warm_up: None, has_fallback: false };
        script.write(code);
        script
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("worker.php")
    }

    pub fn write(&self, code: &str) {
        std::fs::write(self.path(), format!("<?php {code}")).unwrap();
    }

    pub fn spec(&self) -> WorkerScript {
        WorkerScript {
            script: self.path().display().to_string(),
            root: self.directory.path().display().to_string(),
            warm_up: self.warm_up.clone(),
            has_fallback: self.has_fallback,
            watch: Vec::new(),
        }
    }

    pub fn start(&self, workers: u16) -> Resident<'_> {
        self.start_with(workers, 0)
    }

    pub fn start_with(&self, workers: u16, requests: u64) -> Resident<'_> {
        let application = Application::start_with(workers, &|spec| {
            spec.worker = Some(self.spec());
            spec.requests = requests;
        });
        Resident { application, script: self }
    }

    pub fn request(&self, code: &str) -> Request {
        Request::get(&self.path(), self.directory.path()).with("HTTP_CODE", code)
    }
}

/// A running resident application.
pub struct Resident<'a> {
    pub application: Application,
    pub script: &'a Script,
}

impl Resident<'_> {
    pub fn send(&mut self, request: &Request) -> Answer {
        self.application.send(request).wait(&mut self.application)
    }

    pub fn run(&mut self, code: &str) -> Answer {
        let request = self.script.request(code);
        self.send(&request)
    }

    /// Runs code in a request whose worker must continue, and returns the output.
    pub fn text(&mut self, code: &str) -> String {
        let answer = self.run(code);
        let retirement = answer.done.unwrap().retirement;
        assert_eq!(retirement, None, "{code}: {answer:?}");
        answer.text()
    }

    /// Runs code in a request that ends its worker, and replaces the worker.
    pub fn last(&mut self, code: &str) -> (Answer, Retirement) {
        let answer = self.run(code);
        let retirement = answer.done.unwrap().retirement;
        let retirement = retirement.unwrap_or_else(|| panic!("{code}: the worker goes on"));
        self.replace();
        (answer, retirement)
    }
    /// Starts a worker in place of one that ends.
    pub fn replace(&mut self) {
        let (owner, ..) = self.application.death();
        self.application.spawn(WorkerId { incarnation: owner.incarnation + 1, ..owner });
    }
}
