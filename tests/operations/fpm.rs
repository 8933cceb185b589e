//! `howdah fpm` behind a real nginx, and with clients of FastCGI.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use harness::backends::Backend;
use harness::processes::signal;
use harness::{eventually, open_to_all, programs, requirements};
use rustix::process::Signal;
use tempfile::TempDir;

/// A server with a pool, in a directory of its own.
struct Pool {
    directory: TempDir,
    child: Option<Child>,
}

impl Pool {
    /// Makes the directory, with a script and a configuration; `more` are directives of the pool.
    fn new(script: &str, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        open_to_all(directory.path(), 0o755);
        let pool = Pool { directory, child: None };
        fs::write(pool.path("index.php"), script).unwrap();
        open_to_all(&pool.path("index.php"), 0o644);
        pool.configure(more);
        pool
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn configure(&self, more: &str) {
        let place = self.directory.path().display();
        let user =
            if requirements::is_root() { "user = www-data\nlisten.mode = 0666\n" } else { "" };
        let text = format!(
            "[global]\nerror_log = {place}/log\npid = {place}/pid\ndaemonize = no\n[www]\n{user}\
             listen = {place}/socket\npm = static\npm.max_children = 2\n{more}\n"
        );
        fs::write(self.path("fpm.conf"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs::howdah());
        command.arg("fpm").arg("-n").arg("-y").arg(self.path("fpm.conf")).args(arguments);
        command.stdin(Stdio::null()).env_remove("PHPRC");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn start(mut self) -> Self {
        let errors = File::create(self.path("stderr")).unwrap();
        self.child = Some(self.command(&[]).stderr(errors).spawn().unwrap());
        self.wait_for("NOTICE: ready to handle connections", 1);
        self
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn wait_for(&self, line: &str, times: usize) {
        eventually(line, || (self.log().matches(line).count() >= times).then_some(()));
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Asks the pool over FastCGI, and returns all that it answers; empty if that fails.
    fn ask(&self) -> String {
        let answer = || -> std::io::Result<Vec<u8>> {
            let mut stream = UnixStream::connect(self.path("socket"))?;
            let script = self.path("index.php").display().to_string();
            stream.write_all(&request(&[
                ("SCRIPT_FILENAME", &script),
                ("SCRIPT_NAME", "/index.php"),
                ("REQUEST_METHOD", "GET"),
                ("REQUEST_URI", "/index.php"),
            ]))?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        answer().map(|answer| String::from_utf8_lossy(&answer).into_owned()).unwrap_or_default()
    }

    /// Ends the server, and returns its exit status.
    fn end(&mut self, with: Signal) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        signal(child.id(), with);
        child.wait().unwrap().code()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a request for a script: the records of its beginning, its parameters and its empty body.
fn request(parameters: &[(&str, &str)]) -> Vec<u8> {
    let record = |kind: u8, content: &[u8]| {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
    };
    let mut pairs = Vec::new();
    for (name, value) in parameters {
        pairs.push(u8::try_from(name.len()).unwrap());
        pairs.extend((u32::try_from(value.len()).unwrap() | 1 << 31).to_be_bytes());
        pairs.extend(name.as_bytes().iter().chain(value.as_bytes()));
    }
    [record(1, &[0, 1, 0, 0, 0, 0, 0, 0]), record(4, &pairs), record(4, &[]), record(5, &[])]
        .concat()
}

#[test]
fn a_test_of_the_configuration_ends_with_php_fpms_line_and_status() {
    let pool = Pool::new("", "");
    let tested = pool.run(&["-t"]);
    let file = pool.path("fpm.conf");
    let line = format!("NOTICE: configuration file {} test is successful\n", file.display());
    let errors = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(errors.ends_with(&line), "{errors}");
    assert_eq!(tested.status.code(), Some(0));
    pool.configure("nothing = 1");
    let tested = pool.run(&["-t"]);
    let errors = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(errors.contains("ERROR: ["), "{errors}");
    assert!(errors.contains("] unknown entry 'nothing'\n"), "{errors}");
    assert!(errors.ends_with("ERROR: FPM initialization failed\n"), "{errors}");
    assert_eq!(tested.status.code(), Some(78));
    assert_eq!(pool.run(&["--none"]).status.code(), Some(64));
    assert_eq!(pool.run(&["-h"]).status.code(), Some(0));
    let version = String::from_utf8(pool.run(&["-v"]).stdout).unwrap();
    assert!(version.starts_with("PHP 8.") && version.contains("(fpm-fcgi)"), "{version}");
}

#[test]
fn nginx_passes_requests_to_a_pool_whose_processes_end_with_it() {
    let mut pool =
        Pool::new("<?php echo 'as ', php_sapi_name(), ' ', getenv('A');", "env[A] = b").start();
    assert_eq!(fs::read_to_string(pool.path("pid")).unwrap(), pool.pid().to_string());
    let (script, socket) = (pool.path("index.php"), pool.path("socket"));
    let directives = format!(
        "location / {{ fastcgi_pass unix:{}; fastcgi_param SCRIPT_FILENAME {}; \
         fastcgi_param REQUEST_METHOD $request_method; }}",
        socket.display(),
        script.display()
    );
    let nginx = Backend::nginx_with(&[], "", &directives);
    let answer = harness::client::Client::connect(nginx.address).get("/");
    assert_eq!((answer.status, answer.text().as_str()), (200, "as fpm-fcgi b"));
    assert_eq!(pool.end(Signal::TERM), Some(0));
    let log = pool.log();
    for line in
        ["NOTICE: fpm is running, pid ", "NOTICE: Terminating ...", "NOTICE: exiting, bye-bye!"]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(!socket.exists() && !pool.path("pid").exists());
}

/// The master keeps the sockets, and the former processes answer what they have.
#[test]
fn reloads_lose_no_request_and_take_the_new_configuration() {
    let script = "<?php usleep(5000); echo 'value ', getenv('A'), \".\";";
    let mut pool = Pool::new(script, "env[A] = old").start();
    let is_over = AtomicBool::new(false);
    let asked = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut asked = 0;
                    while !is_over.load(Relaxed) {
                        let answer = pool.ask();
                        assert!(answer.contains("value "), "{answer:?}: {}", pool.log());
                        asked += 1;
                    }
                    asked
                })
            })
            .collect();
        pool.configure("env[A] = new");
        for number in 1..=5 {
            signal(pool.pid(), Signal::USR2);
            pool.wait_for("NOTICE: reloading: execvp(\"", number);
            pool.wait_for("NOTICE: ready to handle connections", number + 1);
        }
        is_over.store(true, Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).sum::<u32>()
    });
    assert!(asked > 0);
    assert!(pool.ask().contains("value new."), "{}", pool.log());
    let inherited = format!("\", \"{}\"", pool.path("socket").display());
    assert!(!inherited.is_empty() && pool.log().contains("NOTICE: using inherited socket fd="));
    assert_eq!(pool.end(Signal::QUIT), Some(0));
    assert!(pool.log().contains("NOTICE: Finishing ..."), "{}", pool.log());
}

#[test]
fn a_reload_with_a_mistake_is_refused_and_the_server_goes_on() {
    let pool = Pool::new("<?php echo 'served';", "").start();
    pool.configure("pm.max_children = none");
    signal(pool.pid(), Signal::USR2);
    pool.wait_for("there is no reload, and the server continues", 1);
    assert!(pool.ask().contains("served"), "{}", pool.log());
}

#[test]
fn a_thousand_clients_at_once_are_all_answered() {
    let pool = Pool::new("<?php echo 'served';", "").start();
    harness::allow_many_files();
    let failed = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..1000).map(|_| scope.spawn(|| u32::from(!pool.ask().contains("served")))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum::<u32>()
    });
    assert_eq!(failed, 0, "{}", pool.log());
}

#[test]
fn output_of_scripts_is_in_the_log_if_the_pool_asks_for_it() {
    let script = "<?php file_put_contents('php://stderr', \"said\\n\"); echo 'served';";
    let mut pool = Pool::new(script, "catch_workers_output = yes").start();
    assert!(pool.ask().contains("served"));
    pool.wait_for("said into stderr: \"said\"", 1);
    let log = pool.log();
    let line = log.lines().find(|line| line.contains("said into")).unwrap();
    assert!(line.contains("] WARNING: [pool www] child "), "{line}");
    pool.end(Signal::TERM);
}
