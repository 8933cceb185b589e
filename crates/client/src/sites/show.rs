//! `howdah site show` and `howdah site expand`.

use std::path::Path;

use howdah_advice::detect;
use howdah_config::include::{Expanded, application_of_site, source_of_site};
use serde_json::{Map, Value, json};

use super::check::{self, Finding, Hosts};
use super::document::Document;
use super::list::{self, Facts, Row};
use crate::failure::Failure;
use crate::output::{json_text, one_line, printable, write_out};

/// A site, and what it becomes.
pub(super) struct Shown {
    /// Where it is.
    place: String,
    text: String,
    pub(super) site: Value,
    row: Row,
    /// Its parts as a document, and notes about it.
    pub(super) becomes: Result<(Value, Vec<String>), Vec<Finding>>,
}

/// Finds a site, in a file or in the document itself.
pub(super) fn find(document: &Document, name: &str, known: &Hosts) -> Result<Shown, Failure> {
    let facts = Facts::of(document);
    if let Some(site) = document.named(name) {
        let becomes = document
            .expand_named(name, &site)
            .map(|expanded| (parts_of(&expanded, &source_of_site(name)), expanded.notes));
        return Ok(Shown {
            place: format!("{}, /sites/{name}", document.file.display()),
            text: format!("{site:#}"),
            row: facts.with_sharing(facts.of_named(name, &site)),
            site,
            becomes: becomes.map_err(|mistakes| check::of_document(&document.file, &mistakes)),
        });
    }
    let file = document.file_of(name)?;
    let text = document.files.read_site(file).unwrap_or_default();
    let expanded = check::expand(document, file, known);
    Ok(Shown {
        place: file.display().to_string(),
        text: String::from_utf8_lossy(&text).into_owned(),
        site: document.read(file),
        row: facts.with_sharing(facts.of_file(document, file)),
        becomes: expanded.map(|expanded| (parts_of(&expanded, file), expanded.notes)),
    })
}

/// Prints the file of a site, what is found in its directory, what it becomes, and its state.
pub(super) fn run(document: &Document, name: &str, is_json: bool) -> Result<(), Failure> {
    let known = check::hosts_of_others(document, &[name]);
    let Shown { place, text, site, row, becomes } = find(document, name, &known)?;
    let found = found(&site);
    if is_json {
        let mut value = json!({"site": site, "state": row, "found": found});
        match becomes {
            Ok((parts, notes)) => {
                value["becomes"] = parts;
                value["notes"] = json!(notes);
            }
            Err(findings) => value["mistakes"] = json!(findings),
        }
        return write_out(&json_text(&value));
    }
    let mut out = format!("{place}:\n");
    for line in text.trim_end().lines() {
        out.push_str(&format!("    {}\n", printable(&line.replace('\t', "    "))));
    }
    out.push_str(&format!("\nFound in {}:\n", one_line(text_of(&site, "root"))));
    found.iter().for_each(|line| out.push_str(&format!("    {}\n", one_line(line))));
    match becomes {
        Ok((parts, notes)) => {
            out.push_str(&format!("\nBecomes (howdah site expand {name} prints all of it):\n"));
            summary(name, &parts).iter().for_each(|line| out.push_str(&format!("    {line}\n")));
            notes.iter().for_each(|line| out.push_str(&format!("    {}\n", one_line(line))));
        }
        Err(findings) => {
            out.push_str("\nMistakes:\n");
            for finding in findings {
                out.push_str(&format!("    {}\n", one_line(&finding.line())));
            }
        }
    }
    write_out(&format!("{out}\n{}", list::describe(&row)))
}

/// Prints the parts of a document that a site becomes.
pub(super) fn expand(document: &Document, name: &str) -> Result<(), Failure> {
    let known = check::hosts_of_others(document, &[name]);
    let (parts, _) = find(document, name, &known)?.becomes.map_err(failed)?;
    write_out(&format!("{parts:#}\n"))
}

/// Returns the failure of a command that needs a site without mistakes.
pub(super) fn failed(findings: Vec<Finding>) -> Failure {
    let lines: Vec<_> = findings.iter().map(Finding::line).collect();
    Failure::Failed(lines.join("\n"))
}

/// Returns the parts of a document that come from a file, as a document.
fn parts_of(expanded: &Expanded, file: &Path) -> Value {
    let mut whole = Value::Object(Map::new());
    for (path, value) in expanded.parts_of(file) {
        put(&mut whole, &path, value.clone());
    }
    whole
}

/// Puts a value at a path. Elements of arrays are joined.
fn put(target: &mut Value, path: &[String], value: Value) {
    match path {
        [] => *target = value,
        [step, rest @ ..] => {
            let is_element = rest.first().is_some_and(|next| next.parse::<usize>().is_ok());
            let empty = if is_element { json!([]) } else { json!({}) };
            if let Value::Array(elements) = target {
                elements.push(Value::Object(Map::new()));
                if let Some(last) = elements.last_mut() {
                    put(last, rest, value);
                }
            } else if let Some(members) = target.as_object_mut() {
                put(members.entry(step.clone()).or_insert(empty), rest, value);
            }
        }
    }
}

/// Returns what is found in the directory of a site, a line each.
fn found(site: &Value) -> Vec<String> {
    let root = Path::new(text_of(site, "root"));
    let found = match site.get("public").and_then(Value::as_str) {
        Some(public) => detect::detect_public(root, Path::new(public)),
        None => detect::detect(root),
    };
    match found {
        Ok(found) => {
            let lines = found.explain().into_iter();
            lines.map(|line| line.replace("with --worker", "with \"worker\": true")).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

fn text_of<'v>(site: &'v Value, key: &str) -> &'v str {
    site.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns what a site becomes, in short.
fn summary(name: &str, parts: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let objects =
        |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
    let hosts = objects(parts.pointer("/variables/site/values"));
    let hosts: Vec<_> = hosts.keys().map(|host| printable(host)).collect();
    lines.push(format!("hosts: {}", hosts.join(", ")));
    for (address, listener) in objects(parts.get("listeners")) {
        let tls = objects(listener.get("tls"));
        let how = if tls.contains_key("acme") { "by ACME" } else { "from files" };
        lines.push(format!("listener {}: certificate {how}", printable(&address)));
    }
    for (route, steps) in objects(parts.get("routes")) {
        let count = steps.as_array().map_or(0, Vec::len);
        let steps = if count == 1 { "1 step".to_owned() } else { format!("{count} steps") };
        lines.push(format!("route {}: {steps}", printable(&route)));
    }
    let own = application_of_site(parts, name);
    match own.and_then(|own| Some((own, parts.get("applications")?.get(own)?))) {
        Some((own, application)) => {
            let kind = text_of(application, "type");
            let user = match text_of(application, "user") {
                "" => "the server's user".to_owned(),
                user => format!("user {}", printable(user)),
            };
            lines.push(format!("application {}: {}, {user}", printable(own), printable(kind)));
        }
        None => lines.push("application: none, no PHP runs".to_owned()),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together_and_summed_up() {
        let mut whole = json!({});
        let path = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        put(&mut whole, &path("variables site values a.example"), json!("a"));
        put(&mut whole, &path("routes a"), json!([{}, {}]));
        put(&mut whole, &path("listeners *:443 tls acme 3"), json!({"domains": ["a.example"]}));
        put(&mut whole, &path("applications a"), json!({"type": "php 8.4", "user": "u"}));
        assert_eq!(whole["listeners"]["*:443"]["tls"]["acme"], json!([{"domains": ["a.example"]}]));
        let expected = [
            "hosts: a.example",
            "listener *:443: certificate by ACME",
            "route a: 2 steps",
            "application a: php 8.4, user u",
        ];
        assert_eq!(summary("a", &whole), expected);
    }
}
