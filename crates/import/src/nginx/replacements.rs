//! `proxy_redirect` and `proxy_cookie_…`: what replaces parts of addresses and cookies of responses.

use serde_json::Value;

use super::context::Place;
use super::convert::Converter;
use super::pcre::{self, NO_EQUIVALENT};
use super::proxy::Destination;
use super::reader::Directive;
use super::state::{Captures, State};
use super::template::Template;
use super::variables::{Object, Reason};
use crate::Status;

impl<'t> Converter<'_> {
    /// Adds `rewrite_location` to the options of an upstream.
    pub fn redirects(
        &mut self,
        destination: &Destination,
        place: &Place<'t>,
        state: &State,
        options: &mut Object,
    ) {
        let scheme = if destination.is_tls { "https" } else { "http" };
        let own = format!("{scheme}://{}", destination.authority);
        let default = || match (&destination.path, place.prefix()) {
            (Some(path), prefix) if !destination.has_variables && !prefix.is_empty() => {
                path.constant().map(|path| (format!("{own}{path}"), prefix.to_owned()))
            }
            _ => Some((format!("{own}/"), "/".to_owned())),
        };
        let directives = place.scope.all("proxy_redirect");
        let mut replacements = Object::new();
        if directives.is_empty()
            && let Some((from, to)) = default()
        {
            replacements.insert(from, to.into());
        }
        for directive in directives {
            match directive.args.as_slice() {
                [word] if word == "off" => {
                    self.report.converted(directive.id);
                    options.insert("rewrite_location".to_owned(), false.into());
                    return;
                }
                [word] if word == "default" => {
                    self.report.converted(directive.id);
                    if let Some((from, to)) = default() {
                        replacements.entry(from).or_insert(to.into());
                    }
                }
                _ => self.replacement(directive, place, state, &mut replacements),
            }
        }
        // Without a path of its own, the server's address is removed in any case.
        let is_plain = self.upstream_block(&destination.authority).is_none()
            && replacements.len() == 1
            && replacements.get(&format!("{own}/")).and_then(Value::as_str) == Some("/");
        if !is_plain && !replacements.is_empty() {
            options.insert("rewrite_location".to_owned(), replacements.into());
        }
    }

    /// Adds what changes cookies to the options of an upstream.
    pub fn cookies(&mut self, place: &Place<'t>, state: &State, options: &mut Object) {
        for (name, key) in
            [("proxy_cookie_domain", "cookie_domain"), ("proxy_cookie_path", "cookie_path")]
        {
            let mut replacements = Object::new();
            for directive in place.scope.all(name) {
                match directive.args.as_slice() {
                    [word] if word == "off" => self.report.converted(directive.id),
                    _ => self.replacement(directive, place, state, &mut replacements),
                }
            }
            if !replacements.is_empty() {
                options.insert(key.to_owned(), replacements.into());
            }
        }
        let mut flags = Object::new();
        for directive in place.scope.all("proxy_cookie_flags") {
            if directive.args.len() == 1 && directive.arg(0) == "off" {
                self.report.converted(directive.id);
                continue;
            }
            match self.cookie_flags(directive, place, state) {
                Ok((name, values)) => {
                    self.report.converted(directive.id);
                    // The first directive that has the name counts.
                    flags.entry(name).or_insert(values.into());
                }
                Err(reason) => self.report.mark(directive.id, Status::NotConverted, reason),
            }
        }
        if !flags.is_empty() {
            options.insert("cookie_flags".to_owned(), flags.into());
        }
    }

    /// Adds the replacement that a directive of two arguments says.
    fn replacement(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
        replacements: &mut Object,
    ) {
        match self.read_replacement(directive, place, state) {
            Ok((from, to)) => {
                self.report.converted(directive.id);
                // The first one of the directives counts.
                replacements.entry(from).or_insert(to.into());
            }
            Err(reason) => self.report.mark(directive.id, Status::NotConverted, reason),
        }
    }

    fn read_replacement(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Result<(String, String), Reason> {
        let (from, to) = (directive.arg(0), directive.arg(1));
        let Some(regex) = from.strip_prefix('~') else {
            let from = self.value(from, place, state)?;
            if from.constant().is_none() {
                return Err("the text to replace has variables".to_owned());
            }
            return Ok((from.render(), self.value(to, place, state)?.render()));
        };
        let (regex, any_case) = match regex.strip_prefix('*') {
            Some(regex) => (regex, true),
            None => (regex, false),
        };
        let expression = pcre::convert(regex, any_case)
            .filter(|expression| expression.excluded.is_empty())
            .ok_or(NO_EQUIVALENT)?;
        let key = format!("~{}", expression.text);
        let mut inner = state.clone();
        let captures = Captures { subject: Template::default(), expression, is_direct: true };
        self.set_captures(&mut inner, captures);
        Ok((key, self.value(to, place, &inner)?.render()))
    }

    /// Reads a name or an expression of cookies, and the flags that they get.
    fn cookie_flags(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Result<(String, Vec<Value>), Reason> {
        let Some((name, flags)) = directive.args.split_first() else {
            return Err("it has no name of a cookie".to_owned());
        };
        let name = match name.strip_prefix('~') {
            Some(regex) => {
                let expression = pcre::convert(regex, true)
                    .filter(|expression| expression.excluded.is_empty())
                    .ok_or(NO_EQUIVALENT)?;
                format!("~{}", expression.text)
            }
            None => {
                let name = self.value(name, place, state)?;
                let name = name.constant().ok_or("the name of the cookie has variables")?;
                // Other characters would have a meaning in a pattern.
                let is_plain =
                    name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
                if is_plain { name.to_owned() } else { format!("~(?i)^{}$", pcre::escape(name)) }
            }
        };
        let mut values = Vec::new();
        for flag in flags {
            let flag = flag.to_ascii_lowercase();
            if !COOKIE_FLAGS.contains(&flag.as_str()) {
                return Err(format!("\"{flag}\" is no flag of a cookie"));
            }
            values.push(flag.into());
        }
        Ok((name, values))
    }
}

/// Flags of cookies, which have the same names in a document.
const COOKIE_FLAGS: [&str; 8] = [
    "secure",
    "nosecure",
    "httponly",
    "nohttponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
    "nosamesite",
];
