//! Files whose file system does not answer, such as that of a network drive.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of places. Each has cost some seconds.
const MAX_PLACES: usize = 10;

/// Places of a document whose files do not answer.
#[derive(Debug, Clone, Default)]
pub struct Hanging(Vec<HangingFile>);

#[derive(Debug, Clone)]
struct HangingFile {
    /// The file or directory.
    file: PathBuf,
    problem: String,
    /// The drive that it is on, except that of the system.
    drive: Option<PathBuf>,
}

impl Hanging {
    /// Adds a place, such as `/etc/howdah.json: /sites: /srv/shop`. Returns false if it is known
    /// or empty, or if there are too many.
    pub fn add(&mut self, place: &str, problem: String) -> bool {
        let file = PathBuf::from(place.rsplit(": ").next().unwrap_or_default());
        let is_full = self.0.len() >= MAX_PLACES;
        if is_full || place.is_empty() || self.0.iter().any(|known| known.file == file) {
            return false;
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let drive = drive_of(&file, &mounts);
        self.0.push(HangingFile { file, problem, drive });
        true
    }

    /// Returns true for the place of a site: that of its directory.
    pub fn is_site(place: &str) -> bool {
        place.rsplit(": ").nth(1).is_some_and(|path| path.ends_with("/root"))
    }

    /// Fails for a file that does not answer, and for others of its drive.
    pub fn check(&self, file: &Path) -> Result<(), String> {
        let is_on =
            |drive: &Option<PathBuf>| drive.as_ref().is_some_and(|drive| file.starts_with(drive));
        match self.0.iter().find(|known| known.file == file || is_on(&known.drive)) {
            Some(known) => Err(format!("{}: {}", file.display(), known.problem)),
            None => Ok(()),
        }
    }
}

/// Returns the mount point that a file is below, unless it is that of the system.
fn drive_of(file: &Path, mounts: &str) -> Option<PathBuf> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    let above = points.filter(|point| file.starts_with(point) && point.parent().is_some());
    above.max_by_key(|point| point.components().count())
}

/// Returns a path of the kernel, in which `\\040` stands for a space.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let replaced = escapes.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to));
    PathBuf::from(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /srv rw - nfs a:/srv rw
31 30 0:41 / /srv/my\\040shop rw - nfs a:/shop rw
";

    #[test]
    fn the_drive_of_a_file_is_the_innermost_mount() {
        let drive = |file: &str| drive_of(Path::new(file), MOUNTS);
        assert_eq!(drive("/srv/my shop/www"), Some("/srv/my shop".into()));
        assert_eq!(drive("/srv/my"), Some("/srv".into()));
        assert_eq!((drive("/srvs"), drive("relative")), (None, None));
    }

    #[test]
    fn the_place_of_a_site_is_its_root() {
        assert!(Hanging::is_site("/s/a.json: /root: /srv/a"));
        assert!(Hanging::is_site("/h.json: /sites/a/root: /srv/a"));
        for place in ["/h.json: /include: /root", "/h.json", "/root", ""] {
            assert!(!Hanging::is_site(place), "{place}");
        }
    }

    #[test]
    fn a_place_hangs_and_its_drive() {
        let mut hanging = Hanging::default();
        assert!(hanging.add("/d.json: /sites: /x/y", "gone".to_owned()));
        assert!(!hanging.add("/d.json: /sites: /x/y", "gone".to_owned()));
        assert_eq!(hanging.check(Path::new("/x/y")), Err("/x/y: gone".to_owned()));
        assert_eq!(hanging.check(Path::new("/x/a")), Ok(()));
        hanging.0[0].drive = Some("/x".into());
        assert_eq!(hanging.check(Path::new("/x/a")), Err("/x/a: gone".to_owned()));
        assert_eq!(hanging.check(Path::new("/xa")), Ok(()));
        let mut places = (0..20).map(|number| number.to_string());
        assert_eq!(places.by_ref().take_while(|n| hanging.add(n, String::new())).count(), 9);
    }
}
