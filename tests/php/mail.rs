//! Mail of scripts: `mail()`, the program of `sendmail_path`, and the process that sends.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use harness::mail::MailServer;
use harness::postfix::Postfix;
use harness::{Server, Site, eventually, requirements};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Serves a script that sends with `smtp`; `application` is added to its application.
pub(crate) fn serve(code: &str, smtp: Value, application: Value) -> Server {
    Site::script("a.php", code)
        .with(json!({"settings": {"smtp": smtp}, "applications": {"site": application}}))
        .serve()
}

pub(crate) fn smtp(server: &MailServer) -> Value {
    json!({"host": "127.0.0.1", "port": server.address.port()})
}

pub(crate) fn sends(server: &Server) -> bool {
    match server.get("/a.php").text().trim() {
        "bool(true)" => true,
        "bool(false)" => false,
        other => panic!("{other}: {}", server.log()),
    }
}

/// The mail process of a server.
pub(crate) fn mail_process(server: &Server) -> Option<u32> {
    let found =
        server.processes().into_iter().find(|process| process.title.contains("howdah: mail"));
    found.map(|process| process.pid)
}

pub(crate) const SEND: &str = "var_dump(mail('a@example.org', 'Hello', \"Line 1\\nLine 2\"));";

#[test]
fn mail_is_sent_without_a_queue_and_without_rights() {
    let mails = MailServer::start();
    let code = "
        $fields = ['Cc' => 'c@example.org', 'Bcc' => 'secret@example.org', 'From' => 'Shop \
        <s@example.org>'];
        var_dump(mail('A <a@example.org>, b@example.org', 'Hello', \"Line 1\\nLine 2\\n.\\n\", \
        $fields, '-fx@example.org'));";
    let server = serve(code, smtp(&mails), json!({}));
    assert!(mail_process(&server).is_none(), "it is started for the first message");
    assert!(sends(&server));
    let mail = &mails.wait_for(1)[0];
    assert_eq!(mail.from, "x@example.org");
    assert_eq!(mail.to, ["a@example.org", "b@example.org", "c@example.org", "secret@example.org"]);
    let text = &mail.text;
    assert!(
        text.starts_with("To: A <a@example.org>, b@example.org\r\nSubject: Hello\r\n"),
        "{text}"
    );
    assert!(
        text.contains("\r\nFrom: Shop <s@example.org>\r\n") && text.contains("\r\nDate: "),
        "{text}"
    );
    assert!(text.contains("\r\nMessage-ID: <") && !text.contains("secret"), "{text}");
    assert!(text.contains("\r\n\r\nLine 1\r\nLine 2\r\n.\r\n"), "{text}");
    let pid = mail_process(&server).expect("it runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("CapEff:\t0000000000000000"));
    assert!(!server.log().contains("mail"), "{}", server.log());
}

#[test]
fn what_is_missing_comes_from_the_document_or_the_machine() {
    let mails = MailServer::start();
    let mut with_from = smtp(&mails);
    with_from["from"] = json!("site@example.org");
    for (smtp, expected) in [(with_from, "site@example.org"), (smtp(&mails), "")] {
        let server = serve(SEND, smtp, json!({}));
        assert!(sends(&server));
        let mail = mails.mails().pop().unwrap();
        assert!(mail.text.contains(&format!("\r\nFrom: {}\r\n", mail.from)), "{mail:?}");
        match expected {
            "" => assert!(mail.from.contains('@') && !mail.from.contains("example"), "{mail:?}"),
            from => assert_eq!(mail.from, from),
        }
    }
}

#[test]
fn a_failure_has_one_line_with_the_script_and_what_to_do() {
    // The port is free.
    let port = harness::free_address().port();
    let server =
        serve(&format!("\n\n{SEND}"), json!({"host": "127.0.0.1", "port": port}), json!({}));
    assert!(!sends(&server));
    let log = server.wait_for_log("mail() in ");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("mail")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let address = format!("no mail server answers at 127.0.0.1:{port}");
    for needle in ["[error]", "GET /a.php", "a.php on line 3", &address, "see settings/smtp"] {
        assert!(lines[0].contains(needle), "{needle}: {}", lines[0]);
    }
    // A directory has no document to look at.
    let smtp_option = format!("smtp://127.0.0.1:{port}");
    let server = Site::script("a.php", SEND).argument("--mail-to").argument(&smtp_option).serve();
    assert!(!sends(&server));
    let log = server.wait_for_log(&address);
    assert!(log.contains("start howdah serve with --mail-to page to see messages"), "{log}");
    let mails = MailServer::start();
    let code = "var_dump(mail('refused@example.org', 'x', 'y'));";
    let server = serve(code, smtp(&mails), json!({}));
    assert!(!sends(&server));
    server.wait_for_log("refuses the recipient <refused@example.org>: 550 no such user");
    let server = serve("var_dump(mail('no address', 'x', 'y'));", smtp(&mails), json!({}));
    assert!(!sends(&server));
    server.wait_for_log("\"no address\" in \"To\" is no address");
    assert!(mails.mails().is_empty());
}

#[test]
fn no_text_and_no_field_makes_a_second_message() {
    let mails = MailServer::start();
    let code = r#"
        $evil = "MAIL FROM:<evil@example.org>\r\nRCPT TO:<victim@example.org>\r\nDATA\r\nSubject: evil\r\n\r\nevil\r\n.\r\n";
        $sent = true;
        foreach (["\r\n.\r\n", "\n.\n", "\r.\r", "\n.\r\n", "\r\n.\n", "\r.\n"] as $end) {
            $sent = $sent && mail('a@example.org', "x", "text$end$evil");
            $sent = $sent && mail("a@example.org", "x{$end}$evil", 'text', "X-A: b\rBcc: victim@example.org");
        }
        $sent = $sent && mail('a@example.org', "x", str_repeat('long ', 100000));
        var_dump($sent);"#;
    let server = serve(code, smtp(&mails), json!({}));
    assert!(sends(&server), "{}", server.log());
    let taken = mails.wait_for(13);
    assert_eq!(taken.len(), 13);
    for mail in &taken {
        assert_eq!(mail.to, ["a@example.org"]);
        assert_ne!(mail.from, "evil@example.org");
        assert!(mail.text.split("\r\n").all(|line| line.len() <= 998));
    }
}

/// As mail libraries do: Symfony speaks SMTP with the program, PHPMailer writes to it.
#[test]
fn libraries_that_start_the_program_send_with_it() {
    let mails = MailServer::start();
    let code = r#"
        $path = ini_get('sendmail_path');
        if (!preg_match('~^/\S+/howdah-sendmail -t -i$~', $path)) { exit($path); }
        $run = function ($command, $input) {
            $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
            fwrite($pipes[0], $input);
            fclose($pipes[0]);
            $said = stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]);
            return [proc_close($process), $said];
        };
        $smtp = "EHLO x\r\nMAIL FROM:<f@example.org>\r\nRCPT TO:<a@example.org>\r\nDATA\r\n"
            . "Subject: one\r\n\r\n..\r\n.\r\nQUIT\r\n";
        $one = $run(strtok($path, ' ') . ' -bs', $smtp);
        $two = $run("$path -f f@example.org", "To: b@example.org\nSubject: two\n\ntext\n");
        $three = $run(strtok($path, ' ') . ' -bp', '');
        $pipe = popen("$path -oi -ff@example.org", 'w');
        fwrite($pipe, "To: c@example.org\n\n.\ntext\n");
        $four = pclose($pipe);
        $ls = popen('echo works', 'r');
        $five = fgets($ls) . pclose($ls);
        echo json_encode([$one, $two, $three, $four, $five]);"#;
    let server = serve(code, smtp(&mails), json!({}));
    let program = harness::programs::howdah().with_file_name("howdah-sendmail");
    let reachable = Command::new("setpriv")
        .args(["--reuid=33", "--clear-groups", "test", "-x"])
        .arg(&program)
        .status();
    if requirements::is_root() && !reachable.is_ok_and(|status| status.success()) {
        return requirements::skipped(format!("scripts cannot run {}", program.display()));
    }
    let said: Value = serde_json::from_str(&server.get("/a.php").text()).unwrap();
    let smtp = said[0][1].as_str().unwrap();
    assert!(smtp.contains("\r\n250 sent\r\n221 bye\r\n"), "{said}");
    assert_eq!(
        (&said[0][0], &said[1], &said[3]),
        (&json!(0), &json!([0, ""]), &json!(0)),
        "{said}"
    );
    assert_eq!((&said[2][0], &said[4]), (&json!(64), &json!("works\n0")), "{said}");
    let taken = mails.wait_for(3);
    assert!(taken.iter().all(|mail| mail.from == "f@example.org"), "{taken:?}");
    let to: Vec<_> = taken.iter().flat_map(|mail| &mail.to).collect();
    assert_eq!(to, ["a@example.org", "b@example.org", "c@example.org"]);
    assert!(taken[0].text.ends_with("\r\n\r\n.\r\n"), "{taken:?}");
}

#[test]
fn an_application_that_sees_little_of_the_machine_sends_mail() {
    if !requirements::root() {
        return;
    }
    let mails = MailServer::start();
    let all =
        json!({"credential": true, "pid": true, "network": true, "mount": true, "uname": true});
    for isolation in [json!({"namespaces": all}), json!({"sandbox": {"required": false}})] {
        let server = serve(SEND, smtp(&mails), json!({"isolation": isolation}));
        assert!(sends(&server), "{isolation}: {}", server.log());
    }
    // No shell is there.
    let root = tempfile::Builder::new().prefix("howdah-rootfs-").tempdir().unwrap();
    harness::open_to_all(root.path(), 0o755);
    fs::create_dir_all(root.path().join("srv/app")).unwrap();
    fs::write(root.path().join("srv/app/a.php"), format!("<?php {SEND}")).unwrap();
    let isolation = json!({"rootfs": root.path(), "namespaces": {"network": true}});
    let server = Site::new()
        .with(json!({
            "settings": {"smtp": smtp(&mails)},
            "routes": [{"action": {"pass": "applications/site"}}],
            "applications": {"site": {
                "root": "/srv/app", "working_directory": "/srv", "isolation": isolation,
                "environment": {"TMPDIR": "/tmp"},
            }},
        }))
        .serve();
    assert!(sends(&server), "{}", server.log());
    assert_eq!(mails.wait_for(3).len(), 3);
}

#[test]
fn each_application_sends_in_its_own_name() {
    let (first, second) = (MailServer::start(), MailServer::start());
    let mut limited = smtp(&second);
    limited["limit"] = json!(2);
    let site = Site::script("a.php", SEND).file("b/a.php", format!("<?php {SEND}"));
    let other = site.root().join("b");
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/b/*"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "settings": {"smtp": smtp(&first)},
            "applications": {"other": {
                "type": "php", "root": other.parent().unwrap(), "processes": 1, "smtp": limited,
            }},
        }))
        .serve();
    for expected in [true, true, false] {
        let found = server.get("/b/a.php").text();
        assert_eq!(found.trim(), format!("bool({expected})"), "{}", server.log());
    }
    let log = server.wait_for_log("\"limit\"");
    assert!(log.contains("2 recipients in the last hour"), "{log}");
    assert!(log.contains("in applications/other/smtp"), "{log}");
    assert!(sends(&server));
    assert_eq!((first.wait_for(1).len(), second.wait_for(2).len()), (1, 2));
}

#[test]
fn a_program_that_php_ini_or_the_document_names_is_used() {
    let mails = MailServer::start();
    let site = Site::script("a.php", SEND);
    let kept = site.data().join("kept");
    let options =
        json!({"admin": {"sendmail_path": format!("/bin/cat > {}; true", kept.display())}});
    let server = site
        .with(json!({"settings": {"smtp": smtp(&mails)},
            "applications": {"site": {"options": options}}}))
        .serve();
    assert!(sends(&server));
    assert!(fs::read_to_string(&kept).unwrap().contains("Line 1"));
    assert!(mails.mails().is_empty() && mail_process(&server).is_none());
}

#[test]
fn logs_of_mail_are_written() {
    let mails = MailServer::start();
    let site = Site::script("a.php", SEND);
    let log = site.data().join("mail.log");
    let options = json!({"admin": {"mail.log": log, "mail.add_x_header": "1"}});
    let server = site
        .with(json!({"settings": {"smtp": smtp(&mails)},
            "applications": {"site": {"options": options}}}))
        .serve();
    assert!(sends(&server));
    assert!(
        mails.wait_for(1)[0].text.contains("\r\nX-PHP-Originating-Script: "),
        "{:?}",
        mails.mails()
    );
    let written = fs::read_to_string(&log).unwrap();
    assert!(written.contains("a.php:1]: To: a@example.org"), "{written}");
}

#[test]
fn many_messages_at_once_are_all_sent() {
    let mails = MailServer::start();
    let site = Site::script("a.php", SEND).workers(12);
    let server = site
        .with(json!({"settings": {"smtp": smtp(&mails)}, "applications": {"site": {}}}))
        .serve();
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| (0..5).for_each(|_| assert!(sends(&server), "{}", server.log())));
        }
    });
    assert_eq!(mails.wait_for(60).len(), 60);
}

/// Scenario: the mail server takes connections and says nothing.
#[test]
fn a_mail_server_that_hangs_stops_nothing_else() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let smtp = json!({"host": "127.0.0.1", "port": hung.local_addr().unwrap().port()});
    let site = Site::script("a.php", SEND).file("b/b.php", "<?php echo 'other';");
    let root = site.root();
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/b/*"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "settings": {"smtp": smtp},
            "applications": {"other": {"type": "php", "root": root, "processes": 1}},
        }))
        .serve();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2).map(|_| scope.spawn(|| sends(&server))).collect();
        let (_connection, _) = hung.accept().unwrap();
        assert!(waiting.iter().any(|one| !one.is_finished()));
        assert_eq!(server.get("/b/b.php").text(), "other");
        for one in waiting {
            assert!(!one.join().unwrap());
        }
    });
    server.wait_for_log("it has not answered for 5 seconds");
}

#[test]
fn a_mail_process_that_has_died_is_replaced() {
    let mails = MailServer::start();
    let server = serve(SEND, smtp(&mails), json!({}));
    assert!(sends(&server));
    let pid = mail_process(&server).unwrap();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    server.wait_for_log(&format!("mail process {pid} "));
    eventually("mail is sent", || sends(&server).then_some(()));
    assert_ne!(mail_process(&server), Some(pid));
}

#[test]
fn worker_mode_and_shared_starts_send_mail() {
    let mails = MailServer::start();
    let code = format!("while (frankenphp_handle_request(function () {{ {SEND} }})) ;");
    let site = Site::script("a.php", SEND).file("worker.php", format!("<?php {code}"));
    let root = site.root();
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/w/*"}, "action": {"pass": "applications/worker"}},
                {"action": {"pass": "applications/site"}},
            ],
            "settings": {"smtp": smtp(&mails)},
            "applications": {"worker": {
                "type": "php", "root": root, "processes": 1, "script": "worker.php",
                "worker": {"script": "worker.php"},
            }},
        }))
        .serve();
    assert!(sends(&server), "{}", server.log());
    let found = server.get("/w/x").text();
    assert_eq!(found.trim(), "bool(true)", "{}", server.log());
    assert_eq!(mails.wait_for(2).len(), 2);
}

/// A script writes to its connection by itself, without `mail()`.
#[test]
fn a_hostile_script_takes_nothing_from_others() {
    if Command::new("python3").arg("--version").output().is_err() {
        return requirements::skipped("there is no python3");
    }
    let mails = MailServer::start();
    let attack = r#"
import array, os, socket, struct
def take():
    s = socket.socket(fileno=os.dup(110))
    try:
        s.send(b'x')
    except OSError as error:
        pass
    else:
        raise SystemExit('the socket can be written to')
    data, control, flags, _ = s.recvmsg(16, socket.CMSG_SPACE(16))
    return array.array('i', control[0][2][:8])
for first in [b'', b'\xff\xff\xff\xff', b'\x05\0\0\0abcde', b'\0\0\0\0', b'\x01']:
    requests, answers = take()
    os.write(requests, first)
    os.close(requests)
    os.set_blocking(answers, True)
    os.read(answers, 100)
    os.close(answers)
print('done')
"#;
    let code =
        "echo shell_exec('python3 ' . escapeshellarg(getenv('DATA') . '/attack.py') . ' 2>&1');";
    let site = Site::script("a.php", SEND).file("attack.php", format!("<?php {code}"));
    fs::write(site.data().join("attack.py"), attack).unwrap();
    let server = site
        .with(json!({"settings": {"smtp": smtp(&mails)}, "applications": {"site": {}}}))
        .serve();
    assert_eq!(server.get("/attack.php").text().trim(), "done", "{}", server.log());
    assert!(sends(&server), "{}", server.log());
    assert_eq!(mails.wait_for(1).len(), 1);
    assert!(!server.log().contains("[alert]"), "{}", server.log());
}

#[test]
fn a_password_is_read_by_the_server_alone() {
    if !requirements::root() {
        return;
    }
    let mails = MailServer::start();
    let site = Site::script("a.php", SEND);
    let file = site.data().with_file_name("password");
    fs::write(&file, "geheim\n").unwrap();
    harness::open_to_all(&file, 0o600);
    let mut smtp = smtp(&mails);
    (smtp["user"], smtp["password_file"]) = (json!("joe"), json!(file));
    let server =
        site.with(json!({"settings": {"smtp": smtp}, "applications": {"site": {}}})).serve();
    assert!(!sends(&server));
    // The client has got as far as the password: this server offers no login.
    server.wait_for_log("does not offer AUTH PLAIN or AUTH LOGIN");
    fs::remove_file(&file).unwrap();
    assert!(!sends(&server));
    let log = server.wait_for_log("settings/smtp/password_file: ");
    assert!(log.contains("No such file") && !log.contains("geheim"), "{log}");
}

#[test]
fn in_development_a_file_takes_all_messages() {
    let site = Site::script("a.php", SEND);
    let file = site.data().join("mails");
    let server = site.argument("--mail-to").argument(&file.display().to_string()).serve();
    assert!(sends(&server), "{}", server.log());
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("From ") && text.contains("\nX-Envelope-To: a@example.org\n"),
        "{text}"
    );
    assert!(text.contains("\n\nLine 1\nLine 2\n"), "{text}");
    let mails = MailServer::start();
    let site = Site::script("a.php", SEND).argument("--mail-to");
    let server = site.argument(&format!("smtp://{}", mails.address)).serve();
    assert!(sends(&server), "{}", server.log());
    assert_eq!(mails.wait_for(1)[0].to, ["a@example.org"]);
}

#[test]
fn a_real_postfix_takes_and_delivers_what_scripts_send() {
    let Some(postfix) = Postfix::start(None) else { return };
    let code = r#"
        $evil = "MAIL FROM:<evil@example.org>\r\nRCPT TO:<victim@example.org>\r\nDATA\r\nSubject: evil\r\n\r\nevil\r\n.\r\n";
        $long = str_repeat('ä', 3000);
        $fields = ['From' => 'Jö <shop@example.org>', 'Bcc' => 'secret@example.org'];
        $sent = true;
        foreach (["\n.\n", "\r.\r", "\n.\r\n", "\r\n.\n", "\r\n.\r"] as $end) {
            $sent = $sent && mail('a@example.org', 'Grüße', "$long$end$evil", $fields, '-fshop@example.org');
        }
        $sent = $sent && !mail('a@elsewhere.test', 'x', 'y');
        $sent = $sent && mail('last@example.org', 'x', 'the last one');
        var_dump($sent);"#;
    let server = serve(code, json!({"host": "127.0.0.1", "port": postfix.port}), json!({}));
    assert!(sends(&server), "{}", server.log());
    server.wait_for_log("refuses the recipient <a@elsewhere.test>: 554");
    // Five messages to two recipients each, and the last one.
    let text = eventually("Postfix delivers all copies", || {
        let text = postfix.mails();
        (text.matches("Delivered-To: ").count() == 11).then_some(text)
    });
    assert_eq!(text.matches("Delivered-To: secret@example.org").count(), 5);
    assert!(!text.contains("Delivered-To: victim") && !text.contains("Bcc:"), "{text}");
    assert!(
        text.contains("Return-Path: <shop@example.org>") && !text.contains("Return-Path: <evil")
    );
}

/// Scenario: the end of a prototype ends all processes that its scripts have left, which are
/// children of the supervisor then, as the mail process is.
#[test]
fn the_end_of_an_application_does_not_end_the_mail_process() {
    let mails = MailServer::start();
    let server = serve(SEND, smtp(&mails), json!({}));
    assert!(sends(&server));
    let pid = mail_process(&server).unwrap();
    let prototype = server.prototype();
    kill_process(Pid::from_raw(prototype as i32).unwrap(), Signal::KILL).unwrap();
    // Until then, a worker of the old one may take another request.
    server.wait_for_log("its prototype exited on signal 9");
    eventually("the application runs again", || (server.get("/a.php").status == 200).then_some(()));
    assert!(sends(&server));
    assert_eq!(mail_process(&server), Some(pid), "{}", server.log());
    assert!(!server.log().contains("mail process"), "{}", server.log());
}
