use super::*;

const NOVEMBER: &str = "2026-11";
const DECEMBER: &str = "2026-12";

fn requests(requests: u64) -> SiteUsage {
    SiteUsage { requests, ..SiteUsage::default() }
}

fn usage(month: &str, number: u64) -> Usage {
    Usage { month: month.to_owned(), sites: [("shop".to_owned(), requests(number))].into() }
}

/// Counts a request of the site.
fn count(counts: &mut SiteCounts, month: &str, now: Instant) {
    counts.count(month, "shop", true, requests(1), now);
}

fn load(month: &str) -> Work {
    Work::Load(month.to_owned())
}

fn number(counts: &mut SiteCounts, month: &str) -> Option<u64> {
    let usage = counts.of_month(month).unwrap()?;
    Some(usage.sites.get("shop").map_or(0, |used| used.requests))
}

#[test]
fn counts_are_added_to_those_of_the_file_and_stored_once_a_minute() {
    let (mut counts, now) = (SiteCounts::default(), Instant::now());
    assert_eq!((counts.due(now), counts.work(NOVEMBER, true, false, now)), (None, Vec::new()));
    count(&mut counts, NOVEMBER, now);
    assert_eq!(counts.work(NOVEMBER, true, false, now), [load(NOVEMBER)]);
    assert!(counts.work(NOVEMBER, true, true, now).is_empty(), "it is being read");
    assert_eq!(number(&mut counts, NOVEMBER), None);
    counts.loaded(NOVEMBER, Some(usage(NOVEMBER, 5)));
    counts.loaded(NOVEMBER, Some(usage(NOVEMBER, 5)));
    assert_eq!(number(&mut counts, NOVEMBER), Some(6), "it is read once");
    let later = now + SAVE_INTERVAL;
    assert!(counts.work(NOVEMBER, true, false, now).is_empty());
    assert_eq!(counts.due(now), Some(later));
    assert_eq!(counts.work(NOVEMBER, true, false, later), [Work::Save(usage(NOVEMBER, 6))]);
    count(&mut counts, NOVEMBER, later);
    let last = later + SAVE_INTERVAL;
    assert!(counts.work(NOVEMBER, true, false, last).is_empty(), "it is being stored");
    counts.saved(NOVEMBER, true, last);
    assert!(counts.has_unsaved());
    let next = last + SAVE_INTERVAL;
    assert_eq!(counts.work(NOVEMBER, true, false, next), [Work::Save(usage(NOVEMBER, 7))]);
    counts.saved(NOVEMBER, true, next);
    assert!(!counts.has_unsaved());
}

#[test]
fn what_cannot_be_stored_or_read_is_tried_again_later() {
    let (mut counts, now) = (SiteCounts::default(), Instant::now());
    count(&mut counts, NOVEMBER, now);
    assert_eq!(counts.work(NOVEMBER, true, false, now), [load(NOVEMBER)]);
    counts.load_failed(NOVEMBER);
    assert!(counts.work(NOVEMBER, true, false, now).is_empty(), "not at once");
    let later = now + SAVE_INTERVAL;
    assert_eq!(counts.work(NOVEMBER, true, false, later), [load(NOVEMBER)]);
    counts.loaded(NOVEMBER, None);
    assert_eq!(counts.work(NOVEMBER, true, true, later), [Work::Save(usage(NOVEMBER, 1))]);
    counts.saved(NOVEMBER, false, later);
    assert!(counts.has_unsaved());
    assert_eq!(counts.work(NOVEMBER, true, true, later), [Work::Save(usage(NOVEMBER, 1))]);
}

#[test]
fn a_clock_that_jumps_to_another_month_and_back_loses_nothing() {
    let (mut counts, now) = (SiteCounts::default(), Instant::now());
    for month in [NOVEMBER, "1970-01", NOVEMBER, DECEMBER] {
        count(&mut counts, month, now);
        counts.work(month, true, false, now);
        counts.loaded(month, None);
    }
    let stored = counts.work(DECEMBER, true, true, now);
    let expected = [("1970-01", 1), (NOVEMBER, 2), (DECEMBER, 1)];
    assert_eq!(stored, expected.map(|(month, number)| Work::Save(usage(month, number))));
    for (month, _) in expected {
        counts.saved(month, true, now);
    }
    counts.work(DECEMBER, true, false, now);
    assert_eq!(counts.months.len(), 1, "only the current one stays");
    // The month before is read again, and not overwritten.
    count(&mut counts, NOVEMBER, now);
    assert_eq!(counts.work(NOVEMBER, true, false, now), [load(NOVEMBER)]);
    counts.loaded(NOVEMBER, Some(usage(NOVEMBER, 2)));
    assert_eq!(number(&mut counts, NOVEMBER), Some(3));
}

#[test]
fn a_server_without_files_keeps_counts_in_memory() {
    let (mut counts, now) = (SiteCounts::default(), Instant::now());
    count(&mut counts, NOVEMBER, now);
    assert!(counts.work(NOVEMBER, false, false, now).is_empty());
    assert_eq!(number(&mut counts, NOVEMBER), Some(1));
    assert!(counts.work(DECEMBER, false, true, now + SAVE_INTERVAL).is_empty());
    assert_eq!(number(&mut counts, NOVEMBER), Some(1));
    assert!(!counts.has_unsaved());
}

#[test]
fn each_request_counts_once_when_another_server_takes_over() {
    let now = Instant::now();
    let (mut old, mut new) = (SiteCounts::default(), SiteCounts::default());
    count(&mut old, NOVEMBER, now);
    old.work(NOVEMBER, true, false, now);
    old.loaded(NOVEMBER, Some(usage(NOVEMBER, 10)));
    new.stand_by();
    count(&mut new, NOVEMBER, now);
    assert!(new.work(NOVEMBER, true, true, now).is_empty() && new.due(now).is_none());
    let handed = old.hand_over();
    count(&mut old, NOVEMBER, now);
    new.take_over(handed, now);
    old.handed_over();
    assert_eq!(number(&mut new, NOVEMBER), Some(12));
    assert!(new.work(NOVEMBER, true, false, now).is_empty(), "the file is among them");
    count(&mut old, NOVEMBER, now);
    assert!(old.of_month(NOVEMBER).is_err() && old.work(NOVEMBER, true, true, now).is_empty());
    new.add(old.take_counted(), now);
    assert!(old.take_counted().is_empty());
    assert_eq!(number(&mut new, NOVEMBER), Some(14));
    assert_eq!(new.work(NOVEMBER, true, true, now), [Work::Save(usage(NOVEMBER, 14))]);
}

#[test]
fn a_server_that_is_not_replaced_after_all_has_everything() {
    let (mut counts, now) = (SiteCounts::default(), Instant::now());
    count(&mut counts, NOVEMBER, now);
    counts.work(NOVEMBER, true, false, now);
    counts.loaded(NOVEMBER, None);
    counts.hand_over();
    count(&mut counts, NOVEMBER, now);
    counts.keep();
    assert_eq!(number(&mut counts, NOVEMBER), Some(2));
    // The next attempt succeeds, and the new server dies: the file has what that one has stored.
    counts.hand_over();
    counts.handed_over();
    count(&mut counts, NOVEMBER, now);
    counts.take_over(Vec::new(), now);
    assert_eq!(counts.work(NOVEMBER, true, false, now), [load(NOVEMBER)]);
    counts.loaded(NOVEMBER, Some(usage(NOVEMBER, 2)));
    assert_eq!(number(&mut counts, NOVEMBER), Some(3));
}

#[test]
fn questions_for_many_months_at_once_are_refused_and_counting_goes_on() {
    let (mut counts, now) = (SiteCounts::default(), Instant::now());
    let asked = (1900..2100).map(|year| counts.of_month(&format!("{year}-01")).is_ok());
    assert_eq!(asked.filter(|is_ok| *is_ok).count(), MAX_MONTHS);
    count(&mut counts, NOVEMBER, now);
    assert!(counts.of_month(NOVEMBER).is_ok());
}
