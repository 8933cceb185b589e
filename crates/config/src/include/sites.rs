//! `sites` of a document: each site becomes parts of the document, as if a file with them were
//! included.
//!
//! [`IncludedFiles::compile`] makes the parts of a site. Here are those that all sites share: the
//! listeners, the variable `site` with the name of the site that a host belongs to, and the route
//! `sites`, which passes requests to the route of that name. The document may define each of them
//! itself.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::expanded::Origin;
use super::lists;
use super::sent::{SENT, source_of_site};
use super::shared::leave_out_known;
use super::{IncludedFiles, Place, Reading, Source};
use crate::error::Error;
use crate::json;
use crate::node::{Shown, path, quoted, split_path};
use crate::site::{MAX_SITE_BODY_SIZE, MERGED, Site, SiteHttps, addresses};

/// The member of a document with the sites.
pub(super) const SITES: &str = "sites";

/// The member of a document with the keys that sites share.
pub(super) const DEFAULTS: &str = "defaults";

/// Names that the parts of all sites have.
const RESERVED: [&str; 2] = ["sites", "default"];

/// Maximum number of names of sites in a line.
const MAX_LISTED: usize = 5;

/// The parts of a document that serve a site.
#[derive(Debug, Clone, Default)]
pub struct SiteParts {
    /// The parts.
    pub document: Map<String, Value>,
    /// Paths of parts in the document that the site has as well, each with its path there.
    pub places: Vec<(Vec<String>, Vec<String>)>,
    /// What the one who wrote the site should know, each with the key of the site that it is about.
    pub notes: Vec<(&'static str, String)>,
}

/// The reason why a site cannot be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteProblem {
    /// Path of the key of the site that the problem is about.
    pub key: Vec<String>,
    /// The problem, and what to do.
    pub problem: String,
    /// A file or directory that is missing, or that is the problem otherwise. The site is compiled
    /// again when it changes.
    pub because_of: Option<PathBuf>,
}

/// Members of the document about sites, which are replaced.
#[derive(Default)]
pub(super) struct Found {
    pub(super) sites: Vec<(Value, Place)>,
    pub(super) defaults: Option<(Value, Place)>,
}

/// The sites of a document, and the parts that are to be added.
#[derive(Default)]
struct Compiled {
    parts: Vec<PartsOfSite>,
    /// Hosts of sites that cannot be used, with the name and the source of each.
    hosts: Vec<(String, String, usize)>,
    is_encrypted: bool,
}

/// The parts of a document that one site adds.
struct PartsOfSite {
    document: Map<String, Value>,
    /// Places of parts in the site, with their paths in a document that has this site alone.
    places: Vec<Origin>,
    place: Place,
}

/// What all sites share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    /// `defaults`, and its place if the document has it.
    defaults: &'a Value,
    place: Option<&'a Place>,
    /// Mistakes in `defaults` have been told.
    has_mistakes: bool,
    /// The addresses for requests with encryption.
    listen_https: &'a [String],
}

impl Found {
    pub(super) fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.defaults.is_none()
    }
}

impl Reading<'_> {
    /// Takes the members about sites from the document, or from a file with parts of it.
    pub(super) fn take_sites(
        &mut self,
        members: &mut Map<String, Value>,
        place: &Place,
    ) -> Result<(), String> {
        if !place.path.is_empty() {
            return Ok(());
        }
        if let Some(sites) = members.shift_remove(SITES) {
            self.found.sites.push((sites, place.child(SITES)));
        }
        if let Some(defaults) = members.shift_remove(DEFAULTS) {
            let place = place.child(DEFAULTS);
            if self.found.defaults.is_some() {
                return self.keep(&place, "is in another file as well; leave it out of one");
            }
            self.found.defaults = Some((defaults, place));
        }
        Ok(())
    }

    /// Adds the parts of all sites to a document.
    pub(super) fn add_sites(&mut self, document: &mut Value) -> Result<(), String> {
        let found = std::mem::take(&mut self.found);
        let Some(members) = document.as_object_mut() else { return Ok(()) };
        if found.is_empty() {
            return Ok(());
        }
        let mut has_mistakes = false;
        let (defaults, defaults_place) = match found.defaults {
            Some((defaults, place)) => {
                if let Err(error) = Site::check_defaults(&defaults) {
                    has_mistakes = true;
                    for error in [&error].into_iter().chain(error.others()) {
                        let file = self.sources.get(place.source).map(Source::file);
                        let text = self.place_of(&place, error);
                        let file = file.unwrap_or_default();
                        self.reject(place.source, format!("{file}{text}"))?;
                    }
                }
                (defaults, Some(place))
            }
            None => (Value::Null, None),
        };
        let addresses = addresses(&defaults, self.files.has_ipv6());
        let shared = Shared {
            defaults: &defaults,
            place: defaults_place.as_ref(),
            has_mistakes,
            listen_https: &addresses.1,
        };
        let mut all = Compiled::default();
        for (sites, place) in found.sites {
            match sites {
                Value::Object(sites) => {
                    for (name, site) in sites {
                        let place = if self.is_sent() {
                            let source = self.add_source(
                                &source_of_site(&name),
                                site.to_string().into(),
                                &place,
                            );
                            Place { source, inner: Vec::new(), path: Vec::new() }
                        } else {
                            place.child(&name)
                        };
                        let source = place.source;
                        if !self.site(&name, &site, shared, place, &mut all)? && self.is_sent() {
                            let file = source_of_site(&name);
                            self.use_former_site(&name, &file, source, &mut all);
                        }
                    }
                }
                Value::String(_) | Value::Array(_) => {
                    for file in self.named(&sites, &place)? {
                        self.site_of_file(&file, shared, &place, &mut all)?;
                    }
                    let note = self.beside_sites(&sites, &place);
                    self.notes.extend(note.map(|note| self.problem(&place, &note)));
                }
                _ => self.keep(&place, "must be names of files, or an object of sites")?,
            }
        }
        // No steps are as good as no names.
        if let Some(routes) = members.get_mut("routes").filter(|routes| **routes == json!([])) {
            *routes = json!({});
        }
        let before = self.is_sent().then(|| Value::Object(members.clone()));
        self.add_shared(members, &addresses, all.is_encrypted)?;
        if let Some(before) = before {
            self.record_shared(&before, members, &all);
        }
        let document = self.sources.first().map(|source| source.file.as_path());
        let document = document.unwrap_or(Path::new(""));
        if self.is_sent() {
            let sites = (!self.without_https.is_empty()).then(|| listed(&self.without_https));
            self.notes.extend(sites.map(|sites| {
                format!(
                    "HTTP only: {sites}; to switch HTTPS on, type: howdah config set \
                     defaults/https '{{\"email\": \"you@example.org\"}}'"
                )
            }));
        } else {
            let note = http_only(&self.without_https, document);
            self.notes.extend(note.map(|note| format!("{}: {note}", document.display())));
        }
        for PartsOfSite { mut document, mut places, place } in all.parts {
            leave_out_known(members, &mut document);
            let first_origin = self.origins.len();
            for place in &mut places {
                lists::shift(&mut place.path, members);
            }
            self.places.append(&mut places);
            let inside = Place { source: place.source, inner: Vec::new(), path: Vec::new() };
            self.add(members, document, &inside, first_origin)?;
        }
        // Their requests are answered with 503, as there is no route of the name.
        let values = members.get_mut("variables").and_then(|all| all.get_mut("site"));
        let values = values.and_then(|site| site.get_mut("values")).and_then(Value::as_object_mut);
        if let Some(values) = values {
            for (host, name, source) in all.hosts {
                if !values.contains_key(&host) {
                    let path = ["variables", "site", "values", &host].map(str::to_owned).to_vec();
                    self.origins.push(Origin { path, source, inner: Vec::new() });
                    values.insert(host, Value::String(name));
                }
            }
            // The first pattern of a host counts: that of the site which says most about it.
            let mut sorted: Vec<_> = std::mem::take(values).into_iter().collect();
            sorted.sort_by_key(|(host, _)| (host.contains('*'), Reverse(host.len())));
            values.extend(sorted);
        }
        Ok(())
    }

    /// Reads the site of a file. One that cannot be used has its former parts.
    fn site_of_file(
        &mut self,
        file: &Path,
        shared: Shared<'_>,
        place: &Place,
        all: &mut Compiled,
    ) -> Result<(), String> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some((site, source)) = self.read_with(file, place, IncludedFiles::read_site)? {
            let inside = Place { source, inner: Vec::new(), path: Vec::new() };
            if self.site(name, &site, shared, inside, all)? {
                return Ok(());
            }
        }
        if !self.use_former_site(name, file, place.source, all) {
            let text = self.files.read_site(file).unwrap_or_default();
            let hosts = named_hosts(&json::parse(&text).unwrap_or_default());
            let source = self.add_source(file, text, place);
            all.hosts.extend(hosts.into_iter().map(|host| (host, name.to_owned(), source)));
        }
        Ok(())
    }

    /// Adds the parts that a site, which cannot be used, has in the former document. Returns false
    /// if there are none.
    fn use_former_site(
        &mut self,
        name: &str,
        file: &Path,
        source: usize,
        all: &mut Compiled,
    ) -> bool {
        if let Some(tolerance) = &self.tolerance {
            tolerance.change(file, |out| out.site = Some(name.to_owned()));
        }
        let top = Place { source, inner: Vec::new(), path: Vec::new() };
        let is_served = self.has_former_route(file);
        let former = is_served.then(|| self.former_members(file, &top)).flatten();
        let Some((mut former, source)) = former else { return false };
        self.add_former_shared(&mut former);
        all.is_encrypted |= former.contains_key("listeners");
        let place = Place { source, ..top };
        all.parts.push(PartsOfSite { document: former, places: Vec::new(), place });
        true
    }

    /// Compiles a site. Returns false if it has a mistake, which is kept.
    fn site(
        &mut self,
        name: &str,
        value: &Value,
        shared: Shared<'_>,
        place: Place,
        all: &mut Compiled,
    ) -> Result<bool, String> {
        let refuse = |reading: &mut Self, problem: String| {
            reading.reject_site(&place, problem).map(|()| false)
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_name) || RESERVED.contains(&name) {
            let problem = format!(
                "\"{}\" cannot be the name of a site: it must have letters, digits, \"-\", \"_\" \
                 and \".\" only, and not be {}",
                Shown(name),
                quoted(&RESERVED)
            );
            return refuse(self, self.problem(&place, &problem));
        }
        if !value.is_object() {
            let problem = "a site must be an object with \"hosts\" and \"root\"";
            return refuse(self, self.problem(&place, problem));
        }
        if let Some(key) =
            ["listeners", "applications"].iter().find(|key| value.get(**key).is_some())
        {
            let problem = format!(
                "is a whole document, as it has \"{key}\", and no site; a document of a server of \
                 its own belongs into /etc/howdah/servers, a part of this one into a file of \
                 \"include\""
            );
            return refuse(self, self.problem(&place, &problem));
        }
        let site = match Site::read(name, value, shared.defaults, shared.listen_https) {
            Ok(site) => site,
            Err(error) => {
                let errors = [&error].into_iter().chain(error.others());
                // Those of `defaults` have been told.
                let is_own = |error: &&Error| {
                    let steps: Vec<_> =
                        split_path(error.path()).into_iter().chain(unknown_key(error)).collect();
                    !shared.has_mistakes || !is_of_defaults(value, shared.defaults, &steps)
                };
                let errors = errors.filter(is_own);
                let mut texts: Vec<_> = errors.map(|error| self.place_of(&place, error)).collect();
                texts.dedup();
                if texts.is_empty() {
                    return Ok(false);
                }
                let file = self.sources.get(place.source).map(Source::file).unwrap_or_default();
                return refuse(self, format!("{file}{}", texts.join("; ")));
            }
        };
        self.begins(&place.child("root"), &site.root);
        match self.files.compile(&site) {
            Ok(parts) => {
                let first_place = self.places.len();
                for (path, key) in &parts.places {
                    self.add_place(path, key, value, &place, shared);
                }
                if site.https == SiteHttps::WithoutEmail {
                    self.without_https.push(site.name.clone());
                }
                for (key, note) in &parts.notes {
                    self.notes.push(self.problem(&place.child(key), note));
                }
                all.is_encrypted |= site.is_encrypted();
                let places = self.places.split_off(first_place.min(self.places.len()));
                all.parts.push(PartsOfSite { document: parts.document, places, place });
                Ok(true)
            }
            Err(SiteProblem { key, problem, because_of }) => {
                // A problem of a whole key is one of the site with this key.
                let of_defaults = key.len() > 1 && is_of_defaults(value, shared.defaults, &key);
                let from = shared.place.filter(|_| of_defaults).unwrap_or(&place);
                let key = key.iter().fold(from.clone(), |place, step| place.child(step));
                refuse(self, self.problem(&key, &problem))?;
                let file = self.sources.get(place.source).map(|source| source.file.as_path());
                if let (Some(tolerance), Some(file)) = (&self.tolerance, file) {
                    tolerance.change(file, |out| out.because_of = because_of);
                }
                Ok(false)
            }
        }
    }

    /// Records that a part of a site comes from a key of it. A mistake in a value of `defaults` is
    /// one of the document, not of the site.
    fn add_place(
        &mut self,
        path: &[String],
        key: &[String],
        site: &Value,
        place: &Place,
        shared: Shared<'_>,
    ) {
        let is_own = !is_of_defaults(site, shared.defaults, key);
        let from = shared.place.filter(|_| !is_own).unwrap_or(place);
        let inner = [from.inner.as_slice(), key].concat();
        self.places.push(Origin { path: path.to_vec(), source: from.source, inner });
        let is_merged = matches!(key, [key] if MERGED.contains(&key.as_str()));
        let all = find(shared.defaults, key).and_then(Value::as_object).filter(|_| is_merged);
        let (Some(from), Some(all)) = (shared.place.filter(|_| is_own), all) else { return };
        let own = find(site, key);
        for name in all.keys().filter(|name| own.is_some_and(|own| own.get(*name).is_none())) {
            let with = |steps: &[String]| [steps, std::slice::from_ref(name)].concat();
            let inner = with(&[from.inner.as_slice(), key].concat());
            self.places.push(Origin { path: with(path), source: from.source, inner });
        }
    }

    /// Handles a mistake of a site: one of the document itself is a mistake of the document.
    fn reject_site(&mut self, place: &Place, problem: String) -> Result<(), String> {
        let source = self.sources.get(place.source).filter(|source| source.included_by.is_some());
        match source.map(|source| source.file.clone()) {
            Some(file) => self.leave_out(&file, problem),
            None => self.reject(place.source, problem),
        }
    }

    /// Adds the parts that all sites share, unless the document has them.
    fn add_shared(
        &mut self,
        members: &mut Map<String, Value>,
        (listen, listen_https): &(Vec<String>, Vec<String>),
        is_encrypted: bool,
    ) -> Result<(), String> {
        let routes = members.entry("routes").or_insert_with(|| json!({}));
        let Some(routes) = routes.as_object_mut() else {
            let place = Place { source: 0, inner: vec!["routes".to_owned()], path: Vec::new() };
            let problem = "must be an object beside \"sites\": give the route a name, such as \
                           \"default\", which is for hosts that no site has";
            return self.keep(&place.child("routes"), problem);
        };
        for (name, steps) in [
            (
                "sites",
                json!([{"action": {"pass": "routes/$site", "max_body_size": MAX_SITE_BODY_SIZE}}]),
            ),
            ("default", json!([{"action": {"return": 404}}])),
        ] {
            routes.entry(name).or_insert(steps);
        }
        if let Some(variables) =
            members.entry("variables").or_insert_with(|| json!({})).as_object_mut()
        {
            let site = json!({"map": "$host", "values": {}, "default": "default"});
            variables.entry("site").or_insert(site);
        }
        let mut listen = listen.clone();
        if is_encrypted {
            listen.extend_from_slice(listen_https);
        }
        let listeners = members.entry("listeners").or_insert_with(|| json!({}));
        if let Some(listeners) = listeners.as_object_mut() {
            for address in listen {
                listeners.entry(address).or_insert_with(|| json!({"pass": "routes/sites"}));
            }
        }
        Ok(())
    }

    /// Records the parts that all sites of a document that was sent share, and adds the objects to
    /// which the sites add their parts: none of them is a part of one site. `before` is the document
    /// without them.
    fn record_shared(&mut self, before: &Value, members: &mut Map<String, Value>, all: &Compiled) {
        for parts in &all.parts {
            for (name, _) in parts.document.iter().filter(|(_, value)| value.is_object()) {
                members.entry(name.clone()).or_insert_with(|| json!({}));
            }
        }
        let top = Place { source: 0, inner: Vec::new(), path: Vec::new() };
        let source = self.add_source(Path::new(&format!("{SENT}/{SITES}")), Vec::new(), &top);
        let mut new = Vec::new();
        for (name, value) in members.iter() {
            let below = value.as_object().into_iter().flatten();
            let below = below.map(|(key, _)| vec![name.clone(), key.clone()]);
            let all = [vec![name.clone()]].into_iter().chain(below);
            new.extend(all.filter(|path| find(before, path).is_none()));
        }
        let origins = new.into_iter().map(|path| Origin { path, source, inner: Vec::new() });
        self.origins.extend(origins);
    }

    /// Returns a mistake with its line and its path in a site.
    fn place_of(&self, place: &Place, error: &Error) -> String {
        let mut inner = place.inner.clone();
        inner.extend(split_path(error.path()));
        // The line of a key that is not known is that of the key, not of its object.
        let key = unknown_key(error).filter(|_| inner.len() < 64);
        let at: Vec<_> = inner.iter().cloned().chain(key).collect();
        let source = self.sources.get(place.source);
        let line = source.map(|source| source.line(&at)).unwrap_or_default();
        match source.map_or_else(|| path(&inner), |source| source.path(&inner)) {
            path if path.is_empty() => format!("{line}{}", error.text()),
            path => format!("{line}{path}: {}", error.text()),
        }
    }
}

/// Returns what is written to switch HTTPS by ACME on for the sites of a document.
pub fn switch_on_https(document: &Path) -> String {
    format!(
        "to switch HTTPS on, write \"defaults\": {{\"https\": {{\"email\": \
         \"you@example.org\"}}}} into {}, then: howdah reload",
        document.display()
    )
}

/// Returns a line about the sites of a document that have HTTPS once there is an e-mail address for
/// the authority, if there are any.
pub fn http_only(sites: &[String], document: &Path) -> Option<String> {
    let advice = switch_on_https(document);
    let sites = (!sites.is_empty()).then(|| listed(sites))?;
    Some(format!("HTTP only: {sites}; {advice} (\"https\": false leaves it off)"))
}

/// Returns the number of sites and the first names.
fn listed(names: &[String]) -> String {
    let first = names.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        1 => format!("site {first}"),
        number if number <= MAX_LISTED => format!("{number} sites ({first})"),
        number => format!("{number} sites ({first}, ...)"),
    }
}

/// Returns the key that an error says is unknown.
fn unknown_key(error: &Error) -> Option<String> {
    let rest = error.message().strip_prefix("unknown key \"")?;
    rest.split('"').next().map(str::to_owned)
}

/// Returns the value at a path.
fn find<'v>(value: &'v Value, steps: &[String]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match value {
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Returns true for the path of a value that a site has from `defaults`.
fn is_of_defaults(site: &Value, defaults: &Value, steps: &[String]) -> bool {
    find(site, steps).is_none() && find(defaults, steps).is_some()
}

/// Returns the hosts that a site names, whatever else is wrong with it.
fn named_hosts(site: &Value) -> Vec<String> {
    let hosts = match site.get("hosts") {
        Some(Value::Array(hosts)) => hosts.iter().collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let is_host = |host: &&str| {
        let mut bytes = host.bytes();
        !host.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    hosts
        .into_iter()
        .filter_map(Value::as_str)
        .filter(is_host)
        .map(str::to_ascii_lowercase)
        .collect()
}
