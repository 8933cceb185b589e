//! The report that a worker writes to its standard error when it crashes (`shim/crash.c`).
//!
//! A script can write one, too: it is text for the record of its own crash.

/// Begins a report.
const MARK: &[u8] = b"\x1ehowdah crash\n";

/// Maximum length of a report in a record, in bytes.
const MAX_BYTES: usize = 3 << 10;

/// Takes the report out of the end of a worker's output.
pub(super) fn take(output: &mut Vec<u8>) -> Option<String> {
    let at = output.windows(MARK.len()).rposition(|bytes| bytes == MARK)?;
    let report = output.split_off(at);
    let report = report.get(MARK.len()..).unwrap_or_default();
    let report = report.get(..MAX_BYTES).unwrap_or(report);
    Some(String::from_utf8_lossy(report.trim_ascii_end()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_what_follows_the_last_mark() {
        let mut output = b"printed\n\x1ehowdah crash\nforged\n\x1ehowdah crash\n#0 f()\n".to_vec();
        assert_eq!(take(&mut output).as_deref(), Some("#0 f()"));
        assert_eq!(output, b"printed\n\x1ehowdah crash\nforged\n");
        let mut output = b"howdah crash\n".to_vec();
        assert_eq!(take(&mut output), None);
        let mut output = [MARK, &[b'x'; 100_000]].concat();
        assert_eq!(take(&mut output).map(|report| report.len()), Some(MAX_BYTES));
    }
}
