//! `howdah fpm` behind a real nginx, and with clients of FastCGI.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

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
        self.ask_with("")
    }

    /// The same, with a query.
    fn ask_with(&self, query: &str) -> String {
        self.ask_at("socket", query)
    }

    /// The same at another socket.
    fn ask_at(&self, socket: &str, query: &str) -> String {
        let target = format!("/index.php{}{query}", if query.is_empty() { "" } else { "?" });
        let answer = || -> std::io::Result<Vec<u8>> {
            let mut stream = UnixStream::connect(self.path(socket))?;
            let script = self.path("index.php").display().to_string();
            stream.write_all(&request(&[
                ("SCRIPT_FILENAME", &script),
                ("SCRIPT_NAME", "/index.php"),
                ("REQUEST_METHOD", "GET"),
                ("REQUEST_URI", &target),
                ("QUERY_STRING", query),
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
    let line = format!("NOTICE: configuration file {} test is successful\n\n", file.display());
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
            // The new processes are not ready for a rotation of logs, which must not end them.
            signal(pool.pid(), Signal::USR1);
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
    assert_eq!(pool.log().matches("NOTICE: access log file re-opened").count(), 5);
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
    let script = "<?php file_put_contents('php://stderr', \"said\\n\"); echo 'served';\
                  file_put_contents('php://stdout', 'told');";
    let mut pool = Pool::new(script, "catch_workers_output = yes").start();
    assert!(pool.ask().contains("served"));
    pool.wait_for("said into stderr: \"said\"", 1);
    pool.wait_for("said into stdout: \"told\"", 1);
    let log = pool.log();
    let line = log.lines().find(|line| line.contains("said into")).unwrap();
    assert!(line.contains("] WARNING: [pool www] child "), "{line}");
    pool.end(Signal::TERM);
}

/// Each request is answered, however long it waits, and idle processes of one pool make room for
/// those of another.
#[test]
fn all_pools_together_have_no_more_processes_than_process_max() {
    let line = "WARNING: The maximum number of processes has been reached. Please review your \
                configuration and consider raising 'process.max'";
    let script = "<?php usleep(50000); echo 'process ', getmypid(), '.';";
    let other = |pool: &Pool| {
        let socket = pool.path("other");
        let user = if requirements::is_root() { "user = www-data\n" } else { "" };
        format!(
            "pm = ondemand\npm.max_children = 9\n[other]\n{user}listen = {}\nlisten.mode = 0666\n\
             pm = ondemand\npm.max_children = 9",
            socket.display()
        )
    };
    let pool = Pool::new(script, "");
    pool.configure(&other(&pool));
    let text = fs::read_to_string(pool.path("fpm.conf")).unwrap();
    let text = text.replace("[global]", "[global]\nprocess.max = 2");
    fs::write(pool.path("fpm.conf"), text).unwrap();
    let mut pool = pool.start();
    let answers = |socket: &str| {
        let answers: Vec<_> = thread::scope(|scope| {
            let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| pool.ask_at(socket, ""))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| answer.contains("process ")), "{}", pool.log());
        let found: BTreeSet<_> = answers.into_iter().collect();
        found.len()
    };
    assert!(answers("socket") <= 2);
    pool.wait_for(line, 1);
    assert!(answers("other") <= 2, "the processes of the first pool have made room");
    assert_eq!(pool.log().matches("exited on signal").count(), 0);
    pool.end(Signal::TERM);
}

/// A directory with a socket that takes notifications, as systemd's does.
struct ServiceManager(UnixDatagram);

impl ServiceManager {
    fn at(pool: &Pool) -> Self {
        let socket = UnixDatagram::bind(pool.path("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        ServiceManager(socket)
    }

    /// Returns the next notification that has this text, and fails after a minute without one.
    fn next(&self, text: &str) -> String {
        loop {
            let mut buffer = [0; 4096];
            let length = self.0.recv(&mut buffer).unwrap();
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if message.contains(text) {
                return message;
            }
        }
    }
}

#[test]
fn the_service_manager_is_told_what_the_processes_do() {
    let mut pool = Pool::new("<?php echo 'served';", "");
    let manager = ServiceManager::at(&pool);
    let text = fs::read_to_string(pool.path("fpm.conf")).unwrap();
    let text = text.replace("[global]", "[global]\nsystemd_interval = 1");
    fs::write(pool.path("fpm.conf"), text).unwrap();
    let mut command = pool.command(&[]);
    command.env("NOTIFY_SOCKET", pool.path("notify")).env("WATCHDOG_USEC", "4000000");
    pool.child = Some(command.stderr(File::create(pool.path("stderr")).unwrap()).spawn().unwrap());
    let ready = manager.next("READY=1");
    let main = format!("MAINPID={}", pool.pid());
    assert!(
        ready.contains("STATUS=Ready to handle connections") && ready.contains(&main),
        "{ready}"
    );
    let idle = "STATUS=Processes active: 0, idle: 2, Requests: 0, slow: 0, Traffic: 0.00req/sec";
    let status = manager.next(idle);
    assert!(status.contains("READY=1") && status.contains("WATCHDOG=1"), "{status}");
    assert!(pool.ask().contains("served"));
    manager.next("idle: 2, Requests: 1, slow: 0, Traffic: ");
    signal(pool.pid(), Signal::USR2);
    assert!(manager.next("RELOADING=1").contains("MONOTONIC_USEC="));
    manager.next("STATUS=Ready to handle connections");
    // The watchdog is that of the process before.
    manager.next("WATCHDOG=1");
    assert_eq!(pool.end(Signal::TERM), Some(0));
    manager.next("STOPPING=1");
    let log = pool.log();
    for line in [
        "WARNING: systemd_interval option ignored",
        "NOTICE: systemd watchdog configured to 2sec",
        "NOTICE: systemd monitor interval set to 2000ms",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn the_access_log_has_php_fpms_codes_and_not_the_suppressed_paths() {
    let format = "%R|%m|%r%Q%q|%s|%l|%f|%n|%P|%{REQUEST_URI}e|%{X-A}o|%u|%{no}e|%p|%M";
    let pool = Pool::new("<?php header('X-A: 1'); echo getmypid();", "");
    let log = pool.path("access");
    let more = format!(
        "access.log = {}\naccess.format = \"{format}\"\naccess.suppress_path[] = /index.php",
        log.display()
    );
    pool.configure(&more);
    let pool = pool.start();
    pool.ask();
    let answer = pool.ask_with("a=b");
    let (_, process) = answer.split_once("\r\n\r\n").unwrap();
    let process: String = process.chars().take_while(char::is_ascii_digit).collect();
    let lines = eventually("a line of the log", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.ends_with('\n').then_some(text)
    });
    let script = pool.path("index.php");
    let expected = format!(
        "-|GET|/index.php?a=b|200|0|{}|www|{}|/index.php?a=b|1||-|{process}|",
        script.display(),
        pool.pid()
    );
    let memory = lines.trim_end().strip_prefix(&expected);
    assert!(
        memory.is_some_and(|memory| memory.parse::<u64>().is_ok_and(|used| used > 0)),
        "{lines}"
    );
}

#[test]
fn information_and_modules_are_printed_as_by_php_fpm() {
    let pool = Pool::new("", "");
    let text = |arguments: &[&str]| {
        let done = pool.run(arguments);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let modules = text(&["-m"]);
    assert!(modules.starts_with("[PHP Modules]\n") && modules.contains("\nCore\n"), "{modules}");
    assert!(modules.contains("\n\n[Zend Modules]\n"), "{modules}");
    let version = text(&["-v"]);
    assert!(version.starts_with("PHP 8.") && !version.contains("OPcache"), "{version}");
    let information = text(&["-d", "memory_limit=77M", "--info"]);
    assert!(information.starts_with("phpinfo()\nPHP Version => 8."), "{information}");
    assert!(information.contains("memory_limit => 77M => 77M"), "{information}");
}

#[test]
fn the_log_has_php_fpms_lines_about_processes_and_slow_requests() {
    let script = "<?php if ($_SERVER['QUERY_STRING'] === 'slow') { sleep(2); } echo 'served';";
    let more = "pm.max_requests = 1\nrequest_slowlog_timeout = 1\nslowlog = {}/slow";
    let pool = Pool::new(script, "");
    pool.configure(&more.replace("{}", &pool.directory.path().display().to_string()));
    let mut pool = pool.start();
    assert!(pool.ask().contains("served"));
    pool.wait_for(" exited with code 0 after ", 1);
    pool.wait_for(" started", 1);
    assert!(pool.ask_with("slow").contains("served"));
    let script = pool.path("index.php").display().to_string();
    let line =
        format!(", script '{script}' (request: \"GET /index.php?slow\") executing too slow (1.");
    pool.wait_for(&line, 1);
    let slow = eventually("a record", || {
        fs::read_to_string(pool.path("slow")).ok().filter(|text| text.contains("sleep"))
    });
    assert!(slow.contains(&format!("\nscript_filename = {script}\n[0x")), "{slow}");
    assert!(slow.contains(&format!("] sleep() {script}:1\n")), "{slow}");
    let log = pool.log();
    let ended = log.lines().find(|line| line.contains("exited with code 0")).unwrap();
    assert!(ended.contains("NOTICE: [pool www] child "), "{log}");
    pool.end(Signal::TERM);
}

#[test]
fn a_pool_with_too_few_processes_is_told_in_the_log() {
    let busy = |more: &str, count: usize, lines: &[&str]| {
        let mut pool = Pool::new("<?php usleep(500000); echo 'served';", more).start();
        thread::scope(|scope| {
            let clients: Vec<_> = (0..count).map(|_| scope.spawn(|| pool.ask())).collect();
            assert!(clients.into_iter().all(|client| client.join().unwrap().contains("served")));
        });
        for line in lines {
            pool.wait_for(&format!("WARNING: [pool www] {line}"), 1);
        }
        pool.end(Signal::TERM);
    };
    // The words are php-fpm's, which differ.
    let line = "server reached max_children setting (1), consider raising it";
    busy("pm = ondemand\npm.max_children = 1", 3, &[line]);
    let more = "pm = dynamic\npm.max_children = 16\npm.start_servers = 1\n\
                pm.min_spare_servers = 1\npm.max_spare_servers = 2";
    let lines = [
        "seems busy (you may need to increase pm.start_servers, or pm.min/max_spare_servers), \
         spawning 8 children, there are 0 idle, and ",
        "server reached pm.max_children setting (16), consider raising it",
    ];
    busy(more, 60, &lines);
}
