//! Time zones, from the system's database.

use std::io::{self, Read};
use std::path::Path;

use howdah_jobs::zone::Zone;
use howdah_sys::regular_file;

/// The directory of the database, from the package `tzdata`.
const DIRECTORY: &str = "/usr/share/zoneinfo";

/// The time zone of the system.
const LOCAL: &str = "/etc/localtime";

/// Maximum size of a file of the database, in bytes; the largest ones have 4 KiB.
const MAX_BYTES: u64 = 256 * 1024;

/// Reads a time zone. Without a name it is that of the variable `TZ` of the server, or else that of
/// the system, or else UTC. Error: the reason in words.
pub(crate) fn read(name: Option<&str>) -> Result<Zone, String> {
    if let Some(name) = name {
        return of_name(name);
    }
    let variable = std::env::var("TZ").unwrap_or_default();
    match variable.strip_prefix(':').unwrap_or(&variable) {
        name if Zone::is_name(name) => of_name(name),
        _ => match contents(Path::new(LOCAL)) {
            Ok(contents) => Zone::of_file(LOCAL, &contents),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Zone::utc()),
            Err(error) => Err(format!("{LOCAL}: {error}")),
        },
    }
}

fn of_name(name: &str) -> Result<Zone, String> {
    if !Zone::is_name(name) {
        return Err(format!("\"{name}\" is not the name of a time zone"));
    }
    let path = Path::new(DIRECTORY).join(name);
    match contents(&path) {
        Ok(contents) => Zone::of_file(name, &contents),
        Err(_) if matches!(name, "UTC" | "Etc/UTC") => Ok(Zone::utc()),
        Err(error) => Err(format!(
            "there is no time zone \"{name}\": {}: {error}; \"timedatectl list-timezones\" has all \
             names, from the package tzdata",
            path.display()
        )),
    }
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    regular_file::open(path)?.0.take(MAX_BYTES).read_to_end(&mut contents)?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_zone_is_found_or_named() {
        assert!(read(None).is_ok() && read(Some("UTC")).is_ok());
        let problem = read(Some("Europe/Nowhere")).unwrap_err();
        assert!(problem.contains("no time zone \"Europe/Nowhere\""), "{problem}");
        assert!(read(Some("../../../etc/passwd")).is_err());
    }
}
