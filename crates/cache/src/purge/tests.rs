use proptest::prelude::*;

use super::*;
use crate::testing::{NOW, entry_for};

fn page(target: &str, tags: &str, epoch: u64) -> Entry {
    entry_for(target, &[], &[("Cache-Tag", tags)], "", epoch)
}

fn url(path: &str, query: &str) -> Purge {
    let host = b"example.org".to_vec();
    Purge::Url { host, path: path.into(), query: query.into() }
}

fn tag(host: Option<&str>, tag: &str) -> Purge {
    Purge::Tags { host: host.map(Into::into), tags: vec![tag.into()] }
}

fn prefix(host: Option<&str>, path: &str) -> Purge {
    Purge::Prefix { host: host.map(Into::into), path: path.into() }
}

#[test]
fn a_purge_concerns_what_it_names_and_nothing_else() {
    let page = || page("/blog/%61?x=1", "post-1,home", 0);
    for (purge, expected) in [
        (Purge::All, true),
        (Purge::Host(b"example.org".into()), true),
        (Purge::Host(b"other.org".into()), false),
        (url("/blog/a", "x=1"), true),
        (url("/blog/a", ""), false),
        (url("/blog/A", "x=1"), false),
        (tag(None, "post-1"), true),
        (tag(Some("example.org"), "home"), true),
        (tag(Some("other.org"), "home"), false),
        (tag(None, "post-11"), false),
        (prefix(None, "/blog/"), true),
        (prefix(None, "/blo"), true),
        (prefix(Some("example.org"), "/blog/a"), true),
        (prefix(Some("other.org"), "/blog/"), false),
        (prefix(None, "/blog/ab"), false),
    ] {
        let purges = Purges::default();
        let entry = page();
        assert_eq!(purges.judge(&entry, &Group::default()), Verdict::Valid);
        purges.purge(&purge, false, NOW);
        let expected = if expected { Verdict::Gone } else { Verdict::Valid };
        assert_eq!(purges.judge(&entry, &Group::default()), expected, "{purge:?}");
        assert_eq!(purges.judge(&entry, &Group::default()), expected, "{purge:?}, again");
    }
}

#[test]
fn later_responses_are_not_concerned_but_those_being_computed_are() {
    let purges = Purges::default();
    let before = purges.count();
    purges.purge(&tag(None, "a"), false, NOW);
    assert_eq!(purges.judge(&page("/", "a", before), &Group::default()), Verdict::Gone);
    assert_eq!(purges.judge(&page("/", "a", purges.count()), &Group::default()), Verdict::Valid);
    purges.purge(&Purge::All, false, NOW);
    assert_eq!(purges.judge(&page("/", "a", purges.count() - 1), &Group::default()), Verdict::Gone);
    assert_eq!(purges.judge(&page("/", "a", purges.count()), &Group::default()), Verdict::Valid);
}

#[test]
fn a_soft_purge_leaves_a_stale_response() {
    let purges = Purges::default();
    let entry = page("/a", "a,b", 0);
    purges.purge(&tag(None, "a"), true, NOW + 5);
    assert_eq!(purges.judge(&entry, &Group::default()), Verdict::Stale(NOW + 5));
    purges.purge(&tag(None, "b"), true, NOW + 9);
    assert_eq!(purges.judge(&entry, &Group::default()), Verdict::Stale(NOW + 5));
    purges.purge(&Purge::All, true, NOW + 12);
    assert_eq!(purges.judge(&entry, &Group::default()), Verdict::Stale(NOW + 5));
    purges.purge(&tag(None, "b"), false, NOW + 15);
    assert_eq!(purges.judge(&entry, &Group::default()), Verdict::Gone);
}

#[test]
fn the_number_of_marks_is_limited_and_none_is_forgotten() {
    let purges = Purges::default();
    let old = page("/", "t0", 0);
    for number in 0..2 * MAX_MARKS + 10 {
        purges.purge(&tag(None, &format!("t{number}")), false, NOW);
    }
    assert!(purges.everyone.marks.read().unwrap().subjects.len() <= MAX_MARKS);
    assert_eq!(purges.judge(&old, &Group::default()), Verdict::Gone);
    let recent = page("/", "t1", purges.count());
    assert_eq!(purges.judge(&recent, &Group::default()), Verdict::Valid);
    for number in 0..2 * MAX_PREFIXES {
        purges.purge(&prefix(None, &format!("/{number}/")), false, NOW);
    }
    assert!(purges.everyone.marks.read().unwrap().prefixes.len() <= MAX_PREFIXES);
    assert_eq!(purges.judge(&page("/0/a", "", 0), &Group::default()), Verdict::Gone);
    let long = "x".repeat(MAX_PREFIX_BYTES / 4);
    for number in 0..20 {
        purges.purge(&prefix(None, &format!("/{number}/{long}")), false, NOW);
        let marks = purges.everyone.marks.read().unwrap();
        let bytes: usize = marks.prefixes.iter().map(|(_, path, _)| path.len()).sum();
        assert!((1..=MAX_PREFIX_BYTES).contains(&bytes), "{bytes}");
    }
    assert_eq!(purges.judge(&page("/0/a", "", 0), &Group::default()), Verdict::Gone);
    let recent = page("/", "t1", purges.count());
    assert_eq!(purges.judge(&recent, &Group::default()), Verdict::Valid);
}

/// An application that purges without end removes its own older responses at most.
#[test]
fn purges_of_one_application_do_not_concern_the_others() {
    let purges = Purges::default();
    let (one, other) = (Group::default(), Group::default());
    let entry = page("/", "a", 0);
    for number in 0..3 * MAX_OWN_MARKS {
        purges.purge_in(&one, &tag(None, &format!("t{number}")), false, NOW);
    }
    assert!(one.marks.read().unwrap().subjects.len() <= MAX_OWN_MARKS);
    assert_eq!(purges.judge(&entry, &other), Verdict::Valid);
    assert_eq!(entry.checked.load(Relaxed), 0, "it was not even looked at");
    assert_eq!(purges.judge(&entry, &one), Verdict::Gone);
    purges.purge_in(&one, &Purge::All, false, NOW);
    purges.purge_in(&one, &tag(None, "a"), true, NOW);
    assert_eq!(purges.judge(&entry, &other), Verdict::Valid);
    purges.purge_in(&other, &tag(None, "a"), true, NOW + 9);
    purges.purge(&tag(None, "a"), true, NOW + 5);
    assert_eq!(purges.judge(&entry, &other), Verdict::Stale(NOW + 5));
    purges.purge(&tag(None, "a"), false, NOW);
    assert_eq!(purges.judge(&entry, &other), Verdict::Gone);
}

proptest! {
    /// Compares the marks with a list of all purges.
    #[test]
    fn marks_say_what_a_list_of_all_purges_says(
        steps in prop::collection::vec((0usize..6, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let purges = Purges::default();
        let subjects = [
            Purge::All, Purge::Host(b"example.org".into()), url("/a/b", ""), tag(None, "x"),
            tag(Some("example.org"), "y"), prefix(None, "/a/"),
        ];
        let concerns = |purge: usize, page: usize| match purge {
            0 | 1 => true,
            2 => page == 0,
            3 => page == 1,
            4 => page != 2,
            _ => page != 2,
        };
        let targets = [("/a/b", "y"), ("/a/c", "x,y"), ("/b", "z")];
        let mut entries = Vec::new();
        let mut list = Vec::new();
        for (subject, is_soft, stores) in steps {
            if stores {
                for (index, (target, tags)) in targets.iter().enumerate() {
                    entries.push((index, list.len(), page(target, tags, purges.count())));
                }
            } else {
                purges.purge(&subjects[subject], is_soft, NOW);
                list.push((subject, is_soft));
            }
            for (index, since, entry) in &entries {
                let own = list[*since..].iter().filter(|(subject, _)| concerns(*subject, *index));
                let expected = match own.clone().count() {
                    0 => Verdict::Valid,
                    _ if own.clone().any(|(_, is_soft)| !is_soft) => Verdict::Gone,
                    _ => Verdict::Stale(NOW),
                };
                prop_assert_eq!(purges.judge(entry, &Group::default()), expected);
            }
        }
    }
}
