//! Names of nginx, PHP-FPM, Apache, HAProxy and Caddy, with their equivalents.
//!
//! The tables only serve messages: none of these names is accepted. `hints.tsv` has examples; its
//! columns are names, a key that the object must have (`-` for any) and the hint. For other
//! directives, messages have the text of the tables in `docs/coming-from-*.md`, which are generated
//! from `nginx.tsv`, `apache.tsv` and `php-fpm.tsv`.

#[cfg(test)]
mod tests;

use howdah_config::{Config, Defaults, Error, Unknown};

const HINTS: &str = include_str!("foreign/hints.tsv");
const NGINX: &str = include_str!("foreign/nginx.tsv");
const APACHE: &str = include_str!("foreign/apache.tsv");
const PHP_FPM: &str = include_str!("foreign/php-fpm.tsv");

/// First parts of keys such as `upstream.timeouts.read` in the tables, and the objects that they
/// stand for.
const OBJECTS: [(&str, &str, &str); 12] = [
    ("http", "\"settings\"/\"http\"/", ""),
    ("settings", "\"settings\"/", ""),
    ("action", "", " of an action"),
    ("upstream", "", " of an upstream"),
    ("fastcgi", "", " of an application of type \"fastcgi\""),
    ("access_log", "\"access_log\"/", ""),
    ("cache", "\"cache\"/", ""),
    ("forwarded", "\"forwarded\"/", ""),
    ("htaccess", "\"htaccess\"/", ""),
    ("limit", "\"limit\"/", ""),
    ("limits", "\"limits\"/", ""),
    ("tls", "\"tls\"/", ""),
];

/// Reads a document; the errors have the equivalents of foreign names.
pub fn parse(text: &[u8], defaults: &Defaults) -> Result<Config, Error> {
    howdah_config::parse_with(text, defaults).map_err(explained)
}

/// Adds the equivalents of foreign names to an error and to the others of its document.
pub fn explained(error: Error) -> Error {
    error.with_hints(&|unknown| match unknown {
        Unknown::Key { name, known, nearest } => {
            let is_known = |key: &str| known.contains(&key);
            let directive = || directive(name, is_known("processes")).filter(|_| nearest.is_none());
            hint(name, is_known).map(str::to_owned).or_else(directive)
        }
        Unknown::InsteadOf { names, missing } => names.iter().find_map(|name| {
            let directive = || directive(name, false).filter(|_| !is_key(name));
            hint(name, |key| missing.contains(&key)).map(str::to_owned).or_else(directive)
        }),
        Unknown::Variable(name) => variable(name),
    })
}

/// Returns the example for an unknown key. `is_known` is true for keys of the object.
fn hint(name: &str, is_known: impl Fn(&str) -> bool) -> Option<&'static str> {
    let name = normalised(name);
    let mut rows = HINTS.lines().filter_map(|row| {
        let mut columns = row.splitn(3, '\t');
        Some((columns.next()?, columns.next()?, columns.next()?))
    });
    let fits = |words: &str, beside: &str| {
        words.split(' ').any(|word| word == name) && (beside == "-" || is_known(beside))
    };
    rows.find(|(words, beside, _)| fits(words, beside)).map(|(_, _, hint)| hint)
}

/// Returns the equivalents of a directive; in an application, those of PHP-FPM come first.
fn directive(name: &str, in_application: bool) -> Option<String> {
    let name = normalised(name);
    let tables = if in_application { [PHP_FPM, NGINX, APACHE] } else { [NGINX, APACHE, PHP_FPM] };
    let mut rows = tables.into_iter().flat_map(str::lines).filter_map(|row| row.split_once('\t'));
    let is_meant = |directives: &str| directives.split(' ').any(|one| normalised(one) == name);
    let (_, text) = rows.find(|(directives, _)| is_meant(directives))?;
    Some(format!("in Howdah: {}", without_markup(text)))
}

/// Returns a name in the form in which names are compared. PHP-FPM's
/// `php_admin_value[memory_limit]` and `env[PATH]` have a member in their names, and Apache's
/// sections have brackets.
fn normalised(name: &str) -> String {
    let name = name.split('[').next().unwrap_or(name).trim_matches(['<', '>']);
    let name = name.to_ascii_lowercase().replace(['-', '.'], "_");
    name.strip_prefix("pm_").unwrap_or(&name).to_owned()
}

/// Returns true for a key of any object of a document.
fn is_key(name: &str) -> bool {
    howdah_config::DOCUMENT.all().iter().any(|shape| shape.key(name).is_some())
}

/// Returns a cell of a table as it stands in messages: without links, and with quoted keys.
fn without_markup(cell: &str) -> String {
    let mut text = String::new();
    for (index, part) in cell.replace("\\|", "|").split('`').enumerate() {
        if index % 2 == 1 {
            text.push_str(&quoted(part));
            continue;
        }
        // `[` and the target behind `](` belong to a link; a name in it may be code.
        let part = match part.strip_prefix("](") {
            Some(target) => target.split_once(')').map_or("", |(_, rest)| rest),
            None => part,
        };
        let mut rest = part;
        while let Some((before, link)) = rest.split_once('[') {
            text.push_str(before);
            rest = match link.split_once("](") {
                Some((name, target)) => {
                    text.push_str(name);
                    target.split_once(')').map_or("", |(_, rest)| rest)
                }
                None => link,
            };
        }
        text.push_str(rest);
    }
    text
}

/// Returns code of a table as it stands in messages: `http.send_timeout` is
/// `"settings"/"http"/"send_timeout"`.
fn quoted(code: &str) -> String {
    if code.contains('"') {
        return code.to_owned();
    }
    let named = code.split_once('.').and_then(|(first, keys)| {
        let (_, before, behind) = OBJECTS.iter().find(|(object, ..)| *object == first)?;
        Some(format!("{before}\"{}\"{behind}", keys.replace('.', "\"/\"")))
    });
    named.unwrap_or_else(|| format!("\"{code}\""))
}

/// Returns the equivalent of an unknown variable; the name has no `$`.
fn variable(name: &str) -> Option<String> {
    if let Some(hint) = hint(&format!("${name}"), |_| false) {
        return Some(hint.to_owned());
    }
    let sent = ["sent_http_", "upstream_http_"];
    let (prefix, field) = match sent.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        Some(field) => ("response_header_", field),
        None => ("header_", name.strip_prefix("http_")?),
    };
    (!field.is_empty()).then(|| format!("write \"${prefix}{field}\""))
}
