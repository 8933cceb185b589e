//! The files with the counts of sites, one for each month, in the state directory:
//! `usage-2026-11.json`.

use std::fs;
use std::io;
use std::path::Path;

use howdah_questions::Usage;
use howdah_sys::regular_file;

use crate::{state_format, store};

/// Maximum length of a file in bytes.
const MAX_LENGTH: u64 = 64 << 20;

/// Number of months before a month whose files are kept.
const KEPT_MONTHS: i64 = 12;

/// Number of files up to which none is removed. A clock that is wrong for a while adds files, and
/// must not cost those of the right months.
const MAX_FILES: usize = 24;

/// Returns true for the name of a month, such as `2026-11`.
pub(crate) fn is_month(name: &str) -> bool {
    number(name).is_some()
}

/// Reads the file of a month; `None` if there is none. One that is damaged is renamed.
pub(crate) fn load(state: &Path, month: &str) -> Result<Option<Vec<u8>>, String> {
    let path = state.join(file_name(month));
    let text = match regular_file::read(&path, MAX_LENGTH) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let error = match parse(&text) {
        Ok(usage) if usage.month == month => return Ok(Some(text)),
        Ok(usage) => format!("it is for the month \"{}\"", usage.month),
        Err(error) => error,
    };
    let kept = path.with_extension("json.damaged");
    fs::rename(&path, &kept).map_err(|error| format!("{}: {error}", path.display()))?;
    Err(format!(
        "{} is damaged ({error}), and the counts of {month} begin anew: it is kept as {}",
        path.display(),
        kept.display()
    ))
}

/// Reads the content of a file.
pub(crate) fn parse(text: &[u8]) -> Result<Usage, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// Stores a month, and removes files of months that are long past.
pub(crate) fn save(state: &Path, usage: &Usage) -> io::Result<()> {
    state_format::mark(state)?;
    let name = file_name(&usage.month);
    let mut text = serde_json::to_vec_pretty(usage)?;
    text.push(b'\n');
    store::replace(state, &format!("{name}.new"), &name, &text)?;
    remove_old(state, &usage.month)
}

fn remove_old(state: &Path, current: &str) -> io::Result<()> {
    let mut months: Vec<String> = fs::read_dir(state)?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let month = name.strip_prefix("usage-")?.strip_suffix(".json")?;
            is_month(month).then(|| month.to_owned())
        })
        .collect();
    months.sort_unstable();
    let surplus = months.len().saturating_sub(MAX_FILES);
    let current = number(current).unwrap_or(0);
    let is_kept = |month: &String| {
        number(month).is_some_and(|month| (current - KEPT_MONTHS..=current).contains(&month))
    };
    let mut old = months.iter().filter(|month| !is_kept(month)).take(surplus);
    old.try_for_each(|month| fs::remove_file(state.join(file_name(month))))
}

fn file_name(month: &str) -> String {
    format!("usage-{month}.json")
}

/// Returns the number of a month since the year 0.
fn number(month: &str) -> Option<i64> {
    let (year, month) = month.split_once('-')?;
    let digits = |text: &str, length: usize| {
        let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (year, month) = (digits(year, 4)?, digits(month, 2)?);
    (1..=12).contains(&month).then(|| year * 12 + month - 1)
}

#[cfg(test)]
mod tests {
    use howdah_questions::SiteUsage;

    use super::*;

    fn usage(month: &str) -> Usage {
        let used = SiteUsage { requests: 7, php_us: 1_500_000, ..SiteUsage::default() };
        Usage { month: month.to_owned(), sites: [("shop".to_owned(), used)].into() }
    }

    #[test]
    fn a_month_is_read_as_it_was_stored() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        assert_eq!(load(&state, "2026-11"), Ok(None));
        save(&state, &usage("2026-11")).unwrap();
        let text = load(&state, "2026-11").unwrap().unwrap();
        assert_eq!(parse(&text), Ok(usage("2026-11")));
        assert!(String::from_utf8(text).unwrap().contains("\"php_seconds\": 1.5"));
    }

    #[test]
    fn a_damaged_file_is_kept_under_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("usage-2026-11.json");
        for text in
            ["", "{", "[]", r#"{"month": "2026-10"}"#, r#"{"sites": {"a": {"requests": -1}}}"#]
        {
            fs::write(&path, text).unwrap();
            let problem = load(directory.path(), "2026-11").unwrap_err();
            assert!(
                problem.contains("is damaged") && problem.contains(".json.damaged"),
                "{problem}"
            );
            assert_eq!(load(directory.path(), "2026-11"), Ok(None), "{text}");
        }
    }

    #[test]
    fn twelve_months_are_kept_although_the_clock_jumps() {
        let directory = tempfile::tempdir().unwrap();
        let has = |month: &str| directory.path().join(file_name(month)).exists();
        for month in 0..40 {
            let month = format!("{}-{:02}", 2023 + month / 12, month % 12 + 1);
            save(directory.path(), &usage(&month)).unwrap();
        }
        assert!(has("2026-04") && has("2024-05") && !has("2024-04"), "24 files are kept");
        for year in 2090..2099 {
            save(directory.path(), &usage(&format!("{year}-01"))).unwrap();
        }
        save(directory.path(), &usage("2026-05")).unwrap();
        assert!(has("2026-05") && has("2025-05"));
        let count = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(count, 1 + MAX_FILES, "with the file \"format\"");
    }

    #[test]
    fn a_month_has_a_year_of_four_digits() {
        assert!(is_month("2026-11") && is_month("1970-01") && is_month("9999-12"));
        for name in ["", "2026", "2026-13", "2026-00", "2026-1", "26-01", "../a-01", "+026-01"] {
            assert!(!is_month(name), "{name}");
        }
    }
}
