//! The document that runs, and the next one.

use howdah_config::{Config, Defaults, Error, json};
use serde_json::Value;

use crate::change::Change;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// The document of the running configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    document: Value,
    /// What holds where a document says nothing.
    defaults: Defaults,
}

/// A configuration that is not yet the running one.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// To be made the running one.
    pub config: Config,
    /// To be kept on the disk. It reads back as the same document.
    pub text: Vec<u8>,
    /// Takes the place of the store that it was prepared with, once the configuration runs.
    pub store: Store,
}

impl Store {
    /// The document that Unit starts with if it has none.
    pub fn empty() -> Store {
        Store::new(serde_json::json!({ "listeners": {}, "routes": [], "applications": {} }))
    }

    /// Shows this document, that of the running configuration ([`Config::document`]).
    pub fn new(document: Value) -> Store {
        Store { document, defaults: Defaults::default() }
    }

    /// Reads the configurations that follow with these defaults.
    pub fn with_defaults(self, defaults: Defaults) -> Store {
        Store { defaults, ..self }
    }

    /// The whole document.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Answers [`Command::GetConfig`](crate::Command::GetConfig).
    pub fn get(&self, path: &Path) -> Reply {
        match path.find(&self.document) {
            Some(value) => Reply::value(value.clone()),
            None => Refusal::NoSuchValue.into(),
        }
    }

    /// Makes the configuration that a change leads to. Nothing is changed yet.
    pub fn prepare(&self, change: Change) -> Result<Prepared, Refusal> {
        let mut document = self.document.clone();
        change.apply(&mut document)?;
        let text = document.to_string().into_bytes();
        drop(document);
        // Each change was within the limits of a document. Their sum need not be, and what is
        // stored must be accepted at the next start.
        let document = json::parse(&text).map_err(too_much)?;
        let config = Config::from_value_with(document.clone(), &self.defaults)
            .map_err(Refusal::InvalidConfiguration)?;
        Ok(Prepared { config, text, store: Store { document, ..*self } })
    }

    /// Makes the configuration of a text. Nothing is changed yet.
    pub fn read(&self, text: Vec<u8>) -> Result<Prepared, Refusal> {
        let config = howdah_config::parse_with(&text, &self.defaults)
            .map_err(Refusal::InvalidConfiguration)?;
        let store = Store { document: config.document.clone(), ..*self };
        Ok(Prepared { config, text, store })
    }

    /// Whether the configuration has an application of this name.
    pub fn has_application(&self, name: &str) -> bool {
        self.document.get("applications").is_some_and(|all| all.get(name).is_some())
    }

    /// Whether a listener uses the certificate bundle of this name.
    pub fn uses_certificate(&self, name: &str) -> bool {
        let listeners = self.document.get("listeners").and_then(Value::as_object);
        let certificates = listeners
            .into_iter()
            .flat_map(|listeners| listeners.values())
            .filter_map(|listener| listener.get("tls")?.get("certificate"));
        certificates.into_iter().any(|certificate| match certificate {
            Value::Array(several) => several.iter().any(|certificate| certificate == name),
            one => one == name,
        })
    }
}

/// The place in the text is that of a text that the client has never seen.
fn too_much(problem: Error) -> Refusal {
    Refusal::DocumentTooLarge { detail: format!("after this change, {}", problem.message()) }
}
