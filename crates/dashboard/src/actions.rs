//! What the buttons of the page do. Each is a request to the control API, which carries it out
//! under the rights of the user who has started the page.

use std::time::Duration;

use howdah_text::percent;
use serde_json::{Value, json};

/// Maximum length of a name or URL.
const MAX_NAME: usize = 4096;

/// Maximum time until a button has done its work: a restart waits for the start of PHP.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// The work of a button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Replace all processes of an application.
    Restart { application: String },
    /// Read the document again.
    Reload,
    /// Remove stored responses of a cache: those below a URL, or all of them.
    Purge { cache: String, prefix: Option<String> },
    /// Send a server of an upstream no new clients, or send it some again.
    Drain { upstream: String, server: String, drains: bool },
}

/// A request to the control API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) body: Vec<u8>,
}

impl Action {
    /// Reads the body of a request; `None` if it is malformed.
    pub(crate) fn read(body: &Value) -> Option<Action> {
        let text = |name: &str| {
            let text = body.get(name)?.as_str()?;
            (!text.is_empty() && text.len() <= MAX_NAME).then(|| text.to_owned())
        };
        Some(match body.get("do")?.as_str()? {
            "restart" => Action::Restart { application: text("name")? },
            "reload" => Action::Reload,
            "purge" => {
                let prefix = match body.get("prefix") {
                    None | Some(Value::Null) => None,
                    Some(_) => Some(text("prefix")?),
                };
                Action::Purge { cache: text("name")?, prefix }
            }
            "drain" => Action::Drain {
                upstream: text("name")?,
                server: text("server")?,
                drains: body.get("drains")?.as_bool()?,
            },
            _ => return None,
        })
    }

    /// Returns what the code of the button is for.
    pub(crate) fn subject(&self) -> String {
        let parts = match self {
            Action::Restart { application } => json!(["restart", application]),
            Action::Reload => json!(["reload"]),
            Action::Purge { cache, .. } => json!(["purge", cache]),
            Action::Drain { upstream, server, .. } => json!(["drain", upstream, server]),
        };
        parts.to_string()
    }

    /// Returns the request to the control API.
    pub(crate) fn order(&self) -> Order {
        let (method, target, body) = match self {
            Action::Restart { application } => {
                ("POST", format!("/control/applications/{}/restart", encode(application)), None)
            }
            Action::Reload => ("POST", "/control/reload".to_owned(), None),
            Action::Purge { cache, prefix } => {
                let body = match prefix {
                    Some(prefix) => json!({"prefix": prefix}),
                    None => json!({"all": true}),
                };
                ("POST", format!("/control/caches/{}/purge", encode(cache)), Some(body))
            }
            Action::Drain { upstream, server, drains } => {
                let (upstream, server) = (encode(upstream), encode(server));
                let target = format!("/config/upstreams/{upstream}/servers/{server}/drain");
                ("PUT", target, Some(json!(drains)))
            }
        };
        Order { method, target, body: body.map_or(Vec::new(), |body| body.to_string().into()) }
    }
}

/// Percent-encodes a name for a path of the control API.
pub(crate) fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    percent::encode_text(name.as_bytes(), percent::is_unreserved, &mut encoded);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_is_one_request_whose_names_are_encoded() {
        for (body, target, sent) in [
            (
                json!({"do": "restart", "name": "a/../b"}),
                "/control/applications/a%2F..%2Fb/restart",
                "",
            ),
            (json!({"do": "reload"}), "/control/reload", ""),
            (json!({"do": "purge", "name": "c"}), "/control/caches/c/purge", r#"{"all":true}"#),
            (
                json!({"do": "purge", "name": "*", "prefix": "https://a/"}),
                "/control/caches/%2A/purge",
                r#"{"prefix":"https://a/"}"#,
            ),
            (
                json!({"do": "drain", "name": "u", "server": "[::1]:80", "drains": true}),
                "/config/upstreams/u/servers/%5B%3A%3A1%5D%3A80/drain",
                "true",
            ),
        ] {
            let order = Action::read(&body).unwrap().order();
            assert_eq!((order.target.as_str(), order.body.as_slice()), (target, sent.as_bytes()));
        }
    }

    #[test]
    fn what_no_button_sends_is_refused() {
        for body in [
            json!(null),
            json!({"do": "upgrade"}),
            json!({"do": "restart"}),
            json!({"do": "restart", "name": ""}),
            json!({"do": "restart", "name": 1}),
            json!({"do": "purge", "name": "c", "prefix": 1}),
            json!({"do": "purge", "name": "x".repeat(MAX_NAME + 1)}),
            json!({"do": "drain", "name": "u", "server": "s", "drains": "yes"}),
        ] {
            assert_eq!(Action::read(&body), None, "{body}");
        }
    }

    #[test]
    fn subjects_differ() {
        let subject = |body: Value| Action::read(&body).unwrap().subject();
        let a = subject(json!({"do": "drain", "name": "a", "server": "b\",\"c", "drains": true}));
        let b = subject(json!({"do": "drain", "name": "a\",\"b", "server": "c", "drains": true}));
        assert!(a != b);
        assert!(
            subject(json!({"do": "restart", "name": "a"}))
                != subject(json!({"do": "purge", "name": "a"}))
        );
    }
}
