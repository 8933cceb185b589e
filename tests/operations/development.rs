//! `howdah serve DIR` for development.

use std::fs::{self, File};
use std::process::Stdio;

use harness::client::Client;
use harness::{Site, eventually, free_address, processes};
use rustix::process::Signal;

#[test]
fn each_request_is_a_line_of_the_output_that_clients_cannot_forge() {
    let site = Site::script("index.php", "http_response_code($_GET['status'] ?? 200);");
    let site = site.workers(1).argument("--dev");
    let (address, output) = (free_address(), site.data().join("output"));
    let mut command = site.command(&address.to_string());
    let file = File::create(&output).unwrap();
    let mut child = command.stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let text = || fs::read_to_string(&output).unwrap();
    eventually("it serves", || text().contains("Serving ").then_some(()));
    for (method, target) in [("GET", "/cart?a=1"), ("POST", "/?status=503"), ("GET", "/\x1b[31m")] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        Client::connect(address).send(request).response();
    }
    let lines = eventually("the requests are shown", || {
        let text = text();
        let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Serving ")).collect();
        (lines.len() >= 4).then(|| lines[1..].join("\n"))
    });
    assert!(lines.contains("200 GET /cart?a=1 0."), "{lines}");
    assert!(lines.contains("503 POST /?status=503 "), "{lines}");
    assert!(!lines.contains('\x1b'), "{lines}");
    processes::signal(child.id(), Signal::TERM);
    assert!(child.wait().unwrap().success());
}
