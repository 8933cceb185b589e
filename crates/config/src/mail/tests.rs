use serde_json::{Value, json};

use super::*;
use crate::{Config, Session};

fn read(mail: Value, listener: Value) -> Result<Config, Error> {
    let mut whole = json!({"pass": "mail/m"});
    for (key, value) in listener.as_object().unwrap() {
        whole[key] = value.clone();
    }
    Config::from_value(json!({
        "listeners": {"*:143": whole},
        "mail": {"m": mail},
        "upstreams": {"d": {"servers": {"127.0.0.1:1": {}}}},
    }))
}

fn imap(more: Value) -> Value {
    let mut mail = json!({"protocol": "imap", "authentication": {"url": "http://127.0.0.1:9/a"}});
    for (key, value) in more.as_object().unwrap() {
        mail[key] = value.clone();
    }
    mail
}

#[test]
fn a_proxy_has_the_defaults_of_nginx() {
    let config = read(imap(json!({})), json!({})).unwrap();
    assert_eq!(config.listeners[0].session, Some(Session::Mail("m".to_owned())));
    let mail = &config.mail[0];
    assert_eq!(mail.methods, [MailMethod::Plain]);
    assert_eq!(mail.capabilities, ["IMAP4rev1", "UIDPLUS"]);
    assert_eq!((mail.max_errors, mail.client_timeout.as_secs()), (5, 60));
    let server = &mail.authentication[0];
    assert_eq!((server.host.as_str(), server.target.as_str()), ("127.0.0.1:9", "/a"));
    let smtp = json!({"protocol": "smtp", "backend": "upstreams/d"});
    let config = read(smtp, json!({})).unwrap();
    assert_eq!(config.mail[0].methods, [MailMethod::Plain, MailMethod::Login]);
    assert!(config.mail[0].backend_authentication);
}

#[test]
fn urls_name_servers_of_http_and_unix_sockets() {
    let url = |url: &str| {
        let config = read(imap(json!({"authentication": {"url": url}})), json!({}));
        config.map(|config| {
            let server = config.mail[0].authentication[0].clone();
            (server.address.to_string(), server.host, server.target)
        })
    };
    let expected =
        |one: &str, two: &str, three: &str| (one.to_owned(), two.to_owned(), three.to_owned());
    let found = url("https://auth.example.org").unwrap();
    assert_eq!(found, expected("auth.example.org:443", "auth.example.org", "/"));
    let found = url("http://[::1]:8/x?y=1").unwrap();
    assert_eq!(found, expected("[::1]:8", "[::1]:8", "/x?y=1"));
    let found = url("http://unix:/run/a.sock:/auth").unwrap();
    assert_eq!(found, expected("unix:/run/a.sock", "localhost", "/auth"));
    for wrong in ["ftp://a/", "127.0.0.1:9", "http://unix:a", "https://unix:/a", "http://a b/"] {
        assert!(url(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn keys_without_a_meaning_are_refused_with_their_paths() {
    let place = |mail: Value, listener: Value| read(mail, listener).unwrap_err().path().to_owned();
    for (more, key) in [
        (json!({"methods": ["none"]}), "methods/0"),
        (json!({"methods": ["apop"]}), "methods/0"),
        (json!({"methods": ["digest"]}), "methods/0"),
        (json!({"methods": []}), "methods"),
        (json!({"xclient": true}), "xclient"),
        (json!({"backend": "upstreams/d"}), "backend"),
        (json!({"capabilities": ["A\r\nB"]}), "capabilities/0"),
        (
            json!({"authentication": {"url": "http://a/", "headers": {"a b": "x"}}}),
            "authentication/headers/a b",
        ),
    ] {
        assert_eq!(place(imap(more), json!({})), format!("/mail/m/{key}"));
    }
    assert_eq!(place(imap(json!({})), json!({"http2": true})), "/listeners/*:143/http2");
    assert_eq!(place(imap(json!({})), json!({"protocol": "tcp"})), "/listeners/*:143/protocol");
    assert_eq!(place(json!({"protocol": "imap"}), json!({})), "/mail/m");
}

#[test]
fn starttls_is_for_servers_of_mail_that_do_not_speak_tls_before() {
    let read = |mail: Value, upstream: Value| {
        Config::from_value(json!({
            "listeners": {"*:143": {"pass": "mail/m"}},
            "mail": {"m": mail},
            "upstreams": {"u": upstream},
        }))
    };
    let with = |tls: Value| json!({"protocol": "imap", "backend": "upstreams/u", "tls": tls});
    let plain = json!({"servers": {"127.0.0.1:1": {}}});
    let config = read(with(json!({"starttls": true})), plain.clone()).unwrap();
    assert!(config.mail[0].tls.as_ref().unwrap().starttls);
    let error = read(with(json!({"starttls": false})), plain).unwrap_err();
    assert_eq!(error.path(), "/mail/m/tls");
    let upstream = |tls: Value| json!({"servers": {"127.0.0.1:1": {}}, "tls": tls});
    let error = read(with(json!({"starttls": true})), upstream(json!(true))).unwrap_err();
    assert_eq!(error.path(), "/mail/m/tls");
    let mail = json!({"protocol": "imap", "backend": "upstreams/u"});
    let error = read(mail, upstream(json!({"starttls": true}))).unwrap_err();
    assert_eq!(error.path(), "/upstreams/u/tls");
}
