use std::net::SocketAddr;

use super::*;
use crate::login::{Credentials, Method, Protocol, SmtpFacts};

fn account(method: Method, user: &str, password: &str) -> Account {
    let secret = Zeroizing::new(password.as_bytes().to_vec());
    let credentials =
        Credentials { method, user: user.as_bytes().to_vec(), password: secret.clone() };
    let smtp = SmtpFacts {
        helo: b"me".to_vec(),
        is_esmtp: true,
        from: b"MAIL FROM:<a>".to_vec(),
        to: b"RCPT TO:<b>".to_vec(),
    };
    let login = Login { credentials, salt: Vec::new(), tag: b"a1".to_vec(), smtp };
    let client: SocketAddr = "192.0.2.1:1000".parse().unwrap();
    let user = user.as_bytes().to_vec();
    Account { login, user, password: Some(secret), client: Some(client), local: Some(client) }
}

/// Plays the server: answers one after another. Returns what it was sent, and the end.
fn play(mut login: BackendLogin, answers: &[&str]) -> (String, String) {
    let (mut input, mut sent) = (Input::default(), Zeroizing::new(Vec::new()));
    let mut progress = Progress::Waiting;
    for answer in answers {
        for byte in answer.bytes() {
            input.push(&[byte]);
            progress = login.step(&mut input, &mut sent);
            if !matches!(progress, Progress::Waiting) {
                break;
            }
        }
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let end = match progress {
        Progress::Done(bytes) => format!("done {}", text(&bytes)),
        Progress::Refused(bytes) => format!("refused {}", text(&bytes)),
        other => format!("{other:?}"),
    };
    (text(&sent), end)
}

fn imap(account: Account, sends_id: bool) -> BackendLogin {
    BackendLogin::Imap(ImapLogin::new(account, sends_id))
}

fn smtp(account: Account, xclient: Option<bool>, authenticates: bool) -> BackendLogin {
    let server_name = "mx.test".to_owned();
    let client_name = None;
    let options = SmtpOptions { server_name, xclient, authenticates, client_name };
    BackendLogin::Smtp(SmtpLogin::new(account, options))
}

#[test]
fn a_server_of_imap_gets_literals_and_its_answer_is_passed_on() {
    let (sent, end) = play(
        imap(account(Method::Plain, "me", "se\"cret"), false),
        &[
            "* OK ready\r\n",
            "+ go on\r\n",
            "+ go on\r\n",
            "* CAPABILITY IMAP4rev1\r\n* 1 EXISTS\r\na1 OK [CAPABILITY X] in\r\n",
        ],
    );
    assert_eq!(sent, "a1 LOGIN {2}\r\nme {7}\r\nse\"cret\r\n");
    assert_eq!(end, "done * CAPABILITY IMAP4rev1\r\na1 OK [CAPABILITY X] in\r\n");
    let (sent, end) = play(
        imap(account(Method::Plain, "me", "x"), true),
        &["* OK hi\r\n", "* ID NIL\r\nhowdah OK\r\n", "a1 NO who\r\n"],
    );
    assert!(sent.starts_with(
        "howdah ID (\"x-originating-ip\" \"192.0.2.1\" \"x-originating-port\" \"1000\" "
    ));
    assert_eq!(end, "refused a1 NO who\r\n");
    let (_, end) = play(imap(account(Method::Plain, "me", "x"), false), &["* BYE full\r\n"]);
    assert!(end.starts_with("Failed"), "{end}");
    let (_, end) = play(imap(account(Method::Plain, "me", "x"), false), &["* OK\r\n", "a1 OK\r\n"]);
    assert!(end.starts_with("Failed"), "it did not ask for the name: {end}");
}

#[test]
fn tokens_are_passed_on_as_they_came() {
    let (sent, end) = play(
        imap(account(Method::Xoauth2, "me", "tok"), false),
        &["* OK\r\n", "+ \r\n", "+ eyJ9\r\na1 NO expired\r\n"],
    );
    let response = howdah_text::base64::encode(b"user=me\x01auth=Bearer tok\x01\x01");
    assert_eq!(sent, format!("a1 AUTHENTICATE XOAUTH2\r\n{response}\r\n\r\n"));
    assert_eq!(end, "refused a1 NO expired\r\n");
}

#[test]
fn a_server_of_pop3_gets_name_and_password() {
    let login = || BackendLogin::Pop3(Pop3Login::new(account(Method::Plain, "me", "se cret")));
    let (sent, end) = play(login(), &["+OK ready\r\n", "+OK\r\n", "+OK in\r\n"]);
    assert_eq!((sent.as_str(), end.as_str()), ("USER me\r\nPASS se cret\r\n", "done +OK in\r\n"));
    let (_, end) = play(login(), &["+OK ready\r\n", "+OK\r\n", "-ERR no\r\n"]);
    assert_eq!(end, "refused -ERR no\r\n");
}

#[test]
fn a_server_of_smtp_is_told_who_the_client_is() {
    let (sent, end) = play(
        smtp(account(Method::Plain, "me too+=", "x"), Some(true), false),
        &["220 hi\r\n", "250-a\r\n250 XCLIENT ADDR\r\n", "220 hi\r\n", "250 a\r\n"],
    );
    assert_eq!(
        sent,
        "EHLO mx.test\r\nXCLIENT ADDR=192.0.2.1 LOGIN=me+20too+2B+3D NAME=[UNAVAILABLE]\r\nEHLO me\r\n"
    );
    assert_eq!(end, "done 235 2.0.0 OK\r\n");
    let (sent, _) =
        play(smtp(account(Method::Plain, "me", "x"), None, false), &["220 hi\r\n", "250 SIZE\r\n"]);
    assert_eq!(sent, "EHLO mx.test\r\n", "it announces no XCLIENT");
}

#[test]
fn a_server_of_smtp_checks_the_password_by_the_method_that_it_offers() {
    let login = || smtp(account(Method::Plain, "me", "x"), Some(false), true);
    let (sent, end) =
        play(login(), &["220 hi\r\n", "250-a\r\n250 AUTH PLAIN LOGIN\r\n", "235 yes\r\n"]);
    assert_eq!(sent, "EHLO mx.test\r\nAUTH PLAIN AG1lAHg=\r\n");
    assert_eq!(end, "done 235 2.0.0 OK\r\n");
    let answers = ["220 hi\r\n", "250 AUTH LOGIN\r\n", "334 a\r\n", "334 b\r\n", "535 no\r\n"];
    let (sent, end) = play(login(), &answers);
    assert_eq!(sent, "EHLO mx.test\r\nAUTH LOGIN\r\nbWU=\r\neA==\r\n");
    assert_eq!(end, "refused 535 no\r\n");
}

#[test]
fn a_message_without_a_login_is_begun_and_the_reply_about_its_recipient_passed_on() {
    let mut none = account(Method::None, "", "");
    none.password = None;
    let answers =
        ["220 hi\r\n", "250 a\r\n", "220 hi\r\n", "250 a\r\n", "250 ok\r\n", "450-a\r\n450 b\r\n"];
    let (sent, end) = play(smtp(none, Some(true), false), &answers);
    assert!(
        sent.ends_with("NAME=[UNAVAILABLE]\r\nEHLO me\r\nMAIL FROM:<a>\r\nRCPT TO:<b>\r\n"),
        "{sent}"
    );
    assert_eq!(end, "done 450-a\r\n450 b\r\n");
}

#[test]
fn a_server_that_does_not_speak_the_protocol_fails() {
    let all = [
        imap(account(Method::Plain, "me", "x"), false),
        BackendLogin::Pop3(Pop3Login::new(account(Method::Plain, "me", "x"))),
        smtp(account(Method::Plain, "me", "x"), None, true),
    ];
    for login in all {
        let (sent, end) = play(login, &["HTTP/1.1 400 Bad Request\r\n"]);
        assert!(sent.is_empty() && end.starts_with("Failed"), "{end}");
    }
}

fn start_tls(protocol: Protocol, answers: &[&str]) -> (String, String) {
    play(BackendLogin::StartTls(StartTls::new(protocol, "mx.test")), answers)
}

#[test]
fn encryption_begins_by_the_command_of_the_protocol() {
    let imap = ["* OK [CAPABILITY STARTTLS] ready\r\n", "* note\r\nhowdah OK begin\r\n"];
    let (sent, end) = start_tls(Protocol::Imap, &imap);
    assert_eq!((sent.as_str(), end.as_str()), ("howdah STARTTLS\r\n", "done "));
    let (sent, end) = start_tls(Protocol::Pop3, &["+OK ready\r\n", "+OK begin\r\n"]);
    assert_eq!((sent.as_str(), end.as_str()), ("STLS\r\n", "done "));
    let smtp = ["220-a\r\n220 b\r\n", "250-mx\r\n250 STARTTLS\r\n", "220 begin\r\n"];
    let (sent, end) = start_tls(Protocol::Smtp, &smtp);
    assert_eq!((sent.as_str(), end.as_str()), ("EHLO mx.test\r\nSTARTTLS\r\n", "done "));
}

#[test]
fn a_server_that_refuses_encryption_is_not_used() {
    for (protocol, answers, problem) in [
        (Protocol::Imap, &["* OK\r\n", "howdah BAD no\r\n"][..], "it refuses STARTTLS"),
        (Protocol::Imap, &["* PREAUTH hello\r\n"], "it answered"),
        (Protocol::Pop3, &["+OK\r\n", "-ERR no\r\n"], "it refuses STARTTLS"),
        (Protocol::Smtp, &["220 a\r\n", "250 a\r\n", "502 no\r\n"], "it refuses STARTTLS"),
        (Protocol::Smtp, &["554 no\r\n"], "it answered"),
    ] {
        let (_, end) = start_tls(protocol, answers);
        assert!(end.starts_with("Failed") && end.contains(problem), "{end}");
    }
}
