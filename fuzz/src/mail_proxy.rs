//! Proxies of mail, and the hello of TLS that streams read.
//!
//! - Clients: the bytes of a client before its login, in all three protocols, cut in two ways. Both
//!   have the same replies and events, replies are whole lines, and no name and no password can
//!   begin another line.
//! - Servers: the bytes of a server behind, and the head of an answer of an authentication server.
//! - Hello: whole and byte by byte.

use howdah_config::MailMethod;
use howdah_mail_proxy::backend::{
    Account, BackendLogin, ImapLogin, Pop3Login, Progress, SmtpLogin, SmtpOptions, StartTls,
};
use howdah_mail_proxy::front::Front;
use howdah_mail_proxy::input::Input;
use howdah_mail_proxy::login::{Credentials, Encryption, Event, Login, Offer, Protocol, SmtpFacts};
use howdah_mail_proxy::question::Answer;
use howdah_stream::client_hello::ClientHello;

const PROTOCOLS: [Protocol; 3] = [Protocol::Imap, Protocol::Pop3, Protocol::Smtp];

/// Plays a client that sends pieces of this length. Returns the replies and the logins.
fn play(
    protocol: Protocol,
    encryption: Encryption,
    input: &[u8],
    length: usize,
) -> (Vec<u8>, Vec<Vec<u8>>) {
    let methods = match protocol {
        Protocol::Smtp if input.len() % 2 == 1 => vec![MailMethod::None],
        _ => {
            vec![MailMethod::Plain, MailMethod::CramMd5, MailMethod::OauthBearer, MailMethod::Apop]
        }
    };
    let offer = Offer { methods, max_errors: 50, server_name: "a".to_owned(), ..Offer::default() };
    let mut front = Front::new(protocol, offer, encryption, b"<1@a>".to_vec());
    let (mut bytes, mut out, mut logins) = (Input::default(), Vec::new(), Vec::new());
    front.greet(&mut out);
    for piece in input.chunks(length) {
        bytes.push(piece);
        while let Some(event) = front.step(&mut bytes, &mut out) {
            match event {
                Event::Close => return (out, logins),
                Event::StartTls => {
                    assert!(matches!(encryption, Encryption::Optional | Encryption::Required));
                    // What has come would end the session.
                    return (out, logins);
                }
                Event::Login(login) => {
                    assert!(encryption != Encryption::Required);
                    let Credentials { user, password, .. } = &login.credentials;
                    let is_end = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
                    let facts = &login.smtp;
                    for text in [user, &**password, &login.tag, &facts.helo, &facts.from, &facts.to]
                    {
                        assert!(!text.iter().any(is_end));
                    }
                    logins.push([&user[..], &password[..]].concat());
                }
                Event::Refused(_) => {}
            }
        }
    }
    (out, logins)
}

pub fn clients(input: &[u8]) {
    for protocol in PROTOCOLS {
        for encryption in [Encryption::None, Encryption::Optional, Encryption::Required] {
            let whole = play(protocol, encryption, input, usize::MAX);
            assert!(whole.0.ends_with(b"\r\n"));
            assert_eq!(whole, play(protocol, encryption, input, 1));
        }
    }
}

pub fn servers(input: &[u8]) {
    let credentials = Credentials {
        method: MailMethod::Plain,
        user: b"me".to_vec(),
        password: b"secret".to_vec().into(),
    };
    let smtp = SmtpFacts { helo: b"c".to_vec(), is_esmtp: true, ..SmtpFacts::default() };
    let login = Login { credentials, salt: Vec::new(), tag: b"t".to_vec(), smtp };
    let account = Account {
        login,
        user: b"me".to_vec(),
        password: Some(b"secret".to_vec().into()),
        client: None,
        local: None,
    };
    let options = SmtpOptions {
        server_name: "a".to_owned(),
        xclient: None,
        authenticates: true,
        client_name: None,
    };
    let starttls = PROTOCOLS.map(|protocol| BackendLogin::StartTls(StartTls::new(protocol, "a")));
    let logins = [
        BackendLogin::Imap(ImapLogin::new(account.clone(), true)),
        BackendLogin::Pop3(Pop3Login::new(account.clone())),
        BackendLogin::Smtp(SmtpLogin::new(account.clone(), options)),
    ];
    for mut login in logins.into_iter().chain(starttls) {
        let (mut bytes, mut sent) = (Input::default(), Vec::new().into());
        for byte in input {
            bytes.push(&[*byte]);
            match login.step(&mut bytes, &mut sent) {
                Progress::Waiting => {}
                Progress::Done(reply) | Progress::Refused(reply) => {
                    let is_starttls = matches!(login, BackendLogin::StartTls(_));
                    assert!(reply.ends_with(b"\r\n") || is_starttls && reply.is_empty());
                    break;
                }
                Progress::Failed(problem) => {
                    assert!(!problem.contains(['\r', '\n']));
                    break;
                }
            }
        }
        assert!(sent.is_empty() || sent.ends_with(b"\r\n"));
    }
    match Answer::read(input) {
        Ok(Answer::Pass { server, user, .. }) => {
            assert!(!server.contains(['\r', '\n']));
            assert!(user.is_none_or(|user| !user.iter().any(|byte| *byte < b' ')));
        }
        Ok(Answer::Refused { text, code, .. }) => {
            assert!(!text.contains(['\r', '\n']));
            assert!(code.is_none_or(|code| code.starts_with(['4', '5'])));
        }
        Ok(Answer::Again(_)) | Err(_) => {}
    }
}

pub fn hello(input: &[u8]) {
    let whole = ClientHello::read(input);
    for count in 0..input.len() {
        match ClientHello::read(&input[..count]) {
            Ok(None) => {}
            found => return assert_eq!(found, whole),
        }
    }
}
