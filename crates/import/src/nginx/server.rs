//! Servers: which one has a request, and its routes.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};

use super::context::{Kind, Location, Place, Site};
use super::convert::Converter;
use super::listen::Listen;
use super::pcre::{self, NO_EQUIVALENT};
use super::reader::Directive;
use super::scope::Scope;
use super::state::State;
use super::steps::{object, step};
use super::template::Template;
use super::variables::Object;
use crate::{Error, Status};

/// A server with its names and addresses.
pub struct Server<'t> {
    /// Its directives.
    pub site: Rc<Site<'t>>,
    /// Its names, as they stand.
    pub names: Vec<&'t str>,
    /// Its addresses.
    pub listens: Vec<Listen>,
    /// Options that all of its actions share.
    pub options: Object,
    /// Values of groups of its names.
    state: State,
}

impl<'t> Server<'t> {
    /// A server that only its own directives describe.
    pub fn without_locations(directive: &'t Directive, scope: &Scope<'t>) -> Self {
        let site = Rc::new(Site {
            directive,
            scope: scope.clone(),
            name: String::new(),
            server_name: String::new(),
            locations: Vec::new(),
            has_internal: false,
            has_rewrites: false,
        });
        let (names, listens) = (Vec::new(), Vec::new());
        Server { site, names, listens, options: Object::new(), state: State::default() }
    }
}

/// Maximum number of locations one behind the other that rewrite a request with other values of
/// variables. nginx refuses a request after ten rewrites.
const MAX_SELECTIONS_WITHIN: usize = 2;

/// Maximum number of choices of locations for different values of variables.
const MAX_VARIANTS: usize = 16;

impl<'t> Converter<'_> {
    /// Reads a block.
    pub fn read_server(
        &mut self,
        directive: &'t Directive,
        http: &Scope<'t>,
    ) -> Result<Server<'t>, Error> {
        self.report.converted(directive.id);
        let scope = http.inner(directive.children());
        let mut names: Vec<&str> = Vec::new();
        for names_of in scope.own_all("server_name") {
            self.report.converted(names_of.id);
            for name in &names_of.args {
                if name == "$hostname" {
                    self.report.mark(
                        names_of.id,
                        Status::NotConverted,
                        "the name of the machine is not known here",
                    );
                    continue;
                }
                names.push(name);
            }
        }
        let mut listens = Vec::new();
        let directives = scope.own_all("listen");
        for listen in &directives {
            listens.extend(Listen::read(listen, self.report)?);
        }
        if directives.is_empty() {
            listens.push(Listen::default_address());
        }
        if let Some(ssl) = scope.one("ssl") {
            // The old form of `listen … ssl`.
            self.report.converted(ssl.id);
            if scope.is_on("ssl") {
                listens.iter_mut().for_each(|listen| listen.is_tls = true);
            }
        }
        let first = names.first().copied().unwrap_or_default();
        let server_name = first.strip_prefix('.').unwrap_or(first).to_owned();
        let hint = match super::locations::slug(first.trim_start_matches(['*', '.'])).as_str() {
            "root" | "_" => "site".to_owned(),
            _ if first.starts_with('~') => "site".to_owned(),
            slug => slug.to_owned(),
        };
        let name = self.route_name(&hint);
        let locations = Location::read_all(&scope)?;
        let has_rewrites = directive.children().iter().any(|inner| {
            matches!(inner.name.as_str(), "set" | "if" | "rewrite" | "return" | "break")
        });
        let site = Site {
            directive,
            scope,
            name,
            server_name,
            has_internal: has_internal(&locations),
            locations,
            has_rewrites,
        };
        for name in [
            site.entry(),
            site.internal_entry(),
            site.selection(false, ""),
            site.selection(true, ""),
        ] {
            self.reserved.insert(name);
        }
        let state = self.groups_of_names(&names);
        Ok(Server { site: Rc::new(site), names, listens, options: Object::new(), state })
    }

    /// Returns the values of the groups of names that are regular expressions.
    fn groups_of_names(&mut self, names: &[&str]) -> State {
        let mut values: BTreeMap<String, Object> = BTreeMap::new();
        for name in names {
            let Some(expression) =
                name.strip_prefix('~').and_then(|regex| pcre::convert(regex, true))
            else {
                continue;
            };
            for number in 1..=expression.groups.min(9) {
                let names = expression
                    .names
                    .iter()
                    .filter(|(_, other)| *other == number)
                    .map(|(name, _)| name.clone());
                for name in names.chain([number.to_string()]) {
                    values
                        .entry(name.to_ascii_lowercase())
                        .or_default()
                        .insert(format!("~{}", expression.text), format!("${number}").into());
                }
            }
        }
        let mut state = State::default();
        for (name, values) in values {
            let definition = json!({ "map": "$host", "values": values });
            let hint = if name.starts_with(|c: char| c.is_ascii_digit()) {
                "part_of_host".to_owned()
            } else {
                name.clone()
            };
            state.variables.insert(name, Some(Template::variable(&self.define(&hint, definition))));
        }
        state
    }

    /// Converts a server.
    pub fn site(&mut self, server: &mut Server<'t>) {
        self.begin_site();
        let before = self.routes.len();
        let site = Rc::clone(&server.site);
        let place = Place::of_site(&site);
        if site.has_rewrites {
            let steps = self.rewrites_of_server(&place, &server.state, false);
            self.routes.insert(site.entry(), steps.into());
            if site.has_internal {
                let steps = self.rewrites_of_server(&place, &server.state, true);
                self.routes.insert(site.internal_entry(), steps.into());
            }
        } else {
            self.selection_route(&place, &server.state, false);
        }
        let is_selected = self.selections.iter().any(|(name, ..)| *name == site.name);
        let has_named = site.locations.iter().any(|location| location.kind == Kind::Named);
        if !is_selected && has_named {
            // No request comes to a location, but an error page may lead to a named one.
            self.selection_route(&place, &server.state, false);
        }
        server.options = self.hoist(before);
        let limits = self.limits(&place, &State::default());
        if ["limit_req", "limit_conn"].iter().any(|name| self.is_limit_of_server(&place, name)) {
            server.options.extend(limits);
        }
        self.error_log(&site);
    }

    /// Gives the applications of a server alone the file of its messages.
    fn error_log(&mut self, site: &Rc<Site<'t>>) {
        let Some(directive) = site.scope.own("error_log") else { return };
        let file = directive.arg(0);
        if !file.starts_with('/') || file == "/dev/null" || file.contains('$') {
            return;
        }
        let entry = site.internal_entry();
        let names: Vec<String> = self
            .applications
            .iter()
            .filter(|application| application.sites == [entry.clone()])
            .map(|application| application.name.clone())
            .collect();
        for name in names {
            self.error_logs.insert(name, file.into());
        }
    }

    /// Returns the name of the route that chooses a location, for some values of variables.
    pub fn selection_route(
        &mut self,
        place: &Place<'t>,
        state: &State,
        is_internal: bool,
    ) -> String {
        let Some(site) = place.site.clone() else { return String::new() };
        let variables = variables_of(&site, state);
        let known = self.known_variant(&site, &variables);
        let number = self.selections.iter().filter(|(name, ..)| *name == site.name).count();
        let variant = match known {
            Some(variant) => return site.selection(is_internal, &variant),
            None if number == 0 => String::new(),
            None if number >= MAX_VARIANTS => {
                self.report.mark(site.directive.id, Status::NotConverted, "variables of the server have too many different values; some requests are refused (403)");
                return self.add_route(
                    &format!("{}-refused", site.name),
                    vec![step(Object::new(), object([("return", 403.into())]))],
                );
            }
            None => format!("-{}", number + 1),
        };
        self.selections.push((site.name.clone(), variables.clone(), variant.clone()));
        let place = Place { variant: variant.clone(), ..Place::of_site(&site) };
        let state = State { variables, captures: None, is_rewritten: false };
        for location in site.locations.iter().filter(|location| location.kind == Kind::Named) {
            self.reserved.insert(self.named_route(&site.name, &location.name, &variant));
        }
        for is_internal in [false, true] {
            let name = site.selection(is_internal, &variant);
            self.reserved.insert(name.clone());
            if !is_internal || site.has_internal {
                let steps = self.selection(&place, &state, is_internal);
                self.routes.insert(name, steps.into());
            }
        }
        for location in site.locations.iter().filter(|location| location.kind == Kind::Named) {
            self.report.converted(location.directive.id);
            let name = self.named_route(&site.name, &location.name, &variant);
            let steps = self.rewrites_of_location(&place.in_location(location), &state);
            self.routes.insert(name, steps.into());
        }
        site.selection(is_internal, &variant)
    }

    /// Returns the suffix of the routes that choose a location for these values of variables.
    fn known_variant(
        &self,
        site: &Site<'_>,
        variables: &BTreeMap<String, Option<Template>>,
    ) -> Option<String> {
        let is_it =
            |(name, others, _): &&(String, _, String)| *name == site.name && others == variables;
        self.selections.iter().find(is_it).map(|(.., variant)| variant.clone())
    }

    /// Returns the variant of the choice of locations for a state; `None` if there is none yet.
    pub fn variant_of(&self, place: &Place<'t>, state: &State) -> Option<String> {
        let site = place.site.as_ref()?;
        let variables = variables_of(site, state);
        let has_choices = self.selections.iter().any(|(name, ..)| *name == site.name);
        match self.known_variant(site, &variables) {
            None if !has_choices || variables.is_empty() => Some(place.variant.clone()),
            variant => variant,
        }
    }

    /// Returns the name of the route that chooses a location for a request that another location has
    /// rewritten, whose variables keep their values.
    pub fn selection_again(&mut self, place: &Place<'t>, state: &State) -> String {
        let Some(site) = place.site.clone() else { return String::new() };
        let is_known = self.known_variant(&site, &variables_of(&site, state)).is_some();
        if self.selections_within >= MAX_SELECTIONS_WITHIN && !is_known {
            let location = place.location.as_ref().map(|location| location.directive);
            if let Some(directive) = location {
                let reason = "a request that comes here after several rewrites, with other values of variables each time, is refused (500)";
                self.report.mark(directive.id, Status::Changed, reason);
            }
            let steps = vec![step(Object::new(), object([("return", 500.into())]))];
            return self.add_route("rewritten-too-often", steps);
        }
        self.selections_within += 1;
        let name = self.selection_route(place, state, true);
        self.selections_within -= 1;
        name
    }

    /// Returns the steps for an address: servers by their names, in nginx's order.
    pub fn hosts(
        &mut self,
        servers: &[&Server<'t>],
        default: usize,
        is_internal: bool,
    ) -> Vec<Value> {
        let mut exact: Vec<(usize, Vec<String>)> = Vec::new();
        let (mut leading, mut trailing, mut regexes) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: Vec<String> = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let mut own = Vec::new();
            let names: Vec<&str> =
                if server.names.is_empty() { vec![""] } else { server.names.clone() };
            for name in names {
                if let Some(regex) = name.strip_prefix('~') {
                    match pcre::convert(regex, true) {
                        Some(expression) => {
                            let mut patterns = vec![format!("~{}", expression.text)];
                            patterns
                                .extend(expression.excluded.iter().map(|text| format!("!~{text}")));
                            regexes.push((number, patterns));
                        }
                        None => {
                            for directive in server.site.scope.own_all("server_name") {
                                let reason = format!(
                                    "{NO_EQUIVALENT}; the hosts that it may match are refused (403)"
                                );
                                self.report.mark(directive.id, Status::NotConverted, reason);
                            }
                            let superset = pcre::superset(regex, true)
                                .map_or_else(String::new, |expression| expression.text);
                            regexes.push((usize::MAX, vec![format!("~{superset}")]));
                        }
                    }
                    continue;
                }
                let name = name.to_ascii_lowercase();
                let (plain, below) = match name.strip_prefix('.') {
                    Some(rest) => (Some(rest.to_owned()), Some(format!("*.{rest}"))),
                    None if name.starts_with("*.") => (None, Some(name.clone())),
                    None if name.ends_with(".*") => {
                        if !seen.contains(&name) {
                            trailing.push((number, vec![name.clone()]));
                            seen.push(name.clone());
                        }
                        (None, None)
                    }
                    None => (Some(name.clone()), None),
                };
                // Of two servers with one name the first counts. Of a name with a dot in front, nginx
                // leaves out both parts if one is taken.
                if let (Some(plain), Some(below)) = (&plain, &below)
                    && (seen.contains(plain) || seen.contains(below))
                {
                    continue;
                }
                if let Some(plain) =
                    plain.filter(|plain| !seen.contains(plain) && !plain.contains(['*', '~', '!']))
                {
                    seen.push(plain.clone());
                    own.push(plain);
                }
                if let Some(below) = below.filter(|below| !seen.contains(below)) {
                    seen.push(below.clone());
                    leading.push((number, vec![below]));
                }
            }
            own.retain(|name| name != "_");
            if !own.is_empty() {
                exact.push((number, own));
            }
        }
        let length = |(_, names): &(usize, Vec<String>)| {
            std::cmp::Reverse(names.first().map_or(0, String::len))
        };
        leading.sort_by_key(length);
        trailing.sort_by_key(length);
        let mut steps = Vec::new();
        for (number, names) in exact.into_iter().chain(leading).chain(trailing).chain(regexes) {
            let action = match servers.get(number) {
                Some(server) => server_action(server, is_internal),
                None => object([("return", 403.into())]),
            };
            steps.push(step(object([("host", super::steps::patterns(names))]), action));
        }
        if let Some(server) = servers.get(default) {
            steps.push(step(Object::new(), server_action(server, is_internal)));
        }
        // Steps in front of the last one that do the same are not needed.
        while let [.., before, last] = steps.as_slice() {
            if before["action"] != last["action"] {
                break;
            }
            let last = steps.pop().unwrap_or_default();
            steps.pop();
            steps.push(last);
        }
        steps
    }
}

/// Returns the action that passes requests to a server.
fn server_action(server: &Server<'_>, is_internal: bool) -> Object {
    if is_internal {
        return object([("pass", format!("routes/{}", server.site.internal_entry()).into())]);
    }
    let mut action = object([("pass", format!("routes/{}", server.site.entry()).into())]);
    action.extend(server.options.clone());
    action
}

fn has_internal(locations: &[Rc<Location<'_>>]) -> bool {
    locations.iter().any(|location| location.is_internal() || has_internal(&location.inner))
}

/// Returns the values of variables that the locations of a server use.
fn variables_of(site: &Site<'_>, state: &State) -> BTreeMap<String, Option<Template>> {
    let mut used = Vec::new();
    names_in(&site.locations, &mut used);
    names_around(&site.scope, &mut used);
    let variables = state.variables.iter().filter(|(name, _)| used.contains(name));
    variables.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Collects the names of variables in the directives of locations.
fn names_in(locations: &[Rc<Location<'_>>], found: &mut Vec<String>) {
    fn add(directives: &[Directive], found: &mut Vec<String>) {
        for directive in directives {
            found.extend(directive.args.iter().flat_map(|arg| super::variables::names_of(arg)));
            add(directive.children(), found);
        }
    }
    for location in locations {
        add(location.directive.children(), found);
    }
}

/// Collects the names of variables in the directives of a server, and of `http`, that its locations
/// may inherit.
fn names_around(scope: &Scope<'_>, found: &mut Vec<String>) {
    const OWN: [&str; 7] = ["set", "if", "rewrite", "return", "location", "server", "map"];
    let mut scope = Some(scope);
    while let Some(level) = scope {
        let inherited =
            level.directives().iter().filter(|directive| !OWN.contains(&&*directive.name));
        for directive in inherited {
            found.extend(directive.args.iter().flat_map(|arg| super::variables::names_of(arg)));
        }
        scope = level.parent();
    }
}
