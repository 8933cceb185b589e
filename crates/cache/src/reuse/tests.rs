use proptest::prelude::*;

use super::*;
use crate::testing::{NOW, entry};

fn assessed(control: &str, request: RequestControl, after: u64) -> Use {
    let entry = entry("/a", &[("Cache-Control", control), ("ETag", "\"a\"")], "");
    assess(&entry, &request, None, NOW + after)
}

const VALIDATE: Use = Use::AfterValidation { on_error: false };

#[test]
fn a_response_is_fresh_for_its_lifetime() {
    let any = RequestControl::default();
    assert_eq!(assessed("max-age=60", any, 0), Use::Fresh);
    assert_eq!(assessed("max-age=60", any, 59), Use::Fresh);
    assert_eq!(assessed("max-age=60", any, 60), VALIDATE);
    assert_eq!(assessed("max-age=60, no-cache", any, 0), VALIDATE);
    // The clock was set back.
    let old = entry("/a", &[("Cache-Control", "max-age=60")], "");
    assert_eq!(assess(&old, &any, None, NOW - 999), Use::Fresh);
}

#[test]
fn requests_may_ask_for_more_or_less() {
    let any = RequestControl::default();
    let max_age = |seconds| RequestControl { max_age: Some(seconds), ..any };
    assert_eq!(assessed("max-age=60", max_age(0), 0), VALIDATE);
    assert_eq!(assessed("max-age=60", max_age(5), 5), Use::Fresh);
    assert_eq!(assessed("max-age=60", max_age(5), 6), VALIDATE);
    assert_eq!(assessed("max-age=60", RequestControl { no_cache: true, ..any }, 0), VALIDATE);
    let min_fresh = RequestControl { min_fresh: 10, ..any };
    assert_eq!(assessed("max-age=60", min_fresh, 50), Use::Fresh);
    assert_eq!(assessed("max-age=60", min_fresh, 51), VALIDATE);
    let max_stale = RequestControl { max_stale: Some(10), ..any };
    assert_eq!(assessed("max-age=60", max_stale, 70), Use::Stale);
    assert_eq!(assessed("max-age=60", max_stale, 71), VALIDATE);
    assert_eq!(assessed("max-age=60, proxy-revalidate", max_stale, 60), VALIDATE);
    assert_eq!(assessed("max-age=60, must-revalidate", max_stale, 60), VALIDATE);
    assert_eq!(assessed("s-maxage=60", max_stale, 60), VALIDATE);
}

#[test]
fn stale_responses_bridge_refreshes_and_errors() {
    let any = RequestControl::default();
    let control = "max-age=60, stale-while-revalidate=10, stale-if-error=30";
    assert_eq!(assessed(control, any, 69), Use::WhileRevalidating);
    assert_eq!(assessed(control, any, 70), Use::AfterValidation { on_error: true });
    assert_eq!(assessed(control, any, 90), Use::AfterValidation { on_error: true });
    assert_eq!(assessed(control, any, 91), VALIDATE);
    // The client wants a fresh one, or accepts a stale one in place of an error.
    let validate_first = Use::AfterValidation { on_error: true };
    assert_eq!(assessed(control, RequestControl { min_fresh: 1, ..any }, 61), validate_first);
    let max_age = RequestControl { max_age: Some(100), ..any };
    assert_eq!(assessed(control, max_age, 61), validate_first);
    let both = RequestControl { max_stale: Some(5), ..max_age };
    assert_eq!(assessed(control, both, 61), Use::WhileRevalidating);
    let on_error = RequestControl { stale_if_error: 40, ..any };
    assert_eq!(assessed(control, on_error, 100), validate_first);
    assert_eq!(assessed(control, on_error, 101), VALIDATE);
    assert_eq!(assessed("s-maxage=60", on_error, 70), VALIDATE);
}

#[test]
fn a_soft_purge_makes_a_response_stale_from_then_on() {
    let any = RequestControl::default();
    let control = "max-age=600, stale-while-revalidate=10, stale-if-error=30";
    let entry = entry("/a", &[("Cache-Control", control)], "");
    let at = |after, purged| assess(&entry, &any, Some(NOW + purged), NOW + after);
    assert_eq!(at(100, 95), Use::WhileRevalidating);
    assert_eq!(at(110, 95), Use::AfterValidation { on_error: true });
    assert_eq!(at(126, 95), VALIDATE);
}

proptest! {
    #[test]
    fn a_response_that_must_be_validated_is_never_sent_stale(
        lifetime in 0u64..100, age in 0u64..300, max_stale in 0u64..300,
        control in prop::sample::select(vec!["must-revalidate", "proxy-revalidate", "no-cache"]),
    ) {
        let control = format!(
            "max-age={lifetime}, {control}, stale-while-revalidate=99, stale-if-error=99");
        let max_stale = Some(max_stale);
        let request = RequestControl { max_stale, stale_if_error: 99, ..RequestControl::default() };
        match assessed(&control, request, age) {
            Use::Fresh => prop_assert!(age < lifetime),
            other => prop_assert_eq!(other, VALIDATE),
        }
    }
}
