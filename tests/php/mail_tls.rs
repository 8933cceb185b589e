//! Mail over TLS, to a real mail server that asks for a password.

use std::fs;

use harness::postfix::{PASSWORD, Postfix, Tls, USER};
use harness::tls::Authority;
use harness::{Site, eventually};
use serde_json::{Value, json};

use crate::mail::{SEND, sends};
use crate::mail_process::controlled;

#[test]
fn a_real_postfix_takes_mail_over_tls_with_a_password() {
    let authority = Authority::new();
    for mechanism in ["PLAIN", "LOGIN"] {
        let certificate = authority.issue(&["localhost"]);
        let Some(postfix) = Postfix::start(Some(Tls { certificate, mechanism })) else { return };
        let site = Site::script("a.php", SEND);
        let file = |name: &str, text: &str| {
            let path = site.data().with_file_name(name);
            fs::write(&path, text).unwrap();
            harness::open_to_all(&path, 0o600);
            path
        };
        let (right, wrong) =
            (file("password", &format!("{PASSWORD}\n")), file("wrong", "not-that-one\n"));
        let authorities = file("authorities.pem", &authority.pem());
        let starttls = json!({
            "host": "localhost", "port": postfix.port, "tls": "starttls",
            "user": USER, "password_file": right, "authorities": authorities,
            "from": "shop@example.org",
        });
        let with = |changes: Value| {
            let mut smtp = starttls.clone();
            harness::merge(&mut smtp, changes);
            smtp
        };
        let server = controlled(site, &starttls);
        let prototype = server.prototype();
        assert!(sends(&server), "{}", server.log());
        server.put("/config/settings/smtp", &with(json!({"port": postfix.tls_port, "tls": true})));
        assert!(sends(&server), "{}", server.log());
        let text = eventually("Postfix delivers both", || {
            Some(postfix.mails()).filter(|text| text.matches("Delivered-To: ").count() == 2)
        });
        // "SA": over TLS, after a login (RFC 3848).
        assert_eq!(text.matches("with ESMTPSA").count(), 2, "{text}");
        let system = unknown_to_the_system();
        for (smtp, expected) in [
            (with(json!({"password_file": wrong})), "it refuses the AUTH: 535"),
            (with(json!({"host": "127.0.0.1"})), "is not for \"127.0.0.1\""),
            (
                with(json!({"port": postfix.tls_port, "tls": true, "host": "127.0.0.1"})),
                "is not for \"127.0.0.1\"",
            ),
            (with(json!({"authorities": Value::Null})), system),
            (
                with(json!({"authorities": "/nowhere.pem"})),
                "\"authorities\" in settings/smtp: /nowhere.pem",
            ),
            (
                with(json!({"user": Value::Null, "password_file": Value::Null})),
                "it refuses the recipient",
            ),
        ] {
            let mut smtp = smtp;
            smtp.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            let before = server.log().len();
            server.put("/config/settings/smtp", &smtp);
            assert!(!sends(&server), "{smtp}");
            eventually(expected, || server.log().get(before..)?.contains(expected).then_some(()));
        }
        for secret in [PASSWORD, "not-that-one", "Z2VoZWlt"] {
            assert!(!server.log().contains(secret), "{}", server.log());
        }
        // No change has restarted the application.
        assert_eq!(server.prototype(), prototype);
        assert_eq!(postfix.mails().matches("Delivered-To: ").count(), 2);
    }
}

/// The message about a certificate of an authority that is not the system's.
fn unknown_to_the_system() -> &'static str {
    if std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        "is not issued by an \
        authority in /etc/ssl/certs/ca-certificates.crt"
    } else {
        "ca-certificates"
    }
}
