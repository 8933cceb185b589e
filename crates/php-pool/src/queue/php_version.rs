//! The version of PHP that runs an application.

use std::sync::PoisonError;

use super::Queue;

impl Queue {
    /// Returns the version of PHP that the prototype has reported last; `None` before it has
    /// started.
    pub fn php_version(&self) -> Option<String> {
        let version = self.php_version.lock().unwrap_or_else(PoisonError::into_inner);
        (!version.is_empty()).then(|| version.to_string())
    }

    /// Stores the version of PHP that a prototype has reported. Anything but a short version is
    /// ignored.
    pub fn set_php_version(&self, version: &str) {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-+~".contains(&byte);
        if version.len() <= 32 && version.bytes().all(is_part) {
            *self.php_version.lock().unwrap_or_else(PoisonError::into_inner) = version.into();
        }
    }
}
