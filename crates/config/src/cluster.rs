//! `cluster` of the settings: the Valkey or Redis server through which several servers share purges,
//! limits and timers.

use std::fmt;
use std::time::Duration;

use crate::address::Address;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, Shown};

/// `cluster` of the settings.
pub(crate) static CLUSTER: Shape = Shape {
    name: "cluster",
    parts: &[&[
        Key::new(
            "server",
            Kind::Text,
            "Address of the server, such as `\"10.0.0.5:6379\"` or \
             `\"unix:/run/valkey/valkey.sock\"`",
        )
        .details("Also `\"valkey.internal:6379\"` or `\"unix:@name\"`")
        .required(),
        Key::new("username", Kind::Text, "User name (an ACL of Valkey)")
            .default("the default user"),
        Key::new("password", Kind::Text, "Password").default("none").details("No log line has it"),
        Key::new("database", Kind::Integer(0, MAX_DATABASE), "Number of the database").default("0"),
        Key::new("prefix", Kind::Text, "Beginning of all keys").default("\"howdah:\"").details(
            "Sites that share a Valkey and not their limits, purges and timers need different ones",
        ),
        Key::new(
            "timeout",
            Kind::Number,
            "Maximum seconds for which a request waits for an answer, from 0.001 to 0.5",
        )
        .default("0.02"),
    ]],
};

/// The server through which several servers share purges, limits and timers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Address of Valkey or Redis.
    pub server: Address,
    /// User name (an ACL of Valkey); the default user if `None`.
    pub username: Option<String>,
    /// Password; none if `None`.
    pub password: Option<Password>,
    /// Number of the database.
    pub database: u32,
    /// Beginning of all keys, which tells sites apart that share one Valkey.
    pub prefix: String,
    /// Maximum time for which a request waits for an answer.
    pub timeout: Duration,
}

/// A password, which is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// Default of `prefix`.
const DEFAULT_PREFIX: &str = "howdah:";

/// Maximum length of `prefix`.
const MAX_PREFIX_BYTES: usize = 64;

/// Default of `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(20);

/// Range of `timeout` in seconds. A visitor does not notice the longest one; a shorter one than the
/// shortest is that of no network.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<f64> = 0.001..=0.5;

/// Maximum of `database`: Valkey has no more by default, and never more than this.
const MAX_DATABASE: i64 = 65_535;

impl Cluster {
    /// Reads an address, or an object.
    pub(crate) fn read(node: &Node<'_>) -> Result<Cluster, Error> {
        if node.value.is_string() {
            return Ok(Cluster {
                server: read_server(node)?,
                username: None,
                password: None,
                database: 0,
                prefix: DEFAULT_PREFIX.to_owned(),
                timeout: DEFAULT_TIMEOUT,
            });
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("an address or an object"));
        }
        let object = node.object(&CLUSTER)?;
        let cluster = Cluster {
            server: read_server(&object.required("server")?)?,
            username: object.text("username")?,
            password: object.read("password", read_password)?,
            database: object.integer_or_default("database")?,
            prefix: object
                .read("prefix", read_prefix)?
                .unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
            timeout: read_timeout(&object)?.unwrap_or(DEFAULT_TIMEOUT),
        };
        if let (None, Some(username)) = (&cluster.password, object.optional("username")) {
            return Err(username.invalid("must be with \"password\""));
        }
        object.end()?;
        Ok(cluster)
    }
}

impl Password {
    /// Returns the password.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

fn read_server(node: &Node<'_>) -> Result<Address, Error> {
    let text = node.text()?;
    // A URL may have a password, which must not be shown.
    if let Some((scheme, _)) = text.split_once("://") {
        let error =
            node.invalid(format_args!("must be an address, and not a \"{}\" URL", Shown(scheme)));
        return Err(error.with_hint(match scheme {
            "rediss" | "valkeys" => "connections are not encrypted; use a tunnel, or a unix socket",
            _ => "write \"10.0.0.5:6379\" or \"unix:/run/valkey/valkey.sock\"",
        }));
    }
    match Address::parse_server(text) {
        Ok(Address::Inet(address)) if address.ip().is_unspecified() => {
            Err(node.invalid("must be the address of one server"))
        }
        Ok(address) => Ok(address),
        Err(problem) => Err(node.invalid(problem)),
    }
}

/// Errors do not show the value, even if it is invalid.
fn read_password(node: &Node<'_>) -> Result<Password, Error> {
    let text = node.value.as_str().filter(|text| !text.is_empty());
    let password = text.map(|text| Password(text.to_owned()));
    password.ok_or_else(|| node.invalid("must be a string that is not empty"))
}

fn read_prefix(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    if text.len() <= MAX_PREFIX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(node.invalid(format_args!(
            "must be at most {MAX_PREFIX_BYTES} printable ASCII characters without spaces"
        )))
    }
}

fn read_timeout(object: &Object<'_>) -> Result<Option<Duration>, Error> {
    object.read("timeout", |node| {
        let seconds = node.value.as_f64().ok_or_else(|| node.wrong_type("a number of seconds"))?;
        if TIMEOUT_SECONDS.contains(&seconds) {
            Ok(Duration::from_secs_f64(seconds))
        } else {
            Err(node.invalid(format_args!(
                "must be between {} and {} seconds",
                TIMEOUT_SECONDS.start(),
                TIMEOUT_SECONDS.end()
            )))
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn read(cluster: Value) -> Result<Cluster, String> {
        let config = Config::from_value(json!({"settings": {"cluster": cluster}}));
        let config = config.map_err(|error| error.to_string())?;
        Ok(config.settings.cluster.expect("it is there"))
    }

    #[test]
    fn an_address_is_enough() {
        let cluster = read(json!("unix:/run/valkey/valkey.sock")).unwrap();
        assert_eq!(cluster.server, Address::Unix("/run/valkey/valkey.sock".into()));
        assert_eq!(cluster.timeout, DEFAULT_TIMEOUT);
        let same = read(json!({"server": "unix:/run/valkey/valkey.sock"}));
        assert_eq!(same, Ok(cluster));
        for address in ["10.0.0.5:6379", "[::1]:6379", "valkey.internal:6379", "unix:@valkey"] {
            assert!(read(json!(address)).is_ok(), "{address}");
        }
    }

    #[test]
    fn all_keys_are_read() {
        let cluster = read(json!({
            "server": "10.0.0.5:6379", "username": "howdah", "password": "x", "database": 3,
            "prefix": "shop:", "timeout": 0.005,
        }));
        let cluster = cluster.unwrap();
        assert_eq!((cluster.database, cluster.prefix.as_str()), (3, "shop:"));
        assert_eq!(cluster.timeout, Duration::from_millis(5));
        assert_eq!(cluster.password.as_ref().map(Password::as_str), Some("x"));
    }

    #[test]
    fn mistakes_are_named_and_passwords_are_not_shown() {
        for (cluster, expected) in [
            (json!(5), "/settings/cluster: "),
            (json!({}), "server"),
            (json!("*:6379"), "one server"),
            (json!("10.0.0.5"), "port"),
            (json!("redis://:geheim@10.0.0.5:6379/0"), "10.0.0.5:6379"),
            (json!("rediss://u:geheim@h:1"), "not encrypted"),
            (json!({"server": "h:1", "username": "u"}), "/settings/cluster/username: "),
            (json!({"server": "h:1", "password": ["geheim"]}), "/settings/cluster/password: "),
            (json!({"server": "h:1", "timeout": 2}), "0.5"),
            (json!({"server": "h:1", "timeout": "20ms"}), "/settings/cluster/timeout: "),
            (json!({"server": "h:1", "password": 5_318_008}), "/settings/cluster/password: "),
            (json!({"server": "h:1", "password": ""}), "/settings/cluster/password: "),
            (json!({"server": "h:1", "prefix": "a b"}), "without spaces"),
            (json!({"server": "h:1", "database": -1}), "/settings/cluster/database: "),
            (json!({"server": "h:1", "pasword": "geheim"}), "password"),
        ] {
            let problem = read(cluster.clone()).unwrap_err();
            assert!(problem.contains(expected), "{cluster}: {problem}");
            assert!(!problem.contains("geheim") && !problem.contains("5318008"), "{problem}");
        }
        let cluster = read(json!({"server": "h:1", "password": "geheim"}));
        assert!(!format!("{cluster:?}").contains("geheim"));
    }
}
