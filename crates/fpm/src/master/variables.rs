//! Variables of the environment: those that a reload passes to the next program, and all others.

use std::os::fd::OwnedFd;

use howdah_sys::{environment, process};

use crate::sockets;

/// Variable with the supervisors from before a reload: `PID:DESCRIPTOR,…`.
pub(super) const FORMER: &str = "HOWDAH_FPM_FORMER";

/// Variables of the environment: what a reload passes, and all others.
pub(super) struct Variables {
    passed: Vec<(String, String)>,
    /// Supervisors from before a reload, each with the descriptor of its log.
    pub(super) former: Vec<(u32, OwnedFd)>,
    /// All others.
    pub(super) own: Vec<(String, String)>,
}

impl Variables {
    /// Takes the variables, and removes those of a reload from the environment.
    pub(super) fn take() -> Self {
        let all = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let is_passed = |name: &str| sockets::is_variable(name) || name == FORMER;
        let (passed, own): (Vec<_>, Vec<_>) = all.partition(|(name, _)| is_passed(name));
        let names: Vec<&String> = passed.iter().map(|(name, _)| name).collect();
        environment::remove(&names);
        let former =
            passed.iter().find(|(name, _)| name == FORMER).map(|(_, value)| value.as_str());
        let former = former.unwrap_or_default().split(',').filter_map(|entry| {
            let (pid, descriptor) = entry.split_once(':')?;
            let descriptor = descriptor.parse().ok().filter(|number: &i32| *number > 2)?;
            Some((pid.parse().ok()?, process::take_inherited(descriptor)?))
        });
        Variables { former: former.collect(), passed, own }
    }

    /// Returns a variable of a reload.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let found = self.passed.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }
}
