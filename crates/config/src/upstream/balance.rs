//! `balance` of an upstream: the method by which a server is chosen.

use howdah_template::Template;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Shown};
use crate::templates;

/// `balance` of an upstream.
pub(super) static HASH: Shape = Shape {
    name: "hash",
    parts: &[&[Key::new(
        "hash",
        Kind::Text,
        "Text with variables that chooses the server, such as `\"$remote_addr\"`",
    )
    .required()]],
};

/// Balancing methods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Balance {
    /// Weighted round robin.
    #[default]
    RoundRobin,
    /// The server with the fewest requests in relation to its weight.
    LeastConnections,
    /// The less loaded of two random servers.
    TwoChoices,
    /// Consistent hashing of this text: when servers are added or removed, few texts change their
    /// server.
    Hash(Template),
}

impl Balance {
    pub(super) fn read(node: &Node<'_>) -> Result<Balance, Error> {
        const HINT: &str = "write \"round_robin\", \"least_connections\", \"two_choices\" \
                            or {\"hash\": \"$remote_addr\"}";
        if node.value.is_object() {
            let object = node.object(&HASH)?;
            let hash = object.required("hash")?;
            let template = templates::read(&hash)?;
            if template.constant().is_some() {
                let error = hash.invalid("has no variable, so all requests would go to one server");
                return Err(error.with_hint("write \"$remote_addr\", or \"$cookie_NAME\""));
            }
            object.end()?;
            return Ok(Balance::Hash(template));
        }
        match node.value.as_str() {
            Some("round_robin") => Ok(Balance::RoundRobin),
            Some("least_connections") => Ok(Balance::LeastConnections),
            Some("two_choices") => Ok(Balance::TwoChoices),
            Some(name) => {
                let problem = format!("is \"{}\", which is no way to choose a server", Shown(name));
                Err(node.invalid(problem).with_hint(match name {
                    "least_conn" => "write \"least_connections\"",
                    "ip_hash" => "write {\"hash\": \"$remote_addr\"}",
                    random if random.starts_with("random") => {
                        "write \"two_choices\", which is nginx's \"random two\""
                    }
                    _ => HINT,
                }))
            }
            None => Err(node.wrong_type("a string or an object").with_hint(HINT)),
        }
    }
}
