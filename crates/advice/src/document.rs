//! Advice about a document: settings that are legal and nearly always a mistake.
//!
//! [`advise`] examines only the document. `absent` finds refusals that leave out requests, `effect`
//! conditions without effect and steps that no request reaches, `caches` those that store nothing,
//! `habits` texts that are written as for nginx, `addresses` listeners that conflict, `loops`
//! routes that pass requests round, `unused` parts that nothing leads to, `upstreams` settings that
//! need others, `variables` finds variables in strings in which they are not expanded.

mod absent;
mod addresses;
mod caches;
mod effect;
mod habits;
mod line;
mod loops;
mod mail;
mod scripts;
mod shares;
#[cfg(test)]
mod tests;
mod unused;
mod upstreams;
mod variables;
#[cfg(test)]
mod whole_tests;

use howdah_config::{ActionKind, Address, Config, LogFormat, Pass, Shown, Target, path};

use line::add;

pub use line::Advice;

/// The bit of a socket's mode that lets all users connect.
const OTHERS_CONNECT: u32 = 0o002;

/// Returns advice on settings of the document that are legal and nearly always a mistake.
pub fn advise(config: &Config) -> Vec<Advice> {
    let mut all = Vec::new();
    of_listeners(config, &mut all);
    loops::of_routes(config, &mut all);
    for route in &config.routes {
        effect::of_route(config, route, &mut all);
    }
    for (place, action) in config.actions() {
        all.extend(action.rewrite.as_ref().and_then(|to| effect::of_rewrite(&place, to)));
        if let ActionKind::Pass(Pass::Fixed(Target::Route(_))) = &action.kind
            && !action.options.response_headers.is_empty()
        {
            let message = "is not for responses of the steps that requests are passed to, as the \
                           last action's counts; write it in these steps";
            add(&mut all, format!("{place}/response_headers"), message);
        }
        shares::of_fallback(&place, action, &mut all);
        habits::of_action(&place, action, &mut all);
        caches::of_cache(&place, action, &mut all);
        caches::of_expires(&place, action, &mut all);
        caches::of_cache_control(&place, action, &mut all);
        if let ActionKind::Share(share) = &action.kind {
            shares::of_share(config, &place, share, &mut all);
        }
    }
    for application in &config.applications {
        let place = path(["applications", application.name.as_str()]);
        for target in &application.targets {
            if target.root.is_relative() {
                let root = target.root.to_string_lossy();
                all.push(line::relative(format!("{place}/{}", target.key("root")), &root));
            }
        }
    }
    config.upstreams.iter().for_each(|upstream| upstreams::of_upstream(upstream, &mut all));
    upstreams::of_fastcgi(config, &mut all);
    mail::of_document(config, &mut all);
    for (place, log) in config.access_logs() {
        effect::of_access_log(&place, log, &mut all);
        if let LogFormat::Text(format) = &log.format
            && format.constant().is_some()
        {
            let message = "has no variable, so all lines are the same";
            add(&mut all, format!("{place}/format"), message);
        }
    }
    habits::of_variables(&config.document, &mut all);
    variables::unfilled(&config.document, &mut all);
    variables::of_shells(&config.document, &mut all);
    unused::of_document(config, &mut all);
    all
}

/// Returns the listeners that cannot be opened beside another one of the document.
pub fn obstructed_listeners(config: &Config) -> Vec<Advice> {
    let mut all = Vec::new();
    addresses::of_listeners(config, &mut all);
    all
}

fn of_listeners(config: &Config, all: &mut Vec<Advice>) {
    if config.listeners.is_empty() {
        let message = "there are none, so no request can arrive; write {\"*:80\": {\"pass\": \
                       \"routes\"}}";
        add(all, "/listeners".to_owned(), message);
    }
    for listener in &config.settings.metrics.listeners {
        let is_open = match &listener.address {
            Address::Inet(address) => !address.ip().is_loopback(),
            _ => false,
        };
        if is_open {
            let name = Shown(&listener.name);
            let message = format!(
                "\"{name}\" is not an address of this machine alone, and whoever reaches it sees \
                 the names of sites and their numbers; write \"127.0.0.1:9145\", or keep others \
                 out by a firewall"
            );
            add(all, config.settings.metrics.place(), message);
        }
    }
    for listener in &config.listeners {
        if listener.fastcgi.is_some() && listener.socket.mode & OTHERS_CONNECT != 0 {
            let place = path(["listeners", listener.key.as_str(), "socket", "mode"]);
            let message = "lets every user of the machine connect, who can run any code as the \
                           application's user; write \"0660\", with the web server's \"group\"";
            add(all, place, message);
        }
        if let Pass::Fixed(Target::Route(name)) = &listener.pass
            && config.route(name.as_deref()).is_some_and(|route| route.steps.is_empty())
        {
            let place = format!("{}/pass", path(["listeners", listener.key.as_str()]));
            add(all, place, "leads to a route without steps, so each request is answered with 404");
        }
    }
}
