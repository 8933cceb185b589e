//! The PHP that runs an application.

use std::sync::{MutexGuard, PoisonError};

use super::Queue;

/// What a prototype has reported of its PHP.
#[derive(Debug, Default, Clone)]
pub struct Php {
    /// The full version; empty before the first report.
    pub version: String,
    /// Responses name the version (`expose_php`).
    pub is_exposed: bool,
    /// Messages of scripts also go to the web server that has passed the request (`fastcgi.logging`).
    pub sends_messages: bool,
}

impl Queue {
    /// Returns the version of PHP that the prototype has reported last; `None` before it has
    /// started.
    pub fn php_version(&self) -> Option<String> {
        Some(self.php().version.clone()).filter(|version| !version.is_empty())
    }

    /// Returns the version for the field `X-Powered-By`; `None` if `expose_php` is off.
    pub fn exposed_php_version(&self) -> Option<String> {
        let is_exposed = self.php().is_exposed;
        self.php_version().filter(|_| is_exposed)
    }

    /// Returns true if messages of scripts go to web servers.
    pub(crate) fn sends_messages(&self) -> bool {
        self.php().sends_messages
    }

    /// Stores what a prototype has reported. Anything but a short version is ignored.
    pub fn set_php(&self, php: Php) {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-+~".contains(&byte);
        if php.version.len() <= 32 && php.version.bytes().all(is_part) {
            *self.php() = php;
        }
    }

    fn php(&self) -> MutexGuard<'_, Php> {
        self.php.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
