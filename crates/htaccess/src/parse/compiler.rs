//! Runs the directives of a tree in order.

use super::failure::Failure;
use super::section_kind::Kind;
use super::tree::Node;
use crate::allow::Allow;
use crate::budget;
use crate::config::{DirConfig, begin_directive};
use crate::directive::{self, Arguments, Directive, Place};
use crate::method::Methods;
use crate::registry;
use crate::words::Words;

/// Most words that a directive takes at once (Apache's `AP_MAX_ARGC`).
const MAX_WORDS: usize = 64;

/// The surroundings of a directive.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scope<'a> {
    pub section: Option<&'a [u8]>,
    pub methods: Option<&'a Methods>,
    pub parent: Option<&'a Node>,
    /// Classes that are allowed inside of a section of a module; `None` for all that are allowed
    /// outside.
    pub classes: Option<directive::Override>,
}

pub(super) struct Compiler<'a> {
    pub file: &'a str,
    pub directory: &'a [u8],
    pub allow: &'a Allow,
    pub warnings: Vec<String>,
}

impl Compiler<'_> {
    pub fn run(
        &mut self,
        nodes: &[Node],
        config: &mut DirConfig,
        scope: Scope<'_>,
    ) -> Result<(), Failure> {
        nodes.iter().try_for_each(|node| self.node(node, config, scope))
    }

    fn node(
        &mut self,
        node: &Node,
        config: &mut DirConfig,
        scope: Scope<'_>,
    ) -> Result<(), Failure> {
        if let Some(kind) = Kind::find(&node.name) {
            if !self.is_allowed(kind.name(), kind.class(), node, scope)? {
                return Ok(());
            }
            return self.section(kind, node, config, scope);
        }
        let directives = registry::find(&node.name);
        if directives.is_empty() {
            return self.unknown(node, scope);
        }
        for directive in directives {
            if self.is_allowed(directive.name, directive.class, node, scope)? {
                self.directive(directive, node, config, scope)?;
            }
        }
        Ok(())
    }

    fn unknown(&mut self, node: &Node, scope: Scope<'_>) -> Result<(), Failure> {
        let name = &node.name;
        if registry::is_server_only(name) {
            let class = directive::Override::NONE;
            return self.is_allowed(name, class, node, scope).map(|_| ());
        }
        let reason = "perhaps misspelled or defined by a module not included in the server \
                      configuration";
        if self.allow.ignores_unknown {
            self.warn(node, format!("Unknown directive {name} {reason}"));
            return Ok(());
        }
        Err(Failure::new(node.line, format!("Invalid command '{name}', {reason}")))
    }

    /// Returns true if `AllowOverride` permits a directive; false if it is ignored.
    pub fn is_allowed(
        &mut self,
        name: &str,
        class: directive::Override,
        node: &Node,
        scope: Scope<'_>,
    ) -> Result<bool, Failure> {
        let is_permitted = match scope.classes {
            Some(classes) => classes.intersects(class),
            None => self.allow.permits(name, class),
        };
        if is_permitted {
            return Ok(true);
        }
        if self.allow.ignores_forbidden {
            self.warn(node, format!("{name} in .htaccess forbidden by AllowOverride"));
            return Ok(false);
        }
        let text = match scope.parent {
            Some(parent) => format!("{name} not allowed in {}> context", parent.name),
            None => format!("{name} not allowed here"),
        };
        Err(Failure::new(node.line, text))
    }

    pub fn warn(&mut self, node: &Node, text: String) {
        self.warnings.push(format!("{}: line {}: {text}", self.file, node.line));
    }

    fn directive(
        &mut self,
        directive: &'static Directive,
        node: &Node,
        config: &mut DirConfig,
        scope: Scope<'_>,
    ) -> Result<(), Failure> {
        let fail = |text: String| Failure::new(node.line, text);
        let place = Place {
            file: self.file,
            line: node.line,
            directory: self.directory,
            section: scope.section,
            methods: scope.methods,
            options: self.allow.options,
        };
        call(directive, &node.arguments, config, &place).map_err(fail)?;
        if directive.name.starts_with('<') {
            let classes = Some(directive::Override::AUTH_CONFIG);
            self.run(&node.children, config, Scope { parent: Some(node), classes, ..scope })?;
            let end = format!("</{}>", &directive.name[1..]);
            for end in registry::find(&end) {
                (end.apply)(config, &place, &[]).map_err(fail)?;
            }
        }
        Ok(())
    }
}

/// Divides the arguments of a directive and calls its function.
fn call(
    directive: &Directive,
    arguments: &[u8],
    config: &mut DirConfig,
    place: &Place<'_>,
) -> Result<(), String> {
    let Directive { name, usage, apply, .. } = directive;
    let wrong = |number: &str| {
        let comma = if usage.is_empty() { "" } else { ", " };
        Err(format!("{name} {number}{comma}{usage}"))
    };
    let mut words = Words::new(arguments);
    let mut take = |limit: usize| {
        let mut taken = Vec::with_capacity(limit);
        while taken.len() < limit && !words.rest().is_empty() {
            taken.push(words.take());
        }
        (taken, words.rest().is_empty())
    };
    let mut apply = |words: &[Vec<u8>]| {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        budget::add_directive(begin_directive(&words))?;
        apply(config, place, &words)
    };
    let has = |words: &[Vec<u8>], count: usize| {
        words.len() >= count && words[..count].iter().all(|word| !word.is_empty())
    };
    match directive.arguments {
        Arguments::Raw => apply(&[arguments.to_vec()]),
        Arguments::None if arguments.is_empty() => apply(&[]),
        Arguments::None => Err(format!("{name} takes no arguments")),
        Arguments::One => match take(1) {
            (words, true) if has(&words, 1) => apply(&words),
            _ => wrong("takes one argument"),
        },
        Arguments::Two => match take(2) {
            (words, true) if has(&words, 2) => apply(&words),
            _ => wrong("takes two arguments"),
        },
        Arguments::Three => match take(3) {
            (words, true) if has(&words, 3) => apply(&words),
            _ => wrong("takes three arguments"),
        },
        Arguments::OneOrTwo => match take(2) {
            (mut words, true) if has(&words, 1) => {
                words.truncate(if has(&words, 2) { 2 } else { 1 });
                apply(&words)
            }
            _ => wrong("takes 1-2 arguments"),
        },
        Arguments::TwoOrThree => match take(3) {
            (words, true) if has(&words, 2) => apply(&words),
            _ => wrong("takes two or three arguments"),
        },
        Arguments::OneToThree => match take(3) {
            (words, true) if has(&words, 1) => apply(&words),
            _ => wrong("takes one, two or three arguments"),
        },
        Arguments::Each => {
            let words = Words::new(arguments).all();
            if words.is_empty() {
                return wrong("requires at least one argument");
            }
            words.into_iter().try_for_each(|word| apply(&[word]))
        }
        Arguments::EachAfterFirst => {
            let first = words.take();
            if first.is_empty() || words.rest().is_empty() {
                return wrong("requires at least two arguments");
            }
            words.all().into_iter().try_for_each(|word| apply(&[first.clone(), word]))
        }
        Arguments::Words => apply(&take(MAX_WORDS).0),
        Arguments::Flag => {
            let word = words.take().to_ascii_lowercase();
            if word != b"on" && word != b"off" {
                return Err(format!("{name} must be On or Off"));
            }
            apply(&[word])
        }
    }
}
