//! The time that a request may take from its thread.
//!
//! A match has a limit of its own ([`regex`](crate::regex)), but a file may have a thousand
//! patterns that stay just below it, rounds that repeat them, and a sub-request for each file of a
//! large directory. All of this runs on a thread that serves others. The time of a request is
//! therefore counted while it runs, not while it waits, and matches and sub-requests fail once it
//! is spent.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

/// Time after which the processor time of a request is looked at. The slowest of ordinary sites
/// need less than a hundredth.
const MAX_TIME: Duration = Duration::from_millis(500);

/// Processor time that a request may then still use: on a busy machine, it may have waited for a
/// processor.
const MAX_MORE: Duration = Duration::from_millis(200);

/// The same for one uninterrupted run: until the request waits or lets others run. Builds without
/// optimization are slower.
const MAX_RUN_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 15 });

/// Processor time that a run may then still use.
const MAX_MORE_OF_RUN: Duration =
    Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 10 });

/// Time after which a run lets others run, where it can.
const SHORT_RUN: Duration = Duration::from_millis(1);

/// Time that sub-requests of conditions may take of one run, which cannot be interrupted. Builds
/// without optimization are slower.
const MAX_LOOK_UP_TIME: Duration =
    Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 12 });

#[derive(Clone, Copy)]
struct Deadline {
    /// Time at which the run has begun.
    start: Instant,
    /// Time of the next look at the processor time of the thread.
    at: Instant,
    /// Processor time of the thread at the first look.
    mark: Option<Duration>,
    /// Processor time that may be used from then on.
    more: Duration,
}

thread_local! {
    /// Deadline of the request that runs; `None` outside of requests.
    static DEADLINE: Cell<Option<Deadline>> = const { Cell::new(None) };
    /// A pattern of the request that runs has exceeded a limit.
    static HAS_OVERRUN: Cell<bool> = const { Cell::new(false) };
    /// The run has prepared patterns, which are kept.
    static HAS_PREPARED: Cell<bool> = const { Cell::new(false) };
    /// Time of sub-requests of conditions in this run, and the number of those that run inside of
    /// each other.
    static LOOK_UPS: Cell<(Duration, u32)> = const { Cell::new((Duration::ZERO, 0)) };
}

/// Runs a future with a limit on the time that it runs. Also returns true if a run was stopped that
/// has prepared patterns: they are kept, so that the same work gets further the next time.
pub async fn limited<T>(future: impl Future<Output = T>) -> (T, bool) {
    let mut future = pin!(future);
    let (mut rest, mut more) = (MAX_TIME, MAX_MORE);
    let mut has_overrun = false;
    let mut is_unprepared = false;
    poll_fn(move |context| {
        let start = Instant::now();
        let deadline = Deadline {
            start,
            at: start + rest.min(MAX_RUN_TIME),
            mark: None,
            more: more.min(MAX_MORE_OF_RUN),
        };
        let outer = DEADLINE.replace(Some(deadline));
        let outer_overrun = HAS_OVERRUN.replace(has_overrun);
        let outer_prepared = HAS_PREPARED.replace(false);
        let outer_look_ups = LOOK_UPS.replace((Duration::ZERO, 0));
        let polled = future.as_mut().poll(context);
        let had_overrun = has_overrun;
        has_overrun = HAS_OVERRUN.replace(outer_overrun);
        is_unprepared |= HAS_PREPARED.replace(outer_prepared) && has_overrun && !had_overrun;
        LOOK_UPS.set(outer_look_ups);
        if let Some(mark) = DEADLINE.replace(outer).and_then(|deadline| deadline.mark) {
            more = more.saturating_sub(processor_time().saturating_sub(mark));
        }
        rest = rest.saturating_sub(start.elapsed());
        polled.map(|result| (result, is_unprepared))
    })
    .await
}

/// Runs a function, and returns true beside its result if a pattern has exceeded a limit.
pub fn checked<T>(run: impl FnOnce() -> T) -> (T, bool) {
    let start = Instant::now();
    let deadline = Deadline { start, at: start + MAX_RUN_TIME, mark: None, more: MAX_MORE_OF_RUN };
    let outer = DEADLINE.replace(Some(deadline));
    let outer_overrun = HAS_OVERRUN.replace(false);
    let result = run();
    DEADLINE.set(outer);
    (result, HAS_OVERRUN.replace(outer_overrun))
}

/// Runs a sub-request of a condition; `None`, which fails the request, if there is no time left for
/// it.
pub fn look_up<T>(run: impl FnOnce() -> T) -> Option<T> {
    let (used, depth) = LOOK_UPS.get();
    if depth == 0 && used >= MAX_LOOK_UP_TIME {
        record_overrun();
        return None;
    }
    let start = Instant::now();
    LOOK_UPS.set((used, depth + 1));
    let result = run();
    let elapsed = if depth == 0 { start.elapsed() } else { Duration::ZERO };
    LOOK_UPS.set((used + elapsed, depth));
    Some(result)
}

/// Records that a pattern of the request that runs has exceeded a limit.
pub fn record_overrun() {
    HAS_OVERRUN.set(true);
}

/// Records that the run has prepared a pattern, which is kept.
pub(crate) fn record_prepared() {
    HAS_PREPARED.set(true);
}

/// Returns true, and fails the request, if it has no time left. For work without patterns that a
/// hostile file can repeat.
pub(crate) fn must_stop() -> bool {
    let is_over = is_spent();
    if is_over {
        record_overrun();
    }
    is_over
}

/// Returns true if the run has lasted so long that others should have their turn.
pub(crate) fn is_long() -> bool {
    DEADLINE.get().is_some_and(|deadline| deadline.start.elapsed() >= SHORT_RUN)
}

/// Returns true if a pattern of the request that runs has exceeded a limit: whether it matches is
/// not known, so a directive that denies access may not have been applied.
pub fn has_overrun() -> bool {
    HAS_OVERRUN.get()
}

/// Returns true if the request that runs has no time left.
#[inline]
pub fn is_spent() -> bool {
    // The clock of real time costs no system call, that of processor time does.
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline.at && has_used_all(deadline))
}

#[cold]
fn has_used_all(deadline: Deadline) -> bool {
    let now = processor_time();
    let mark = deadline.mark.unwrap_or(now);
    let rest = deadline.more.saturating_sub(now.saturating_sub(mark));
    let at = if rest.is_zero() { deadline.at } else { Instant::now() + rest };
    DEADLINE.set(Some(Deadline { at, mark: Some(mark), ..deadline }));
    rest.is_zero()
}

/// Returns the processor time that the thread has used.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::now;
    use crate::testing::Site;

    #[test]
    fn a_request_is_stopped_after_its_processor_time_and_not_for_waiting() {
        assert!(!is_spent());
        let _ = now(limited(async {
            // Real time is over; processor time is counted from the first look.
            let past = Instant::now();
            let deadline = Deadline { start: past, at: past, mark: None, more: MAX_MORE };
            DEADLINE.set(Some(deadline));
            assert!(!is_spent());
            DEADLINE.set(Some(Deadline { mark: Some(Duration::ZERO), ..deadline }));
            while processor_time() < MAX_MORE {}
            assert!(is_spent());
        }));
        assert!(!is_spent());
    }

    #[test]
    fn a_request_that_lets_others_run_has_no_more_time_than_one_that_does_not() {
        let begun = processor_time();
        let future = limited(poll_fn(|context| {
            let round = processor_time();
            while processor_time() - round < Duration::from_millis(20) && !is_spent() {}
            if is_spent() {
                std::task::Poll::Ready(())
            } else {
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            }
        }));
        let mut future = pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while future.as_mut().poll(&mut context).is_pending() {}
        let used = processor_time() - begun;
        assert!(used < (MAX_TIME + MAX_MORE) * 2, "{used:?}");
    }

    #[test]
    fn a_thousand_patterns_below_the_limit_of_a_match_end_with_500() {
        let rule = "RewriteCond %{QUERY_STRING} ^(a|aa?)+$\nRewriteRule . - [E=a:1]\n";
        let rules = format!("RewriteEngine on\n{}", rule.repeat(3000));
        let site = Site::new(&[(".htaccess", &rules), ("a.html", "a")]);
        let target = format!("/a.html?{}!", "a".repeat(13));
        assert_eq!(site.get(&target).status(), 500);
    }

    #[test]
    fn work_without_patterns_that_a_file_repeats_ends_with_500() {
        let text = "%{HTTP:X}".repeat(30);
        let functions: String = (0..1000)
            .map(|n| {
                format!("<If \"sha1(md5('{text}').'{text}') == '{n}'\">\nHeader set A b\n</If>\n")
            })
            .collect();
        let sections: String = (0..3000)
            .map(|n| format!("<FilesMatch a>\nHeader set X{n} y\n</FilesMatch>\n"))
            .collect();
        let edits = "Header set X-A a\n".to_owned()
            + &"Header edit* X-A a aa\n".repeat(10)
            + &"Header edit* X-A a b\nHeader edit* X-A b a\n".repeat(2000);
        for rules in [functions, sections, edits] {
            let site = Site::new(&[(".htaccess", &rules), ("a.html", "a")]);
            let answer = site.send("GET /a.html", &[("X", &"x".repeat(8000))]);
            assert_eq!(answer.status(), 500, "{}", &rules[..100]);
        }
    }

    #[test]
    fn a_request_that_prepares_many_patterns_is_answered_when_all_are_prepared() {
        let lines: String =
            (0..8000).map(|n| format!("SetEnvIf User-Agent \"b(a|c)*d{n}\" e=1\n")).collect();
        let site = Site::new(&[(".htaccess", &lines), ("a.html", "a")]);
        let agent = "x".repeat(300);
        let mut answers = (0..32).map(|_| site.send("GET /a.html", &[("User-Agent", &agent)]));
        let answer = answers.find(|answer| !answer.0.is_unprepared).unwrap();
        assert_eq!(answer.status(), 200);
    }

    #[test]
    fn a_response_whose_fields_could_not_be_decided_is_an_error() {
        // A pattern that explodes on a value of the client, in front of a field that protects the
        // page.
        for directive in [
            "Header set X-Frame-Options DENY \"expr=%{HTTP:Attack} !~ /^(a|aa)+$/\"\n",
            "Header set X-Name \"expr=%{HTTP:Attack}\"\nHeader edit X-Name ^(a|aa)+$ b\n",
        ] {
            let site = Site::new(&[(".htaccess", directive), ("a.html", "a")]);
            assert_eq!(site.send("GET /a.html", &[("Attack", "aa")]).status(), 200);
            let attack = format!("{}!", "a".repeat(60));
            let answer = site.send("GET /a.html", &[("Attack", &attack)]);
            assert_eq!(answer.status(), 500, "{directive}");
            assert!(answer.0.record.is_head_invalid);
        }
    }

    #[test]
    fn a_section_whose_pattern_explodes_does_not_let_a_request_through() {
        let name = format!("{}!", "a".repeat(60));
        let rules = "<FilesMatch \"^(a|aa)+$\">\nRequire all denied\n</FilesMatch>\n";
        let site = Site::new(&[(".htaccess", rules), (&name, "secret"), ("b", "b")]);
        assert_eq!(site.get(&format!("/{name}")).status(), 500);
        assert_eq!(site.get("/b").status(), 200);
    }
}
