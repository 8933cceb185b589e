//! Settings of PHP that routes set for the requests of an application.
//!
//! A worker takes these alone from the router, which other users could have taken over. They are those
//! of the routes that lead to the application: a setting of one site is no change of the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::{Action, ActionKind, PageSource};
use crate::actions;
use crate::target::{Pass, Target};
use crate::{Config, Route};

/// The names of settings by application.
#[derive(Debug, Default)]
pub(crate) struct RouteSettings {
    by_application: BTreeMap<String, BTreeSet<String>>,
    /// Those that may reach any application.
    of_all: BTreeSet<String>,
}

/// Where the actions of a route lead.
#[derive(Default)]
struct Reach<'a> {
    names: BTreeSet<&'a String>,
    routes: BTreeSet<Option<&'a str>>,
    applications: BTreeSet<&'a str>,
    is_anywhere: bool,
}

impl RouteSettings {
    /// Returns the names of the settings of an application, in order.
    pub(crate) fn of(&self, application: &str) -> Vec<String> {
        let own = self.by_application.get(application);
        own.into_iter()
            .flatten()
            .chain(&self.of_all)
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

impl Config {
    /// Returns the settings that routes set.
    pub(crate) fn settings_of_routes(&self) -> RouteSettings {
        let by_name = |route| (Route::name(route), Reach::of(route));
        let routes: BTreeMap<_, _> = self.routes.iter().map(by_name).collect();
        let redirects = |application: &str| {
            self.application(application).is_some_and(|one| one.delegation.redirects())
        };
        let mut settings = RouteSettings::default();
        for (name, reach) in routes.iter().filter(|(_, reach)| !reach.names.is_empty()) {
            let (mut known, mut left) = (BTreeSet::from([*name]), vec![*name]);
            let (mut applications, mut is_anywhere) = (BTreeSet::new(), false);
            while let Some(next) = left.pop().and_then(|name| routes.get(&name)) {
                is_anywhere |= next.is_anywhere;
                applications.extend(next.applications.iter().copied());
                left.extend(next.routes.iter().copied().filter(|route| known.insert(*route)));
            }
            let names = || reach.names.iter().map(|name| (*name).clone());
            if is_anywhere || applications.iter().any(|one| redirects(one)) {
                settings.of_all.extend(names());
                continue;
            }
            for application in applications {
                settings.by_application.entry(application.to_owned()).or_default().extend(names());
            }
        }
        settings
    }
}

impl Route {
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl<'a> Reach<'a> {
    fn of(route: &'a Route) -> Reach<'a> {
        let mut reach = Reach::default();
        let mut all = Vec::new();
        for step in &route.steps {
            actions::add(&mut all, String::new(), &step.action);
        }
        all.into_iter().for_each(|(_, action)| reach.add(action));
        reach
    }

    fn add(&mut self, action: &'a Action) {
        let options = &action.options;
        let settings = options.php_settings.iter().chain(&options.locked_php_settings);
        self.names.extend(settings.map(|(name, _)| name));
        match &action.kind {
            ActionKind::Pass(pass) => self.pass(pass),
            ActionKind::Share(share) => share.scripts.iter().for_each(|pass| self.pass(pass)),
            _ => {}
        }
        // A page is a request of its own, which begins with the routes of the listener.
        let is_path = |page: &crate::ErrorPage| !matches!(page.source, PageSource::File(_));
        self.is_anywhere |= action.error_pages.iter().any(is_path);
    }

    fn pass(&mut self, pass: &'a Pass) {
        match pass {
            Pass::Fixed(Target::Route(name)) => drop(self.routes.insert(name.as_deref())),
            Pass::Fixed(Target::Application { name, .. }) => drop(self.applications.insert(name)),
            Pass::Fixed(
                Target::Upstream(_)
                | Target::Stream(_)
                | Target::Mail(_)
                | Target::Metrics
                | Target::Probes,
            ) => {}
            Pass::Variable(_) => self.is_anywhere = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn an_application_takes_the_settings_of_the_routes_that_lead_to_it() {
        let php = json!({"type": "php", "root": "/"});
        let pass = |name: &str, setting: &str| {
            json!([{"action": {
                "pass": name,
                "options": {"user": {setting: "1"}, "admin": {"memory_limit": "1"}},
            }}])
        };
        let read = |extra: serde_json::Value| {
            let mut document = json!({
                "routes": {
                    "sites": [{"action": {"pass": "routes/$host"}}],
                    "a": pass("routes/b", "of_a"),
                    "b": pass("applications/b", "of_b"),
                    "c": [{"action": {"share": "/x$uri", "scripts": "applications/c", "htaccess": true,
                        "options": {"user": {"of_c": "1"}}}}],
                    "d": [{"action": {"share": "/x$uri", "scripts": "applications/d",
                        "fallback": {"pass": "routes/d"}, "options": {"user": {"of_d": "1"}}}}],
                },
                "applications": {"a": php, "b": php, "c": php, "d": php},
            });
            if let Some(route) = extra.as_array() {
                document["routes"]["sites"] = json!(route);
            }
            let config = crate::parse(document.to_string().as_bytes()).unwrap();
            let of = config.applications.iter();
            of.map(|one| one.route_settings.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(read(json!(null)), ["", "memory_limit of_a of_b", "", "of_d"]);
        let anywhere =
            json!([{"action": {"pass": "routes/$host", "options": {"user": {"x": ""}}}}]);
        assert_eq!(read(anywhere), ["x", "memory_limit of_a of_b x", "", "of_d x"]);
    }
}
