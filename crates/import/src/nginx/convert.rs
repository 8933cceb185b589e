//! The document that grows while a configuration is read.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};

use super::context::Place;
use super::limits::Zone;
use super::reader::Directive;
use super::scope::Scope;
use super::state::{Captures, State};
use super::template::Template;
use super::variables::{Definitions, Object};
use crate::php_fpm::Pool;
use crate::{Id, Report, Status};

/// Origin of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A pool of PHP-FPM that is imported, by its place in the list.
    Pool(usize),
    /// A FastCGI server, by the text of its members.
    Server(String),
}

/// An application of the document.
#[derive(Debug)]
pub struct Application {
    /// Name in the document.
    pub name: String,
    /// The pool or server that the application stands for.
    pub origin: Origin,
    /// Members of the application without `targets`.
    pub base: Object,
    /// Targets of the application by name.
    pub targets: Vec<(String, Object)>,
    /// Routes of internal redirects of the sites that use it.
    pub sites: Vec<String>,
}

impl Application {
    /// An application without targets.
    pub fn new(name: String, origin: Origin, base: Object) -> Self {
        Self { name, origin, base, targets: Vec::new(), sites: Vec::new() }
    }
}

/// The action of a location, by its directive, the variant of the choice, and the groups.
type LocationKey = (usize, String, Option<Captures>);

/// The first directive of a run, the levels of its place, the kind of its place, and the state.
pub type RunKey = (usize, (usize, usize), (bool, bool, String), State);

/// Converts a configuration.
pub struct Converter<'a> {
    /// What became of each directive.
    pub report: &'a mut Report,
    /// The pools of PHP-FPM.
    pub pools: Vec<Pool>,
    /// The directory of relative paths of the configuration.
    pub directory: PathBuf,
    /// Values of `map`, `geo` and `split_clients`; `None` if they have no equivalent.
    pub tables: BTreeMap<String, Option<Template>>,
    /// Names of the variables of the document with their definitions.
    pub definitions: Definitions,
    /// Number of variables that the value of each leads to.
    pub weights: BTreeMap<String, usize>,
    /// The variables of the document, in their order.
    pub variables: Vec<(String, Value)>,
    /// The routes.
    pub routes: Object,
    /// Names of routes that are not written yet.
    pub reserved: BTreeSet<String>,
    /// Names of routes by their steps.
    known_routes: HashMap<String, String>,
    /// The applications.
    pub applications: Vec<Application>,
    /// The upstreams.
    pub upstreams: Object,
    /// The blocks of `upstream`.
    pub upstream_blocks: Vec<Rc<Directive>>,
    /// Routes of internal redirects of the sites that use an upstream.
    pub upstream_sites: BTreeMap<String, Vec<String>>,
    /// Zones of limits by directive and name.
    pub zones: BTreeMap<(String, String), Zone>,
    /// Stores of caches by family and name.
    pub stores: BTreeMap<(String, String), Object>,
    /// Formats of access logs.
    pub log_formats: BTreeMap<String, Value>,
    /// Maximum size of a request's body in the settings.
    pub body_size: u64,
    /// Responses are compressed in some place.
    pub compresses: bool,
    /// Actions of locations.
    pub converted_locations: BTreeMap<LocationKey, Object>,
    /// Routes of named locations by their directives, the variant of the choice, and the state with
    /// which requests come to them.
    pub named_routes: BTreeMap<(usize, String, State), String>,
    /// Depth of named locations that lead to each other in another state.
    pub named_within: usize,
    /// Choices of locations by server and values of variables.
    pub selections: Vec<(String, BTreeMap<String, Option<Template>>, String)>,
    /// Depth of choices of locations for requests that a location has rewritten.
    pub selections_within: usize,
    /// Steps of directives that nginx carries out in their order.
    pub known_runs: BTreeMap<RunKey, Vec<Value>>,
    /// Number of branches of the server.
    pub branches: usize,
    /// Depth of branches, and of variables in variables.
    pub depth: usize,
    /// The configuration is what stands within `http`.
    pub is_part: bool,
    /// Files of messages by names of applications.
    pub error_logs: Object,
    /// Blocks whose requests are refused because something in them cannot be converted.
    pub closed_blocks: BTreeSet<Id>,
    /// Media types by endings.
    pub types: BTreeMap<String, String>,
    /// Settings from outside of `http`.
    pub settings: Object,
}

/// Maximum number of branches of a server.
const MAX_BRANCHES: usize = 2000;

/// Maximum number of routes.
const MAX_ROUTES: usize = 50_000;

impl<'a> Converter<'a> {
    /// An empty document.
    pub fn new(report: &'a mut Report, pools: Vec<Pool>, directory: PathBuf) -> Self {
        Self {
            report,
            pools,
            directory,
            tables: BTreeMap::new(),
            definitions: BTreeMap::new(),
            weights: BTreeMap::new(),
            variables: Vec::new(),
            routes: Object::new(),
            reserved: BTreeSet::new(),
            known_routes: HashMap::new(),
            applications: Vec::new(),
            upstreams: Object::new(),
            upstream_blocks: Vec::new(),
            upstream_sites: BTreeMap::new(),
            zones: BTreeMap::new(),
            stores: BTreeMap::new(),
            log_formats: BTreeMap::new(),
            body_size: super::options::DEFAULT_BODY_SIZE,
            compresses: false,
            converted_locations: BTreeMap::new(),
            named_routes: BTreeMap::new(),
            named_within: 0,
            selections: Vec::new(),
            selections_within: 0,
            known_runs: BTreeMap::new(),
            branches: 0,
            depth: 0,
            is_part: false,
            error_logs: Object::new(),
            closed_blocks: BTreeSet::new(),
            types: BTreeMap::new(),
            settings: Object::new(),
        }
    }

    /// Begins with another server.
    pub fn begin_site(&mut self) {
        self.known_routes.clear();
        self.known_runs.clear();
        self.branches = 0;
    }

    /// Returns false if the server has become too large.
    pub fn has_room(&mut self) -> bool {
        self.branches += 1;
        self.branches <= MAX_BRANCHES && self.routes.len() < MAX_ROUTES
    }

    /// Adds a route; steps that the server has already have the same name.
    pub fn add_route(&mut self, hint: &str, steps: Vec<Value>) -> String {
        let steps = Value::Array(steps);
        let text = steps.to_string();
        if let Some(name) = self.known_routes.get(&text) {
            return name.clone();
        }
        let name = self.route_name(hint);
        self.routes.insert(name.clone(), steps);
        self.known_routes.insert(text, name.clone());
        name
    }

    /// Returns a name that no route has.
    pub fn route_name(&self, hint: &str) -> String {
        let is_free = |name: &str| !self.routes.contains_key(name) && !self.reserved.contains(name);
        unique(hint, is_free)
    }

    /// Returns the name of the route of a named location.
    pub fn named_route(&self, site: &str, name: &str, variant: &str) -> String {
        format!("{site}@{}{variant}", super::locations::slug(name))
    }

    /// Returns a name that no application has.
    pub fn application_name(&self, hint: &str) -> String {
        let hint = super::locations::slug(hint);
        unique(&hint, |name| !self.applications.iter().any(|other| other.name == name))
    }

    /// Returns the name of an upstream with these members.
    pub fn add_upstream(&mut self, hint: &str, members: Object) -> String {
        let value = Value::from(members);
        let hint = super::locations::slug(hint.trim_start_matches("unix:"));
        let is_it = |(name, other): (&String, &Value)| {
            (*other == value && (name == &hint || name.starts_with(&format!("{hint}-"))))
                .then(|| name.clone())
        };
        if let Some(name) = self.upstreams.iter().find_map(is_it) {
            return name;
        }
        let name = unique(&hint, |name| !self.upstreams.contains_key(name));
        self.upstreams.insert(name.clone(), value);
        name
    }

    /// Returns the destination of an application's target with these members.
    pub fn target(&mut self, application: usize, members: Object, hint: &str) -> String {
        let application = &mut self.applications[application];
        let found = application
            .targets
            .iter()
            .find(|(_, other)| *other == members)
            .map(|(name, _)| name.clone());
        let name = found.unwrap_or_else(|| {
            let name =
                unique(hint, |name| !application.targets.iter().any(|(other, _)| other == name));
            application.targets.push((name.clone(), members));
            name
        });
        format!("applications/{}/{name}", application.name)
    }

    /// Remembers that a server uses an application.
    pub fn note_site(&mut self, application: usize, place: &Place<'_>) {
        let Some(site) = &place.site else { return };
        let entry = site.internal_entry();
        let sites = &mut self.applications[application].sites;
        if !sites.contains(&entry) {
            sites.push(entry);
        }
    }

    /// Returns a path of the configuration that may be relative to its directory.
    pub fn whole_path(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        self.directory.join(path).to_string_lossy().into_owned()
    }

    /// Remembers that requests of a place are refused, so that what follows there has no effect.
    pub fn note_closed(&mut self, place: &Place<'_>) {
        let location = place.location.as_ref().map(|location| location.directive.id);
        let block = location.or_else(|| place.site.as_ref().map(|site| site.directive.id));
        self.closed_blocks.extend(block);
    }

    /// Marks all of these directives as not converted.
    pub fn skip_all(&mut self, directives: &[Directive], reason: &str) {
        for directive in directives {
            self.report.mark(directive.id, Status::NotConverted, reason);
            self.skip_all(directive.children(), reason);
        }
    }

    /// Marks directives of a family as not needed.
    pub fn skip_family(&mut self, place: &Place<'_>, prefix: &str, reason: &str) {
        for directive in place.scope.directives() {
            if directive.name.starts_with(prefix) && !directive.name.ends_with("_pass") {
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
        }
    }

    /// Returns the level of `http` around a place.
    pub fn http_scope<'t>(&self, place: &Place<'t>) -> Option<Scope<'t>> {
        place.site.as_ref()?.scope.parent().cloned()
    }

    /// Returns the applications of the document.
    pub fn application_values(&self) -> (Object, Vec<(String, String)>) {
        let mut all = Object::new();
        let mut renamed = Vec::new();
        for application in
            self.applications.iter().filter(|application| !application.targets.is_empty())
        {
            let mut members = application.base.clone();
            match application.targets.as_slice() {
                [(name, target)] => {
                    members.extend(target.clone());
                    let whole = format!("applications/{}", application.name);
                    renamed.push((format!("{whole}/{name}"), whole));
                }
                targets => {
                    let targets: Object = targets
                        .iter()
                        .map(|(name, target)| (name.clone(), json!(target)))
                        .collect();
                    members.insert("targets".to_owned(), targets.into());
                }
            }
            all.insert(application.name.clone(), members.into());
        }
        (all, renamed)
    }
}

/// Returns the first of `hint`, `hint-2`, … that is free.
pub fn unique(hint: &str, is_free: impl Fn(&str) -> bool) -> String {
    let mut name = hint.to_owned();
    let mut number = 1;
    while !is_free(&name) {
        number += 1;
        name = format!("{hint}-{number}");
    }
    name
}

/// Returns the directory of a file, in the words of the configuration.
pub fn directory_of(file: &Path, root: Option<&Path>) -> PathBuf {
    let whole = match root.and_then(|root| file.strip_prefix(root).ok()) {
        Some(inside) => Path::new("/").join(inside),
        None => file.to_owned(),
    };
    whole.parent().map(Path::to_owned).unwrap_or_default()
}
