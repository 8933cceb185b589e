//! Status of an application with its name.

use crate::application::Application;
use crate::status::PoolStatus;

/// An application; PHP-FPM's word for it is pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Name of the application.
    pub name: String,
    /// Status of the application.
    pub status: PoolStatus,
}

impl Pool {
    /// Returns the current status of an application; with all workers if `full`.
    pub fn of(application: &Application, full: bool) -> Self {
        Pool { name: application.name.to_string(), status: application.queue.status(full) }
    }
}
