//! Options of actions that hold for the whole site.

use howdah_config::Site;
use serde_json::{Value, json};

/// Requests of a client that may come at once, whatever the rate.
const LEAST_BURST: u64 = 20;

/// Returns the options, each with the key of the site that it comes from and its value.
pub(crate) fn of(site: &Site) -> Vec<(&'static str, &'static [&'static str], Value)> {
    let mut options: Vec<(&str, &[&str], Value)> = Vec::new();
    let keys: [(&str, &[&str], &Option<Value>); 3] = [
        ("basic_auth", &["auth"], &site.auth),
        ("cache", &["cache"], &site.cache),
        ("access_log", &["logs", "access"], &site.access_log),
    ];
    for (option, key, value) in keys {
        if let Some(value) = value {
            options.push((option, key, value.clone()));
        }
    }
    let mut limits = Vec::new();
    if let Some(rate) = &site.limits.requests {
        limits.push(json!({"rate": rate, "burst": burst(rate)}));
    }
    if let Some(bandwidth) = &site.limits.bandwidth {
        limits.push(json!({"key": "$site", "bandwidth": bandwidth}));
    }
    if !limits.is_empty() {
        options.push(("limit", &["limits"], limits.into()));
    }
    options
}

/// Returns paths in the option `limit`, each with the key of the site that it comes from.
pub(crate) fn places_of_limits(site: &Site) -> impl Iterator<Item = ([&str; 2], [&str; 2])> {
    let rate = site.limits.requests.as_ref().map(|_| (["0", "rate"], ["limits", "requests"]));
    let index = if rate.is_some() { "1" } else { "0" };
    let bandwidth = site.limits.bandwidth.as_ref();
    let bandwidth = bandwidth.map(|_| ([index, "bandwidth"], ["limits", "bandwidth"]));
    rate.into_iter().chain(bandwidth)
}

/// Returns the number of requests that may come at once at a rate such as `300/m`.
fn burst(rate: &str) -> u64 {
    let (number, unit) = rate.split_once('/').unwrap_or((rate, "s"));
    let number = number.trim().parse().unwrap_or(0);
    let in_second = if unit.trim() == "s" { number } else { 0 };
    in_second.max(LEAST_BURST)
}
