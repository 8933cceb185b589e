//! `mod_authz_core`, `mod_authz_host`, `mod_authz_user`, `mod_authz_owner`: `Require` and its
//! sections.
//!
//! [`authorize`] is the whole of Apache's access and authentication phases. The parser calls the
//! directives `<RequireAll` and `</RequireAll>` (with `Any` and `None`) around the lines of a
//! section; between them only directives of class `AuthConfig` may stand.

mod answer;
mod check;
mod phase;
mod provider;

use std::sync::Arc;

pub use answer::Answer;
pub use phase::authorize;

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Apply, Arguments, Directive, Override, Place, is_on};
use crate::method::Methods;
use crate::support::{covers, lossy, word};
use provider::Provider;

/// Largest nesting of sections.
const MAX_DEPTH: usize = 100;

/// The requirements.
#[derive(Debug, Clone, Default)]
pub struct Config {
    section: Option<Arc<Section>>,
    merging: Option<Merging>,
    forbidden_on_failure: Option<bool>,
    /// Sections that the parser has not closed yet, outermost first.
    open: Vec<Section>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Authz;

    fn merged(&self, child: &Config) -> Config {
        let forbidden_on_failure = child.forbidden_on_failure.or(self.forbidden_on_failure);
        let (section, merging) = match (child.merging, &child.section) {
            (None, None) => (self.section.clone(), self.merging),
            (None | Some(Merging::Off), _) => (child.section.clone(), child.merging),
            (Some(merging), section) => (self.combined(merging, section.as_ref()), child.merging),
        };
        Config { section, merging, forbidden_on_failure, open: Vec::new() }
    }

    fn is_constant(&self) -> bool {
        let is_granted = |node: &Node| match node {
            Node::Section(_) => false,
            Node::Require(require) => {
                matches!(require.provider, Provider::All(true))
                    && !require.is_negated
                    && require.methods.is_none()
            }
        };
        let is_open =
            |section: &Arc<Section>| !section.is_negated && section.children.iter().all(is_granted);
        self.section.as_ref().is_none_or(is_open)
    }
}

impl Config {
    fn combined(&self, merging: Merging, child: Option<&Arc<Section>>) -> Option<Arc<Section>> {
        let (Some(base), Some(child)) = (&self.section, child) else {
            return self.section.as_ref().or(child).cloned();
        };
        let is_and = merging == Merging::And;
        let children = vec![Node::Section(base.clone()), Node::Section(child.clone())];
        Some(Arc::new(Section { is_and, is_negated: false, children }))
    }

    /// Returns true if something is required for a method.
    pub fn covers(&self, method: &[u8]) -> bool {
        self.section.as_ref().is_some_and(|section| section.covers(method))
    }
}

const REQUIRE_ALL: &str = "container for grouping authorization directives of which none must \
                           fail and at least one must pass for a request to succeed";
const REQUIRE_ANY: &str = "container for grouping authorization directives of which one must pass \
                           for a request to succeed";
const REQUIRE_NONE: &str = "container for grouping authorization directives of which none must \
                            pass for a request to succeed";

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "Require",
        arguments: Arguments::Raw,
        class: Override::AUTH_CONFIG,
        usage: "specifies authorization directives which one must pass (or not) for a request to \
                suceeed",
        apply: require,
    },
    section("<RequireAll", REQUIRE_ALL, |config, _, line| {
        open(config, line, "<RequireAll", true, false)
    }),
    section("<RequireAny", REQUIRE_ANY, |config, _, line| {
        open(config, line, "<RequireAny", false, false)
    }),
    section("<RequireNone", REQUIRE_NONE, |config, _, line| {
        open(config, line, "<RequireNone", false, true)
    }),
    section("</RequireAll>", REQUIRE_ALL, |config, _, _| close(config)),
    section("</RequireAny>", REQUIRE_ANY, |config, _, _| close(config)),
    section("</RequireNone>", REQUIRE_NONE, |config, _, _| close(config)),
    Directive {
        name: "AuthMerging",
        arguments: Arguments::One,
        class: Override::AUTH_CONFIG,
        usage: "controls how a <Directory>, <Location>, or similar directive's authorization \
                directives are combined with those of its predecessor",
        apply: merging,
    },
    Directive {
        name: "AuthzSendForbiddenOnFailure",
        arguments: Arguments::Flag,
        class: Override::AUTH_CONFIG,
        usage: "Controls if an authorization failure should result in a '403 FORBIDDEN' response \
                instead of the HTTP-conforming '401 UNAUTHORIZED'",
        apply: forbidden_on_failure,
    },
];

const fn section(name: &'static str, usage: &'static str, apply: Apply) -> Directive {
    Directive { name, arguments: Arguments::Raw, class: Override::AUTH_CONFIG, usage, apply }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merging {
    Off,
    And,
    Or,
}

#[derive(Debug, Clone)]
struct Section {
    /// True for `<RequireAll>`; otherwise one child is enough.
    is_and: bool,
    is_negated: bool,
    children: Vec<Node>,
}

#[derive(Debug, Clone)]
enum Node {
    Section(Arc<Section>),
    Require(Arc<Require>),
}

#[derive(Debug)]
struct Require {
    provider: Provider,
    /// The line, for the log.
    text: String,
    is_negated: bool,
    methods: Option<Methods>,
}

impl Section {
    fn covers(&self, method: &[u8]) -> bool {
        self.children.iter().any(|child| child.covers(method))
    }

    fn name(&self) -> &'static str {
        match (self.is_and, self.is_negated) {
            (true, _) => "<RequireAll>",
            (false, false) => "<RequireAny>",
            (false, true) => "<RequireNone>",
        }
    }
}

impl Node {
    fn covers(&self, method: &[u8]) -> bool {
        match self {
            Node::Section(section) => section.covers(method),
            Node::Require(require) => covers(require.methods.as_ref(), method),
        }
    }
}

/// Returns the section that takes the next requirement: the innermost open one, or that of bare
/// lines.
fn current(config: &mut Config) -> &mut Section {
    match config.open.last_mut() {
        Some(section) => section,
        None => {
            let any =
                || Arc::new(Section { is_and: false, is_negated: false, children: Vec::new() });
            Arc::make_mut(config.section.get_or_insert_with(any))
        }
    }
}

fn require(config: &mut DirConfig, place: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let mut line = arguments.first().copied().unwrap_or_default();
    let mut name = word(&mut line);
    let is_negated = name.eq_ignore_ascii_case(b"not");
    if is_negated {
        name = word(&mut line);
    }
    let provider = Provider::parse(&name, line)?;
    let section = current(config.of_mut::<Config>());
    if is_negated && !section.is_and {
        return Err(format!(
            "negative Require directive has no effect in {} directive",
            section.name()
        ));
    }
    let not = if is_negated { "not " } else { "" };
    let text = format!("Require {not}{} {}", lossy(&name), lossy(line));
    let methods = place.methods.cloned();
    section.children.push(Node::Require(Arc::new(Require { provider, text, is_negated, methods })));
    Ok(())
}

fn open(
    config: &mut DirConfig,
    arguments: &[&[u8]],
    name: &str,
    is_and: bool,
    is_negated: bool,
) -> Result<(), String> {
    let line = arguments.first().copied().unwrap_or_default();
    let Some(end) = line.iter().rposition(|&byte| byte == b'>') else {
        return Err(format!("{name}> directive missing closing '>'"));
    };
    if end > 0 {
        return Err(format!("{name}> directive doesn't take additional arguments"));
    }
    if config.of::<Config>().open.len() >= MAX_DEPTH {
        return Err(format!("{name}> directives are nested too deeply"));
    }
    config.of_mut::<Config>().open.push(Section { is_and, is_negated, children: Vec::new() });
    Ok(())
}

fn close(config: &mut DirConfig) -> Result<(), String> {
    let config = config.of_mut::<Config>();
    let Some(section) = config.open.pop() else {
        return Err("no section of authorization directives is open".into());
    };
    if section.children.is_empty() {
        return Err(format!("{} directive contains no authorization directives", section.name()));
    }
    let parent = current(config);
    if section.is_negated && !parent.is_and {
        return Err(format!(
            "{} directive has no effect in {} directive",
            section.name(),
            parent.name()
        ));
    }
    if !section.is_negated && section.is_and == parent.is_and {
        parent.children.extend(section.children);
    } else {
        parent.children.push(Node::Section(Arc::new(section)));
    }
    Ok(())
}

fn merging(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let name = arguments.first().copied().unwrap_or_default();
    config.of_mut::<Config>().merging = Some(match name.to_ascii_lowercase().as_slice() {
        b"off" => Merging::Off,
        b"and" => Merging::And,
        b"or" => Merging::Or,
        _ => return Err("AuthMerging must be one of: Off | And | Or".into()),
    });
    Ok(())
}

fn forbidden_on_failure(
    config: &mut DirConfig,
    _: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    config.of_mut::<Config>().forbidden_on_failure = Some(is_on(arguments));
    Ok(())
}

#[cfg(test)]
mod tests;
