//! The file of the default control socket: without it, commands cannot reach the server. It is in a
//! directory of the machine's memory, so a look at it waits for no disk.

use std::time::{Duration, Instant};

use howdah_sys::log::Level;
use howdah_wire::messages::ToControl;

use super::startup::{CONTROL_BACKLOG, CONTROL_MODE, SITE_USERS_BACKLOG, SITE_USERS_MODE};
use super::state::Tree;

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_secs(5);

impl Tree {
    /// Returns the time of the next look; `None` if this server has no default control socket of
    /// its own.
    pub(super) fn control_file_due(&self, now: Instant) -> Option<Instant> {
        let is_own = self.has_served
            && self.shutdown.is_none()
            && self.upgrade.predecessor.is_none()
            && !self.upgrade.is_in_progress()
            && !self.upgrade.is_standby;
        let is_default = self
            .options
            .control
            .as_ref()
            .is_some_and(|address| self.options.default_controls.contains(address));
        (is_own && is_default).then(|| self.control.file_due.unwrap_or(now))
    }

    /// Opens the control socket anew if its file was deleted.
    pub(super) fn look_at_control_file(&mut self, now: Instant) {
        if self.control_file_due(now).is_none_or(|due| due > now) {
            return;
        }
        self.control.file_due = Some(now + INTERVAL);
        self.restore_site_users();
        let Some(address) = self.options.control.clone() else { return };
        let problem = match self.sockets.restore(&address, CONTROL_BACKLOG, CONTROL_MODE) {
            Ok(false) => None,
            Ok(true) => {
                let line =
                    format_args!("the control socket {address} was deleted; it is there again");
                self.log.write(Level::Warn, line);
                if let Some(socket) = self.sockets.get(&address) {
                    self.send_to_control(
                        &ToControl::Listening { is_for_site_users: false },
                        &[socket],
                    );
                }
                None
            }
            Err(problem) => Some(problem),
        };
        if let Some(problem) =
            problem.as_ref().filter(|problem| self.control.file_problem.as_ref() != Some(*problem))
        {
            let seconds = INTERVAL.as_secs();
            let line = format_args!(
                "the control socket {address} was deleted, and cannot be opened anew: {problem}; \
                 it is tried every {seconds} s"
            );
            self.log.write(Level::Alert, line);
        }
        self.control.file_problem = problem;
    }

    /// Opens the socket for users of sites anew if its file was deleted. A failure is that of the
    /// control socket, too, which is logged.
    fn restore_site_users(&mut self) {
        let Some(address) = self.options.site_users.clone() else { return };
        let restored = self.sockets.restore(&address, SITE_USERS_BACKLOG, SITE_USERS_MODE);
        if restored == Ok(true) {
            let line = format_args!("the socket {address} was deleted; it is there again");
            self.log.write(Level::Warn, line);
            if let Some(socket) = self.sockets.get(&address) {
                self.send_to_control(&ToControl::Listening { is_for_site_users: true }, &[socket]);
            }
        }
    }
}
