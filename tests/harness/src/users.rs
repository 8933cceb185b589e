//! Users that exist only for one server.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Site, open_to_all, requirements};

/// Name of the user and of its group.
pub const NAME: &str = "howdah-test-user";

/// Replaces the system's user database with one that has [`NAME`], and executes the command that
/// follows. Its first argument is the directory of the database.
const LAUNCHER: &str = "mount --bind \"$0/passwd\" /etc/passwd && \
    mount --bind \"$0/group\" /etc/group && exec \"$@\"";

/// Returns a site whose server alone knows a user [`NAME`], and the id of that user, which no
/// process has. `None` if that is not possible; the test is then skipped.
pub fn site_with_own_user(site: Site) -> Option<(Site, u32)> {
    if !requirements::root() {
        return None;
    }
    let id = free_id();
    let directory = site.root().with_file_name("users");
    fs::create_dir(&directory).unwrap();
    let rest = format!(":{id}::/nonexistent:/usr/sbin/nologin");
    for (file, rest) in [("passwd", rest.as_str()), ("group", ":")] {
        let known = fs::read_to_string(Path::new("/etc").join(file)).unwrap();
        let own = directory.join(file);
        fs::write(&own, format!("{}\n{NAME}:x:{id}{rest}\n", known.trim_end())).unwrap();
        open_to_all(&own, 0o644);
    }
    let directory = directory.display().to_string();
    let launcher = ["unshare", "--mount", "sh", "-c", LAUNCHER, &directory];
    let tried = Command::new(launcher[0]).args(&launcher[1..]).args(["id", "-u", NAME]).output();
    let found = tried.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if found.as_ref().ok() != Some(&id.to_string()) {
        requirements::skipped("no user database can be mounted here");
        return None;
    }
    Some((site.through(&launcher), id))
}

/// Returns a user id that no user and no process has.
fn free_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let known: Vec<u32> =
        passwd.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect();
    let running: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(|c: char| c.is_numeric()))
        .filter_map(|entry| entry.metadata().ok().map(|found| found.uid()))
        .collect();
    loop {
        let number = std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed) % 64;
        // Above the ids of administrators, or, if few ids are mapped, from 20,000 to 59,999.
        let high = (1 << 29) + number;
        let id = if is_mapped(high) { high } else { 20_000 + number % 40_000 };
        if !known.contains(&id) && !running.contains(&id) {
            return id;
        }
    }
}

fn is_mapped(id: u32) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let fields: Vec<u64> =
            line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        matches!(fields[..], [first, _, size] if (first..first + size).contains(&u64::from(id)))
    })
}

/// Returns the user and group with which a server that root starts serves files.
pub fn www_data() -> (Option<u32>, Option<u32>) {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with("www-data:"));
    let fields: Vec<_> = line.expect("there is a user www-data").split(':').collect();
    (fields[2].parse().ok(), fields[3].parse().ok())
}
