//! Servers and locations, and the place at which a part of the configuration is converted.

use std::rc::Rc;

use super::pcre::{self, Expression};
use super::reader::Directive;
use super::scope::Scope;

/// How the name of a location is compared with paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `=`
    Exact,
    /// Without a sign.
    Prefix,
    /// `^~`: expressions do not count.
    Forced,
    /// `~` and `~*`; `None` if the expression has no equivalent.
    Regex {
        /// The expression in the syntax of Howdah.
        expression: Option<Expression>,
        /// An expression that matches at least as much.
        superset: Option<Expression>,
    },
    /// `@`
    Named,
}

/// A location.
#[derive(Debug)]
pub struct Location<'t> {
    /// The directive `location`.
    pub directive: &'t Directive,
    /// How the name is compared with the path.
    pub kind: Kind,
    /// Name of the location, without the sign in front.
    pub name: String,
    /// Locations within this location.
    pub inner: Vec<Rc<Location<'t>>>,
    /// Directives of the location, and those that it inherits.
    pub scope: Scope<'t>,
}

/// A server.
#[derive(Debug)]
pub struct Site<'t> {
    /// The directive `server`.
    pub directive: &'t Directive,
    /// Directives of the server, and those that it inherits.
    pub scope: Scope<'t>,
    /// Name of its routes.
    pub name: String,
    /// The first of its names, as `$server_name` has it.
    pub server_name: String,
    /// Its locations.
    pub locations: Vec<Rc<Location<'t>>>,
    /// Clients cannot ask for some of its locations.
    pub has_internal: bool,
    /// It rewrites requests before it chooses a location.
    pub has_rewrites: bool,
}

/// The place at which a part of the configuration is converted.
#[derive(Debug, Clone)]
pub struct Place<'t> {
    /// The directives that hold.
    pub scope: Scope<'t>,
    /// The server.
    pub site: Option<Rc<Site<'t>>>,
    /// The location.
    pub location: Option<Rc<Location<'t>>>,
    /// See [`Site::server_name`].
    pub server_name: String,
    /// Suffix of the names of the routes that choose a location.
    pub variant: String,
}

impl<'t> Site<'t> {
    /// The route of requests of clients.
    pub fn entry(&self) -> String {
        self.name.clone()
    }

    /// The route of internal redirects, by which nginx begins with the server's own directives.
    pub fn internal_entry(&self) -> String {
        if self.has_internal { format!("{}-internal", self.name) } else { self.name.clone() }
    }

    /// The route that chooses the location.
    pub fn selection(&self, is_internal: bool, variant: &str) -> String {
        let name = &self.name;
        match (self.has_rewrites, is_internal && self.has_internal) {
            (false, false) => format!("{name}{variant}"),
            (false, true) => format!("{name}{variant}-internal"),
            (true, false) => format!("{name}-locations{variant}"),
            (true, true) => format!("{name}-locations{variant}-internal"),
        }
    }
}

impl<'t> Place<'t> {
    /// The place of a server.
    pub fn of_site(site: &Rc<Site<'t>>) -> Self {
        Self {
            scope: site.scope.clone(),
            site: Some(Rc::clone(site)),
            location: None,
            server_name: site.server_name.clone(),
            variant: String::new(),
        }
    }

    /// The place of a location.
    pub fn in_location(&self, location: &Rc<Location<'t>>) -> Self {
        Self { scope: location.scope.clone(), location: Some(Rc::clone(location)), ..self.clone() }
    }

    /// The same place with the directives of an inner block.
    pub fn with_scope(&self, scope: Scope<'t>) -> Self {
        Self { scope, ..self.clone() }
    }

    /// The name of the location for comparisons with paths; empty in a server.
    pub fn prefix(&self) -> &str {
        match &self.location {
            Some(location)
                if matches!(location.kind, Kind::Exact | Kind::Prefix | Kind::Forced) =>
            {
                &location.name
            }
            _ => "",
        }
    }
}

impl<'t> Location<'t> {
    /// Reads the locations of a block.
    pub fn read_all(scope: &Scope<'t>) -> Result<Vec<Rc<Location<'t>>>, crate::Error> {
        let mut found: Vec<Rc<Location<'t>>> = Vec::new();
        for directive in scope.own_all("location") {
            let location = Self::read(directive, scope)?;
            let is_same = |other: &Rc<Location<'_>>| {
                let is_plain = |kind: &Kind| matches!(kind, Kind::Prefix | Kind::Forced);
                other.name == location.name
                    && match (&other.kind, &location.kind) {
                        (Kind::Exact, Kind::Exact) | (Kind::Named, Kind::Named) => true,
                        (one, other) => is_plain(one) && is_plain(other),
                    }
            };
            if found.iter().any(is_same) {
                let message = format!("there is another location \"{}\"", location.name);
                return Err(directive.error(message));
            }
            found.push(Rc::new(location));
        }
        Ok(found)
    }

    fn read(directive: &'t Directive, scope: &Scope<'t>) -> Result<Location<'t>, crate::Error> {
        let regex = |text: &str, any_case| Kind::Regex {
            expression: pcre::convert(text, any_case),
            superset: pcre::superset(text, any_case),
        };
        let (kind, name) = match directive.args.as_slice() {
            [sign, name] => match sign.as_str() {
                "=" => (Kind::Exact, name.as_str()),
                "^~" => (Kind::Forced, name.as_str()),
                "~" => (regex(name, false), name.as_str()),
                "~*" => (regex(name, true), name.as_str()),
                _ => return Err(directive.error(format!("\"{sign}\" is no sign of a location"))),
            },
            [name] => {
                // The sign may stand in front of the name without a space.
                if let Some(name) = name.strip_prefix('=') {
                    (Kind::Exact, name)
                } else if let Some(name) = name.strip_prefix("^~") {
                    (Kind::Forced, name)
                } else if let Some(name) = name.strip_prefix("~*") {
                    (regex(name, true), name)
                } else if let Some(name) = name.strip_prefix('~') {
                    (regex(name, false), name)
                } else if name.starts_with('@') {
                    (Kind::Named, name.as_str())
                } else {
                    (Kind::Prefix, name.as_str())
                }
            }
            _ => return Err(directive.error("a location must have a name")),
        };
        let own = scope.inner(directive.children());
        let inner = Self::read_all(&own)?;
        for location in &inner {
            let is_plain = |kind: &Kind| matches!(kind, Kind::Exact | Kind::Prefix | Kind::Forced);
            if location.kind == Kind::Named || kind == Kind::Exact || kind == Kind::Named {
                return Err(location.directive.error("this location cannot stand in that one"));
            }
            // nginx compares with the text of an expression, too.
            if is_plain(&location.kind) && !location.name.starts_with(name) {
                let message = format!("\"{}\" is outside of \"{name}\"", location.name);
                return Err(location.directive.error(message));
            }
        }
        Ok(Location { directive, kind, name: name.to_owned(), inner, scope: own })
    }

    /// Returns true if clients cannot ask for it, or for a location around it.
    pub fn is_internal(&self) -> bool {
        self.scope.one("internal").is_some()
    }
}
