//! `smtp`: the mail server that takes the messages of applications.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, path};

/// `smtp` of the settings or an application.
pub(crate) static SMTP: Shape = Shape {
    name: "smtp",
    parts: &[&[
        Key::new("host", Kind::Text, "Host name or address of the server").default("\"localhost\""),
        Key::new("port", Kind::Integer(1, 65_535), "Port of the server").default("25"),
        Key::new(
            "tls",
            Kind::Either(&[Kind::Switch, Kind::Word(&["starttls"])]),
            "Encryption: `true` from the first byte on, `\"starttls\"` after that command",
        )
        .default("`true` on port 465, `\"starttls\"` on 587, else `false`")
        .details(
            "The server must offer the command. The certificate must be for `host` and by an \
             authority of `authorities`",
        ),
        Key::new(
            "authorities",
            Kind::Text,
            "File with the certificates of the trusted authorities (PEM)",
        )
        .default("the system's")
        .details("Only root needs to read it"),
        Key::new("user", Kind::Text, "User name at the server")
            .default("none")
            .details("To another machine, it needs `tls`"),
        Key::new("password_file", Kind::Text, "File whose first line is the password")
            .default("none")
            .details("Only root needs to read it; it is read for each message"),
        Key::new("from", Kind::Text, "Address of the sender of messages that name none")
            .default("none")
            .details(
                "Of the envelope, unless the script names one with `-f`, and of a missing `From`",
            ),
        Key::new(
            "limit",
            Kind::Integer(1, COUNT),
            "Maximum number of recipients in an hour, of each application",
        )
        .default("none")
        .details(
            "More is refused, so that a site that was broken into does not send spam by the \
             thousands. A message that fails does not count, unless the mail server may have \
             taken it (it has got the end of the text and has not refused it)",
        ),
        Key::new("timeout", Kind::Integer(1, MAX_TIMEOUT), "Maximum seconds of a delivery")
            .default("30"),
    ]],
};

/// Members of `smtp`, of the settings or of an application; `None` for those that are not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Smtp {
    /// Host name or address of the server.
    pub host: Option<String>,
    /// Port of the server.
    pub port: Option<u16>,
    /// Encryption of the connection.
    pub tls: Option<SmtpTls>,
    /// User name at the server.
    pub user: Option<String>,
    /// File whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// File with the certificates of the trusted authorities.
    pub authorities: Option<PathBuf>,
    /// Sender of messages that name none.
    pub from: Option<String>,
    /// Maximum number of recipients in an hour.
    pub limit: Option<u32>,
    /// Maximum time of a delivery.
    pub timeout: Option<Duration>,
}

/// Encryption of the connection to a mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// None.
    Off,
    /// From the first byte on.
    Implicit,
    /// After `STARTTLS`, which the server must offer.
    StartTls,
}

/// The mail server of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailServer {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Encryption of the connection.
    pub tls: SmtpTls,
    /// User name, and the file whose first line is the password.
    pub login: Option<(String, PathBuf)>,
    /// File with the certificates of the trusted authorities; the system's if `None`.
    pub authorities: Option<PathBuf>,
    /// Sender of messages that name none.
    pub from: Option<String>,
    /// Maximum number of recipients in an hour.
    pub limit: Option<u32>,
    /// Maximum time of a delivery.
    pub timeout: Duration,
    /// Key of the document that names the server, without its first slash; empty without one.
    pub key: String,
}

const DEFAULT_HOST: &str = "localhost";

const DEFAULT_PORT: u16 = 25;

/// Port on which TLS begins with the first byte (RFC 8314, 3.3).
const TLS_PORT: u16 = 465;

/// Port of submissions, on which TLS begins with `STARTTLS`.
const SUBMISSION_PORT: u16 = 587;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum of `timeout` in seconds.
const MAX_TIMEOUT: i64 = 600;

/// Members that belong to a `host`: the password of one server is not for another.
const OF_HOST: [&str; 5] = ["port", "tls", "user", "password_file", "authorities"];

impl Smtp {
    /// Reads `smtp` of the settings.
    pub(crate) fn read(node: &Node<'_>) -> Result<Smtp, Error> {
        let object = node.object(&SMTP)?;
        let smtp = Smtp {
            host: object.read("host", read_host)?,
            port: object.integer("port")?,
            tls: object.read("tls", SmtpTls::read)?,
            user: object.text("user")?,
            password_file: object.file("password_file")?,
            authorities: object.file("authorities")?,
            from: object.read("from", read_from)?,
            limit: object.integer("limit")?,
            timeout: object.read("timeout", |node| {
                let timeout = node.seconds(1)?;
                if timeout.as_secs() <= MAX_TIMEOUT.unsigned_abs() {
                    Ok(timeout)
                } else {
                    Err(node.invalid(format_args!("must be at most {MAX_TIMEOUT} seconds")))
                }
            })?,
        };
        for (key, other, is_there) in [
            ("user", "password_file", smtp.password_file.is_some()),
            ("password_file", "user", smtp.user.is_some()),
        ] {
            if let Some(node) = object.optional(key).filter(|_| !is_there) {
                return Err(node.invalid(format_args!("must be with \"{other}\"")));
            }
        }
        let server = smtp.server(String::new());
        if let Some(user) = object.optional("user").filter(|_| server.tls == SmtpTls::Off)
            && !is_this_machine(&server.host)
        {
            let error = user.invalid("would send the password without encryption");
            return Err(
                error.with_hint("add \"tls\": \"starttls\", or \"tls\": true and \"port\": 465")
            );
        }
        if let Some(node) = object.optional("authorities").filter(|_| server.tls == SmtpTls::Off) {
            return Err(node.invalid("needs \"tls\""));
        }
        object.end()?;
        Ok(smtp)
    }

    /// Reads `smtp` of an application.
    pub(crate) fn read_of_application(node: &Node<'_>) -> Result<Smtp, Error> {
        let smtp = Smtp::read(node)?;
        let object = node.object(&SMTP)?;
        let of_host = OF_HOST.into_iter().find_map(|key| object.optional(key));
        match of_host.filter(|_| smtp.host.is_none()) {
            Some(found) => Err(found.invalid("must be with \"host\"")),
            None => Ok(smtp),
        }
    }

    fn server(&self, key: String) -> MailServer {
        let port = self.port.unwrap_or(DEFAULT_PORT);
        MailServer {
            host: self.host.clone().unwrap_or_else(|| DEFAULT_HOST.to_owned()),
            port,
            tls: self.tls.unwrap_or(match port {
                TLS_PORT => SmtpTls::Implicit,
                SUBMISSION_PORT => SmtpTls::StartTls,
                _ => SmtpTls::Off,
            }),
            login: self.user.clone().zip(self.password_file.clone()),
            authorities: self.authorities.clone(),
            from: self.from.clone(),
            limit: self.limit,
            timeout: self.timeout.unwrap_or(DEFAULT_TIMEOUT),
            key,
        }
    }
}

/// Returns the mail server of an application: the one that it names, or else that of the settings,
/// with its own `from`, `limit` and `timeout`.
pub(crate) fn mail_server(
    application: &str,
    own: Option<&Smtp>,
    settings: Option<&Smtp>,
) -> MailServer {
    let common = settings.cloned().unwrap_or_default();
    let Some(own) = own else {
        let key = if settings.is_some() { "settings/smtp" } else { "" };
        return common.server(key.to_owned());
    };
    let merged = Smtp {
        from: own.from.clone().or(common.from.clone()),
        limit: own.limit.or(common.limit),
        timeout: own.timeout.or(common.timeout),
        ..if own.host.is_some() { own.clone() } else { common }
    };
    let key = path(["applications", application, "smtp"]);
    merged.server(key.trim_start_matches('/').to_owned())
}

impl SmtpTls {
    fn read(node: &Node<'_>) -> Result<SmtpTls, Error> {
        match (node.value.as_bool(), node.value.as_str()) {
            (Some(false), _) => Ok(SmtpTls::Off),
            (Some(true), _) => Ok(SmtpTls::Implicit),
            (_, Some("starttls")) => Ok(SmtpTls::StartTls),
            (_, Some(_)) => Err(node.invalid("must be true, false or \"starttls\"")),
            _ => Err(node.wrong_type("true, false or \"starttls\"")),
        }
    }
}

fn read_host(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let is_address = !text.contains(':') || text.parse::<std::net::Ipv6Addr>().is_ok();
    if is_address && text.chars().all(is_host) {
        Ok(text.to_owned())
    } else {
        let error = node.invalid("is no host name and no address");
        Err(error.with_hint("write \"smtp.example.org\"; the port has a key of its own"))
    }
}

fn read_from(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    let is_plain = |c: char| c.is_ascii_graphic() && !"<>()[]:;,\\\"".contains(c);
    let parts = text
        .rsplit_once('@')
        .filter(|(local, domain)| !local.is_empty() && !domain.is_empty() && !local.contains('@'));
    if parts.is_some() && text.chars().all(is_plain) && text.len() <= 320 {
        Ok(text.to_owned())
    } else {
        let error = node.invalid("is no address");
        Err(error.with_hint("write \"shop@example.org\", without a name"))
    }
}

fn is_this_machine(host: &str) -> bool {
    host == DEFAULT_HOST
        || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn server(settings: Value, application: Value) -> Result<MailServer, String> {
        let mut document =
            json!({"settings": {}, "applications": {"a": {"type": "php", "root": "/"}}});
        if !settings.is_null() {
            document["settings"]["smtp"] = settings;
        }
        if !application.is_null() {
            document["applications"]["a"]["smtp"] = application;
        }
        let config = Config::from_value(document).map_err(|error| error.to_string())?;
        Ok(config.mail_server("a"))
    }

    #[test]
    fn without_a_key_it_is_the_server_of_this_machine() {
        let found = server(Value::Null, Value::Null).unwrap();
        assert_eq!((found.host.as_str(), found.port, found.tls), ("localhost", 25, SmtpTls::Off));
        assert_eq!((found.timeout, found.key.as_str()), (DEFAULT_TIMEOUT, ""));
    }

    #[test]
    fn an_application_has_its_own_server_or_rules_of_its_own() {
        let common = json!({
            "host": "mx.test", "port": 587, "user": "u", "password_file": "/p", "limit": 100,
            "timeout": 10, "from": "a@a.org",
        });
        let found = server(common.clone(), Value::Null).unwrap();
        assert_eq!((found.tls, found.key.as_str()), (SmtpTls::StartTls, "settings/smtp"));
        let found = server(common.clone(), json!({"from": "b@b.org", "limit": 5})).unwrap();
        assert_eq!((found.host.as_str(), found.limit), ("mx.test", Some(5)));
        assert_eq!(found.login, Some(("u".to_owned(), "/p".into())));
        assert_eq!(found.from.as_deref(), Some("b@b.org"));
        assert_eq!(found.key, "applications/a/smtp");
        let found = server(common, json!({"host": "other.test", "port": 465})).unwrap();
        assert_eq!((found.tls, found.login, found.limit), (SmtpTls::Implicit, None, Some(100)));
        let private = json!({"host": "10.0.0.5", "port": 587, "authorities": "/ca.pem"});
        let found = server(json!({"host": "mx.test"}), private).unwrap();
        assert_eq!(found.authorities, Some("/ca.pem".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (smtp, expected) in [
            (json!({"user": "u"}), "/settings/smtp/user: "),
            (json!({"password_file": "/p"}), "must be with \"user\""),
            (json!({"host": "mx.test", "user": "u", "password_file": "/p"}), "without encryption"),
            (json!({"host": "mx.test:25"}), "a key of its own"),
            (json!({"host": "a b"}), "/settings/smtp/host: "),
            (json!({"from": "Joe <joe@a.org>"}), "without a name"),
            (json!({"from": "joe"}), "/settings/smtp/from: "),
            (json!({"from": "a@a.org\r\nDATA"}), "/settings/smtp/from: "),
            (json!({"tls": "ssl"}), "starttls"),
            (json!({"authorities": "/ca.pem"}), "needs \"tls\""),
            (json!({"port": 0}), "/settings/smtp/port: "),
            (json!({"limit": 0}), "/settings/smtp/limit: "),
            (json!({"timeout": 601}), "at most 600"),
            (json!({"password": "x"}), "password_file"),
        ] {
            let problem = server(smtp.clone(), Value::Null).unwrap_err();
            assert!(problem.contains(expected), "{smtp}: {problem}");
        }
        let problem = server(Value::Null, json!({"port": 26})).unwrap_err();
        assert!(problem.contains("/applications/a/smtp/port: "), "{problem}");
        let local = json!({"user": "u", "password_file": "/p"});
        assert!(server(local, Value::Null).is_ok());
    }
}
