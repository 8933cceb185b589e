//! Directories from which requests may run scripts. Included files are not checked.
//!
//! All paths are resolved for each request: a script behind a symbolic link counts by its real
//! path, and after a deployment that replaces a link, the directories below it are the new ones.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use howdah_wire::bytes::Malformed;
use howdah_wire::messages::ApplicationSpec;
use howdah_wire::request::decode_params;

/// Directories whose scripts may run, and directories whose scripts may not.
#[derive(Debug)]
pub struct ScriptDirectories<'a> {
    allowed: &'a [String],
    forbidden: &'a [String],
}

impl<'a> ScriptDirectories<'a> {
    /// Creates the lists of an application.
    pub fn new(spec: &'a ApplicationSpec) -> Self {
        ScriptDirectories {
            allowed: &spec.script_directories,
            forbidden: &spec.no_script_directories,
        }
    }

    /// Returns true if the script that these parameters name may run.
    pub fn allow(&self, params: &[u8], count: u32) -> Result<bool, Malformed> {
        if self.allowed.is_empty() && self.forbidden.is_empty() {
            return Ok(true); // without a look at the parameters
        }
        let mut script: &[u8] = b"";
        decode_params(params, count, |name, value| {
            if name == b"SCRIPT_FILENAME" {
                script = value;
            }
        })?;
        Ok(self.contain(script))
    }

    /// Returns true if the script at this path may run.
    pub fn contain(&self, script: &[u8]) -> bool {
        if self.allowed.is_empty() && self.forbidden.is_empty() {
            return true;
        }
        // A script that does not exist is reported when PHP opens it.
        let Ok(script) = fs::canonicalize(OsStr::from_bytes(script)) else { return true };
        let below = |directory: &String| {
            fs::canonicalize(directory).is_ok_and(|directory| script.starts_with(directory))
        };
        (self.allowed.is_empty() || self.allowed.iter().any(below))
            && !self.forbidden.iter().any(below)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_script_counts_where_it_really_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for name in ["site/uploads", "site2", "elsewhere"] {
            fs::create_dir_all(path(name)).unwrap();
            fs::write(path(&format!("{name}/a.php")), "").unwrap();
        }
        fs::write(path("site/a.php"), "").unwrap();
        symlink(path("elsewhere"), path("site/link")).unwrap();
        symlink(path("site"), path("current")).unwrap();
        let have = |allowed: &[&str], forbidden: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| path(name)).collect::<Vec<_>>();
            let (allowed, forbidden) = (paths(allowed), paths(forbidden));
            let directories = ScriptDirectories { allowed: &allowed, forbidden: &forbidden };
            let scripts = [
                "site/a.php",
                "current/a.php",
                "site/uploads/a.php",
                "current/uploads/a.php",
                "site/uploads/../a.php",
                "site/link/a.php",
                "site2/a.php",
                "site/none.php",
            ];
            scripts.map(|script| u8::from(directories.contain(path(script).as_bytes())))
        };
        assert_eq!(have(&["site"], &[]), [1, 1, 1, 1, 1, 0, 0, 1]);
        assert_eq!(have(&["current"], &["current/uploads"]), [1, 1, 0, 0, 1, 0, 0, 1]);
        assert_eq!(have(&[], &["site/uploads", "none"]), [1, 1, 0, 0, 1, 1, 1, 1]);
        assert_eq!(have(&["none"], &[]), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(have(&["site", "elsewhere"], &[]), [1, 1, 1, 1, 1, 1, 0, 1]);
    }
}
