//! Limits of compiling a file: memory and processor time.
//!
//! A file is compiled on a thread that serves other sites, and its compiled form stays in memory. A
//! file of a megabyte can ask for a thousand times as much of both, by patterns that repeat groups.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::{Charge, SiteMemory};
use crate::work::processor_time;

/// Maximum processor time for a file. Files of ordinary sites need less than a hundredth. Builds
/// without optimization are slower.
const MAX_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 4000 } else { 200 });
/// Maximum size of all patterns of a file, estimated before they are compiled, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;
/// Maximum approximate memory of a compiled file, in bytes.
const MAX_BYTES: usize = 48 << 20;
/// Approximate memory of a pattern, beside its text and its variants, in bytes.
const BYTES_OF_A_PATTERN: usize = 1024;

#[derive(Debug)]
struct Budget {
    start: Duration,
    pattern_bytes: usize,
    bytes: usize,
    steps: usize,
    exceeded: Option<&'static str>,
    /// Memory that is counted beyond the compilation.
    charge: Option<Arc<Charge>>,
}

thread_local! {
    static BUDGET: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

/// Compiles a file of a site. Returns the result, its approximate memory in bytes, and the limit
/// that was exceeded.
pub(crate) fn limited<T>(
    memory: Option<&Arc<SiteMemory>>,
    compile: impl FnOnce() -> T,
) -> (T, usize, Option<&'static str>) {
    let start = processor_time();
    let charge = memory.map(|memory| Arc::new(Charge::new(memory)));
    let own = Budget { start, pattern_bytes: 0, bytes: 0, steps: 0, exceeded: None, charge };
    let outer = BUDGET.replace(Some(own));
    let result = compile();
    let own = BUDGET.replace(outer);
    let (bytes, exceeded) = own.map_or((0, None), |own| (own.bytes, own.exceeded));
    (result, bytes, exceeded)
}

/// Returns the charge of the file that is being compiled.
pub(crate) fn charge() -> Option<Arc<Charge>> {
    BUDGET.with_borrow(|budget| budget.as_ref()?.charge.clone())
}

/// Runs a function as a part of the compilation of a file with this charge.
#[cfg(test)]
pub(crate) fn charged<T>(charge: &Arc<Charge>, run: impl FnOnce() -> T) -> T {
    let memory = Arc::new(SiteMemory::default());
    let run = || {
        BUDGET.with_borrow_mut(|budget| {
            budget.as_mut().unwrap().charge = Some(Arc::clone(charge));
        });
        run()
    };
    limited(Some(&memory), run).0
}

/// Counts a pattern of this size before it is compiled. `text` is the length of its text.
///
/// # Errors
///
/// The limit that would be exceeded.
pub(crate) fn add_pattern(size: usize, text: usize) -> Result<(), &'static str> {
    let bytes = BYTES_OF_A_PATTERN.saturating_add(text.saturating_mul(3));
    add(bytes, |budget| {
        budget.pattern_bytes = budget.pattern_bytes.saturating_add(size);
        true
    })
}

/// Counts a compiled variant of a pattern. Afterwards, when the file is in use, its charge counts.
///
/// # Errors
///
/// The limit that would be exceeded.
pub(crate) fn add_variant(bytes: usize, charge: Option<&Arc<Charge>>) -> Result<(), &'static str> {
    if BUDGET.with_borrow(Option::is_some) {
        return add(bytes, |_| false);
    }
    if charge.is_none_or(|charge| charge.add(bytes)) { Ok(()) } else { Err(SITE_IS_FULL) }
}

/// Counts a directive of this approximate memory in bytes.
///
/// # Errors
///
/// The limit that would be exceeded.
pub(crate) fn add_directive(bytes: usize) -> Result<(), &'static str> {
    add(bytes, |budget| {
        budget.steps += 1;
        // The clock costs a system call.
        budget.steps.is_multiple_of(32)
    })
}

/// The limit of all files of a site.
const SITE_IS_FULL: &str = "the directives of the site take too much memory at the moment";

fn add(bytes: usize, count: impl FnOnce(&mut Budget) -> bool) -> Result<(), &'static str> {
    BUDGET.with_borrow_mut(|budget| {
        let Some(budget) = budget else { return Ok(()) };
        let checks_time = count(budget);
        budget.bytes = budget.bytes.saturating_add(bytes);
        if budget.exceeded.is_none() {
            budget.exceeded = if budget.pattern_bytes > MAX_PATTERN_BYTES {
                Some("the regular expressions of the file are too large")
            } else if budget.bytes > MAX_BYTES {
                Some("the directives of the file take too much memory")
            } else if checks_time && processor_time().saturating_sub(budget.start) > MAX_TIME {
                Some("the file takes too long to compile")
            } else if budget.charge.as_ref().is_some_and(|charge| !charge.add(bytes)) {
                Some(SITE_IS_FULL)
            } else {
                None
            };
        }
        budget.exceeded.map_or(Ok(()), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Base;
    use crate::engine::compile;

    fn error(text: &str) -> String {
        let begun = processor_time();
        let base = Base::default();
        let error = compile(text.as_bytes(), b"f", b"/", &base, &|_| false).unwrap_err().message;
        let used = processor_time() - begun;
        assert!(used < MAX_TIME * 2, "{used:?}");
        error
    }

    #[test]
    fn patterns_that_repeat_groups_end_with_an_error_early() {
        for line in [
            "SetEnvIf User-Agent \"((ab|c){1,60}){1,25}N\" v\n",
            "<FilesMatch \"((ab|c){1,60}){1,25}N\">\n</FilesMatch>\n",
            "RewriteRule \"((ab|c){1,60}){1,25}N\" -\n",
            "<If \"%{REQUEST_URI} =~ /((ab|c){1,60}){1,25}N/\">\n</If>\n",
        ] {
            let text: String =
                (0..9000).map(|number| line.replace('N', &number.to_string())).collect();
            let error = error(&text);
            assert!(error.contains("regular expressions of the file are too large"), "{error}");
        }
    }

    #[test]
    fn a_word_that_is_repeated_for_each_other_word_counts_each_time() {
        let line = format!("AddType {} {}\n", "a".repeat(4000), "x y z ".repeat(600));
        let error = error(&line.repeat(100));
        assert!(error.contains("take too much memory"), "{error}");
    }

    #[test]
    fn directives_whose_time_grows_with_their_number_are_stopped() {
        // The time of a search through all names before.
        let mut lines = String::new();
        for number in 0..49_000 {
            lines.push_str(&format!("php_value setting{number} 1\n"));
        }
        let base = Base::default();
        let begun = processor_time();
        let _ = compile(lines.as_bytes(), b"f", b"/", &base, &|_| false);
        assert!(processor_time() - begun < MAX_TIME * 2);
    }

    #[test]
    fn large_files_of_ordinary_directives_are_compiled() {
        let mut lines = String::from("RewriteEngine on\n");
        for number in 0..2000 {
            lines.push_str(&format!("SetEnvIfNoCase User-Agent \"badbot{number}\" bad_bot\n"));
            lines.push_str(&format!("Require not ip 10.0.{}.{}\n", number / 256, number % 256));
            lines.push_str(&format!("RewriteRule ^old{number}/([a-z]{{2,9}})$ /new/$1 [R,L]\n"));
        }
        let lines = lines.replace("Require not", "Require");
        let base = Base::default();
        assert!(compile(lines.as_bytes(), b"f", b"/", &base, &|_| false).is_ok());
    }
}
