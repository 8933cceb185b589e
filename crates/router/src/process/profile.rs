//! Profiles: the stacks of a site's scripts, for a time that an administrator has asked for.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_config::include::SHARED;
use howdah_php_pool::profile::Profile;
use howdah_php_pool::queue::Queue;
use howdah_questions::{Profile as Answer, ProfileOrder};
use howdah_sys::clock;
use howdah_wire::profile::Order;

use super::command::Commands;

/// Time between two samples of a script in microseconds.
const PERIOD_US: u32 = 10_000;

/// Maximum number of profiles at a time: each takes up to 30 MB.
const MAX_PROFILES: usize = 4;

/// Time that workers have to send their last samples.
const LAST_SAMPLES: Duration = Duration::from_millis(300);

/// Number of the profiles that are being made.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningProfiles(Rc<Cell<usize>>);

/// A profile that is being made. It ends when this is dropped.
struct Running {
    profile: Arc<Profile>,
    queues: Vec<Arc<Queue>>,
    running: RunningProfiles,
}

impl Running {
    /// Starts a profile. Error: too many are being made, or one of the same application.
    fn start(
        profile: Profile,
        queues: Vec<Arc<Queue>>,
        running: &RunningProfiles,
    ) -> Result<Self, String> {
        if running.0.get() >= MAX_PROFILES {
            return Err(format!("{MAX_PROFILES} profiles are being made, which is the maximum"));
        }
        running.0.set(running.0.get() + 1);
        let (profile, running) = (Arc::new(profile), running.clone());
        let mut started = Running { profile, queues: Vec::with_capacity(queues.len()), running };
        for queue in queues {
            if !queue.profile.start(&started.profile) {
                return Err("another profile of it is being made".to_owned());
            }
            started.queues.push(queue);
        }
        Ok(started)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.end_profile(&self.profile));
        self.running.0.set(self.running.0.get().saturating_sub(1));
    }
}

impl Commands {
    /// Makes a profile of an application, or of a site that shares one. Returns it at its end;
    /// `None` if there is neither. Error: why none is made.
    pub async fn profile(&self, asked: &ProfileOrder) -> Result<Option<Answer>, String> {
        let (queues, site) = self.profiled(&asked.site);
        if queues.is_empty() {
            return Ok(None);
        }
        let seconds = asked.seconds.clamp(1, ProfileOrder::MAX_SECONDS);
        let order = Order {
            is_processor_time: asked.is_processor_time,
            period_us: PERIOD_US,
            end_us: clock::monotonic_us() + u64::from(seconds) * 1_000_000,
        };
        let began = clock::wall_seconds();
        let profile = Profile::new(order, site, asked.url.as_bytes());
        let started = Running::start(profile, queues, &self.profiles).map_err(|reason| {
            let seconds = ProfileOrder::MAX_SECONDS;
            format!(
                "\"{}\" cannot be profiled now: {reason}; each ends after {seconds} s at most",
                asked.site
            )
        })?;
        tokio::time::sleep(Duration::from_secs(seconds.into()) + LAST_SAMPLES).await;
        let mut answer = Answer {
            site: asked.site.clone(),
            clock: if order.is_processor_time { "processor" } else { "wall" }.into(),
            period_us: PERIOD_US,
            milliseconds: u64::from(seconds) * 1000,
            began,
            ..Answer::default()
        };
        started.profile.report(&mut answer);
        Ok(Some(answer))
    }

    /// Returns the queues of an application, or those that requests of a site may be in, with the
    /// name of the site.
    fn profiled<'n>(&self, name: &'n str) -> (Vec<Arc<Queue>>, Option<&'n str>) {
        let snapshot = self.shared.snapshot.load();
        if let Some(application) = snapshot.applications.get(name) {
            return (vec![Arc::clone(&application.queue)], None);
        }
        if !snapshot.routes.contains_key(name) {
            return (Vec::new(), None);
        }
        let shared = snapshot.applications.iter().filter(|(name, _)| name.starts_with(SHARED));
        (shared.map(|(_, application)| Arc::clone(&application.queue)).collect(), Some(name))
    }
}
