//! Files of passwords and groups, which directives name.

use crate::modules::support::{config_lines, lossy};
use crate::world::{Level, World};

/// Directory that relative paths start at: Debian's `ServerRoot`.
const SERVER_ROOT: &[u8] = b"/etc/apache2/";

/// Largest file in bytes.
const MAX_FILE_BYTES: usize = 16 << 20;

/// Path of a file, from the directive of a directory or the nearest one above it.
#[derive(Debug, Clone, Default)]
pub struct AuthFile(Option<Vec<u8>>);

impl AuthFile {
    /// Returns the child's file if it has one.
    pub fn merged(&self, child: &AuthFile) -> AuthFile {
        AuthFile(child.0.clone().or_else(|| self.0.clone()))
    }

    /// Sets the path that a directive names.
    pub(crate) fn set(&mut self, path: &[u8]) {
        self.0 = Some(match path.first() {
            Some(b'/') => path.to_vec(),
            _ => [SERVER_ROOT, path].concat(),
        });
    }

    /// Returns the path; `None` if no directive names one.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

/// Returns the lines of a file that are no comments; `None` if it cannot be read, which is logged. `kind` is
/// `password` or `group`.
pub(crate) fn lines(path: &[u8], kind: &str, world: &dyn World) -> Option<Vec<Vec<u8>>> {
    let Ok(content) = world.read(path, MAX_FILE_BYTES) else {
        world.log(Level::Error, &format!("Could not open {kind} file: {}", lossy(path)));
        return None;
    };
    let is_entry = |line: &Vec<u8>| line.first().is_some_and(|&byte| byte != b'#');
    Some(config_lines(&content).into_iter().filter(is_entry).collect())
}
