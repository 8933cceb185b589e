//! Lookup of the definitions of a document, for checks of references while it is read.

use serde_json::{Map, Value};

use crate::suggest::nearest;

/// The name of the member with the files without which a document was read.
pub(crate) const LEFT_OUT: &str = "left_out";

/// The named objects of a document. Their contents are not checked yet.
#[derive(Clone, Copy)]
pub(crate) struct Definitions<'a> {
    document: Option<&'a Map<String, Value>>,
}

impl<'a> Definitions<'a> {
    pub fn of(document: &'a Value) -> Definitions<'a> {
        Definitions { document: document.as_object() }
    }

    /// Returns the value of a key of the document.
    pub fn section(&self, section: &str) -> Option<&'a Value> {
        self.document?.get(section)
    }

    /// Returns true if the document has a section of this name that is no object of names, or a key
    /// that looks like the section. Either is a mistake of its own, so names in the section are not
    /// checked.
    pub fn has_mistaken(&self, section: &str) -> bool {
        let Some(document) = self.document else { return false };
        match document.get(section) {
            Some(Value::Object(_)) => false,
            Some(Value::Array(_)) => section != "routes",
            Some(_) => true,
            None => document.keys().any(|key| nearest(key, [section]).is_some()),
        }
    }

    /// Returns true if a name that is missing may be that of a file that cannot be used.
    pub fn may_be_left_out(&self) -> bool {
        let files = self.section(LEFT_OUT).and_then(Value::as_object);
        files.is_some_and(|files| !files.is_empty())
    }

    /// Returns a section of the document that is an object of names.
    pub fn named(&self, section: &str) -> Option<&'a Map<String, Value>> {
        self.section(section)?.as_object()
    }

    /// Returns the object of an application or, with a target's name, of that target.
    pub fn application(&self, name: &str, target: Option<&str>) -> Option<&'a Map<String, Value>> {
        let application = self.named("applications")?.get(name)?.as_object()?;
        match target {
            None => Some(application),
            Some(target) => application.get("targets")?.as_object()?.get(target)?.as_object(),
        }
    }

    /// Returns true if all requests to this application or target run one script.
    pub fn has_script(&self, name: &str, target: Option<&str>) -> bool {
        let Some(part) = self.application(name, target) else { return false };
        // Without a target's name, the first target answers.
        match (target, part.get("targets").and_then(Value::as_object)) {
            (None, Some(targets)) => {
                targets.values().next().is_some_and(|first| first.get("script").is_some())
            }
            _ => part.contains_key("script"),
        }
    }

    /// Returns true if a FastCGI server runs this application.
    pub fn is_fastcgi(&self, name: &str) -> bool {
        let application = self.application(name, None);
        application.and_then(|app| app.get("type")).is_some_and(|kind| kind == "fastcgi")
    }

    /// Returns the key of an upstream that only HTTP servers understand, if it has one.
    pub fn http_only_key(&self, upstream: &str) -> Option<&'static str> {
        let upstream = self.named("upstreams")?.get(upstream)?;
        let tls = upstream.get("tls").is_some_and(|tls| *tls != Value::Bool(false));
        let proxy_protocol = upstream.get("proxy_protocol").map(|_| "proxy_protocol");
        let http2 = upstream.get("http2").is_some_and(|on| *on == Value::Bool(true));
        match () {
            () if tls => Some("tls"),
            () if http2 => Some("http2"),
            () if upstream.get("health").is_some() => Some("health"),
            () => proxy_protocol,
        }
    }
}
