//! The service manager that has started this process, such as systemd: descriptors and settings
//! that it passes in the environment, and notifications to it.
//!
//! - [`Notifier`]: notifications (sd_notify(3)).
//! - `variables`: the environment variables (sd_listen_fds(3), sd_watchdog_enabled(3)).

mod notifier;
mod variables;

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::environment;
use crate::process::take_inherited;

pub use self::notifier::Notifier;
use self::variables::{NAMES, Variables};

/// Number of the first passed descriptor (`SD_LISTEN_FDS_START`).
const FIRST_DESCRIPTOR: i32 = 3;

/// Everything that the service manager has passed to this process.
#[derive(Debug, Default)]
pub struct ServiceManager {
    /// The receiver of notifications; `None` without one.
    pub notifier: Option<Notifier>,
    /// The service manager ends the service if it gets no keep-alive notification for this time;
    /// `None` without a watchdog.
    pub watchdog: Option<Duration>,
    /// Passed descriptors, closed on exec, with their names. They have not been checked.
    pub descriptors: Vec<(OwnedFd, String)>,
    /// Variables that were ignored, and why.
    pub warnings: Vec<String>,
}

impl ServiceManager {
    /// Takes over the descriptors and settings that were passed to this process, and removes the
    /// variables from the environment: no other process may take them for its own.
    ///
    /// Must be called only once, at the start of `main`, before anything is opened: the variables
    /// name descriptors by their numbers.
    ///
    /// # Panics
    /// If the process has more than one thread.
    pub fn take() -> ServiceManager {
        let variables = Variables::read(|name| std::env::var_os(name), std::process::id());
        environment::remove(NAMES);
        let mut manager = ServiceManager {
            notifier: variables.notifier,
            watchdog: variables.watchdog,
            descriptors: Vec::new(),
            warnings: variables.warnings,
        };
        for (number, name) in (FIRST_DESCRIPTOR..).zip(variables.descriptors) {
            match take_inherited(number) {
                Some(fd) => manager.descriptors.push((fd, name)),
                None => manager
                    .warnings
                    .push(format!("LISTEN_FDS counts descriptor {number}, which is not open")),
            }
        }
        manager
    }
}
