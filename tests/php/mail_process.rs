//! The process that sends mail: its limits, and attacks of scripts on it.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use harness::dns::Dns;
use harness::mail::MailServer;
use harness::{Server, Site, eventually, requirements};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::mail::{SEND, mail_process, sends, smtp};

fn limited(mails: &MailServer, limit: u32) -> Server {
    let mut smtp = smtp(mails);
    smtp["limit"] = json!(limit);
    controlled(Site::script("a.php", SEND), &smtp)
}

/// Serves a site whose mail server is changed through the control API.
pub(crate) fn controlled(site: Site, smtp: &Value) -> Server {
    let server = site.controlled().serve();
    let mut document = server.site.document(server.address);
    document["settings"] = json!({"smtp": smtp});
    server.put("/config", &document);
    server
}

fn kill_mail_process(server: &Server) {
    let pid = mail_process(server).unwrap();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    server.wait_for_log(&format!("mail process {pid} "));
}

/// Scenario: a script has found a way to end the mail process, and does so again and again.
#[test]
fn the_end_of_the_mail_process_does_not_end_the_limit() {
    let mails = MailServer::start();
    let server = limited(&mails, 3);
    assert!(sends(&server));
    kill_mail_process(&server);
    for _ in 0..2 {
        eventually("mail is sent", || sends(&server).then_some(()));
    }
    kill_mail_process(&server);
    eventually("the limit is known", || {
        assert!(!sends(&server));
        server.log().contains("to 3 recipients in the last hour").then_some(())
    });
    assert_eq!(mails.mails().len(), 3);
}

#[test]
fn an_upgrade_does_not_end_the_limit() {
    let mails = MailServer::start();
    let server = limited(&mails, 2);
    assert!(sends(&server) && sends(&server), "{}", server.log());
    let old = server.upgrade();
    server.wait_for_end_of(old);
    assert!(!sends(&server));
    server.wait_for_log("to 2 recipients in the last hour");
    assert_eq!(mails.mails().len(), 2);
}

#[test]
fn a_change_of_the_mail_server_holds_for_the_next_message_and_restarts_nothing() {
    let (first, second) = (MailServer::start(), MailServer::start());
    let server = limited(&first, 10);
    assert!(sends(&server));
    let (prototype, workers) = (server.prototype(), server.running_workers());
    server.put("/config/settings/smtp", &smtp(&second));
    assert!(sends(&server));
    let own = json!({"host": "127.0.0.1", "port": first.address.port(), "from": "own@example.org"});
    server.put("/config/applications/site/smtp", &own);
    assert!(sends(&server));
    assert_eq!((first.wait_for(2).len(), second.wait_for(1).len()), (2, 1));
    assert_eq!(first.mails()[1].from, "own@example.org");
    assert_eq!((server.prototype(), server.running_workers()), (prototype, workers));
}

#[test]
fn names_of_mail_servers_are_looked_up_with_the_configured_resolver() {
    let (mails, dns) = (MailServer::start(), Dns::start(None));
    dns.set("mx.howdah.test", &[IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    let server = Site::script("a.php", SEND)
        .with(json!({
            "settings": {
                "smtp": {"host": "mx.howdah.test", "port": mails.address.port()},
                "resolver": dns.address.to_string(),
            },
            "applications": {"site": {}},
        }))
        .serve();
    assert!(sends(&server), "{}", server.log());
    assert_eq!(mails.wait_for(1).len(), 1);
}

/// Scenario: a script takes as many connections as it gets, begins a message on each, and never
/// continues.
#[test]
fn a_script_that_takes_all_its_connections_stops_no_other_site() {
    if Command::new("python3").arg("--version").output().is_err() {
        return requirements::skipped("there is no python3");
    }
    let attack = r#"
import array, os, select, socket, sys, time
s = socket.socket(fileno=os.dup(110))
taken = []
while select.select([s], [], [], 3)[0]:
    data, control, flags, _ = s.recvmsg(16, socket.CMSG_SPACE(16), socket.MSG_DONTWAIT)
    requests, answers = array.array('i', control[0][2][:8])
    # The beginning of an envelope that has 65536 bytes.
    os.write(requests, b'\0\0\1\0' + b'x' * 1000)
    taken.append((requests, answers))
print(len(taken), flush=True)
os.close(1)
time.sleep(600)
"#;
    let mails = MailServer::start();
    let code = "
        $process = popen('exec python3 ' . escapeshellarg(getenv('DATA') . '/attack.py') . ' \
        2>&1', 'r');
        echo fgets($process);
        fastcgi_finish_request();
        sleep(600);";
    let site = Site::script("a.php", SEND)
        .file("attack.php", format!("<?php {code}"))
        .file("b/a.php", format!("<?php {SEND}"));
    std::fs::write(site.data().join("attack.py"), attack).unwrap();
    let root = site.root();
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/b/*"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "settings": {"smtp": smtp(&mails)},
            "applications": {"other": {"type": "php", "root": root, "processes": 1}},
        }))
        .serve();
    let taken: usize = server.get("/attack.php").text().trim().parse().unwrap();
    assert!((1..=8).contains(&taken), "{taken}: {}", server.log());
    for _ in 0..10 {
        assert_eq!(server.get("/b/a.php").text().trim(), "bool(true)", "{}", server.log());
    }
    assert_eq!(mails.wait_for(10).len(), 10);
    assert!(!server.log().contains("[alert]"), "{}", server.log());
}
