//! Routes, streams, upstreams and applications that are not referred to.

use howdah_config::{Config, Servers, Target, path};
use std::collections::BTreeSet;

use serde_json::Value;

use super::line::{Advice, note};

/// Finds the parts of a document whose names stand nowhere else in it.
pub(super) fn of_document(config: &Config, all: &mut Vec<Advice>) {
    if config.listeners.is_empty() {
        return; // That is said already.
    }
    let (mut texts, mut passes) = (Vec::new(), Vec::new());
    strings(&config.document, "", &mut |key, text| {
        texts.push(text);
        if matches!(key, "pass" | "scripts") && text.contains('$') {
            passes.push(text);
        }
    });
    let mut used: BTreeSet<(&str, String)> = BTreeSet::new();
    for text in &texts {
        match Target::parse(text) {
            Some(Target::Application { name, .. }) => used.insert(("applications", name)),
            Some(Target::Upstream(name)) => used.insert(("upstreams", name)),
            Some(Target::Stream(name)) => used.insert(("streams", name)),
            Some(Target::Mail(name)) => used.insert(("mail", name)),
            Some(Target::Route(name)) => used.insert(("routes", name.unwrap_or_default())),
            Some(Target::Metrics | Target::Probes) | None => false,
        };
    }
    for application in &config.fastcgi {
        if let Servers::Upstream(name) = &application.servers {
            used.insert(("upstreams", name.clone()));
        }
    }
    let applications = { config.applications.iter().map(|one| &one.name) }
        .chain(config.fastcgi.iter().map(|one| &one.name));
    let upstreams = config.upstreams.iter().map(|upstream| &upstream.name);
    let streams = config.streams.iter().map(|stream| &stream.name);
    let mail = config.mail.iter().map(|mail| &mail.name);
    let routes: Vec<_> = config
        .routes
        .iter()
        .map(|route| {
            (path(["routes"].into_iter().chain(route.name.as_deref())), route.name.clone())
        })
        .collect();
    let named =
        |section: &'static str, name: &String| (section, path([section, name]), name.clone());
    let parts = routes
        .into_iter()
        .map(|(place, name)| ("routes", place, name.unwrap_or_default()))
        .chain(applications.map(|name| named("applications", name)))
        .chain(upstreams.map(|name| named("upstreams", name)))
        .chain(streams.map(|name| named("streams", name)))
        .chain(mail.map(|name| named("mail", name)));
    for (section, place, name) in parts {
        // A name of which a variable is a part may be any.
        let may_be = |text: &&str| {
            let start = text.split('$').next().unwrap_or_default();
            section.starts_with(start) || start.starts_with(&format!("{section}/"))
        };
        let passed = || passes.iter().any(may_be);
        let may_be_passed = !matches!(section, "upstreams" | "streams" | "mail") && passed();
        if !used.contains(&(section, name)) && !may_be_passed {
            let message = "is not used: no listener, route or share of the document leads to it";
            note(all, place, message);
        }
    }
}

/// Passes all strings of a value, and the key that each belongs to. Recursion is bounded by the
/// depth of the document.
fn strings<'v>(value: &'v Value, key: &'v str, found: &mut dyn FnMut(&'v str, &'v str)) {
    match value {
        Value::String(text) => found(key, text),
        Value::Array(elements) => elements.iter().for_each(|element| strings(element, key, found)),
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| strings(member, key, found));
        }
        _ => {}
    }
}
