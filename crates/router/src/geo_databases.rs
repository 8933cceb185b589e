//! Reads the databases of addresses that variables name, when a configuration is prepared and when
//! a file changes.

use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::Config;
use howdah_config::geo_database::{FileStamp, GeoContent, GeoDatabase, MAX_DATABASE};
use howdah_sys::log::{Level, Log};
use howdah_sys::regular_file;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::disk_progress::DiskProgress;

/// Interval between two looks at the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Problem of a file beyond [`MAX_DATABASE`].
const TOO_LONG: &str = "it is longer than 1 GiB";

/// Number of bytes that are read at once.
const PART: u64 = 4 << 20;

/// The databases of the current configuration, which are looked at in turns.
pub struct GeoWatch {
    due: Instant,
    /// The look in progress. It returns the files that were refused.
    look: Option<JoinHandle<Refused>>,
    refused: Refused,
}

/// Files that were refused, so that each is logged once.
type Refused = HashMap<PathBuf, Option<FileStamp>>;

/// Reads the databases of a configuration that have not been read yet. Returns the files that
/// cannot be read, each with the problem and the place.
pub fn read_new(
    databases: &[(String, Arc<GeoDatabase>)],
    progress: &DiskProgress,
) -> Vec<(PathBuf, String)> {
    let mut problems = Vec::new();
    for (place, database) in databases {
        if database.stamp().is_none() {
            let begins = || progress.begins(format!("{place}: {}", database.file.display()));
            let read = read_with(&database.file, begins, || progress.computes());
            match read {
                Ok(content) => database.set(content),
                Err(problem) => {
                    problems.push((database.file.clone(), format!("{place}: {problem}")));
                }
            }
        }
    }
    problems
}

/// Reads a database file and checks all of it.
pub fn read(file: &Path) -> Result<GeoContent, String> {
    read_with(file, || {}, || {})
}

/// Reads a database file. `begins` is called before each access to the disk, `computes` after the
/// last one.
fn read_with(
    file: &Path,
    begins: impl Fn(),
    computes: impl FnOnce(),
) -> Result<GeoContent, String> {
    let named = |problem: &dyn std::fmt::Display| format!("{}: {problem}", file.display());
    begins();
    let (mut opened, found) = regular_file::open(file).map_err(|error| named(&error))?;
    if found.len() > MAX_DATABASE {
        return Err(named(&TOO_LONG));
    }
    let mut bytes = Vec::new();
    loop {
        begins();
        let part = Read::by_ref(&mut opened).take(PART).read_to_end(&mut bytes);
        match part.map_err(|error| named(&error))? {
            0 => break,
            // The file grows.
            _ if bytes.len() as u64 > MAX_DATABASE => {
                return Err(named(&TOO_LONG));
            }
            _ => {}
        }
    }
    computes();
    GeoContent::read(bytes, stamp(&found)).map_err(|problem| named(&problem))
}

fn stamp(found: &std::fs::Metadata) -> FileStamp {
    [found.ino().cast_signed(), found.size().cast_signed(), found.mtime(), found.mtime_nsec()]
}

impl Default for GeoWatch {
    /// Starts with the first look after one interval.
    fn default() -> GeoWatch {
        let due = Instant::now() + CHECK_INTERVAL;
        GeoWatch { due, look: None, refused: HashMap::new() }
    }
}

impl GeoWatch {
    /// Waits until the next look; forever if the configuration has no databases.
    pub async fn wait(&mut self, config: &Config) {
        if config.geo_databases.is_empty() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.due.into()).await;
        self.due = Instant::now() + CHECK_INTERVAL;
    }

    /// Looks at the files on another thread, unless the last look has not ended. A changed file
    /// that is not valid leaves the old content in use.
    pub async fn look(&mut self, config: &Config, log: &Arc<Log>) {
        match &mut self.look {
            Some(look) if !look.is_finished() => return,
            Some(look) => self.refused = look.await.unwrap_or_default(),
            None => {}
        }
        let databases: Vec<_> =
            config.geo_databases.iter().map(|(_, database)| Arc::clone(database)).collect();
        let (mut refused, log) = (std::mem::take(&mut self.refused), Arc::clone(log));
        self.look = Some(spawn_blocking(move || {
            databases.iter().for_each(|database| renew(database, &mut refused, &log));
            refused
        }));
    }
}

/// Reads a database whose file has changed.
fn renew(database: &GeoDatabase, refused: &mut Refused, log: &Log) {
    let file = &database.file;
    let found = std::fs::metadata(file).ok().map(|found| stamp(&found));
    if found.is_some() && found == database.stamp() || refused.get(file) == Some(&found) {
        return;
    }
    match read(file) {
        Ok(content) => {
            refused.remove(file);
            database.set(content);
            log.write(Level::Notice, format_args!("{}: new content is in use", file.display()));
        }
        Err(problem) => {
            refused.insert(file.clone(), found);
            // A database without former content is a part that is out, which is logged elsewhere.
            if database.stamp().is_some() {
                let line = format_args!("{problem}; its old content stays in use");
                log.write(Level::Alert, line);
            }
        }
    }
}
