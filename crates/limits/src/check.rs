//! The verdict of all rules about a request.
//!
//! All rules that are about a request must admit it. A request that one of them refuses counts for
//! none. The longest of several delays counts, as in nginx.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use howdah_http::message::Request;

use crate::Nanos;
use crate::key;
use crate::rules::{Admission, Holds, Refusal, Rule};
use crate::shared::{Checked, Claim};

/// Takes a request through rules, as far as this server can tell alone. `name` is the client's host
/// name, if the rules need it; `holds` evaluates conditions.
pub fn check<'r>(
    rules: &'r [Rule],
    request: &Request,
    name: Option<&str>,
    started_at: Instant,
    now: Nanos,
    holds: &mut Holds<'_>,
) -> Result<Checked<'r>, Box<Refusal>> {
    let mut admission = Admission::default();
    let mut claims: Vec<Claim<'r>> = Vec::new();
    let mut text = Vec::new();
    for rule in rules {
        if !rule.limits_requests() || !rule.is_about(request, name, holds) {
            continue;
        }
        key::write(rule.settings.key.as_ref(), request, started_at, &mut text);
        if text.is_empty() {
            continue;
        }
        let key = key::hash(&text);
        rule.zone.counters.requests.fetch_add(1, Relaxed);
        let delay = admission.delay;
        match rule.count(key, &text, now, &mut admission) {
            Ok(()) => {
                match rule.settings.dry_run {
                    true => admission.delay = delay,
                    false if admission.delay > delay => {
                        rule.zone.counters.delayed.fetch_add(1, Relaxed);
                    }
                    false => {}
                }
                let text = rule.is_shared.then(|| text.as_slice().into());
                if let Some(rate) = rule.rate.filter(|_| text.is_some() || !rule.is_dry_run()) {
                    claims.push(Claim { rule, rate, key, text });
                }
            }
            Err(refusal) => {
                if rule.refuse(&refusal, key, &text, now) {
                    let counted = claims.iter().filter(|claim| !claim.is_dry_run());
                    counted.for_each(|claim| claim.rule.take_back(claim.key, now));
                    return Err(refusal);
                }
            }
        }
    }
    Ok(Checked { admission, claims })
}

#[cfg(test)]
mod tests;
