//! The instructions of requests and responses to caches: `Cache-Control`, `Pragma`, and the fields
//! for shared caches (RFC 9213).

use howdah_config::Ignored;
use howdah_http::message::{FieldBlock, Fields};

use crate::directives::{self, directives};
use crate::structured::{self, Value};

/// The name by which `Surrogate-Control` can address this cache, and `Surrogate-Capability` tells
/// applications about it (Edge Architecture Specification, 2).
pub const SURROGATE: &str = "howdah";

/// Instructions of a request (RFC 9111, 5.2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// A stored response must be validated first.
    pub no_cache: bool,
    /// The response must not be stored.
    pub no_store: bool,
    /// Respond from the cache, or with 504.
    pub only_if_cached: bool,
    /// Greatest age in seconds.
    pub max_age: Option<u64>,
    /// Least remaining lifetime in seconds.
    pub min_fresh: u64,
    /// Greatest staleness in seconds, if the client accepts stale responses.
    pub max_stale: Option<u64>,
    /// Greatest staleness in seconds of a response in place of an error (RFC 5861, 4).
    pub stale_if_error: u64,
}

impl RequestControl {
    /// Reads the instructions of a request. `Pragma` counts only without `Cache-Control`.
    pub fn of(fields: &Fields) -> RequestControl {
        let mut control = RequestControl::default();
        let mut has_field = false;
        for value in fields.get_all("cache-control") {
            has_field = true;
            for directive in directives(value) {
                let seconds = directive.seconds();
                if directive.is("no-cache") {
                    control.no_cache = true;
                } else if directive.is("no-store") {
                    control.no_store = true;
                } else if directive.is("only-if-cached") {
                    control.only_if_cached = true;
                } else if directive.is("max-age") {
                    control.max_age = Some(control.max_age.map_or(seconds, |age| age.min(seconds)));
                } else if directive.is("min-fresh") {
                    control.min_fresh = control.min_fresh.max(seconds);
                } else if directive.is("max-stale") {
                    let accepted = match directive.argument {
                        None => directives::MAX_SECONDS,
                        Some(_) => seconds,
                    };
                    let known = control.max_stale.unwrap_or(accepted);
                    control.max_stale = Some(known.min(accepted));
                } else if directive.is("stale-if-error") {
                    control.stale_if_error = seconds;
                }
            }
        }
        if !has_field {
            let mut pragmas = fields.get_all("pragma").flat_map(directives);
            control.no_cache = pragmas.any(|directive| directive.is("no-cache"));
        }
        control
    }
}

/// Instructions of a response (RFC 9111, 5.2.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseControl {
    /// Must be validated before each use.
    pub no_cache: bool,
    /// Must not be stored.
    pub no_store: bool,
    /// For one user only.
    pub private: bool,
    /// For all users.
    pub public: bool,
    /// Must not be used stale.
    pub must_revalidate: bool,
    /// Must not be used stale by shared caches.
    pub proxy_revalidate: bool,
    /// May be stored only if the status is understood; `no_store` then has no effect.
    pub must_understand: bool,
    /// Lifetime in seconds for shared caches.
    pub s_maxage: Option<u64>,
    /// Lifetime in seconds.
    pub max_age: Option<u64>,
    /// Seconds for which it may be used stale while it is refreshed (RFC 5861).
    pub stale_while_revalidate: Option<u64>,
    /// Seconds for which it may be used stale if it cannot be refreshed (RFC 5861).
    pub stale_if_error: Option<u64>,
    /// Fields that must not be stored: those of `no-cache="…"` and `private="…"`.
    pub withheld: Vec<Box<[u8]>>,
    /// The instructions are from a field for shared caches, which hides `Cache-Control` and
    /// `Expires` (RFC 9213, 2.2).
    pub is_targeted: bool,
}

impl ResponseControl {
    /// Reads the instructions of a response.
    pub fn of(fields: &FieldBlock, ignored: Ignored) -> ResponseControl {
        if !ignored.targeted
            && let Some(control) = targeted(fields)
        {
            return control;
        }
        let mut control = ResponseControl::default();
        if !ignored.cache_control {
            values(fields, "cache-control").for_each(|value| control.add(value, false));
        }
        control
    }

    fn add(&mut self, value: &[u8], is_surrogate: bool) {
        for directive in directives(value) {
            let least = |known: Option<u64>| {
                let seconds = if is_surrogate {
                    directive.without_extension().seconds()
                } else {
                    directive.seconds()
                };
                Some(known.map_or(seconds, |known| known.min(seconds)))
            };
            if is_surrogate && !directive.is_for(SURROGATE) {
                continue; // for another cache
            }
            if directive.is("max-age") {
                self.max_age = least(self.max_age);
                if is_surrogate && let Some(seconds) = directive.extension() {
                    let known = self.stale_while_revalidate.unwrap_or(seconds);
                    self.stale_while_revalidate = Some(known.min(seconds));
                }
            } else if directive.is("s-maxage") {
                self.s_maxage = least(self.s_maxage);
            } else if directive.is("no-cache") {
                self.restrict(&directive, |control| &mut control.no_cache);
            } else if directive.is("private") {
                self.restrict(&directive, |control| &mut control.private);
            } else if directive.is("no-store") || directive.is("no-store-remote") {
                self.no_store = true;
            } else if directive.is("public") {
                self.public = true;
            } else if directive.is("must-revalidate") {
                self.must_revalidate = true;
            } else if directive.is("proxy-revalidate") {
                self.proxy_revalidate = true;
            } else if directive.is("must-understand") {
                self.must_understand = true;
            } else if directive.is("stale-while-revalidate") {
                self.stale_while_revalidate = least(self.stale_while_revalidate);
            } else if directive.is("stale-if-error") {
                self.stale_if_error = least(self.stale_if_error);
            }
        }
    }

    /// Applies `no-cache` or `private`, which may be about fields only.
    fn restrict(
        &mut self,
        directive: &directives::Directive<'_>,
        flag: impl Fn(&mut Self) -> &mut bool,
    ) {
        let names = directive.names();
        if names.is_empty() { *flag(self) = true } else { self.withheld.extend(names) }
    }

    /// Returns the lifetime that the response states for this cache.
    pub fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }
}

/// Returns the instructions of `CDN-Cache-Control`, or of `Surrogate-Control`. A malformed
/// `CDN-Cache-Control` is ignored (RFC 9213, 2.1).
fn targeted(fields: &FieldBlock) -> Option<ResponseControl> {
    let all: Vec<_> = values(fields, "cdn-cache-control").collect();
    if !all.is_empty()
        && let Some(members) = structured::dictionary(&all.join(&b", "[..]))
        && !members.is_empty()
    {
        return Some(of_members(&members));
    }
    let mut all = values(fields, "surrogate-control").peekable();
    all.peek()?;
    let mut control = ResponseControl { is_targeted: true, ..ResponseControl::default() };
    all.for_each(|value| control.add(value, true));
    // `content="ESI/1.0"` alone does not permit storing.
    let says_nothing = ResponseControl { is_targeted: true, ..ResponseControl::default() };
    (control != says_nothing).then_some(control)
}

fn of_members(members: &[(Vec<u8>, Value)]) -> ResponseControl {
    let mut control = ResponseControl { is_targeted: true, ..ResponseControl::default() };
    for (key, value) in members {
        let is_on = *value != Value::Boolean(false);
        let seconds = match value {
            Value::Integer(number) => {
                Some(u64::try_from(*number).unwrap_or(0).min(directives::MAX_SECONDS))
            }
            _ => None,
        };
        match key.as_slice() {
            b"max-age" => control.max_age = seconds,
            b"s-maxage" => control.s_maxage = seconds,
            b"stale-while-revalidate" => control.stale_while_revalidate = seconds,
            b"stale-if-error" => control.stale_if_error = seconds,
            b"no-cache" => control.no_cache = is_on,
            b"no-store" => control.no_store = is_on,
            b"private" => control.private = is_on,
            b"public" => control.public = is_on,
            b"must-revalidate" => control.must_revalidate = is_on,
            b"proxy-revalidate" => control.proxy_revalidate = is_on,
            b"must-understand" => control.must_understand = is_on,
            _ => {}
        }
    }
    control
}

/// Iterates over the values of all fields with a name, given in lower case.
pub fn values<'f>(fields: &'f FieldBlock, name: &'f str) -> impl Iterator<Item = &'f [u8]> {
    let named = fields.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &[(&str, &str)]) -> ResponseControl {
        let mut fields = FieldBlock::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value));
        ResponseControl::of(&fields, Ignored::default())
    }

    fn request(lines: &[(&str, &str)]) -> RequestControl {
        let pairs = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        RequestControl::of(&Fields::from_pairs(pairs))
    }

    #[test]
    fn the_strictest_of_several_lifetimes_counts() {
        let control = response(&[("Cache-Control", "max-age=9"), ("cache-control", "Max-Age=5")]);
        assert_eq!(control.lifetime(), Some(5));
        assert_eq!(response(&[("Cache-Control", "max-age=9, s-maxage=20")]).lifetime(), Some(20));
        assert_eq!(response(&[("Cache-Control", "max-age=9, max-age=x")]).lifetime(), Some(0));
        assert_eq!(response(&[("Cache-Control", "public")]).lifetime(), None);
    }

    #[test]
    fn restrictions_may_be_about_fields() {
        let control = response(&[("Cache-Control", "no-cache=\"A, b\", private=\"Set-Cookie\"")]);
        let names = [&b"A"[..], b"b", b"Set-Cookie"].map(Box::<[u8]>::from);
        assert!(!control.no_cache && !control.private && control.withheld == names);
        let control = response(&[("Cache-Control", "no-cache=\"\", private, proxy-revalidate")]);
        assert!(control.no_cache && control.private && control.proxy_revalidate);
    }

    #[test]
    fn a_field_for_shared_caches_hides_cache_control() {
        let own = ("Cache-Control", "no-store, max-age=0");
        let control = response(&[own, ("CDN-Cache-Control", "max-age=60")]);
        assert!(control.is_targeted && !control.no_store && control.lifetime() == Some(60));
        let control = response(&[own, ("Surrogate-Control", "max-age=60, content=\"ESI/1.0\"")]);
        assert!(control.is_targeted && control.lifetime() == Some(60));
        let control = response(&[own, ("Surrogate-Control", "max-age=6, max-age=60;howdah")]);
        assert!(control.is_targeted && control.lifetime() == Some(6));
        let control = response(&[own, ("Surrogate-Control", "max-age=60;howdah, no-store;x")]);
        assert!(!control.no_store && control.lifetime() == Some(60));
        let control = response(&[own, ("Surrogate-Control", "max-age=60+30;howdah")]);
        assert_eq!((control.lifetime(), control.stale_while_revalidate), (Some(60), Some(30)));
        let control = response(&[own, ("Surrogate-Control", "max-age=+30")]);
        assert_eq!((control.lifetime(), control.stale_while_revalidate), (Some(0), None));
        let both = [own, ("Surrogate-Control", "max-age=6"), ("CDN-Cache-Control", "no-store")];
        assert!(response(&both).no_store && response(&both).is_targeted);
        for ignored in [
            ("CDN-Cache-Control", "max-age = 60"),
            ("CDN-Cache-Control", ""),
            ("Surrogate-Control", "content=\"ESI/1.0\""),
            ("Surrogate-Control", "max-age=60;another-cache"),
            ("Surrogate-Control", "max-age=60;howdah2"),
        ] {
            let control = response(&[own, ignored]);
            assert!(control.no_store && !control.is_targeted, "{ignored:?}");
        }
        // A type that the directive does not have is no lifetime (RFC 9213, 2.1).
        let control = response(&[own, ("CDN-Cache-Control", "max-age=\"60\"")]);
        assert!(control.is_targeted && control.lifetime().is_none());
    }

    #[test]
    fn ignored_fields_say_nothing() {
        let mut fields = FieldBlock::default();
        fields.push("Cache-Control", "no-store");
        fields.push("CDN-Cache-Control", "max-age=60");
        let ignored = Ignored { cache_control: true, targeted: true, ..Ignored::default() };
        assert_eq!(ResponseControl::of(&fields, ignored), ResponseControl::default());
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        assert!(request(&[("Pragma", "no-cache")]).no_cache);
        assert!(!request(&[("Pragma", "no-cache"), ("Cache-Control", "max-age=5")]).no_cache);
        assert!(!request(&[("Pragma", "x=\"no-cache\"")]).no_cache);
    }

    #[test]
    fn requests_limit_the_age() {
        let control = request(&[("Cache-Control", "max-age=5, min-fresh=2, max-stale, max-age=3")]);
        assert_eq!((control.max_age, control.min_fresh), (Some(3), 2));
        assert_eq!(control.max_stale, Some(directives::MAX_SECONDS));
        assert_eq!(request(&[("Cache-Control", "max-stale=7, max-stale=9")]).max_stale, Some(7));
        assert_eq!(request(&[("Cache-Control", "stale-if-error=7")]).stale_if_error, 7);
        assert!(request(&[("Cache-Control", "only-if-cached, no-store")]).only_if_cached);
    }
}
