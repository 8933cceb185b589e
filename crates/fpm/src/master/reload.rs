//! The program starts anew in the same process, with the sockets and beside the supervisor that
//! serves.

use std::os::fd::AsRawFd;
use std::time::Duration;

use howdah_sys::{clock, process};
use rustix::io::{FdFlags, fcntl_setfd};

use super::variables::FORMER;
use super::{Invocation, Master};
use crate::conf::{Conf, Invalid};
use crate::document::document;
use crate::log::{Level, Log};
use crate::sockets;

impl Master<'_> {
    /// Returns true if more processes have crashed than `emergency_restart_threshold` allows.
    pub(super) fn has_crashed_too_often(&mut self) -> bool {
        let threshold = self.conf.global.number("emergency_restart_threshold", 0);
        let interval = self.conf.global.number("emergency_restart_interval", 0);
        let (Ok(limit @ 1..), Ok(seconds @ 1..)) =
            (usize::try_from(threshold), u64::try_from(interval))
        else {
            return false;
        };
        let Some(current) = &mut self.current else { return false };
        if current.records.crashes_within(Duration::from_secs(seconds)) < limit {
            return false;
        }
        let text = format!(
            "failed processes threshold ({limit} in {seconds} sec) is reached, initiating reload"
        );
        self.log.write(Level::Warning, text);
        true
    }

    /// Executes the program anew in this process, which gets the sockets and the supervisor that
    /// serves. A configuration with a mistake is refused, and the server continues.
    pub(super) fn reload(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        self.log.write(Level::Notice, "Reloading in progress ...");
        if self.is_refused() {
            return;
        }
        let time = clock::monotonic_us().to_string();
        self.notify(&[("RELOADING", "1"), ("MONOTONIC_USEC", &time)]);
        let mut variables = self.environment.clone();
        variables.extend(sockets::passed(&self.sockets));
        let supervisors = self.former.iter().chain(&self.current);
        let former: Vec<_> = supervisors
            .map(|one| {
                let _ = fcntl_setfd(&one.output, FdFlags::empty());
                format!("{}:{}", one.pid, one.output.as_raw_fd())
            })
            .collect();
        variables.push((FORMER.to_owned(), former.join(",")));
        if let Some(notifier) = &self.notifier {
            let address = notifier.address().to_string_lossy().into_owned();
            variables.push(("NOTIFY_SOCKET".to_owned(), address));
        }
        if let Some(watchdog) = self.heartbeat.watchdog {
            variables.push(("WATCHDOG_USEC".to_owned(), watchdog.as_micros().to_string()));
        }
        let Invocation { program, arguments } = self.invocation;
        let list: Vec<String> = arguments.iter().map(|one| format!("\"{one}\"")).collect();
        let text = format!("reloading: execvp(\"{program}\", {{{}}})", list.join(", "));
        self.log.write(Level::Notice, text);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let error = process::exec(program, &words, &variables);
        let error = crate::conf::system(&error);
        self.log.write(Level::Error, format!("failed to reload: execvp() failed{error}"));
    }

    /// Returns true, and logs why, if the configuration cannot be used.
    fn is_refused(&self) -> bool {
        let mut trial = Log::default();
        trial.configure(Level::Error, self.log.limit());
        let loaded = Conf::load(self.file, self.arguments, &mut trial);
        let problem = match loaded {
            Err(Invalid) => Some("the configuration has a mistake".to_owned()),
            Ok(conf) => {
                let made =
                    document(&conf, &self.listeners, self.php, self.arguments, &self.environment);
                made.err()
            }
        };
        if let Some(problem) = &problem {
            let text = format!("there is no reload, and the server continues: {problem}");
            self.log.write(Level::Error, text);
        }
        problem.is_some()
    }
}
