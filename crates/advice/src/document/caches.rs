//! Advice on caches whose conditions hold for every page of a site, and on times of browser caches
//! that do.

use super::line::{Advice, add};
use howdah_config::{Action, ActionKind, CacheOption, Expiry, Match, Shown, path as path_of};

/// Checks the cache of an action at `place`: nginx's usual conditions on `$request_uri` have
/// `index.php`, and would hold for the script to which `try` leads all pages.
pub(super) fn of_cache(place: &str, action: &Action, all: &mut Vec<Advice>) {
    let Some(CacheOption::On(cache)) = &action.options.cache else { return };
    let Some((key, path)) = front_controller(action) else { return };
    if cache.bypass.iter().any(|condition| is_met_by_path(condition, path.as_bytes())) {
        let message = format!(
            "has a \"uri\" that accepts \"{}\", to which {key} leads all pages, so none is \
             stored; leave that path out, as the path that the client has sent is compared, too",
            Shown(path)
        );
        add(all, format!("{place}/cache/bypass"), message);
    }
}

/// Checks the `expires` of an action at `place`: nginx's `try_files` leaves the location, and its
/// `expires`, for the script. Here browsers and caches in front would keep pages of users for as
/// long as files.
pub(super) fn of_expires(place: &str, action: &Action, all: &mut Vec<Advice>) {
    let Some(expires) = &action.options.caching.expires else { return };
    let Some(("try", path)) = front_controller(action) else { return };
    let (Some(time), Some(of_pages)) = (expires.get(b""), expires.get(b"text/html")) else {
        return;
    };
    // Not those that name the type of pages.
    if std::ptr::eq(time, of_pages) && !matches!(time, Expiry::Off | Expiry::Epoch) {
        let message = format!(
            "is the time of pages of \"{}\", too, to which try leads requests without a file; \
             write an object of media types and times, such as \
             {{\"image/*\": \"30d\", \"text/css\": \"30d\"}}",
            Shown(path)
        );
        add(all, format!("{place}/expires"), message);
    }
}

/// Checks `Cache-Control` among the `response_headers` of an action at `place`, which takes the
/// place of that of the script.
pub(super) fn of_cache_control(place: &str, action: &Action, all: &mut Vec<Advice>) {
    let Some(("try", path)) = front_controller(action) else { return };
    let permits = |value: &str| {
        let value = value.to_ascii_lowercase();
        ["public", "max-age", "s-maxage"].iter().any(|word| value.contains(word))
            && !["private", "no-store", "no-cache"].iter().any(|word| value.contains(word))
    };
    for header in &action.options.response_headers {
        let value = header.constant();
        if header.name.eq_ignore_ascii_case("cache-control") && value.is_some_and(permits) {
            let message = format!(
                "takes the place of that of pages of \"{}\", too, to which try leads requests \
                 without a file; write \"expires\" and \"cache_control\" with media types of the \
                 files",
                Shown(path)
            );
            let name = header.name.as_str();
            add(all, format!("{place}/response_headers{}", path_of([name])), message);
        }
    }
}

/// Returns the script to which a share leads requests without a file, and the key that does.
fn front_controller(action: &Action) -> Option<(&'static str, &str)> {
    let ActionKind::Share(share) = &action.kind else { return None };
    let of_try =
        share.candidates.last().and_then(|last| Some(("try", last.target.path.constant()?)));
    let of_fallback = || {
        let rewrite = share.fallback.as_ref()?.rewrite.as_ref()?;
        Some(("fallback", rewrite.path.constant()?))
    };
    of_try.or_else(of_fallback).filter(|(_, path)| path.ends_with(".php"))
}

/// Returns true if the condition has only a `uri`, which accepts this path.
fn is_met_by_path(condition: &Match, path: &[u8]) -> bool {
    condition.is_of_path_alone() && condition.uri.as_ref().is_some_and(|uri| uri.matches(path))
}
