//! Tests of the totals.

use super::*;

#[test]
fn names_are_bounded_and_directories_are_not_shown() {
    let (mut totals, listener) = (Totals::default(), Arc::<str>::from("*:80"));
    let counts = Counts { received: 1, ..Counts::default() };
    for number in 0..MAX_SERIES + 5 {
        totals.add(&Arc::from(format!("site{number:05}")), &listener, &counts);
    }
    assert_eq!(totals.requests.len(), MAX_SERIES + 1);
    let other = (Arc::from(OTHER), Arc::from(OTHER));
    assert_eq!(totals.requests[&other].received, 5);
    // Names that are gone make room.
    totals.keep_names(&BTreeSet::from(["site00001"]));
    assert_eq!(totals.requests.len(), 2);
    totals.add(&Arc::from("/srv/secret/"), &listener, &counts);
    totals.add_script(&Arc::from("/srv/secret/"), Used::default());
    assert!(totals.by_site().contains_key(FILES));
    assert!(!format!("{totals:?}").contains("secret"));
}
