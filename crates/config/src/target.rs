//! Targets of requests: `pass` of listeners and actions, `scripts` of shares.

use std::fmt;

use howdah_template::{Part, Template};
use howdah_text::percent;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};
use crate::node::{Node, Shown, quoted};
use crate::suggest::nearest;
use crate::templates;

/// A part of the document to which requests are passed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// `routes`, or `routes/NAME` where the routes have names.
    Route(Option<String>),
    /// `applications/NAME` or `applications/NAME/TARGET`; without a target, an application with
    /// targets uses the first.
    Application {
        /// The application's name.
        name: String,
        /// The name of one of its targets.
        target: Option<String>,
    },
    /// `upstreams/NAME`.
    Upstream(String),
    /// `streams/NAME`, for connections that are no requests.
    Stream(String),
    /// `mail/NAME`, for connections of mail.
    Mail(String),
    /// The metrics of the server, for its own listener. No document names it.
    Metrics,
    /// Whether the server lives and is ready, for its own listener. No document names it.
    Probes,
}

/// The value of a `pass`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pass {
    /// A target that the document defines.
    Fixed(Target),
    /// A template, whose text for a request is read with [`Target::parse`].
    Variable(Template),
}

impl Target {
    /// Reads `routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET`,
    /// `upstreams/NAME`, `streams/NAME` or `mail/NAME`. Names are percent-decoded, so that `%2F` stands for a slash in a name.
    /// `None` for anything else.
    pub fn parse(text: &str) -> Option<Target> {
        let mut segments = text.split('/');
        let mut next = || match segments.next() {
            None => Some(None),
            Some("") => None,
            Some(segment) => percent::decode(segment.as_bytes())
                .and_then(|name| String::from_utf8(name).ok())
                .map(Some),
        };
        let (first, second, third) = (next()?, next()?, next()?);
        if segments.next().is_some() {
            return None;
        }
        match (first?.as_str(), second, third) {
            ("routes", name, None) => Some(Target::Route(name)),
            ("applications", Some(name), target) => Some(Target::Application { name, target }),
            ("upstreams", Some(name), None) => Some(Target::Upstream(name)),
            ("streams", Some(name), None) => Some(Target::Stream(name)),
            ("mail", Some(name), None) => Some(Target::Mail(name)),
            _ => None,
        }
    }

    /// Reads a target of requests that the document defines.
    fn read(node: &Node<'_>, text: &str) -> Result<Target, Error> {
        match Target::read_any(node, text)? {
            Target::Stream(_) | Target::Mail(_) => Err(names_nothing(node, text, FORMS)),
            target => Ok(target),
        }
    }

    /// Reads a target of requests or connections that the document defines.
    fn read_any(node: &Node<'_>, text: &str) -> Result<Target, Error> {
        let Some(target) = Target::parse(text) else {
            return Err(names_nothing(node, text, FORMS));
        };
        target.check(node)?;
        Ok(target)
    }

    /// Checks that the document defines the target, which `node` names, or that a file may define
    /// it that cannot be used.
    pub(crate) fn check(&self, node: &Node<'_>) -> Result<(), Error> {
        if node.scope.definitions.may_be_left_out() { Ok(()) } else { self.check_defined(node) }
    }

    /// Checks that the document defines the target, which `node` names.
    pub(crate) fn check_defined(&self, node: &Node<'_>) -> Result<(), Error> {
        let definitions = &node.scope.definitions;
        let section = match self {
            Target::Route(_) => "routes",
            Target::Application { .. } => "applications",
            Target::Upstream(_) => "upstreams",
            Target::Stream(_) => "streams",
            Target::Mail(_) => "mail",
            Target::Metrics | Target::Probes => return Ok(()),
        };
        if definitions.has_mistaken(section) {
            return Ok(());
        }
        match self {
            Target::Route(None) => match definitions.section("routes") {
                Some(Value::Array(_)) => Ok(()),
                Some(_) => {
                    Err(undefined(node, "\"routes\" is an object, so its routes have names")
                        .with_hint("write \"routes/NAME\""))
                }
                None => Err(undefined(node, "the document has no \"routes\"")),
            },
            Target::Route(Some(name)) => match definitions.section("routes") {
                Some(Value::Array(_)) => {
                    Err(undefined(node, "\"routes\" is an array, so it has no names")
                        .with_hint("write \"routes\" alone"))
                }
                _ => check_name(node, "routes", "route", name),
            },
            Target::Metrics | Target::Probes => Ok(()),
            Target::Upstream(name) => check_name(node, "upstreams", "upstream", name),
            Target::Stream(name) => check_name(node, "streams", "stream", name),
            Target::Mail(name) => check_name(node, "mail", "proxy of mail", name),
            Target::Application { name, target: None } => {
                check_name(node, "applications", "application", name)
            }
            Target::Application { name, target: Some(target) } => {
                check_name(node, "applications", "application", name)?;
                if definitions.application(name, Some(target)).is_some() {
                    return Ok(());
                }
                let application = definitions.application(name, None);
                let targets = application.and_then(|application| application.get("targets"));
                let is_mistaken = |targets: &Value| {
                    targets.as_object().is_none_or(|targets| targets.contains_key(target))
                };
                if application.is_none() || targets.is_some_and(is_mistaken) {
                    return Ok(()); // it is a mistake of the application, which is told there
                }
                let message =
                    format!("application \"{}\" has no target \"{}\"", Shown(name), Shown(target));
                let targets = targets.and_then(Value::as_object);
                Err(with_defined_names(undefined(node, &message), target, targets))
            }
        }
    }

    /// Reads an application without a target, and returns its name.
    pub(crate) fn read_application(node: &Node<'_>) -> Result<String, Error> {
        match Target::read(node, node.string()?)? {
            Target::Application { name, .. } if node.scope.definitions.is_fastcgi(&name) => Err(
                node.invalid(
                    "must name an application that runs here, and this one is of type \"fastcgi\"",
                )
                .with_hint("PHP-FPM's own status page tells: pass its \"pm.status_path\" to it"),
            ),
            Target::Application { name, target: None } => Ok(name),
            _ => Err(node
                .invalid("must name an application as a whole")
                .with_hint("write \"applications/NAME\"")),
        }
    }

    /// Reads a route.
    pub(crate) fn read_route(node: &Node<'_>) -> Result<Target, Error> {
        match Target::read(node, node.string()?)? {
            target @ Target::Route(_) => Ok(target),
            _ => Err(node
                .invalid("must name a route")
                .with_hint("write \"routes\" or \"routes/NAME\"")),
        }
    }

    /// Reads the target of a share's `scripts`: an application that runs the requested script.
    fn read_scripts(node: &Node<'_>, text: &str) -> Result<Target, Error> {
        if Target::parse(text).is_none() {
            return Err(names_nothing(node, text, APPLICATION_FORMS));
        }
        let target = Target::read(node, text)?;
        let Target::Application { name, target: part } = &target else {
            return Err(node.invalid("must name an application").with_hint(APPLICATION_FORMS));
        };
        if node.scope.definitions.has_script(name, part.as_deref()) {
            return Err(node
                .invalid("must name an application or target without \"script\"")
                .with_hint(format!(
                    "with one, that script would run instead of the file that was found; write \
                     \"fallback\": {{\"pass\": \"{}\"}} for that script, and name an application \
                     or target without one here",
                    Shown(text)
                )));
        }
        Ok(target)
    }
}

impl fmt::Display for Target {
    /// Writes the form that [`Target::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (section, name, target) = match self {
            Target::Route(name) => ("routes", name.as_deref(), None),
            Target::Application { name, target } => {
                ("applications", Some(name.as_str()), target.as_deref())
            }
            Target::Upstream(name) => ("upstreams", Some(name.as_str()), None),
            Target::Stream(name) => ("streams", Some(name.as_str()), None),
            Target::Mail(name) => ("mail", Some(name.as_str()), None),
            Target::Metrics => ("metrics", None, None),
            Target::Probes => ("probes", None, None),
        };
        f.write_str(section)?;
        for name in [name, target].into_iter().flatten() {
            write!(f, "/{}", name.replace('%', "%25").replace('/', "%2F"))?;
        }
        Ok(())
    }
}

impl Pass {
    pub(crate) fn read(node: &Node<'_>) -> Result<Pass, Error> {
        let template = templates::read(node)?;
        match template.constant() {
            Some(text) => Target::read(node, text).map(Pass::Fixed),
            None => Ok(Pass::Variable(template)),
        }
    }

    /// Reads `pass` of a listener, which may name a target of connections.
    pub(crate) fn read_of_listener(node: &Node<'_>) -> Result<Pass, Error> {
        let template = templates::read(node)?;
        match template.constant() {
            Some(text) => Target::read_any(node, text).map(Pass::Fixed),
            None => Ok(Pass::Variable(template)),
        }
    }

    /// Reads `pass` of a step of `streams`.
    pub(crate) fn read_of_stream(node: &Node<'_>) -> Result<Pass, Error> {
        let text = node.string()?;
        if Target::parse(text).is_none() {
            return Err(names_nothing(node, text, STREAM_FORMS));
        }
        Target::read_any(node, text).map(Pass::Fixed)
    }

    /// Reads `scripts` of a share: an application, whose name may depend on the request.
    pub(crate) fn read_scripts(node: &Node<'_>) -> Result<Pass, Error> {
        let template = templates::read(node)?;
        match template.constant() {
            Some(text) => Target::read_scripts(node, text).map(Pass::Fixed),
            None => match template.parts().first() {
                Some(Part::Literal(start)) if start.starts_with("applications/") => {
                    Ok(Pass::Variable(template))
                }
                _ => Err(node
                    .invalid("must name an application")
                    .with_hint("write \"applications/\" in front of the variable")),
            },
        }
    }

    /// Returns the name of the application, if it is one and does not depend on the request.
    pub fn application(&self) -> Option<&str> {
        match self {
            Pass::Fixed(Target::Application { name, .. }) => Some(name),
            _ => None,
        }
    }
}

/// Returns the error for a text that is no target; `forms` has the forms that it may have. A name
/// without its section gets the section in which it is defined.
fn names_nothing(node: &Node<'_>, text: &str, forms: &str) -> Error {
    let message = format!("\"{}\" names nothing that takes requests", Shown(text));
    let error = node.error(ErrorKind::InvalidValue, message);
    let name = text.to_owned();
    let targets = [
        ("applications", Target::Application { name: name.clone(), target: None }),
        ("upstreams", Target::Upstream(name.clone())),
        ("routes", Target::Route(Some(name))),
    ];
    let is_defined = |section: &str| {
        node.scope.definitions.named(section).is_some_and(|members| members.contains_key(text))
    };
    let (section, rest) = text.split_once('/').unwrap_or((text, ""));
    if let Some(meant) = nearest(section, ["routes", "applications", "upstreams"])
        && meant != section
        && forms.contains(meant)
    {
        let slash = if rest.is_empty() { "" } else { "/" };
        return error.with_hint(format!("did you mean \"{meant}{slash}{}\"?", Shown(rest)));
    }
    match targets.into_iter().find(|(section, _)| forms.contains(section) && is_defined(section)) {
        Some((_, target)) => error.with_hint(format!("write \"{}\"", Shown(&target.to_string()))),
        None => error.with_hint(forms),
    }
}

/// Checks that a section of the document has this name; `noun` is its noun in messages.
fn check_name(node: &Node<'_>, section: &str, noun: &str, name: &str) -> Result<(), Error> {
    let members = node.scope.definitions.named(section);
    if members.is_some_and(|members| members.contains_key(name)) {
        return Ok(());
    }
    let message = format!("there is no {noun} \"{}\"", Shown(name));
    Err(with_defined_names(undefined(node, &message), name, members))
}

fn undefined(node: &Node<'_>, message: &str) -> Error {
    node.error(ErrorKind::UnknownTarget, message)
}

/// Adds a hint: the nearest of the defined names, or all of them if they are few.
fn with_defined_names(error: Error, name: &str, members: Option<&Map<String, Value>>) -> Error {
    const MAX_LISTED: usize = 8;
    const MAX_LISTED_BYTES: usize = 64;
    let names = || members.into_iter().flat_map(Map::keys).map(String::as_str);
    if let Some(meant) = nearest(name, names()) {
        return error.with_hint(format!("did you mean \"{}\"?", Shown(meant)));
    }
    let short = names().filter(|name| name.len() <= MAX_LISTED_BYTES);
    let listed: Vec<&str> = short.take(MAX_LISTED + 1).collect();
    if listed.is_empty() || listed.len() > MAX_LISTED {
        return error;
    }
    error.with_hint(format!("defined: {}", quoted(&listed)))
}

const FORMS: &str = "write \"routes\", \"routes/NAME\", \"applications/NAME\", \
                     \"applications/NAME/TARGET\" or \"upstreams/NAME\"";
const STREAM_FORMS: &str = "write \"upstreams/NAME\" or \"streams/NAME\"";
const APPLICATION_FORMS: &str = "write \"applications/NAME\" or \"applications/NAME/TARGET\"";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application(name: &str, target: Option<&str>) -> Option<Target> {
        Some(Target::Application { name: name.to_owned(), target: target.map(str::to_owned) })
    }

    #[test]
    fn names_are_percent_decoded_so_that_they_may_hold_a_slash() {
        assert_eq!(Target::parse("routes"), Some(Target::Route(None)));
        assert_eq!(Target::parse("routes/a%2Fb"), Some(Target::Route(Some("a/b".to_owned()))));
        assert_eq!(Target::parse("applications/blog"), application("blog", None));
        assert_eq!(Target::parse("applications/%25/x"), application("%", Some("x")));
        assert_eq!(Target::parse("upstreams/u"), Some(Target::Upstream("u".to_owned())));
    }

    #[test]
    fn up_to_eight_names_that_exist_are_listed_for_one_that_does_not() {
        let message = |count: usize, name: &str| {
            let routes: Map<String, Value> = (0..count)
                .map(|number| (format!("{name}{number}"), json!([{"action": {"return": 200}}])))
                .collect();
            let listeners = json!({"*:80": {"pass": "routes/zzz"}});
            let document = json!({"listeners": listeners, "routes": routes});
            crate::Config::from_value(document).unwrap_err().to_string()
        };
        assert!(message(8, "area").contains("defined: \"area0\""), "{}", message(8, "area"));
        for (count, name) in [(0, "area"), (9, "area"), (20, "area"), (3, &*"a".repeat(65))] {
            assert!(!message(count, name).contains("defined:"), "{count} {name}");
        }
    }

    #[test]
    fn other_forms_name_nothing() {
        for text in [
            "",
            "/",
            "routes/",
            "routes//a",
            "routes/a/b",
            "applications",
            "applications/",
            "blog",
            "applications/a/b/c",
            "applications/a/",
            "upstreams",
            "upstreams/a/b",
            "routes/%",
            "routes/%2",
            "routes/%zz",
            "routes/%ff",
            "Routes",
        ] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_written_form_reads_back() {
        for text in ["routes", "routes/a%2Fb", "applications/%25/x", "upstreams/u"] {
            let target = Target::parse(text).expect(text);
            assert_eq!(target.to_string(), text);
        }
    }
}
