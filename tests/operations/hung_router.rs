//! A router that hangs: commands say so, and the supervisor replaces it.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use harness::{Server, Site, eventually, processes, programs, requirements};
use rustix::process::Signal;
use serde_json::json;

const SLOW: &str = "file_put_contents(getenv('DATA') . '/begun', '1'); sleep(120);";

/// Stops one thread until it is killed, as a loop without end in it would.
const STOP_THREAD: &str = "import ctypes, os, sys
trace = ctypes.CDLL(None, use_errno=True).ptrace
trace.argtypes = [ctypes.c_long] * 4
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
thread = int(sys.argv[1])
if trace(SEIZE, thread, 0, 0) or trace(INTERRUPT, thread, 0, 0): sys.exit('failed')
print('stopped', flush=True)
while os.WIFSTOPPED(os.waitpid(thread, WALL)[1]): pass";

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
fn a_router_that_is_stopped_is_replaced_without_a_service_manager() {
    let server = serving();
    let running = begin(&server);
    let router = server.router();
    processes::signal(router, Signal::STOP);
    let mut waiting = server.connect();
    waiting.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    is_replaced(&server, router, running);
    assert_eq!(waiting.response().text(), "served", "it had not been accepted");
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
    let mut stopper = Command::new("python3");
    stopper.args(["-I", "-c", STOP_THREAD]).arg(thread.file_name().unwrap()).stdout(Stdio::piped());
    let Ok(mut stopper) = stopper.spawn() else {
        return requirements::skipped("there is no python3");
    };
    let mut said = [0; 7];
    if stopper.stdout.take().unwrap().read_exact(&mut said).is_err() {
        return requirements::skipped("threads cannot be traced");
    }
    is_replaced(&server, router, running);
    stopper.wait().unwrap();
}

#[test]
fn the_control_api_says_after_5_seconds_that_the_router_does_not_answer() {
    let server = Site::new().file("a.txt", "served").controlled().serve();
    let router = server.router();
    server.control("GET", "/status", "").succeeded();
    processes::signal(router, Signal::STOP);
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
        // What the control process knows by itself is answered.
        server.control("GET", "/config/listeners", "").succeeded();
        for (request, answer) in asked {
            let answer = answer.join().unwrap();
            assert_eq!(answer.status, 503, "{request:?}: {answer:?}");
            assert!(answer.text("detail").contains("has not answered for 5 s"), "{answer:?}");
        }
    });
    processes::signal(router, Signal::CONT);
    server.control("GET", "/status", "").succeeded();
}

#[test]
fn status_says_after_5_seconds_that_the_server_does_not_answer() {
    let server = Site::new().file("a.txt", "served").controlled().serve();
    let router = server.router();
    processes::signal(router, Signal::STOP);
    let mut command = Command::new(programs::howdah());
    command.args(["status", "--control"]);
    command.arg(format!("unix:{}", server.site.control_socket().display()));
    let output = command.output().unwrap();
    processes::signal(router, Signal::CONT);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    // The client may give up before the answer comes.
    assert!(said.contains("answer within 5 s") || said.contains("answered for 5 s"), "{said}");
}
