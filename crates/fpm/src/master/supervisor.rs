//! A supervisor of the pools, as the master sees it.

use std::os::fd::OwnedFd;

use super::reports::Reports;
use crate::log::Log;
use crate::records::Records;

/// A child that supervises the pools.
pub(super) struct Supervisor {
    /// Its process id.
    pub(super) pid: u32,
    /// Its log.
    pub(super) output: OwnedFd,
    /// It serves, and handles signals: before, some would end it.
    pub(super) is_serving: bool,
    /// What it reports about itself.
    pub(super) reports: Reports,
    /// Its lines.
    pub(super) records: Records,
}

impl Supervisor {
    /// Writes the lines of its log. Returns false at the end.
    pub(super) fn read(&mut self, log: &Log) -> bool {
        let mut buffer = [0; 64 * 1024];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.output, &mut buffer)) {
            Ok(0) => false,
            Ok(length) => {
                self.records.take(&buffer[..length], log);
                true
            }
            Err(error) => error == rustix::io::Errno::AGAIN,
        }
    }

    /// Writes the rest of its log.
    pub(super) fn read_rest(&mut self, log: &Log) {
        let mut buffer = [0; 64 * 1024];
        while let Ok(length @ 1..) = rustix::io::read(&self.output, &mut buffer) {
            self.records.take(&buffer[..length], log);
        }
    }
}
