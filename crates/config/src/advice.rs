//! Advice about a document: settings that are legal and nearly always a mistake.
//!
//! [`Config::advice`] examines only the document. `absent` finds refusals that leave out
//! requests, `effect` conditions without effect and steps that no request reaches, `caches` those that store nothing,
//! `habits` what is written as for nginx, `addresses` listeners that are in the way of each other, `loops` routes
//! that pass requests round, `unused` parts that nothing leads to, `upstreams` settings that need others, `variables` finds variables in strings in which they are not
//! expanded.

mod absent;
mod addresses;
mod caches;
mod effect;
mod habits;
mod line;
mod loops;
mod scripts;
mod shares;
#[cfg(test)]
mod tests;
mod unused;
mod upstreams;
mod variables;
#[cfg(test)]
mod whole_tests;

pub use line::Advice;
use line::add;

use crate::access_log::LogFormat;
use crate::action::ActionKind;
use crate::config::Config;
use crate::node::path;
use crate::target::{Pass, Target};

impl Config {
    /// Returns advice on settings of the document that are legal and nearly always a mistake.
    pub fn advice(&self) -> Vec<Advice> {
        let mut all = Vec::new();
        self.advise_on_listeners(&mut all);
        loops::of_routes(self, &mut all);
        for route in &self.routes {
            effect::of_route(self, route, &mut all);
        }
        for (place, action) in self.actions() {
            all.extend(action.rewrite.as_ref().and_then(|to| effect::of_rewrite(&place, to)));
            if let ActionKind::Pass(Pass::Fixed(Target::Route(_))) = &action.kind
                && !action.options.response_headers.is_empty()
            {
                let message = "is not for responses of the steps that requests are passed to, as the last action's \
                               counts; write it in these steps";
                add(&mut all, format!("{place}/response_headers"), message);
            }
            shares::of_fallback(&place, action, &mut all);
            habits::of_action(&place, action, &mut all);
            caches::of_cache(&place, action, &mut all);
            caches::of_expires(&place, action, &mut all);
            caches::of_cache_control(&place, action, &mut all);
            if let ActionKind::Share(share) = &action.kind {
                shares::of_share(self, &place, share, &mut all);
            }
        }
        for application in &self.applications {
            let place = path(["applications", application.name.as_str()]);
            for target in &application.targets {
                if target.root.is_relative() {
                    let root = target.root.to_string_lossy();
                    all.push(line::relative(format!("{place}/{}", target.key("root")), &root));
                }
            }
        }
        self.upstreams.iter().for_each(|upstream| upstreams::of_upstream(upstream, &mut all));
        upstreams::of_fastcgi(self, &mut all);
        for (place, log) in self.access_logs() {
            effect::of_access_log(&place, log, &mut all);
            if let LogFormat::Text(format) = &log.format
                && format.constant().is_some()
            {
                let message = "has no variable, so all lines are the same";
                add(&mut all, format!("{place}/format"), message);
            }
        }
        habits::of_variables(&self.document, &mut all);
        variables::unfilled(&self.document, &mut all);
        variables::of_shells(&self.document, &mut all);
        unused::of_document(self, &mut all);
        all
    }

    /// Returns the listeners that cannot be opened beside another one of the document.
    pub fn obstructed_listeners(&self) -> Vec<Advice> {
        let mut all = Vec::new();
        addresses::of_listeners(self, &mut all);
        all
    }

    fn advise_on_listeners(&self, all: &mut Vec<Advice>) {
        if self.listeners.is_empty() {
            let message = "there are none, so no request can arrive; write {\"*:80\": {\"pass\": \
                           \"routes\"}}";
            add(all, "/listeners".to_owned(), message);
        }
        for listener in &self.listeners {
            if let Pass::Fixed(Target::Route(name)) = &listener.pass
                && self.route(name.as_deref()).is_some_and(|route| route.steps.is_empty())
            {
                let place = format!("{}/pass", path(["listeners", listener.name.as_str()]));
                add(
                    all,
                    place,
                    "leads to a route without steps, so each request is answered with 404",
                );
            }
        }
    }
}
