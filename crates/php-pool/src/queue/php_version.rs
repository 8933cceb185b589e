//! The PHP that runs an application.

use std::sync::PoisonError;

use super::Queue;

/// What a prototype has reported last.
#[derive(Debug, Default)]
pub(super) struct Php {
    /// Its version; empty before the first report.
    version: Box<str>,
    /// Responses say that it runs (`expose_php`).
    is_exposed: bool,
}

impl Queue {
    /// Returns the version of PHP that the prototype has reported last; `None` before it has
    /// started.
    pub fn php_version(&self) -> Option<String> {
        let php = self.php.lock().unwrap_or_else(PoisonError::into_inner);
        (!php.version.is_empty()).then(|| php.version.to_string())
    }

    /// Returns the version for the field `X-Powered-By`; `None` if `expose_php` is off.
    pub fn exposed_php_version(&self) -> Option<String> {
        let is_exposed = self.php.lock().unwrap_or_else(PoisonError::into_inner).is_exposed;
        self.php_version().filter(|_| is_exposed)
    }

    /// Stores what a prototype has reported. Anything but a short version is ignored.
    pub fn set_php_version(&self, version: &str, is_exposed: bool) {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-+~".contains(&byte);
        if version.len() <= 32 && version.bytes().all(is_part) {
            *self.php.lock().unwrap_or_else(PoisonError::into_inner) =
                Php { version: version.into(), is_exposed };
        }
    }
}
