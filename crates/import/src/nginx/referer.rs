//! `valid_referers`: the variable `$invalid_referer`.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::pcre;
use super::template::Template;
use super::variables::{Object, Reason};

impl Converter<'_> {
    /// Returns a template that is empty if the field `Referer` is valid.
    pub fn invalid_referer(&mut self, place: &Place<'_>) -> Result<Template, Reason> {
        let directives = place.scope.all("valid_referers");
        if directives.is_empty() {
            return Ok(Template::default());
        }
        let mut values = Object::new();
        let (mut has_none, mut has_blocked) = (false, false);
        let mut valid = Vec::new();
        for directive in &directives {
            for arg in &directive.args {
                match arg.as_str() {
                    "none" => has_none = true,
                    "blocked" => has_blocked = true,
                    "server_names" => {
                        let names = place
                            .site
                            .as_ref()
                            .map(|site| site.scope.own_all("server_name"))
                            .unwrap_or_default();
                        for name in names.iter().flat_map(|directive| &directive.args) {
                            valid.push(pattern(name)?);
                        }
                    }
                    name => valid.push(pattern(name)?),
                }
            }
        }
        values.insert("~^$".to_owned(), invalid(!has_none));
        for pattern in valid {
            values.insert(pattern, "".into());
        }
        values.insert("~(?i)^https?://".to_owned(), "1".into());
        for directive in directives {
            self.report.converted(directive.id);
        }
        let default = if has_blocked { "" } else { "1" };
        let definition = json!({ "map": "$header_referer", "values": values, "default": default });
        Ok(Template::variable(&self.define("invalid_referer", definition)))
    }
}

fn invalid(is_invalid: bool) -> Value {
    if is_invalid { "1".into() } else { "".into() }
}

/// Returns the pattern of a whole field for a name in the directive.
fn pattern(name: &str) -> Result<String, Reason> {
    const START: &str = "(?i)^https?://";
    if let Some(regex) = name.strip_prefix('~') {
        let expression =
            pcre::convert(regex, false).filter(|expression| expression.excluded.is_empty());
        let expression = expression.ok_or(pcre::NO_EQUIVALENT)?;
        return Ok(match expression.text.strip_prefix('^') {
            Some(rest) => format!("~{START}(?:{rest})"),
            None => format!("~{START}.*(?:{})", expression.text),
        });
    }
    let (host, path) = match name.find('/') {
        Some(at) => name.split_at(at),
        None => (name, ""),
    };
    let host = if let Some(rest) = host.strip_prefix("*.") {
        format!("[^/:]+\\.{}", pcre::escape(rest))
    } else if let Some(rest) = host.strip_prefix('.') {
        format!("(?:[^/:]+\\.)?{}", pcre::escape(rest))
    } else if let Some(rest) = host.strip_suffix(".*") {
        format!("{}\\.[^/:]+", pcre::escape(rest))
    } else {
        pcre::escape(host)
    };
    Ok(if path.is_empty() {
        format!("~{START}{host}(?:[:/]|$)")
    } else {
        format!("~{START}{host}(?::[0-9]*)?(?-i:{})", pcre::escape(path))
    })
}
