//! mod_rewrite: `RewriteEngine`, `RewriteOptions`, `RewriteBase`, `RewriteCond`, `RewriteRule`.
//!
//! Rules are compiled when the file is read: patterns, and texts with back-references as segments.
//! A request goes through [`fixup`] in the phase of fix-ups, with the rules of the deepest
//! directory that has any. A change by a rule starts a new request inside the server, which goes
//! through all phases again.

mod arguments;
mod condition;
mod constant;
mod cookie;
mod expand;
mod fixup;
mod outcome;
mod pass;
mod rule;
mod run;
mod template;
mod trace;
mod translate;
mod uri;

use std::sync::Arc;

pub(crate) use self::cookie::adopt as adopt_cookies;
pub use self::fixup::{fixup, force_type};
pub use self::outcome::Outcome;
pub(crate) use self::pass::END_NOTE;
pub use self::trace::{Event, Trace};
pub(crate) use self::translate::{Translation, translate};
use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place, is_on};
use crate::record::Record;

/// Maximum number of rules of a file.
const MAX_RULES: usize = 10_000;

/// Maximum number of conditions of a rule.
const MAX_CONDITIONS: usize = 1000;

/// Directives of a directory or a section, compiled.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// True if there is any directive of the module.
    is_present: bool,
    is_on: Option<bool>,
    options: Option<u16>,
    base: Option<Vec<u8>>,
    /// Directory of the rules, with a slash at the end.
    directory: Vec<u8>,
    /// Conditions of the next rule.
    conditions: Vec<condition::Condition>,
    rules: Vec<Arc<rule::Rule>>,
}

/// Bits of `RewriteOptions`.
mod option {
    pub const INHERIT: u16 = 1;
    pub const INHERIT_BEFORE: u16 = 1 << 1;
    pub const NO_SLASH: u16 = 1 << 2;
    pub const MERGE_BASE: u16 = 1 << 3;
    pub const INHERIT_DOWN: u16 = 1 << 4;
    pub const INHERIT_DOWN_BEFORE: u16 = 1 << 5;
    pub const IGNORE_INHERIT: u16 = 1 << 6;
    pub const IGNORE_CONTEXT_INFO: u16 = 1 << 7;
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Rewrite;

    fn merged(&self, child: &Config) -> Config {
        if !child.is_present || !self.is_present {
            return if child.is_present { child.clone() } else { self.clone() };
        }
        let options = child.options.or(self.options);
        let has = |options: Option<u16>, bit| options.unwrap_or(0) & bit != 0;
        let base = match &child.base {
            None if has(options, option::MERGE_BASE) => self.base.clone(),
            base => base.clone(),
        };
        let allows_down = !has(options, option::IGNORE_INHERIT);
        let inherits = |own, down| has(options, own) || has(self.options, down) && allows_down;
        let rules = if inherits(option::INHERIT, option::INHERIT_DOWN) {
            child.rules.iter().chain(&self.rules).cloned().collect()
        } else if inherits(option::INHERIT_BEFORE, option::INHERIT_DOWN_BEFORE) {
            self.rules.iter().chain(&child.rules).cloned().collect()
        } else {
            child.rules.clone()
        };
        Config {
            is_present: true,
            is_on: child.is_on.or(self.is_on),
            options,
            base,
            directory: child.directory.clone(),
            conditions: Vec::new(),
            rules,
        }
    }

    fn is_constant(&self) -> bool {
        self.is_on != Some(true) || self.rules.iter().all(|rule| rule.is_constant())
    }
}

impl Config {
    /// Returns the directives as those of the server, whose patterns see the whole path of the URL.
    pub(crate) fn of_server(&self) -> Config {
        Config { directory: Vec::new(), ..self.clone() }
    }

    /// Returns true if there are rules that apply.
    pub fn is_active(&self) -> bool {
        self.is_present && self.is_on == Some(true) && !self.rules.is_empty()
    }

    fn has(&self, bit: u16) -> bool {
        self.options.unwrap_or(0) & bit != 0
    }
}

/// Directives of the module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "RewriteEngine",
        arguments: Arguments::Flag,
        class: Override::FILE_INFO,
        usage: "On or Off to enable or disable (default) the whole rewriting engine",
        apply: rewrite_engine,
    },
    Directive {
        name: "RewriteOptions",
        arguments: Arguments::Each,
        class: Override::FILE_INFO,
        usage: "List of option strings to set",
        apply: rewrite_options,
    },
    Directive {
        name: "RewriteBase",
        arguments: Arguments::One,
        class: Override::FILE_INFO,
        usage: "the base URL of the per-directory context",
        apply: rewrite_base,
    },
    Directive {
        name: "RewriteCond",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: "an input string and a to be applied regexp-pattern",
        apply: rewrite_cond,
    },
    Directive {
        name: "RewriteRule",
        arguments: Arguments::Raw,
        class: Override::FILE_INFO,
        usage: "an URL-applied regexp-pattern and a substitution URL",
        apply: rewrite_rule,
    },
    Directive {
        name: "RewriteMap",
        arguments: Arguments::TwoOrThree,
        class: Override::NONE,
        usage: "a mapname and a filename and options",
        apply: |_, _, _| Err("RewriteMap not allowed here".to_owned()),
    },
];

/// Returns the module's part of a configuration, and remembers the directory.
fn config<'c>(config: &'c mut DirConfig, place: &Place<'_>) -> &'c mut Config {
    let config = config.of_mut::<Config>();
    if !config.is_present {
        config.is_present = true;
        // The rules of a section see the whole path: Apache takes the section's argument for a
        // directory.
        config.directory = place.section.unwrap_or(place.directory).to_vec();
        if !config.directory.ends_with(b"/") {
            config.directory.push(b'/');
        }
    }
    config
}

fn first<'a>(arguments: &[&'a [u8]]) -> &'a [u8] {
    arguments.first().copied().unwrap_or_default()
}

fn rewrite_engine(
    dir: &mut DirConfig,
    place: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    config(dir, place).is_on = Some(is_on(arguments));
    Ok(())
}

fn rewrite_options(
    dir: &mut DirConfig,
    place: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    let mut options = 0;
    for word in arguments {
        options |= match word.to_ascii_lowercase().as_slice() {
            b"inherit" => option::INHERIT,
            b"inheritbefore" => option::INHERIT_BEFORE,
            b"inheritdown" => option::INHERIT_DOWN,
            b"inheritdownbefore" => option::INHERIT_DOWN_BEFORE,
            b"ignoreinherit" => option::IGNORE_INHERIT,
            b"allownoslash" => option::NO_SLASH,
            b"mergebase" => option::MERGE_BASE,
            b"ignorecontextinfo" => option::IGNORE_CONTEXT_INFO,
            // Without effect on rules of a directory.
            b"allowanyuri" | b"legacyprefixdocroot" | b"unsafeprefixstat" => 0,
            word if word.starts_with(b"maxredirects=") => 0,
            _ => {
                let word = String::from_utf8_lossy(word);
                return Err(format!("RewriteOptions: unknown option '{word}'"));
            }
        };
    }
    let config = config(dir, place);
    config.options = Some(config.options.unwrap_or(0) | options);
    Ok(())
}

fn rewrite_base(dir: &mut DirConfig, place: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let base = first(arguments);
    match base.first() {
        None => return Err("RewriteBase: empty URL not allowed".to_owned()),
        Some(b'/') => {}
        Some(_) => return Err("RewriteBase: argument is not a valid URL".to_owned()),
    }
    config(dir, place).base = Some(base.to_vec());
    Ok(())
}

fn rewrite_cond(dir: &mut DirConfig, place: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let config = config(dir, place);
    if config.conditions.len() >= MAX_CONDITIONS {
        return Err(format!("RewriteCond: more than {MAX_CONDITIONS} conditions"));
    }
    config.conditions.push(condition::Condition::parse(first(arguments))?);
    Ok(())
}

fn rewrite_rule(dir: &mut DirConfig, place: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let config = config(dir, place);
    if config.rules.len() >= MAX_RULES {
        return Err(format!("RewriteRule: more than {MAX_RULES} rules"));
    }
    let conditions = std::mem::take(&mut config.conditions);
    config.rules.push(Arc::new(rule::Rule::parse(first(arguments), conditions, place)?));
    Ok(())
}

/// Returns true if a request, or one that was redirected to it, has a note.
fn has_note(record: &Record, name: &[u8]) -> bool {
    let mut next = Some(record);
    while let Some(record) = next {
        if record.notes.get(name).is_some() {
            return true;
        }
        next = record.previous.as_deref();
    }
    false
}

#[cfg(test)]
mod tests;
