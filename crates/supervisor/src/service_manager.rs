//! State of the notifications to the service manager: when the router is asked whether it works,
//! whether it hangs, and the line that describes the server.

use std::time::{Duration, Instant};

use howdah_sys::activity::Activity;
use howdah_sys::service_manager::Notifier;

use crate::liveness::Liveness;

/// Interval at which the router is asked and the description of the server is updated, at most.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// The router is asked this many times within the time of the watchdog, so that one slow answer
/// does not end the server, and a router that hangs is replaced before the service manager ends the
/// server.
const PINGS_PER_WATCHDOG: u32 = 6;

/// The service manager, and the notifications that it has got.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    pub(crate) notifier: Option<Notifier>,
    has_watchdog: bool,
    interval: Duration,
    /// Time of the next ping of the router.
    next_ping: Option<Instant>,
    last_ping: u32,
    /// The ping that the router has not answered.
    awaited: Option<u32>,
    /// The description that was sent last.
    status: String,
    /// A failed notification was logged.
    pub(crate) has_failed: bool,
    /// The service manager was told that the server serves.
    is_ready: bool,
    /// The liveness of the running router; `None` while none serves.
    liveness: Option<Liveness>,
}

/// Numbers of the router for the description of the server. They are shown and not relied on: an
/// attacker may have taken over the router.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RouterNumbers {
    pub(crate) active: u64,
    pub(crate) idle: u64,
    pub(crate) requests: u64,
}

/// Numbers of the supervisor for the description of the server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TreeNumbers {
    pub(crate) listeners: usize,
    pub(crate) applications: usize,
    pub(crate) loaded: usize,
    pub(crate) workers: usize,
}

impl ServiceManager {
    /// Creates the state at the start of the server. `watchdog` is the time after which the service
    /// manager ends a server that does not answer.
    pub(crate) fn new(notifier: Option<Notifier>, watchdog: Option<Duration>) -> Self {
        let interval = watchdog.map(|time| time / PINGS_PER_WATCHDOG);
        let interval = interval.unwrap_or(STATUS_INTERVAL).min(STATUS_INTERVAL);
        ServiceManager {
            has_watchdog: watchdog.is_some(),
            interval: interval.max(Duration::from_millis(1)),
            notifier,
            ..ServiceManager::default()
        }
    }

    /// Asks the router now, and then at the interval. Its next answer gives the description, even
    /// if that has not changed.
    pub(crate) fn start(&mut self, now: Instant) {
        self.next_ping = Some(now);
        self.is_ready = true;
        self.status.clear();
    }

    /// Returns true if [`ServiceManager::start`] was called.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Begins to ask a router that serves from now on.
    pub(crate) fn router_serves(&mut self, now: Instant) {
        self.next_ping.get_or_insert(now);
        self.liveness = Some(Liveness::default());
    }

    /// Handles the end of the router: its answers are no longer expected.
    pub(crate) fn router_ended(&mut self) {
        self.liveness = None;
    }

    /// Returns the time for which the router has not answered, if it hangs. It is then replaced,
    /// and no further answer is expected. `activity`: the activity of the router.
    pub(crate) fn take_hang(
        &mut self,
        now: Instant,
        activity: impl FnOnce() -> Option<Activity>,
    ) -> Option<Duration> {
        let hung_for = self.liveness.as_mut()?.look(now, activity)?;
        self.liveness = None;
        Some(hung_for)
    }

    /// Returns the time of the next ping or look at the router; `None` if there is none.
    pub(crate) fn due(&self) -> Option<Instant> {
        let look = self.liveness.as_ref().and_then(Liveness::due);
        self.next_ping.into_iter().chain(look).min()
    }

    /// Returns the number of the ping to send now, if one is due. A ping that was not answered is
    /// given up: the router that got it may have ended.
    pub(crate) fn next_ping(&mut self, now: Instant) -> Option<u32> {
        self.next_ping.filter(|due| *due <= now)?;
        self.next_ping = Some(now + self.interval);
        self.last_ping = self.last_ping.wrapping_add(1);
        self.awaited = Some(self.last_ping);
        if let Some(liveness) = &mut self.liveness {
            liveness.asked(self.last_ping, now);
        }
        self.awaited
    }

    /// Notes that the router answers, perhaps an earlier ping than the last.
    pub(crate) fn heard(&mut self, number: u32) {
        if let Some(liveness) = &mut self.liveness {
            liveness.heard(number);
        }
    }

    /// Returns true if this ping was sent and is not answered.
    pub(crate) fn awaits(&self, number: u32) -> bool {
        self.awaited == Some(number)
    }

    /// Handles an answer of the router. Returns the fields of the notification: that the server
    /// works, and its description if it has changed. Empty if this answer was not awaited.
    pub(crate) fn answered(&mut self, number: u32, status: String) -> Vec<(&'static str, String)> {
        if self.awaited.take_if(|awaited| *awaited == number).is_none() {
            return Vec::new();
        }
        let mut fields = Vec::new();
        if self.has_watchdog {
            fields.push(("WATCHDOG", "1".to_owned()));
        }
        if status != self.status {
            self.status.clone_from(&status);
            fields.push(("STATUS", status));
        }
        fields
    }
}

/// Maximum length of the parts that are out in the description, in characters.
const MAX_OUT: usize = 400;

/// Returns the description of the server in one line. `out`: the parts of the configuration that
/// are out, as the router tells them; empty if there are none.
pub(crate) fn describe(router: RouterNumbers, tree: TreeNumbers, out: &str) -> String {
    let count = |number: u64, noun: &str| match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    };
    let RouterNumbers { active, idle, requests } = router;
    let open = active.saturating_add(idle);
    let mut text = format!(
        "{}, {} open ({active} active, {idle} idle), {}",
        count(tree.listeners as u64, "listener"),
        count(open, "connection"),
        count(requests, "request"),
    );
    if tree.applications > 0 {
        text += &format!(
            ", {} of {} loaded, {}",
            tree.loaded,
            count(tree.applications as u64, "application"),
            count(tree.workers as u64, "PHP process").replace("processs", "processes"),
        );
    }
    if !out.is_empty() {
        let out: String = out.chars().filter(|c| !c.is_control()).take(MAX_OUT).collect();
        text += &format!("; out: {out} (howdah status tells why)");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    const WATCHDOG: Duration = Duration::from_secs(6);

    fn started(watchdog: Option<Duration>) -> (ServiceManager, Instant) {
        let notifier = Notifier::new(OsStr::new("/notify")).unwrap();
        let (mut manager, now) = (ServiceManager::new(Some(notifier), watchdog), Instant::now());
        manager.start(now);
        (manager, now)
    }

    fn names(fields: Vec<(&'static str, String)>) -> Vec<&'static str> {
        fields.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn the_watchdog_is_fed_once_for_each_answer_of_the_router() {
        let (mut manager, now) = started(Some(WATCHDOG));
        let ping = manager.next_ping(now).unwrap();
        assert_eq!(manager.next_ping(now), None, "not due");
        assert_eq!(names(manager.answered(ping, "s".to_owned())), ["WATCHDOG", "STATUS"]);
        assert_eq!(names(manager.answered(ping, "s".to_owned())), [""; 0], "it was answered");
        assert_eq!(manager.due(), Some(now + WATCHDOG / PINGS_PER_WATCHDOG));
    }

    /// A router that hangs must not keep the server alive with the answer to an earlier ping, nor
    /// one that an attacker controls with answers to none.
    #[test]
    fn an_answer_to_another_ping_does_not_feed_the_watchdog() {
        let (mut manager, now) = started(Some(WATCHDOG));
        let first = manager.next_ping(now).unwrap();
        let second = manager.next_ping(now + WATCHDOG).unwrap();
        for wrong in [first, second + 1, 0] {
            assert!(manager.answered(wrong, "s".to_owned()).is_empty(), "{wrong}");
        }
        assert!(!manager.answered(second, "s".to_owned()).is_empty());
    }

    #[test]
    fn a_description_that_has_not_changed_is_not_sent_again() {
        let (mut manager, now) = started(None);
        let mut answer = |at: Duration, status: &str| {
            let ping = manager.next_ping(now + at).unwrap();
            names(manager.answered(ping, status.to_owned()))
        };
        assert_eq!(answer(Duration::ZERO, "a"), ["STATUS"]);
        assert_eq!(answer(STATUS_INTERVAL, "a"), [""; 0]);
        assert_eq!(answer(STATUS_INTERVAL * 2, "b"), ["STATUS"]);
    }

    #[test]
    fn a_router_that_answers_nothing_hangs_and_the_next_one_is_asked_anew() {
        let idle =
            || Some(Activity { cpu: WATCHDOG, wants_processor: false, waits_for_disk: false });
        for watchdog in [None, Some(WATCHDOG), Some(WATCHDOG * 5)] {
            let (mut manager, start) = (ServiceManager::new(None, watchdog), Instant::now());
            assert_eq!(manager.next_ping(start), None, "no router serves");
            let mut hangs_after = |answered: u32| {
                manager.router_serves(start);
                let mut now = start;
                let hung = (0..100).find_map(|_| {
                    now = manager.due().unwrap().max(now);
                    if let Some(number) = manager.next_ping(now).filter(|ping| *ping <= answered) {
                        manager.heard(number);
                    }
                    manager.take_hang(now, idle)
                });
                manager.router_ended();
                assert_eq!(manager.take_hang(now + WATCHDOG, idle), None);
                hung.map(|time| time.as_secs())
            };
            assert_eq!(hangs_after(u32::MAX), None);
            assert_eq!(hangs_after(0), Some(5));
        }
    }

    #[test]
    fn the_description_has_connections_requests_and_processes() {
        let router = RouterNumbers { active: 1, idle: 2, requests: 1 };
        let mut tree = TreeNumbers { listeners: 1, ..TreeNumbers::default() };
        assert_eq!(
            describe(router, tree, ""),
            "1 listener, 3 connections open (1 active, 2 idle), 1 request"
        );
        tree = TreeNumbers { applications: 2, loaded: 1, workers: 4, ..tree };
        let text = describe(router, tree, "");
        assert!(text.ends_with(", 1 of 2 applications loaded, 4 PHP processes"), "{text}");
        let all = RouterNumbers { active: u64::MAX, idle: u64::MAX, requests: u64::MAX };
        assert!(describe(all, tree, "").len() < 300);
        let hostile = format!("application \"a\"\nREADY=1\n{}", "x".repeat(9999));
        let text = describe(all, tree, &hostile);
        assert!(text.contains("; out: application \"a\"READY=1x") && text.len() < 800, "{text}");
    }
}
