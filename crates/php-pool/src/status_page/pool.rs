//! The status of an application under its name.

use crate::application::Application;
use crate::status::PoolStatus;

/// An application; PHP-FPM's word for it is pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Name of the application.
    pub name: String,
    /// Its status.
    pub status: PoolStatus,
}

impl Pool {
    /// The current status of an application; with all workers if `full`.
    pub fn of(application: &Application, full: bool) -> Self {
        Pool { name: application.name.to_string(), status: application.queue.status(full) }
    }
}
