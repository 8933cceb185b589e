//! The document of the running configuration, and the next document.

use howdah_config::{Config, Defaults, Error, include, json};
use serde_json::Value;

use crate::change::Change;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// The document of the running configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    document: Value,
    /// Defaults of documents.
    defaults: Defaults,
}

/// A configuration that is not applied yet.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The configuration.
    pub config: Config,
    /// The text to store. It reads back as the same document.
    pub text: Vec<u8>,
    /// Replaces the store that it was prepared with, once the configuration runs.
    pub store: Store,
}

impl Store {
    /// Returns a store with the document that Unit has at its first start.
    pub fn empty() -> Store {
        Store::new(serde_json::json!({ "listeners": {}, "routes": [], "applications": {} }))
    }

    /// Returns a store with the document of the running configuration ([`Config::document`]).
    pub fn new(document: Value) -> Store {
        Store { document, defaults: Defaults::default() }
    }

    /// Sets the defaults with which new documents are read.
    pub fn with_defaults(self, defaults: Defaults) -> Store {
        Store { defaults, ..self }
    }

    /// Returns the whole document.
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

    /// Makes the configuration that results from a change, without applying it.
    pub fn prepare(&self, change: Change) -> Result<Prepared, Refusal> {
        let first = change.path().steps().first();
        if first.is_some_and(|step| step == "included" || step == "left_out") {
            let parts = vec![("/included".to_owned(), "the files of the document".to_owned())];
            return Err(Refusal::Included { parts });
        }
        let mut document = self.document.clone();
        change.apply(&mut document)?;
        let changed = include::changed(&self.document, &mut document);
        if !changed.is_empty() {
            let own = |(part, file): (&str, &str)| (part.to_owned(), file.to_owned());
            return Err(Refusal::Included { parts: changed.into_iter().map(own).collect() });
        }
        let text = document.to_string().into_bytes();
        drop(document);
        // The document may exceed limits that each change is within, and a stored document must be
        // accepted at the next start.
        let document = json::parse(&text).map_err(too_much)?;
        let config = Config::from_value_with(document.clone(), &self.defaults)
            .map_err(|error| Refusal::InvalidConfiguration(howdah_advice::explained(error)))?;
        Ok(Prepared { config, text, store: Store { document, ..*self } })
    }

    /// Makes the configuration of the text of a source, without applying it.
    pub fn read(&self, text: Vec<u8>, origin: &str) -> Result<Prepared, Refusal> {
        let config = howdah_advice::parse(&text, &self.defaults).map_err(|problem| {
            let mistakes = include::explain(origin, &text, &problem);
            Refusal::InvalidSource { problem: Box::new(problem), mistakes }
        })?;
        let store = Store { document: config.document.clone(), ..*self };
        Ok(Prepared { config, text, store })
    }

    /// Returns true if the configuration has an application of this name.
    pub fn has_application(&self, name: &str) -> bool {
        self.document.get("applications").is_some_and(|all| all.get(name).is_some())
    }

    /// Returns true if a listener uses the certificate bundle of this name.
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

/// Omits the position in the text, which the client has not sent.
fn too_much(problem: Error) -> Refusal {
    Refusal::DocumentTooLarge { detail: format!("after this change, {}", problem.message()) }
}
