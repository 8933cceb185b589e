//! `settings.memory`: the memory of all PHP processes together.

use crate::error::Error;
use crate::node::Node;
use crate::units;

/// Maximum memory of all PHP processes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryBudget {
    /// Number of bytes.
    Bytes(u64),
    /// Percentage of the machine's memory, from 1 to 100.
    Percent(u8),
}

/// Minimum budget in bytes: about a prototype with one process.
pub(crate) const MIN_BYTES: i64 = 32 << 20;

/// Pattern of the strings that [`MemoryBudget::read`] accepts, for the schema. The values are not
/// checked.
pub(crate) const PATTERN: &str = "^ *[0-9]+ *(%|[bB]|[kKmMgGtT]([iI]?[bB])?)? *$";

const ALLOWED: &str = "a size such as \"512M\", a number of bytes, or a percentage such as \"60%\"";

impl MemoryBudget {
    /// Returns the budget in bytes on a machine with `total` bytes of memory.
    pub fn bytes(self, total: u64) -> u64 {
        match self {
            MemoryBudget::Bytes(bytes) => bytes,
            MemoryBudget::Percent(percent) => {
                u64::try_from(u128::from(total) * u128::from(percent) / 100).unwrap_or(u64::MAX)
            }
        }
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<MemoryBudget, Error> {
        let Some(text) = node.value.as_str() else {
            return match node.value.as_i64() {
                Some(bytes) => MemoryBudget::of_bytes(node, bytes, &bytes.to_string()),
                None => Err(node.wrong_type(ALLOWED)),
            };
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if let Some(percent) = text.trim().strip_suffix('%').map(str::trim_end)
            && is_number(percent)
        {
            let in_range = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
            return in_range.map(MemoryBudget::Percent).ok_or_else(|| {
                node.invalid(format_args!("must be between 1% and 100%, but is {percent}%"))
            });
        }
        match units::bytes(text).map(i64::try_from) {
            Some(Ok(bytes)) => MemoryBudget::of_bytes(node, bytes, text),
            _ => Err(node.wrong_type(ALLOWED)),
        }
    }

    fn of_bytes(node: &Node<'_>, bytes: i64, shown: &str) -> Result<MemoryBudget, Error> {
        if bytes >= MIN_BYTES {
            return Ok(MemoryBudget::Bytes(bytes.unsigned_abs()));
        }
        let least = MIN_BYTES >> 20;
        let error = node.invalid(format_args!("must be at least {least}M, but is {shown}"));
        Err(match node.value.as_u64().filter(|number| (1..1 << 20).contains(number)) {
            Some(number) => error.with_hint(format!("write \"{number}M\" for megabytes")),
            None => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn read(memory: Value) -> Result<Option<MemoryBudget>, Error> {
        let document = json!({ "settings": { "memory": memory } });
        Config::from_value(document).map(|config| config.settings.memory)
    }

    #[test]
    fn a_budget_is_a_size_or_a_percentage() {
        for (memory, expected) in [
            (json!("512M"), MemoryBudget::Bytes(512 << 20)),
            (json!("2G"), MemoryBudget::Bytes(2 << 30)),
            (json!("256 MiB"), MemoryBudget::Bytes(256 << 20)),
            (json!(32 << 20), MemoryBudget::Bytes(32 << 20)),
            (json!("33554432"), MemoryBudget::Bytes(32 << 20)),
            (json!("60%"), MemoryBudget::Percent(60)),
            (json!("60 %"), MemoryBudget::Percent(60)),
            (json!("100%"), MemoryBudget::Percent(100)),
        ] {
            assert_eq!(read(memory.clone()).unwrap(), Some(expected), "{memory}");
        }
        let silent = Config::from_value(json!({ "settings": {} })).unwrap();
        assert_eq!(silent.settings.memory, None);
    }

    #[test]
    fn a_budget_of_nothing_or_of_more_than_all_is_refused() {
        for (memory, message) in [
            (json!(0), "must be at least 32M, but is 0"),
            (json!(-1), "must be at least 32M, but is -1"),
            (json!(512), "must be at least 32M, but is 512; write \"512M\" for megabytes"),
            (json!("31M"), "must be at least 32M, but is 31M"),
            (json!("0%"), "must be between 1% and 100%, but is 0%"),
            (json!("101%"), "must be between 1% and 100%, but is 101%"),
            (json!("300 %"), "must be between 1% and 100%, but is 300%"),
            (json!("-5%"), "must be a size such as \"512M\""),
            (json!("%"), "must be a size such as"),
            (json!("much"), "but is the string \"much\""),
            (json!(1.5), "but is the number 1.5"),
            (json!("99999999999T"), "must be a size such as"),
            (json!(true), "must be a size such as"),
        ] {
            let error = read(memory.clone()).unwrap_err().to_string();
            assert!(error.starts_with("/settings/memory: \"memory\" "), "{error}");
            assert!(error.contains(message), "{memory}: {error}");
        }
    }

    #[test]
    fn the_pattern_of_the_schema_fits_what_is_accepted() {
        let pattern = regex::Regex::new(PATTERN).unwrap();
        for text in ["512M", "2G", "256 MiB", "33554432", "60%", "60 %", "1t", "64kb"] {
            assert!(pattern.is_match(text), "{text}");
        }
        for text in ["much", "-5%", "%", "5 apples", "1.5G", ""] {
            assert!(!pattern.is_match(text), "{text}");
        }
    }

    #[test]
    fn a_percentage_is_of_the_whole_memory() {
        assert_eq!(MemoryBudget::Percent(60).bytes(1000), 600);
        assert_eq!(MemoryBudget::Percent(100).bytes(u64::MAX), u64::MAX);
        assert_eq!(MemoryBudget::Bytes(7).bytes(1000), 7);
    }
}
