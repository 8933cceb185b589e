//! A router or a control process that hangs: commands say so, and the supervisor replaces it.

use std::fs;
use std::process::Command;

use harness::{Server, Site, eventually, processes, programs, requirements};
use rustix::process::Signal;
use serde_json::json;

const SLOW: &str = "file_put_contents(getenv('DATA') . '/begun', '1'); sleep(120);";

fn serving() -> Server {
    let site = Site::script("slow.php", SLOW).file("a.txt", "served");
    let server = site.with(json!({"settings": {"listen_threads": 2}})).serve();
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "served");
    server
}

/// Waits until a request is running, and returns its connection.
fn begin(server: &Server) -> harness::client::Client {
    let mut client = server.connect();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("it has begun", || {
        fs::exists(server.site.data().join("begun")).unwrap().then_some(())
    });
    client
}

fn is_replaced(server: &Server, router: u32, mut running: harness::client::Client) {
    eventually("the router is replaced", || (!processes::is_alive(router)).then_some(()));
    let log = server.wait_for_log("has not answered for ");
    let line = log.lines().find(|line| line.contains("has not answered for ")).unwrap();
    let expected =
        format!("[alert] {0}#{0} router process {router} is killed", server.supervisor());
    assert!(line.contains(&expected), "{line}");
    assert!(running.is_closed(), "its request fails visibly");
    assert_eq!(server.get("/a.txt").text(), "served");
}

#[test]
fn a_router_of_which_one_thread_hangs_is_replaced() {
    if !requirements::root() {
        return;
    }
    let server = serving();
    let running = begin(&server);
    let router = server.router();
    let threads = fs::read_dir(format!("/proc/{router}/task")).unwrap();
    let mut threads = threads.map(|entry| entry.unwrap().path());
    let is_second =
        |thread: &std::path::PathBuf| fs::read(thread.join("comm")).unwrap() == b"router-1\n";
    let thread = threads.find(is_second).unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let Some(mut stopper) = processes::stop_thread(thread) else { return };
    is_replaced(&server, router, running);
    stopper.wait().unwrap();
}

#[test]
fn the_control_api_says_after_5_seconds_that_the_router_does_not_answer() {
    let server = Site::new().file("a.txt", "served").controlled().serve();
    let router = server.router();
    server.control("GET", "/status", "").succeeded();
    let continues = stop_both(&server);
    let requests = [
        ("GET", "/status", ""),
        ("GET", "/", ""),
        ("GET", "/status/applications", ""),
        ("PUT", "/config/routes", "[]"),
        ("POST", "/control/reload", ""),
        ("GET", "/control/applications/site/restart", ""),
    ];
    std::thread::scope(|scope| {
        let ask = |(method, target, body)| server.control(method, target, body);
        let asked = requests.map(|request| (request, scope.spawn(move || ask(request))));
        // Questions that the control process can answer by itself are answered.
        server.control("GET", "/config/listeners", "").succeeded();
        for (request, answer) in asked {
            let answer = answer.join().unwrap();
            assert_eq!(answer.status, 503, "{request:?}: {answer:?}");
            assert!(answer.text("detail").contains("has not answered for 5 s"), "{answer:?}");
        }
    });
    continues();
    server.control("GET", "/status", "").succeeded();
    assert_eq!(server.router(), router, "both were stopped, and nothing is wrong with it");
}

/// Stops the router, and the supervisor, which would replace it. Returns a function that lets them
/// continue.
fn stop_both(server: &Server) -> impl Fn() {
    let (supervisor, router) = (server.supervisor(), server.router());
    processes::signal(supervisor, Signal::STOP);
    processes::signal(router, Signal::STOP);
    move || [router, supervisor].iter().for_each(|pid| processes::signal(*pid, Signal::CONT))
}

#[test]
fn commands_say_after_some_seconds_that_the_server_does_not_answer() {
    let server = Site::new().file("a.txt", "served").controlled().serve();
    server.control("GET", "/status", "").succeeded();
    let continues = stop_both(&server);
    let [status, reload] = [["status"].as_slice(), &["reload"]].map(|command| {
        let mut command = howdah(&server, command);
        std::thread::spawn(move || command.output().unwrap())
    });
    let [status, reload] = [status, reload].map(|command| command.join().unwrap());
    continues();
    for output in [status, reload] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        // The client may give up before the answer comes.
        let advice = format!("`kill -CONT {}` lets it go on", server.supervisor());
        assert!(said.contains(&advice) || said.contains("answered for 5 s"), "{said}");
    }
}

#[test]
fn a_control_process_that_hangs_is_replaced() {
    if !requirements::root() {
        return;
    }
    let server = Site::new().file("a.txt", "served").controlled().serve();
    server.control("GET", "/config", "").succeeded();
    let control = |server: &Server| {
        let all = server.processes().into_iter();
        all.filter(|process| process.title == "howdah: control").map(|process| process.pid).next()
    };
    let first = control(&server).unwrap();
    let Some(mut stopper) = processes::stop_thread(first) else { return };
    let output = howdah(&server, &["reload"]).output().unwrap();
    stopper.wait().unwrap();
    // The router had not accepted the connection, or ended with it.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("ended before it answered"), "{output:?}");
    server.wait_for_log(&format!(
        "[alert] {0}#{0} control process {first} is killed: it has not answered for ",
        server.supervisor()
    ));
    server.control("GET", "/config", "").succeeded();
    assert_ne!(control(&server), Some(first));
}

/// A command of the program for a server.
pub(crate) fn howdah(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(programs::howdah());
    command.args(arguments).arg("--control");
    command.arg(format!("unix:{}", server.site.control_socket().display()));
    command
}
