//! The files that the start of an application may wait for: its settings, its preload script and
//! its worker script.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use howdah_sys::regular_file;
use howdah_wire::messages::ApplicationSpec;

/// Maximum length of a `php.ini` in which a preload script is looked for, in bytes.
const MAX_INI_BYTES: u64 = 1 << 20;

/// The setting of PHP that names a preload script.
const PRELOAD: &str = "opcache.preload";

/// Returns a file that has changed since this time: its content, its rights, or the file that its
/// path leads to.
pub(crate) fn changed_since(spec: &ApplicationSpec, since: SystemTime) -> Option<PathBuf> {
    let root = spec.isolation.rootfs.as_deref().unwrap_or_default();
    let inside = |path: &str| PathBuf::from(format!("{root}{path}"));
    let settings = spec.ini_admin.iter().chain(&spec.ini_user);
    let preload = settings.filter(|(name, _)| name == PRELOAD).map(|(_, path)| inside(path));
    let worker = spec.worker.iter().map(|worker| inside(&worker.script));
    let ini = spec.ini_file.iter().map(PathBuf::from);
    let of_ini = spec.ini_file.iter().filter_map(|ini| preload_in(Path::new(ini)));
    let of_ini = of_ini.map(|path| inside(&path));
    let all = ini.chain(worker).chain(preload).chain(of_ini);
    all.into_iter().find(|path| path.is_absolute() && has_changed(path, since))
}

/// Returns the preload script that a `php.ini` names.
fn preload_in(ini: &Path) -> Option<String> {
    let text = regular_file::read(ini, MAX_INI_BYTES).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let named = |line: &str| {
        let (name, value) = line.split_once('=')?;
        let value = value.split(';').next()?.trim().trim_matches(['"', '\'']);
        (name.trim() == PRELOAD && value.starts_with('/')).then(|| value.to_owned())
    };
    text.lines().rev().find_map(named)
}

/// Returns true if a file, or a link in its path, has changed since this time. The time of a change
/// of a file's state is the kernel's: unlike that of its content, no program sets it.
fn has_changed(path: &Path, since: SystemTime) -> bool {
    let is_later = |found: &fs::Metadata| {
        let (seconds, nanos) = (found.ctime().max(0) as u64, found.ctime_nsec() as u32);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos) > since
    };
    let is_new_link = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink() && is_later(&found))
    };
    fs::metadata(path).is_ok_and(|found| is_later(&found)) || path.ancestors().any(is_new_link)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_file_that_a_start_may_wait_for_is_looked_at() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).display().to_string();
        for name in ["worker.php", "preload.php", "other.php"] {
            fs::write(path(name), "").unwrap();
        }
        let ini = format!("a=1\n{PRELOAD} = \"{}\" ; comment\n", path("other.php"));
        fs::write(path("php.ini"), ini).unwrap();
        let spec = ApplicationSpec {
            ini_file: Some(path("php.ini")),
            ini_admin: vec![(PRELOAD.to_owned(), path("preload.php"))],
            ..ApplicationSpec::new("a")
        };
        assert_eq!(preload_in(Path::new(&path("php.ini"))), Some(path("other.php")));
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(changed_since(&spec, later), None);
        let found = changed_since(&spec, SystemTime::UNIX_EPOCH);
        assert_eq!(found, Some(path("php.ini").into()));
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_a_change() {
        let place = tempfile::tempdir().unwrap();
        let old = place.path().join("old");
        fs::create_dir(&old).unwrap();
        fs::write(old.join("worker.php"), "").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let since = SystemTime::now();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!has_changed(&old.join("worker.php"), since));
        symlink(&old, place.path().join("current")).unwrap();
        assert!(has_changed(&place.path().join("current/worker.php"), since));
        fs::set_permissions(old.join("worker.php"), fs::metadata(&old).unwrap().permissions())
            .unwrap();
        assert!(has_changed(&old.join("worker.php"), since));
        assert!(!has_changed(&place.path().join("missing"), since));
    }
}
