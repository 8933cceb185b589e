//! Caches of responses: `proxy_cache` and `fastcgi_cache`.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::state::State;
use super::steps::object;
use super::units;
use super::variables::Object;
use crate::Status;

impl<'t> Converter<'_> {
    /// Reads the stores of a level.
    pub fn read_stores(&mut self, place: &Place<'t>) {
        for family in ["proxy", "fastcgi"] {
            for directive in place.scope.own_all(&format!("{family}_cache_path")) {
                let argument = |name: &str| {
                    directive.args.iter().find_map(|arg| {
                        arg.strip_prefix(name).and_then(|rest| rest.strip_prefix('='))
                    })
                };
                let zone = argument("keys_zone").and_then(|zone| zone.split_once(':'));
                let Some((name, _)) = zone else {
                    self.report.mark(directive.id, Status::NotConverted, "there is no keys_zone");
                    continue;
                };
                let mut store = object([("name", name.into())]);
                if let Some(size) = argument("max_size").and_then(units::size) {
                    store.insert("memory".to_owned(), size.clamp(1 << 20, 256 << 20).into());
                }
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "responses are kept in memory, not in files of this directory",
                );
                self.stores.insert((family.to_owned(), name.to_owned()), store);
            }
        }
    }

    /// Adds the cache of a place to an action.
    pub fn cache(&mut self, action: &mut Object, place: &Place<'t>, state: &State, family: &str) {
        let scope = &place.scope;
        let named = |name: &str| scope.one(&format!("{family}_{name}"));
        let Some(directive) = named("cache").filter(|directive| directive.arg(0) != "off") else {
            if let Some(directive) = named("cache") {
                self.report.converted(directive.id);
            }
            return;
        };
        let key = (family.to_owned(), directive.arg(0).to_owned());
        let Some(mut cache) = self.stores.get(&key).cloned() else {
            self.report.mark(directive.id, Status::NotConverted, "there is no store of this name");
            return;
        };
        let mut reason = "responses that set a cookie, or are for a user with a password, are stored only if they say so".to_owned();
        if scope.one(&format!("{family}_cache_key")).is_none() {
            reason.push_str("; each host has responses of its own");
        }
        self.report.mark(directive.id, Status::Changed, reason);
        let mut lifetimes = Object::new();
        for valid in scope.all(&format!("{family}_cache_valid")) {
            let Some((time, codes)) = valid.args.split_last() else { continue };
            let Some(seconds) = units::seconds(time) else {
                self.report.mark(valid.id, Status::NotConverted, "the time is none of nginx's");
                continue;
            };
            self.report.converted(valid.id);
            let codes: Vec<String> = match codes {
                [] => vec!["200".into(), "301".into(), "302".into()],
                codes => codes.to_vec(),
            };
            for code in codes {
                if code == "any" {
                    self.report.mark(
                        valid.id,
                        Status::Changed,
                        "\"any\" is 200, 301, 302, 404 and 410",
                    );
                    for code in ["200", "301", "302", "404", "410"] {
                        lifetimes.entry(code).or_insert_with(|| seconds.into());
                    }
                } else {
                    lifetimes.entry(code).or_insert_with(|| seconds.into());
                }
            }
        }
        if !lifetimes.is_empty() {
            cache.insert("ttl".to_owned(), lifetimes.into());
        }
        if let Some(key) = named("cache_key") {
            match self.value(key.arg(0), place, state) {
                Ok(value) => {
                    self.report.converted(key.id);
                    cache.insert("key".to_owned(), value.render().into());
                }
                Err(reason) => self.report.mark(key.id, Status::NotConverted, reason),
            }
        }
        let mut bypass: Vec<Value> = Vec::new();
        for name in ["cache_bypass", "no_cache"] {
            for directive in scope.all(&format!("{family}_{name}")) {
                self.report.converted(directive.id);
                for arg in &directive.args {
                    match self.value(arg, place, state) {
                        Ok(value)
                            if value.constant().is_some_and(|text| matches!(text, "" | "0")) => {}
                        Ok(value) => {
                            let definition = json!({ "map": value.render(), "values": { "~^0?$": "" }, "default": "1" });
                            let condition =
                                json!({ "if": format!("${}", self.define("is_set", definition)) });
                            if !bypass.contains(&condition) {
                                bypass.push(condition);
                            }
                        }
                        Err(reason) => {
                            let reason = format!("{reason}; nothing is stored here");
                            self.report.mark(directive.id, Status::NotConverted, reason);
                            return;
                        }
                    }
                }
            }
        }
        if !bypass.is_empty() {
            cache.insert("bypass".to_owned(), bypass.into());
        }
        if let Some(methods) = named("cache_methods") {
            self.report.mark(
                methods.id,
                Status::Changed,
                "only responses to GET and HEAD are stored",
            );
        }
        if let Some(uses) = named("cache_min_uses").and_then(|directive| {
            self.report.converted(directive.id);
            directive.arg(0).parse::<u64>().ok()
        }) {
            cache.insert("min_uses".to_owned(), uses.max(1).into());
        }
        let lock = named("cache_lock");
        if let Some(lock) = lock {
            self.report.converted(lock.id);
        }
        if !lock.is_some_and(|lock| lock.arg(0).eq_ignore_ascii_case("on")) {
            cache.insert("lock".to_owned(), false.into());
        }
        if let Some(timeout) = named("cache_lock_timeout") {
            self.report.converted(timeout.id);
            if let Some(seconds) = units::seconds(timeout.arg(0)) {
                cache.insert("lock_timeout".to_owned(), seconds.max(1).into());
            }
        }
        if let Some(stale) = named("cache_use_stale") {
            self.report.mark(stale.id, Status::Changed, "a stale page is sent for a day after an error, and for a minute while it is refreshed");
            if stale.args.iter().any(|arg| {
                matches!(
                    arg.as_str(),
                    "error" | "timeout" | "http_500" | "http_502" | "http_503" | "http_504"
                )
            }) {
                cache.insert("stale_if_error".to_owned(), 86_400.into());
            }
            if stale.args.iter().any(|arg| arg == "updating") {
                cache.insert("stale_while_revalidate".to_owned(), 60.into());
            }
        }
        if let Some(background) = named("cache_background_update") {
            self.report.converted(background.id);
        }
        if let Some(ignored) = named("ignore_headers") {
            let known = ["cache-control", "expires", "vary", "set-cookie"];
            let list: Vec<String> = ignored
                .args
                .iter()
                .map(|arg| arg.to_ascii_lowercase())
                .filter(|arg| known.contains(&arg.as_str()))
                .collect();
            if !list.is_empty() {
                cache.insert("ignore".to_owned(), list.into());
            }
        }
        cache.insert("announce".to_owned(), false.into());
        cache.insert("heuristic".to_owned(), false.into());
        action.insert("cache".to_owned(), cache.into());
    }
}
