//! Reasons why a directory cannot be served.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a directory cannot be served. `Display` is one line that includes the remedy.
#[derive(Debug)]
pub enum DetectError {
    /// The directory does not exist.
    Missing(PathBuf),
    /// The path is not that of a directory.
    NotDirectory(PathBuf),
    /// The path cannot be represented in a JSON document.
    NotUtf8(PathBuf),
    /// A project whose root must not be served and that has no public `index.php`.
    Project {
        /// The directory.
        path: PathBuf,
        /// The framework, or Composer.
        project: &'static str,
        /// A directory in it that is probably the public one.
        public: Option<PathBuf>,
    },
    /// The system refuses to read the directory.
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl DetectError {
    pub(super) fn unreadable(path: &Path, error: io::Error) -> DetectError {
        DetectError::Unreadable { path: path.to_owned(), error }
    }
}

impl fmt::Display for DetectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Debug` quotes a path and escapes control characters.
        match self {
            DetectError::Missing(path) => {
                write!(f, "{path:?} does not exist; name the directory that holds the site")
            }
            DetectError::NotDirectory(path)
                if path.extension().is_some_and(|end| end == "json") =>
            {
                write!(
                    f,
                    "{path:?} is not a directory; a configuration is served with --config {path:?}"
                )
            }
            DetectError::NotDirectory(path) => match path.parent() {
                Some(parent) => write!(
                    f,
                    "{path:?} is not a directory; name the directory that holds the site, \
                     perhaps {parent:?}"
                ),
                None => write!(f, "{path:?} is not a directory"),
            },
            DetectError::NotUtf8(path) => write!(
                f,
                "the name {path:?} is not UTF-8; rename the directory or make a symbolic link to it"
            ),
            DetectError::Project { path, project, public } => {
                write!(
                    f,
                    "{path:?} is a project of {project} without public/index.php: its sources, \
                     databases and packages would be open to everybody; "
                )?;
                match public {
                    Some(public) => {
                        write!(f, "serve its public directory, perhaps {public:?}, or")?
                    }
                    None => write!(f, "name the directory that visitors may see, or")?,
                }
                write!(f, " write a configuration and serve that with --config")
            }
            DetectError::Unreadable { path, error } => match error.kind() {
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "no permission to read {path:?}; serve as a user who may, or allow it with \
                     \"chmod a+rx\" on the directory and those above it"
                ),
                _ => write!(f, "cannot read {path:?}: {error}"),
            },
        }
    }
}

impl std::error::Error for DetectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DetectError::Unreadable { error, .. } => Some(error),
            _ => None,
        }
    }
}
