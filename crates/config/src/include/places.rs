//! The keys of sites that the parts of a compiled document come from.
//!
//! A part that cannot run is named by its path in the compiled document, such as
//! `/applications/shop/user`. The one who mends it needs the file and the key of the site. The
//! compiled document has the file of a part in `included`; the key follows from the path
//! ([`key_of_site`]). Where that is not all, the document has the member `places`: for values of
//! `defaults`, and for the sites of a document that has them itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::expanded::{Origin, Source};
use super::former::parts;
use super::sent::SENT;
use super::shared::{SHARED, sites_by_application};
use super::sites::{DEFAULTS, SITES};
use crate::node::{path, split_path};

/// The name of the member of a compiled document with the places that `included` does not tell.
pub(super) const PLACES: &str = "places";

/// Maximum number of names of sites in a line.
const MAX_LISTED: usize = 5;

/// The places of the parts of a document that sites were compiled to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SitePlaces {
    /// The file of each site, by its name.
    files: BTreeMap<String, String>,
    /// The file of each certificate of a listener that a site adds, by its path.
    entries: BTreeMap<Vec<String>, String>,
    /// The sites of each application that several share, by its name.
    sharing: BTreeMap<String, Vec<String>>,
    /// What `places` of the document has: parts with the path above their key, and the file.
    others: BTreeMap<Vec<String>, (String, String)>,
}

impl SitePlaces {
    /// Returns the places in a compiled document; none in another one.
    pub fn of(document: &Value) -> SitePlaces {
        let mut all = SitePlaces::default();
        let mut files = BTreeSet::new();
        for (path, file) in parts(document) {
            // Only a site adds single hosts.
            if let [variables, site, values, host] = path.as_slice()
                && (variables == "variables" && site == "site" && values == "values")
                && let Some(name) = value_of(document, host)
            {
                files.insert(file);
                all.files.entry(name.to_owned()).or_insert_with(|| file.to_owned());
            }
        }
        all.entries = certificates(document, &files);
        let others = document.get(PLACES).and_then(Value::as_object).into_iter().flatten();
        all.others = others
            .filter_map(|(part, place)| {
                let (above, file) = place.as_str()?.split_once(' ')?;
                Some((split_path(part), (above.to_owned(), file.to_owned())))
            })
            .collect();
        let applications = document.get("applications").and_then(Value::as_object);
        if applications.into_iter().flatten().any(|(name, _)| name.starts_with(SHARED)) {
            all.sharing = sites_by_application(document);
            all.sharing.retain(|name, _| name.starts_with(SHARED));
        }
        all
    }

    /// Returns a problem of a part of the document with the file and the key of the site, such as
    /// `/etc/howdah/sites/shop.json: /user: PROBLEM`. `None` if the part is not of a site.
    pub fn explain(&self, part: &str, problem: &str) -> Option<String> {
        let steps = split_path(part);
        let place = self.place(&steps)?;
        Some(format!("{place}: {problem}{}", self.also_of(&steps)))
    }

    /// Returns the place of a part of an application in its site, and the problem.
    pub fn of_application(&self, name: &str, key: &str, problem: &str) -> Option<(String, String)> {
        let steps = [vec!["applications".to_owned(), name.to_owned()], split_path(key)].concat();
        Some((self.place(&steps)?, format!("{problem}{}", self.also_of(&steps))))
    }

    /// Returns the file of the site that an application is of; of the first one if several share it.
    pub fn file_of_application(&self, name: &str) -> Option<&str> {
        self.file(&["applications".to_owned(), name.to_owned()])
    }

    /// Returns a line about a part of the document, `/PATH: PROBLEM` or `application "NAME": KEY:
    /// PROBLEM`, with the file and the key of the site; the line itself if the part is not of a
    /// site.
    pub fn explain_line(&self, line: &str) -> String {
        let of_application = || {
            let (name, rest) = line.strip_prefix("application \"")?.split_once("\": ")?;
            let (key, problem) = rest.split_once(": ").filter(|(key, _)| is_key(key))?;
            let (place, problem) = self.of_application(name, &format!("/{key}"), problem)?;
            Some(format!("application \"{name}\": {place}: {problem}"))
        };
        let of_part = || {
            let (part, problem) = line.split_once(": ").filter(|_| line.starts_with('/'))?;
            self.explain(part, problem)
        };
        of_application().or_else(of_part).unwrap_or_else(|| line.to_owned())
    }

    /// Returns the file and the path in it.
    fn place(&self, steps: &[String]) -> Option<String> {
        let key = key_of_site(steps)?;
        let (file, above) =
            self.other(steps).or_else(|| self.file(steps).map(|file| (file, "")))?;
        let inner = format!("{above}{}", path(&key));
        Some(match (file.strip_prefix(SENT), inner.as_str()) {
            (Some(sent), _) => format!("{sent}{inner}"),
            (None, "") => file.to_owned(),
            (None, _) => format!("{file}: {inner}"),
        })
    }

    /// Returns the file of a part that `places` has, and the path there above its key.
    fn other(&self, steps: &[String]) -> Option<(&str, &str)> {
        let around = (0..=steps.len()).rev().filter_map(|length| steps.get(..length));
        let found = around.filter_map(|steps| self.others.get(steps)).next()?;
        Some((&found.1, &found.0))
    }

    /// Returns the file of the site that a part is of.
    fn file(&self, steps: &[String]) -> Option<&str> {
        let site = match steps {
            [first, name, ..] if first == "applications" => {
                self.sharing.get(name).and_then(|names| names.first()).unwrap_or(name)
            }
            [first, name, ..] if first == "routes" => name.strip_suffix("/content").unwrap_or(name),
            _ => return self.entries.get(steps.get(..5)?).map(String::as_str),
        };
        self.files.get(site).map(String::as_str)
    }

    /// Returns the end of a line about an application that several sites share.
    fn also_of(&self, steps: &[String]) -> String {
        let names = match steps {
            [first, name, ..] if first == "applications" => self.sharing.get(name),
            _ => None,
        };
        let others = names.and_then(|names| names.get(1..)).unwrap_or_default();
        if others.is_empty() || self.other(steps).is_some_and(|(_, above)| is_defaults(above)) {
            return String::new();
        }
        let first = others.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
        let more = if others.len() > MAX_LISTED { ", ..." } else { "" };
        match others.len() {
            1 => format!(" (the same for the site {first})"),
            number => format!(" (the same for {number} others: {first}{more})"),
        }
    }
}

/// Returns the key of a site that a part of a compiled document comes from; empty if that is not
/// known. `None` if the part is not one that only one site has.
pub fn key_of_site(part: &[String]) -> Option<Vec<String>> {
    let steps: Vec<_> = part.iter().map(String::as_str).collect();
    let key: &[&str] = match steps.as_slice() {
        ["applications", _, key @ ("user" | "group" | "worker" | "environment"), rest @ ..] => {
            return Some(owned(&[*key], if *key == "worker" { &[] } else { rest }));
        }
        ["applications", _, "options", "admin", rest @ ..] => {
            return Some(owned(&["php", "ini"], rest));
        }
        ["applications", _, "isolation", "limits", rest @ ..] => {
            return Some(owned(&["limits"], rest));
        }
        ["applications", _, "type"] => &["php", "version"],
        ["applications", _, "options", "extensions", ..] => &["php", "extensions"],
        ["applications", _, "processes", ..] => &["php", "processes"],
        ["applications", _, "smtp", ..] => &["limits", "mail"],
        // What has no key of its own is there because of the directory.
        ["applications", _, ..] => &["root"],
        // With options, own steps of the site are in another route.
        ["routes", name, _, "action", option, ..] if !name.ends_with("/content") => match *option {
            "access_log" => &["logs", "access"],
            "basic_auth" => &["auth"],
            "cache" => &["cache"],
            "limit" => &["limits"],
            _ => &[],
        },
        ["routes", _, ..] => &[],
        ["listeners", _, "tls", "certificate", _, "chain"] => &["https", "certificate"],
        ["listeners", _, "tls", "certificate", _, "key"] => &["https", "key"],
        ["listeners", _, "tls", "certificate", _, ..] => &["https"],
        _ => return None,
    };
    Some(owned(key, &[]))
}

fn owned(key: &[&str], rest: &[&str]) -> Vec<String> {
    key.iter().chain(rest).map(|step| (*step).to_owned()).collect()
}

fn is_defaults(above: &str) -> bool {
    above.strip_prefix('/') == Some(DEFAULTS)
}

/// Returns true for a path within an application, such as `isolation/limits/memory`.
fn is_key(text: &str) -> bool {
    let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.%".contains(&byte);
    !text.is_empty() && !text.starts_with('/') && text.bytes().all(is_of_key)
}

/// Returns the certificates of listeners that come from the files of sites, with the file of each.
fn certificates(document: &Value, files: &BTreeSet<&str>) -> BTreeMap<Vec<String>, String> {
    let owners: BTreeMap<_, _> = parts(document)
        .filter(|(path, _)| path.first().is_some_and(|first| first == "listeners"))
        .collect();
    let listeners = document.get("listeners").and_then(Value::as_object).into_iter().flatten();
    let lists = listeners.filter_map(|(name, listener)| {
        Some((name, listener.get("tls")?.get("certificate")?.as_array()?.len()))
    });
    let entries = lists.flat_map(|(name, length)| {
        (0..length).map(move |index| {
            owned(&["listeners", name, "tls", "certificate", &index.to_string()], &[])
        })
    });
    // `included` has the whole listener, or its `tls`, of the first file that has it.
    let owner = |entry: &[String]| {
        let around = (1..=entry.len()).rev().filter_map(|length| entry.get(..length));
        around.filter_map(|part| owners.get(part)).next().copied()
    };
    let of_sites = entries.filter_map(|entry| {
        let file = owner(&entry).filter(|file| files.contains(file))?.to_owned();
        Some((entry, file))
    });
    of_sites.collect()
}

/// Returns the site of a host.
fn value_of<'d>(document: &'d Value, host: &str) -> Option<&'d str> {
    document.get("variables")?.get("site")?.get("values")?.get(host)?.as_str()
}

/// Returns the member of a compiled document with the places that `included` does not tell. `all`
/// has the places of the parts in their sites.
pub(super) fn written(all: &[Origin], sources: &[Source]) -> Map<String, Value> {
    let place = |origin: &Origin| {
        let above = match origin.inner.as_slice() {
            [first, ..] if first == DEFAULTS && can_fail(&origin.path) => path(&[DEFAULTS]),
            [first, name, ..] if first == SITES && is_first(&origin.path) => {
                path(&[SITES, name.as_str()])
            }
            _ => return None,
        };
        let file = sources.get(origin.source)?.file.to_string_lossy();
        Some((path(&origin.path), Value::String(format!("{above} {file}"))))
    };
    all.iter().filter_map(place).collect()
}

/// Returns true for a part whose value shows as a mistake when the document is in use.
fn can_fail(part: &[String]) -> bool {
    match part {
        [first, _, key, ..] if first == "applications" => {
            ["type", "options", "isolation"].contains(&key.as_str())
        }
        _ => is_first(part) && part.len() == 5,
    }
}

/// Returns true for an application, a route or a certificate of a site.
fn is_first(part: &[String]) -> bool {
    match part {
        [first, _] => first == "applications" || first == "routes",
        [.., list, _] => part.len() == 5 && list == "certificate",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Two sites in files that share an application, one with its own, and one of the document.
    fn places() -> SitePlaces {
        let passes = json!([{"action": {"pass": "applications/shared:x:1"}}]);
        SitePlaces::of(&json!({
            "variables": {"site": {"values": {
                "a.test": "a", "b.test": "b", "shop.test": "shop", "own.test": "own",
            }}},
            "routes": {"a": passes, "b": passes, "shop": [], "own": []},
            "listeners": {"*:443": {"tls": {"certificate": ["own", "own", {}, {}]}}},
            "applications": {"shared:x:1": {}, "shop": {}, "own": {}, "other": {}},
            "included": {
                "/variables/site/values/a.test": "/s/a.json",
                "/variables/site/values/b.test": "/s/b.json",
                "/variables/site/values/shop.test": "/s/shop.json",
                "/routes/a": "/s/a.json",
                "/routes/b": "/s/b.json",
                "/applications/shared:x:1": "/s/a.json",
                "/applications/shop": "/s/shop.json",
                "/applications/other": "/conf.d/other.json",
                "/listeners/*:443/tls/certificate/2": "/s/shop.json",
                "/listeners/*:443/tls/certificate/3": "/conf.d/other.json",
            },
            "places": {
                "/applications/own": "/sites/own /h.json",
                "/applications/shop/type": "/defaults /h.json",
                "/applications/shared:x:1/type": "/defaults /h.json",
                "/applications/shop/options/admin/memory_limit": "/defaults /h.json",
            },
        }))
    }

    /// `included` names a listener as a whole if only sites have it, or if the first site has it.
    #[test]
    fn certificates_of_the_first_site_have_its_file() {
        for above in ["/listeners/*:443", "/listeners/*:443/tls"] {
            let places = SitePlaces::of(&json!({
                "variables": {"site": {"values": {"a.test": "a", "b.test": "b"}}},
                "listeners": {"*:443": {"tls": {"certificate": [{}, {}, {}]}}},
                "included": {
                    "/variables/site/values/a.test": "/s/a.json",
                    "/variables/site/values/b.test": "/s/b.json",
                    above: "/s/a.json",
                    "/listeners/*:443/tls/certificate/1": "/s/b.json",
                    "/listeners/*:443/tls/certificate/2": "/conf.d/other.json",
                },
            }));
            for (number, expected) in [(0, Some("/s/a.json")), (1, Some("/s/b.json")), (2, None)] {
                let part = format!("/listeners/*:443/tls/certificate/{number}");
                let expected = expected.map(|file| format!("{file}: /https: no"));
                assert_eq!(places.explain(&part, "no"), expected, "{above} {number}");
            }
        }
    }

    #[test]
    fn a_problem_has_the_file_and_the_key_of_the_site() {
        let places = places();
        for (part, expected) in [
            ("/applications/shop/user", "/s/shop.json: /user"),
            ("/applications/shop", "/s/shop.json: /root"),
            ("/applications/shop/isolation/limits/memory", "/s/shop.json: /limits/memory"),
            ("/applications/shop/environment/A%2FB", "/s/shop.json: /environment/A%2FB"),
            ("/applications/shop/type", "/h.json: /defaults/php/version"),
            ("/applications/shop/options/admin/x", "/s/shop.json: /php/ini/x"),
            (
                "/applications/shop/options/admin/memory_limit",
                "/h.json: /defaults/php/ini/memory_limit",
            ),
            ("/applications/own/user", "/h.json: /sites/own/user"),
            ("/applications/shared:x:1/type", "/h.json: /defaults/php/version"),
            ("/routes/shop/0/action/access_log/1", "/s/shop.json: /logs/access"),
            ("/routes/shop%2Fcontent/0/action/access_log", "/s/shop.json"),
            ("/listeners/*:443/tls/certificate/2", "/s/shop.json: /https"),
            ("/listeners/*:443/tls/certificate/2/key", "/s/shop.json: /https/key"),
        ] {
            assert_eq!(places.explain(part, "no"), Some(format!("{expected}: no")), "{part}");
        }
        let told = places.explain("/applications/shared:x:1/user", "no").unwrap();
        assert_eq!(told, "/s/a.json: /user: no (the same for the site b)");
        assert_eq!(places.file_of_application("shop"), Some("/s/shop.json"));
        assert_eq!(places.file_of_application("shared:x:1"), Some("/s/a.json"));
        assert_eq!(places.file_of_application("other"), None);
        for part in [
            "/applications/other/user",
            "/applications/none",
            "/listeners/*:443/tls/certificate/3",
            "/listeners/*:443/tls",
            "/listeners/*:443",
            "/routes/none/0",
            "/settings/http",
            "",
        ] {
            assert_eq!(places.explain(part, "no"), None, "{part}");
        }
    }

    #[test]
    fn a_line_about_a_part_becomes_one_about_the_site_once() {
        let places = places();
        for (line, expected) in [
            (
                "application \"shop\": user: there is no user: x",
                "application \"shop\": /s/shop.json: /user: there is no user: x",
            ),
            ("/routes/shop/0/action/access_log: no", "/s/shop.json: /logs/access: no"),
        ] {
            assert_eq!(places.explain_line(line), expected);
            assert_eq!(places.explain_line(expected), expected);
        }
        for line in [
            "application \"other\": user: no",
            "application \"shop\": it has not started for 30 s: PHP waits",
            "application \"shop\"",
            "*:80: Address already in use",
            "/routes/none: no",
            "",
        ] {
            assert_eq!(places.explain_line(line), line);
        }
    }

    #[test]
    fn sites_that_were_sent_have_their_path() {
        let places = SitePlaces::of(&json!({
            "variables": {"site": {"values": {"a.test": "a"}}},
            "included": {
                "/variables/site/values/a.test": "source:/sites/a",
                "/applications/a": "source:/sites/a",
            },
            "places": {"/applications/a/type": "/defaults source:"},
        }));
        let of = |key: &str| places.explain(&format!("/applications/a/{key}"), "no").unwrap();
        assert_eq!(of("user"), "/sites/a/user: no");
        assert_eq!(of("type"), "/defaults/php/version: no");
    }

    #[test]
    fn other_documents_have_no_places() {
        assert_eq!(SitePlaces::of(&json!({"applications": {"a": {}}})), SitePlaces::default());
        assert_eq!(SitePlaces::of(&Value::Null), SitePlaces::default());
    }
}
