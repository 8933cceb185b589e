//! What a document defines, so that references can be checked while it is read.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};
use crate::node::{Node, Shown, quoted};
use crate::suggest::nearest;
use crate::target::Target;

/// The named things of a document, before their own contents are known to be right.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    document: Option<&'a Map<String, Value>>,
}

impl<'a> Names<'a> {
    pub fn of(document: &'a Value) -> Names<'a> {
        Names { document: document.as_object() }
    }

    fn member(&self, section: &str) -> Option<&'a Value> {
        self.document?.get(section)
    }

    fn named(&self, section: &str) -> Option<&'a Map<String, Value>> {
        self.member(section)?.as_object()
    }

    /// The part of an application that a request is passed to: the application itself, or the target.
    fn application(&self, name: &str, target: Option<&str>) -> Option<&'a Map<String, Value>> {
        let application = self.named("applications")?.get(name)?.as_object()?;
        match target {
            None => Some(application),
            Some(target) => application.get("targets")?.as_object()?.get(target)?.as_object(),
        }
    }

    /// Whether requests to this application or target all run one script.
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

    /// Whether a FastCGI server runs this application.
    pub fn is_elsewhere(&self, name: &str) -> bool {
        let application = self.application(name, None);
        application.and_then(|app| app.get("type")).is_some_and(|kind| kind == "fastcgi")
    }

    /// What an upstream has that only HTTP servers understand.
    pub fn is_for_http(&self, upstream: &str) -> Option<&'static str> {
        let upstream = self.named("upstreams")?.get(upstream)?;
        let tls = upstream.get("tls").is_some_and(|tls| *tls != Value::Bool(false));
        let proxy_protocol = upstream.get("proxy_protocol").map(|_| "proxy_protocol");
        if tls { Some("tls") } else { proxy_protocol }
    }

    /// Checks that the document defines what `node` names.
    pub fn check(&self, node: &Node<'_>, target: &Target) -> Result<(), Error> {
        match target {
            Target::Route(None) => match self.member("routes") {
                Some(Value::Array(_)) => Ok(()),
                Some(_) => Err(unknown(node, "\"routes\" is an object, so its routes have names")
                    .with_hint("write \"routes/NAME\"")),
                None => Err(unknown(node, "the document has no \"routes\"")),
            },
            Target::Route(Some(name)) => match self.member("routes") {
                Some(Value::Array(_)) => {
                    Err(unknown(node, "\"routes\" is an array, so it has no names")
                        .with_hint("write \"routes\" alone"))
                }
                _ => self.check_named(node, "routes", "route", name),
            },
            Target::Upstream(name) => self.check_named(node, "upstreams", "upstream", name),
            Target::Application { name, target: None } => {
                self.check_named(node, "applications", "application", name)
            }
            Target::Application { name, target: Some(target) } => {
                self.check_named(node, "applications", "application", name)?;
                if self.application(name, Some(target)).is_some() {
                    return Ok(());
                }
                let targets = self
                    .application(name, None)
                    .and_then(|application| application.get("targets"))
                    .and_then(Value::as_object);
                let what =
                    format!("application \"{}\" has no target \"{}\"", Shown(name), Shown(target));
                Err(with_names(unknown(node, &what), target, targets))
            }
        }
    }

    fn check_named(
        &self,
        node: &Node<'_>,
        section: &str,
        what: &str,
        name: &str,
    ) -> Result<(), Error> {
        let members = self.named(section);
        if members.is_some_and(|members| members.contains_key(name)) {
            return Ok(());
        }
        let message = format!("there is no {what} \"{}\"", Shown(name));
        Err(with_names(unknown(node, &message), name, members))
    }
}

fn unknown(node: &Node<'_>, message: &str) -> Error {
    node.error(ErrorKind::UnknownTarget, message)
}

/// Adds the name that was meant, or the names there are.
fn with_names(error: Error, name: &str, members: Option<&Map<String, Value>>) -> Error {
    const FEW: usize = 8;
    let names = || members.into_iter().flat_map(Map::keys).map(String::as_str);
    if let Some(meant) = nearest(name, names()) {
        return error.with_hint(format!("did you mean \"{}\"?", Shown(meant)));
    }
    let few: Vec<&str> = names().filter(|name| name.len() <= 64).take(FEW + 1).collect();
    if few.is_empty() || few.len() > FEW {
        return error;
    }
    error.with_hint(format!("defined: {}", quoted(&few)))
}
