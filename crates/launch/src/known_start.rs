//! A start of PHP that `howdah check` knows: that of another application with the same settings.
//!
//! A new process with the rights of an application finds out whether it would start PHP in the same
//! way. PHP itself is neither loaded nor started then.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use howdah_sys::credentials::Credentials;
use howdah_sys::directory;
use howdah_sys::permission::{Obstacle, Wanted};
use howdah_sys::protected::protected;
use howdah_wire::messages::{ApplicationSpec, Problem};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, open};

/// The setting with the directory of OPcache's files.
pub const FILE_CACHE: &str = "opcache.file_cache";

/// The setting with the script that PHP runs when it starts.
pub const PRELOAD: &str = "opcache.preload";

/// The setting with the directory of uploaded files.
pub const UPLOADS: &str = "upload_tmp_dir";

/// Facts about a start of PHP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownStart {
    /// Names and values of settings.
    pub values: Vec<(String, String)>,
    /// The files that PHP was started from and that another application may not be able to read.
    pub files: Vec<String>,
    /// False if the files are unknown: PHP must be started.
    pub is_known: bool,
}

impl KnownStart {
    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Checks an application whose process this is. Returns notices about settings that are
    /// probably mistakes; `None` if PHP must be started to check it.
    ///
    /// # Errors
    ///
    /// The reason why the application cannot run.
    pub fn check(&self, spec: &ApplicationSpec) -> Result<Option<Vec<Problem>>, Problem> {
        // A sandbox restricts what can be opened, but not what may be read by its mode.
        let is_in_sandbox = spec.isolation.sandbox.is_some();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let can_be_read = |file: &String| {
            accessat(CWD, file, Access::READ_OK, AtFlags::EACCESS).is_ok()
                && (!is_in_sandbox || open(file, flags, Mode::empty()).is_ok())
        };
        let is_known = self.is_known
            && spec.worker.is_none()
            && self.value(PRELOAD).is_none()
            && self.files.iter().all(can_be_read);
        if !is_known {
            return Ok(None);
        }
        check_roots(&spec.roots)?;
        let uploads = Path::new(self.value(UPLOADS).unwrap_or_default());
        Ok(Some(check_directories(uploads, self.value(FILE_CACHE).map(Path::new))))
    }
}

/// Checks that the document roots exist and can be entered: an application without them has no
/// scripts.
///
/// # Errors
///
/// The root, and the reason.
pub fn check_roots(roots: &[(String, String)]) -> Result<(), Problem> {
    for (key, root) in roots {
        let checked = directory::check(root);
        if let Err(problem) = &checked
            && !problem.is_denied
        {
            return Err(Problem::no_root(key, &problem.reason));
        }
        // The directory itself may be readable although its entries are not.
        let root = Path::new(root);
        if checked.is_err() || fs::metadata(root.join(".")).is_err() {
            let user = Credentials::current();
            let obstacle = Obstacle::explain(root, &user, Wanted::Enter);
            let problem = format_args!("{obstacle}, or choose another \"user\"");
            return Err(Problem::at(key, problem));
        }
    }
    Ok(())
}

/// Checks the directories in which PHP creates files. Returns notices about those that cannot be
/// used.
pub fn check_directories(uploads: &Path, file_cache: Option<&Path>) -> Vec<Problem> {
    let mut notices = Vec::new();
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    if let Err(error) = accessat(CWD, uploads, wanted, AtFlags::EACCESS) {
        notices.push(Problem::of(format_args!(
            "uploaded files cannot be put in {}: {error}; let the application's user write there, \
             or name another directory in PHP's upload_tmp_dir",
            uploads.display()
        )));
    }
    if let Some((directory, Err(error))) = file_cache.map(|path| (path, check_file_cache(path))) {
        notices.push(Problem::of(format_args!(
            "opcache.file_cache: {} cannot be used safely: {error}. PHP runs what is in this \
             directory; give the application a new, empty one that belongs to its user, with mode \
             0700",
            directory.display()
        )));
    }
    notices
}

/// Checks that this process can write to OPcache's file cache, and that no other user can put
/// compiled scripts there or has put any: OPcache looks for a subdirectory whose name they know.
fn check_file_cache(directory: &Path) -> io::Result<()> {
    let real = protected(directory)?;
    if real.metadata()?.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users can create files in it"));
    }
    accessat(CWD, &real, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
    for entry in real.read_dir()? {
        let path = entry?.path();
        let is_open = path.symlink_metadata()?.mode() & 0o022 != 0;
        if is_open || protected(&path).is_err() {
            let name = path.file_name().unwrap_or_default().display();
            return Err(io::Error::other(format!("other users could change {name} in it")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_cache_in_which_others_can_create_files_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for (mode, is_good) in
            [(0o700, true), (0o755, true), (0o770, false), (0o777, false), (0o1777, false)]
        {
            fs::set_permissions(place.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_file_cache(place.path()).is_ok(), is_good, "{mode:o}");
        }
        fs::set_permissions(place.path(), Permissions::from_mode(0o700)).unwrap();
        let system = place.path().join("1204a070cd49210ca578dc8015bee891");
        fs::create_dir(&system).unwrap();
        assert!(check_file_cache(place.path()).is_ok());
        fs::set_permissions(&system, Permissions::from_mode(0o777)).unwrap();
        assert!(
            check_file_cache(place.path()).is_err(),
            "it was open when others planted a script"
        );
        assert!(check_file_cache(&place.path().join("missing")).is_err());
    }
}
