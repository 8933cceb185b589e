//! Decides whether a stored response may answer a request (RFC 9111, 4).

use crate::control::RequestControl;
use crate::entry::Entry;

/// The use of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Send it.
    Fresh,
    /// Send it although it is stale: the request allows that.
    Stale,
    /// Send it, and refresh it.
    WhileRevalidating,
    /// Validate it first. If that fails, send it if `on_error` is set.
    AfterValidation {
        /// The response may be sent if the application or server fails.
        on_error: bool,
    },
}

/// Decides on the use of an entry at `now`, in seconds since 1970. `purged` is the time of a purge
/// that has made it stale.
pub fn assess(entry: &Entry, request: &RequestControl, purged: Option<u64>, now: u64) -> Use {
    let terms = &entry.terms;
    let age = entry.age(now);
    let staleness = match purged {
        Some(at) => age.saturating_sub(terms.lifetime).max(now.saturating_sub(at)),
        None => age.saturating_sub(terms.lifetime),
    };
    let is_fresh = purged.is_none() && age < terms.lifetime;
    // The staleness that the client accepts (RFC 5861, 4) counts unless stale use is forbidden.
    let accepted = if purged.is_none() && terms.may_be_stale { request.stale_if_error } else { 0 };
    let limit = terms.stale_if_error.max(accepted);
    let on_error = staleness <= limit && limit > 0;
    let validation = Use::AfterValidation { on_error };
    let is_too_old = request.max_age.is_some_and(|max| max == 0 || age > max);
    if terms.no_cache || request.no_cache || is_too_old {
        return validation;
    }
    if is_fresh {
        let remaining = terms.lifetime - age;
        return if remaining >= request.min_fresh { Use::Fresh } else { validation };
    }
    let is_accepted = request.max_stale.is_some_and(|max| staleness <= max);
    // A client that limits the age, or asks for a remaining lifetime, accepts no stale response
    // unless it says so (RFC 9111, 5.2.1.1 and 5.2.1.3).
    let wants_fresh = (request.max_age.is_some() || request.min_fresh > 0) && !is_accepted;
    if staleness < terms.stale_while_revalidate && !wants_fresh {
        return Use::WhileRevalidating;
    }
    if purged.is_none() && terms.may_be_stale && is_accepted {
        return Use::Stale;
    }
    validation
}

#[cfg(test)]
mod tests;
