//! `howdah site check`, and the checks before a file of a site is used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use howdah_advice::explained;
use howdah_config::include::{self, Expanded, http_only};
use howdah_config::{Config, Defaults, json};
use serde::Serialize;
use serde_json::Value;

use super::document::{Document, hosts, name_of};
use super::{Machine, Problem, Severity};
use crate::args::sites::name as check_name;
use crate::failure::Failure;
use crate::output::{json_text, one_line, write_out};

/// A mistake in a file, or what may be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    /// JSON path in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    severity: &'static str,
    message: String,
}

impl Finding {
    /// Returns the finding as a line.
    pub(super) fn line(&self) -> String {
        let mut text = String::new();
        if self.severity != "error" {
            text.push_str(&format!("{}: ", self.severity));
        }
        text.push_str(&format!("{}: ", self.file));
        if let (Some(line), Some(column)) = (self.line, self.column) {
            text.push_str(&format!("line {line}, column {column}: "));
        }
        if let Some(path) = &self.path {
            text.push_str(&format!("{path}: "));
        }
        text + &self.message
    }

    /// Returns the finding with another name of the file.
    pub(super) fn named(self, file: &str) -> Finding {
        Finding { file: file.to_owned(), ..self }
    }

    pub(super) fn is_error(&self) -> bool {
        self.severity == "error"
    }
}

/// The files that have each host.
pub(super) type Hosts = BTreeMap<String, PathBuf>;

/// Checks sites, and prints the findings. Fails if there is an error.
pub(super) fn run(
    document: &Document,
    names: &[String],
    file: Option<&Path>,
    machine: Option<&dyn Machine>,
    is_json: bool,
) -> Result<(), Failure> {
    let mut files = Vec::new();
    if let Some(file) = file {
        let absolute = std::path::absolute(file);
        files.push(absolute.map_err(|error| Failure::Failed(error.to_string()))?);
    } else if names.is_empty() {
        files.extend(document.sites.files.iter().cloned());
    } else {
        for name in names.iter().filter(|name| !document.sites.named.contains(name)) {
            files.push(document.file_of(name)?.to_owned());
        }
    }
    let is_all = file.is_none() && names.is_empty();
    let mut known = Hosts::new();
    if !is_all {
        let checked: Vec<_> = files.iter().map(|file| name_of(file)).collect();
        known = hosts_of_others(document, &checked);
    }
    let (mut findings, mut compiled) = (Vec::new(), Vec::new());
    let mut without_https = Vec::new();
    for file in &files {
        match expand(document, file, &known) {
            Ok(expanded) => {
                without_https.extend_from_slice(&expanded.without_https);
                compiled.push((file, expanded));
            }
            Err(mistakes) => findings.extend(mistakes),
        }
        for host in hosts(&document.read(file)) {
            known.entry(host.to_ascii_lowercase()).or_insert_with(|| file.clone());
        }
    }
    if let Some(machine) = machine {
        for (file, expanded) in &compiled {
            findings.extend(of_machine(document, file, expanded, machine));
        }
    }
    let notes = document.sites.notes.iter().filter(|_| is_all);
    let note = |text: &String| Finding { severity: "note", ..whole(&document.file, text) };
    findings.extend(notes.map(note));
    let named = document.sites.named.iter().filter(|_| file.is_none());
    let named: Vec<_> = named.filter(|name| names.is_empty() || names.contains(name)).collect();
    for name in &named {
        let site = document.named(name).unwrap_or_default();
        match document.expand_named(name, &site) {
            Ok(expanded) => {
                without_https.extend_from_slice(&expanded.without_https);
                let of_machine =
                    machine.map(|machine| of_named(document, name, &expanded, machine));
                findings.extend(of_machine.into_iter().flatten());
            }
            Err(mistakes) => findings.extend(of_document(&document.file, &mistakes)),
        }
    }
    if let Some(message) = http_only(&without_https, &document.file) {
        findings.push(Finding { severity: "note", ..whole(&document.file, &message) });
    }
    print(&findings, files.len() + named.len(), is_json)?;
    let has_errors = findings.iter().any(Finding::is_error);
    if has_errors { Err(Failure::PartsOut(1)) } else { Ok(()) }
}

fn print(findings: &[Finding], checked: usize, is_json: bool) -> Result<(), Failure> {
    if is_json {
        let findings: Vec<_> = findings.iter().map(serde_json::to_value).collect();
        let findings: Result<Vec<Value>, _> = findings.into_iter().collect();
        return write_out(&json_text(&Value::Array(findings.unwrap_or_default())));
    }
    findings.iter().for_each(|finding| eprintln!("howdah: {}", one_line(&finding.line())));
    match findings.iter().filter(|finding| finding.is_error()).count() {
        0 if checked == 1 => write_out("The site is valid.\n"),
        0 => write_out(&format!("{checked} sites are valid.\n")),
        _ => Ok(()),
    }
}

/// Returns the hosts of the sites without these names.
pub(super) fn hosts_of_others(document: &Document, names: &[&str]) -> Hosts {
    let mut known = Hosts::new();
    for file in document.sites.files.iter().filter(|file| !names.contains(&name_of(file))) {
        for host in hosts(&document.read(file)) {
            known.entry(host.to_ascii_lowercase()).or_insert_with(|| file.clone());
        }
    }
    known
}

/// Returns the document with this site alone, or the mistakes of its file. `known` has the hosts of
/// the other sites.
pub(super) fn expand(
    document: &Document,
    site: &Path,
    known: &Hosts,
) -> Result<Expanded, Vec<Finding>> {
    if site.extension().is_none_or(|extension| extension != "json") {
        return Err(vec![whole(site, "the name of a site's file must end with .json")]);
    }
    if let Err(why) = check_name(name_of(site)) {
        return Err(vec![whole(site, &format!("it cannot be the file of a site: {why}"))]);
    }
    let text = document.files.read_site(site).map_err(|problem| of_lines(site, &problem))?;
    let mut findings = Vec::new();
    let value = json::parse(&text).unwrap_or_default();
    for (index, host) in hosts(&value).into_iter().enumerate() {
        let Some(other) = known.get(&host.to_ascii_lowercase()) else { continue };
        let path = match value.get("hosts") {
            Some(Value::Array(_)) => vec!["hosts".to_owned(), index.to_string()],
            _ => vec!["hosts".to_owned()],
        };
        let at = json::find(&text, &path);
        findings.push(Finding {
            line: at.map(|at| at.line as u64),
            column: at.map(|at| at.column as u64),
            path: Some(howdah_config::path(&path)),
            ..whole(
                site,
                &format!(
                    "\"{}\" is in {} as well; leave it out of one of them",
                    one_line(host),
                    other.display()
                ),
            )
        });
    }
    let only = include::with_only_sites(&document.text, &document.file, &[site]);
    let expanded = only.and_then(|only| include::expand(&only, &document.file, &*document.files));
    match expanded {
        Err(lines) => findings.extend(of_lines(site, &lines)),
        Ok(None) => {}
        Ok(Some(expanded)) => match Config::check(&expanded.document, &Defaults::default()) {
            Ok(_) if findings.is_empty() => return Ok(expanded),
            Ok(_) => {}
            Err(error) => {
                findings.extend(of_lines(site, &expanded.explain(&explained(error))));
            }
        },
    }
    Err(findings)
}

/// Checks what a site names: its user, its directory, its programs.
pub(super) fn of_machine(
    document: &Document,
    site: &Path,
    expanded: &Expanded,
    machine: &dyn Machine,
) -> Vec<Finding> {
    let begin = format!("{}: ", site.display());
    problems(document, expanded, machine, &begin, &|line| of_line(site, line))
}

/// Checks what a site of the document itself names.
fn of_named(
    document: &Document,
    name: &str,
    expanded: &Expanded,
    machine: &dyn Machine,
) -> Vec<Finding> {
    let begin = howdah_config::path(&["sites", name]) + "/";
    problems(document, expanded, machine, &begin, &|line| whole(&document.file, line))
}

/// Returns the problems of the parts of a site, whose lines have this beginning. Other parts of the
/// document are not those of the site.
fn problems(
    document: &Document,
    expanded: &Expanded,
    machine: &dyn Machine,
    begin: &str,
    finding: &dyn Fn(&str) -> Finding,
) -> Vec<Finding> {
    let problems = machine.check(&expanded.document, &document.file);
    let found = problems.into_iter().filter_map(|Problem { severity, path, message }| {
        let line = expanded.explain_problem(&path, &message);
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        line.starts_with(begin).then(|| Finding { severity, ..finding(&line) })
    });
    let notes = expanded.notes.iter().filter(|line| line.starts_with(begin));
    let notes = notes.map(|line| Finding { severity: "note", ..finding(line) });
    notes.chain(found).collect()
}

/// Returns the mistakes of a site of the document itself, which are lines.
pub(super) fn of_document(document: &Path, lines: &str) -> Vec<Finding> {
    lines.lines().map(|line| whole(document, line)).collect()
}

fn whole(file: &Path, message: &str) -> Finding {
    Finding {
        file: file.display().to_string(),
        line: None,
        column: None,
        path: None,
        severity: "error",
        message: message.to_owned(),
    }
}

/// Returns the findings of lines such as `FILE: line 1, column 2: /path: message; line 3, column
/// 4: /path: message`.
fn of_lines(site: &Path, lines: &str) -> Vec<Finding> {
    let begin = format!("{}: ", site.display());
    let mut findings = Vec::new();
    for line in lines.lines() {
        let mut rest = line.strip_prefix(&begin).unwrap_or(line);
        while let Some(at) = next_place(rest) {
            findings.push(of_line(site, rest.get(..at).unwrap_or_default()));
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        findings.push(of_line(site, rest));
    }
    findings
}

/// Returns the offset of the next `; line N, column M: `.
fn next_place(text: &str) -> Option<usize> {
    let found = text.match_indices("; line ");
    let mut found =
        found.filter(|(at, _)| text.get(at + 2..).is_some_and(|rest| position(rest).is_some()));
    found.next().map(|(at, _)| at)
}

fn of_line(site: &Path, line: &str) -> Finding {
    let line = line.strip_prefix(&format!("{}: ", site.display())).unwrap_or(line);
    let Some((at, column, rest)) = position(line) else { return whole(site, line) };
    let is_path = |path: &&str| path.starts_with('/') && !path.contains(' ');
    let (path, message) = match rest.split_once(": ").filter(|(path, _)| is_path(path)) {
        Some((path, message)) => (Some(path.to_owned()), message),
        None => (None, rest),
    };
    Finding { line: Some(at), column: Some(column), path, ..whole(site, message) }
}

/// Reads `line 1, column 2: rest`.
fn position(text: &str) -> Option<(u64, u64, &str)> {
    let (line, rest) = text.strip_prefix("line ")?.split_once(", column ")?;
    let (column, rest) = rest.split_once(": ")?;
    Some((line.parse().ok()?, column.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_findings_with_their_places() {
        let site = Path::new("/s/a.json");
        let found = of_lines(
            site,
            "/s/a.json: line 2, column 3: /rot: unknown key; line 4, column 5: /php/ini: bad: x\n\
             /s/a.json: it is a directory",
        );
        let places: Vec<_> =
            found.iter().map(|one| (one.line, one.path.as_deref(), one.message.as_str())).collect();
        let expected = [
            (Some(2), Some("/rot"), "unknown key"),
            (Some(4), Some("/php/ini"), "bad: x"),
            (None, None, "it is a directory"),
        ];
        assert_eq!(places, expected);
        assert_eq!(found[0].line(), "/s/a.json: line 2, column 3: /rot: unknown key");
        let note = Finding { severity: "note", ..found[2].clone() };
        assert_eq!(note.line(), "note: /s/a.json: it is a directory");
        assert!(!note.is_error());
    }
}
