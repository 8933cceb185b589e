//! The inputs of modules of directives beside the record: values of expressions, clocks, the state
//! of the server.

use std::net::IpAddr;

use crate::modules::pattern::{Condition, Text};
use crate::record::Record;
use crate::world::Later;

/// Evaluation of expressions for a request, and facts about the server.
pub trait Services {
    /// Evaluates a condition. The error is the message for the log.
    fn holds(&self, record: &Record, condition: &Condition) -> Result<bool, String>;

    /// Evaluates a condition; a true one has the groups of its last match (`$0` to `$9`), empty
    /// without one.
    fn groups(
        &self,
        record: &Record,
        condition: &Condition,
    ) -> Result<Option<Vec<Vec<u8>>>, String>;

    /// Evaluates an expression of type string.
    fn text(&self, record: &Record, text: &Text) -> Result<Vec<u8>, String>;

    /// Returns microseconds since the request began.
    fn elapsed(&self, record: &Record) -> u64 {
        let _ = record;
        0
    }

    /// Returns the load of the machine over 1, 5 and 15 minutes.
    fn load_average(&self) -> [f64; 3] {
        [0.0; 3]
    }

    /// Returns the percentages of idle and of busy workers.
    fn workers(&self) -> (u32, u32) {
        (100, 0)
    }

    /// Returns a variable of the TLS connection.
    fn tls_variable(&self, record: &Record, name: &[u8]) -> Option<Vec<u8>> {
        let _ = (record, name);
        None
    }

    /// Returns the addresses of a host name (`Require forward-dns`).
    fn addresses<'a>(&'a self, name: &'a [u8]) -> Later<'a, Vec<IpAddr>> {
        let _ = name;
        Box::pin(async { Vec::new() })
    }

    /// Returns the name of a user of the system (`Require file-owner`).
    fn user_name(&self, user: u32) -> Option<Vec<u8>> {
        let _ = user;
        None
    }

    /// Returns the name of a group of the system (`Require file-group`).
    fn group_name(&self, group: u32) -> Option<Vec<u8>> {
        let _ = group;
        None
    }
}
