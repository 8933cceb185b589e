//! Changes of sites: `enable`, `disable`, `remove`, `rename`, `restart`.

use std::collections::BTreeSet;
use std::fs;

use howdah_config::include::{application_of_site, sites_by_application};
use serde_json::Value;

use super::document::{Document, Running};
use super::{edit, file, text};
use crate::client::encode;
use crate::failure::Failure;
use crate::output::{printable, write_out};

/// Serves sites, or answers their requests with a page for maintenance.
pub(super) fn enable(document: &Document, names: &[String], is_on: bool) -> Result<(), Failure> {
    let mut last = None;
    for name in names {
        let site = document.file_of(name)?;
        let before = fs::read(site).map_err(|error| file::failed(site, error))?;
        let Some(after) = text::set(&before, &[], "enabled", if is_on { "true" } else { "false" })
        else {
            return Err(Failure::Failed(format!(
                "{}: \"enabled\" cannot be set; howdah site check {name} says what is wrong",
                site.display()
            )));
        };
        edit::checked(document, name, &after, None)?;
        file::replace(site, &after)?;
        last = Some(site);
    }
    let Some(last) = last else { return Ok(()) };
    let reloaded = document.reload(last)?;
    let what = if is_on { "enabled" } else { "disabled: requests get 503 and Retry-After" };
    let lines: String = names.iter().map(|name| format!("{name}: {what}\n")).collect();
    edit::told(reloaded, &lines)
}

/// Removes the file of a site.
pub(super) fn remove(document: &Document, name: &str) -> Result<(), Failure> {
    let site = document.file_of(name)?;
    let value = document.read(site);
    file::remove(site)?;
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let mut kept = vec![format!("{name}: removed\n")];
    if let Some(root) = text("root") {
        kept.push(format!("Its files stay in {root}"));
        kept.push(match text("user") {
            Some(user) => format!(", and so does its user {user}\n"),
            None => "\n".to_owned(),
        });
    }
    edit::told(document.reload(site)?, &kept.concat())
}

/// Gives a site another name.
pub(super) fn rename(document: &Document, old: &str, new: &str) -> Result<(), Failure> {
    let site = document.file_of(old)?;
    let renamed = site.with_file_name(format!("{new}.json"));
    if document.sites.named.iter().any(|name| name == new) {
        return Err(Failure::Failed(format!("there is a site {new} already")));
    }
    file::rename(site, &renamed)?;
    let is_used = match document.reload(&renamed) {
        Ok(reloaded) => edit::told(reloaded, &format!("{old}: is called {new} now\n")),
        Err(failure) => Err(failure),
    };
    // A site whose PHP cannot run could not with its former name either.
    let is_refused = is_used.as_ref().is_err_and(|why| !matches!(why, Failure::PartsOut(_)));
    if is_refused && file::rename(&renamed, site).is_ok() {
        let _ = document.reload(site);
    }
    is_used
}

/// Replaces the processes of sites.
pub(super) fn restart(document: &Document, names: &[String]) -> Result<(), Failure> {
    let known = |name: &String| document.sites.named.contains(name);
    for name in names.iter().filter(|name| !known(name)) {
        document.file_of(name)?;
    }
    let Some(Running { client, status }) = &document.server else {
        let document = document.file.display();
        return Err(Failure::Unreachable(format!("no server with {document} runs")));
    };
    let config = client.compiled()?;
    let sharing = sites_by_application(&config);
    let mut failures = Vec::new();
    let mut restarted = BTreeSet::new();
    for name in names {
        let application = application_of_site(&config, name);
        let Some(application) = application.filter(|one| status.applications.contains_key(*one))
        else {
            write_out(&format!("{name}: has no PHP to restart\n"))?;
            continue;
        };
        let others = sharing.get(application).into_iter().flatten();
        let others: Vec<_> = others.filter(|other| *other != name).map(String::as_str).collect();
        let with = match (application == name, &*others) {
            (true, _) => String::new(),
            (false, []) => ", which shares its PHP with no other site at present".to_owned(),
            (false, others) => {
                format!(", with the sites that share its PHP: {}", printable(&others.join(", ")))
            }
        };
        if !restarted.insert(application) {
            write_out(&format!("{name}: restarted{with}\n"))?;
            continue;
        }
        let target = format!("/control/applications/{}/restart", encode(application));
        match client.request("POST", &target, b"") {
            Ok(_) => write_out(&format!("{name}: restarted{with}\n"))?,
            Err(Failure::Failed(problem)) => failures.push(problem),
            Err(failure) => return Err(failure),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("\n"))) }
}
