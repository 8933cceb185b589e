//! Limits of sessions: connections that carry no requests.
//!
//! Rules of a listener count its connections by the client's address. Rules with `key` or
//! `concurrency` count logins instead. Their rate is one of failed logins, so that clients that know
//! their password are not refused for their number; their concurrency is the number of sessions
//! that are logged in, so that others take no place of a user.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use howdah_http::message::Request;

use crate::Nanos;
use crate::at_once::Permit;
use crate::bandwidth::Bandwidth;
use crate::key::{self, KeyHash};
use crate::rules::{Admission, Refusal, Rule, TooManyConnections, connect};

/// A login that counts as failed until it has succeeded.
#[derive(Debug)]
pub struct Login<'r> {
    rules: Vec<(&'r Rule, KeyHash, Vec<u8>)>,
}

/// Counts a connection by the rules of a listener. Rates are those of new connections of a client.
pub fn begin(
    rules: &[Rule],
    peer: Option<SocketAddr>,
    now: Nanos,
) -> Result<Vec<Permit>, TooManyConnections> {
    let permits = connect(rules, peer, now)?;
    let rates = rules.iter().filter(|rule| rule.rate.is_some() && !is_about_logins(rule));
    for rule in rates.filter(|rule| !rule.settings.except.addresses.matches(peer)) {
        let mut text = Vec::new();
        key::write_client(peer.map(|peer| peer.ip()), &mut text);
        let key = key::hash(&text);
        if let Err(refusal) = rule.count_rate(key, &text, now, &mut Admission::default())
            && rule.refuse(&refusal, key, &text, now)
        {
            return Err(TooManyConnections);
        }
    }
    Ok(permits)
}

/// Counts a login that `session` describes by the rates of the rules about logins.
pub fn try_login<'r>(
    rules: &'r [Rule],
    session: &Request,
    started_at: Instant,
    now: Nanos,
) -> Result<Login<'r>, Box<Refusal>> {
    let mut login = Login { rules: Vec::new() };
    for rule in rules.iter().filter(|rule| is_about_logins(rule)) {
        let Some((key, text)) = key_of(rule, session, started_at) else { continue };
        rule.zone.counters.requests.fetch_add(1, Relaxed);
        match rule.count_rate(key, &text, now, &mut Admission::default()) {
            Ok(()) => login.rules.push((rule, key, text)),
            Err(refusal) if rule.refuse(&refusal, key, &text, now) => {
                login.take_back(now);
                return Err(refusal);
            }
            // A dry run.
            Err(_) => {}
        }
    }
    Ok(login)
}

/// Returns the bandwidths of a session to its client.
pub fn bandwidths(rules: &[Rule], session: &Request, started_at: Instant) -> Vec<Bandwidth> {
    let limited = rules.iter().filter(|rule| rule.settings.bandwidth.is_some());
    limited.filter_map(|rule| rule.bandwidth(key_of(rule, session, started_at)?.0)).collect()
}

impl Login<'_> {
    /// Counts the login as none that has failed: it has succeeded, or could not be decided.
    pub fn take_back(&self, now: Nanos) {
        self.rules.iter().for_each(|(rule, key, _)| rule.take_back(*key, now));
    }

    /// Counts the session of a login that has succeeded, until the permits are dropped.
    pub fn enter(self, now: Nanos) -> Result<Vec<Permit>, Box<Refusal>> {
        self.take_back(now);
        let mut permits = Vec::new();
        for (rule, key, text) in &self.rules {
            match rule.enter(*key, text) {
                Ok(permit) => permits.extend(permit),
                Err(refusal) if rule.refuse(&refusal, *key, text, now) => return Err(refusal),
                Err(_) => {}
            }
        }
        Ok(permits)
    }
}

fn is_about_logins(rule: &Rule) -> bool {
    rule.settings.key.is_some() || rule.settings.concurrency.is_some()
}

/// Returns the key of a session; `None` if the rule is not about it. Upper and lower case are the
/// same, as in the names of most servers of mail.
fn key_of(rule: &Rule, session: &Request, started_at: Instant) -> Option<(KeyHash, Vec<u8>)> {
    let peer = session.connection.peer;
    let mut text = Vec::new();
    key::write(rule.settings.key.as_ref(), session, started_at, &mut text);
    text.make_ascii_lowercase();
    let is_excepted = rule.settings.except.addresses.matches(peer);
    (!is_excepted && !text.is_empty()).then(|| (key::hash(&text), text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::SECOND;
    use crate::zone::Zones;

    fn rules(limit: Value) -> Vec<Rule> {
        let document = json!({
            "listeners": {"*:143": {"pass": "mail/m", "limit": limit}},
            "mail": {"m": {"protocol": "imap", "backend": "upstreams/u"}},
            "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}},
        });
        let config = howdah_config::Config::from_value(document).unwrap();
        let zones = Zones::new(&config, None);
        Rule::compile(&config.listeners[0].limit, &zones)
    }

    fn session(user: &'static str) -> Request {
        let mut session = howdah_http::fixture::request("/", &[]);
        session.user = Some(user.as_bytes().into());
        session
    }

    #[test]
    fn failed_logins_of_a_user_count_and_successful_ones_do_not() {
        let rules = rules(json!({"key": "$remote_user", "rate": "1/m", "burst": 1}));
        let now = Instant::now();
        let try_login = |user| try_login(&rules, &session(user), now, SECOND);
        for _ in 0..5 {
            assert!(try_login("me").unwrap().enter(SECOND).unwrap().is_empty());
        }
        for name in ["me", "ME"] {
            assert!(try_login(name).is_ok(), "it fails later");
        }
        assert!(try_login("Me").is_err());
        assert!(try_login("you").is_ok() && try_login("").is_ok());
        let peer = "192.0.2.1:1".parse().ok();
        assert!((0..5).all(|_| begin(&rules, peer, SECOND).is_ok()), "no connection counts");
    }

    #[test]
    fn a_user_has_no_more_sessions_than_may_be_logged_in_at_once() {
        let rules = rules(json!({"key": "$remote_user", "concurrency": 2}));
        let now = Instant::now();
        let enter = |user| try_login(&rules, &session(user), now, SECOND).unwrap().enter(SECOND);
        let (first, second) = (enter("me").unwrap(), enter("ME").unwrap());
        assert_eq!((first.len(), enter("me").is_err()), (1, true));
        assert!(enter("you").is_ok());
        drop(second);
        assert!(enter("me").is_ok());
    }

    #[test]
    fn a_dry_run_refuses_nobody() {
        let rules = rules(json!([
            {"key": "$remote_user", "rate": "1/h", "dry_run": true},
            {"concurrency": 1, "dry_run": true},
            {"bandwidth": 1000, "dry_run": true},
        ]));
        let now = Instant::now();
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(
                try_login(&rules, &session("me"), now, SECOND).unwrap().enter(SECOND).unwrap(),
            );
        }
        assert!(bandwidths(&rules, &session("me"), now).is_empty());
    }

    #[test]
    fn sessions_of_a_key_share_their_bandwidth() {
        let rules = rules(json!({"key": "$remote_user", "bandwidth": 1000}));
        let now = Instant::now();
        let of = |user| bandwidths(&rules, &session(user), now).remove(0);
        assert_eq!((of("me").take(1000, SECOND), of("ME").take(1000, SECOND)), (0, SECOND));
        assert_eq!(of("you").take(1000, SECOND), 0);
    }
}
