//! The document of the running configuration, and the next document.

use std::borrow::Cow;

use howdah_config::include::{Compiled, SitePlaces};
use howdah_config::{Config, Defaults, Error, include, json, split_path};
use serde_json::{Map, Value};

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
    /// The text to store. It reads back as the same document.
    pub text: Vec<u8>,
    /// Replaces the store that it was prepared with, once the configuration runs.
    pub store: Store,
}

/// What follows a change of a document.
#[derive(Debug, Clone)]
pub enum Next {
    /// The configuration is applied.
    Apply(Box<Prepared>),
    /// The sites of the document of this text are compiled first.
    Compile(Vec<u8>),
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

    /// Returns the whole document, with the parts that were made from sites.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Answers [`Command::GetConfig`](crate::Command::GetConfig).
    pub fn get(&self, path: &Path) -> Reply {
        match path.find(&self.sent()) {
            Some(value) => Reply::value(value.clone()),
            None => Refusal::NoSuchValue.into(),
        }
    }

    /// Returns the refusal of the document, which cannot be applied, with the files of sites: the
    /// supervisor knows the parts of the document only.
    pub fn not_applied(&self, problem: &str) -> Refusal {
        let detail = SitePlaces::of(&self.document).explain_line(problem);
        Refusal::NotApplied { detail }
    }

    /// Returns the document as it was sent: sites in place of the parts that were made from them.
    pub fn sent(&self) -> Cow<'_, Value> {
        match include::sent(&self.document) {
            Some(sent) => Cow::Owned(sent),
            None => Cow::Borrowed(&self.document),
        }
    }

    /// Makes the document that results from a change, without applying it.
    pub fn prepare(&self, change: Change) -> Result<Next, Refusal> {
        let steps = change.path().steps();
        if steps.first().is_some_and(|step| include::is_made_by_server(step)) {
            return Err(made_by_server());
        }
        let mut document = self.sent().into_owned();
        let is_compiled = document != self.document;
        let part = include::compiled_part(&self.document, &document, steps);
        let is_put = matches!(change, Change::Put { .. });
        if let Some(Compiled { part, from }) = part {
            // Parts of all sites may be defined by the document itself.
            let is_shared = from.rfind('/') == Some(0) && split_path(&part) == steps;
            if !(is_shared && is_put) {
                return Err(Refusal::MadeFromSite { part, from });
            }
        }
        if is_put {
            self.add_objects(&mut document, steps);
        }
        change.apply(&mut document)?;
        if is_compiled {
            let mut names = document.as_object().into_iter().flatten();
            if names.any(|(name, _)| include::is_made_by_server(name)) {
                return Err(made_by_server());
            }
        } else {
            let changed = include::changed(&self.document, &mut document);
            if !changed.is_empty() {
                let own = |(part, file): (&str, &str)| (part.to_owned(), file.to_owned());
                return Err(Refusal::Included { parts: changed.into_iter().map(own).collect() });
            }
        }
        let text = document.to_string().into_bytes();
        if include::has_sites(&document) {
            include::check_sent(&document).map_err(Refusal::InvalidConfiguration)?;
            return Ok(Next::Compile(text));
        }
        drop(document);
        self.prepared(text).map(|prepared| Next::Apply(Box::new(prepared)))
    }

    /// Adds objects that a path has, and that need not be in a document with sites.
    fn add_objects(&self, document: &mut Value, steps: &[String]) {
        let [first, _, ..] = steps else { return };
        let is_of_sites = self.document.get(first).is_some_and(Value::is_object);
        if let Some(members) = document.as_object_mut()
            && (is_of_sites || include::is_in_sites(steps))
        {
            members.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
        }
    }

    /// Makes the configuration of the text of a document whose sites are compiled.
    pub fn prepared(&self, text: Vec<u8>) -> Result<Prepared, Refusal> {
        // The document may exceed limits that each change is within, and a stored document must be
        // accepted at the next start.
        let document = json::parse(&text).map_err(too_much)?;
        Config::check(&document, &self.defaults)
            .map_err(|error| Refusal::InvalidConfiguration(howdah_advice::explained(error)))?;
        Ok(Prepared { text, store: Store { document, ..*self } })
    }

    /// Makes the configuration of the text of a source, without applying it.
    pub fn read(&self, text: Vec<u8>, origin: &str) -> Result<Prepared, Refusal> {
        let config = howdah_advice::parse(&text, &self.defaults).map_err(|problem| {
            let mistakes = include::explain(origin, &text, &problem);
            Refusal::InvalidSource { problem: Box::new(problem), mistakes }
        })?;
        let store = Store { document: config.document, ..*self };
        Ok(Prepared { text, store })
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

fn made_by_server() -> Refusal {
    let parts = vec![("/included".to_owned(), "the files of the document".to_owned())];
    Refusal::Included { parts }
}

/// Omits the position in the text, which the client has not sent.
fn too_much(problem: Error) -> Refusal {
    Refusal::DocumentTooLarge { detail: format!("after this change, {}", problem.message()) }
}
