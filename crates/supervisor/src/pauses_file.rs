//! The file with the jobs that are paused, in the state directory: `paused-jobs.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use howdah_sys::regular_file;

use crate::{state_format, store};

const FILE: &str = "paused-jobs.json";

/// Name of the temporary file.
const NEW: &str = "paused-jobs.json.new";

/// Maximum length of the file in bytes.
const MAX_LENGTH: u64 = 16 << 20;

/// Names of paused jobs by the names of their applications.
pub(crate) type PausedJobs = BTreeMap<String, BTreeSet<String>>;

/// Reads the file; `None` if there is none.
pub(crate) fn load(state: &Path) -> Result<Option<Vec<u8>>, String> {
    let path = state.join(FILE);
    let text = match regular_file::read(&path, MAX_LENGTH) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some(text))
}

/// Reads the content of the file.
pub(crate) fn parse(text: &[u8]) -> Result<PausedJobs, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// Stores the paused jobs.
pub(crate) fn save(state: &Path, paused: &PausedJobs) -> io::Result<()> {
    state_format::mark(state)?;
    let mut text = serde_json::to_vec_pretty(paused)?;
    text.push(b'\n');
    store::replace(state, NEW, FILE, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paused_jobs_are_read_as_they_were_stored() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        assert_eq!(load(&state), Ok(None));
        let jobs = ["queue", "mail"].map(str::to_owned);
        let paused = PausedJobs::from([("shop".to_owned(), jobs.into())]);
        save(&state, &paused).unwrap();
        assert_eq!(parse(&load(&state).unwrap().unwrap()), Ok(paused));
        for text in ["", "[]", r#"{"shop": "queue"}"#, r#"{"shop": [1]}"#] {
            std::fs::write(state.join(FILE), text).unwrap();
            assert!(load(&state).unwrap_err().contains("paused-jobs.json: "), "{text}");
        }
    }
}
