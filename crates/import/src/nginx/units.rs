//! Sizes and times of nginx.

/// Reads a size such as `10m` in bytes.
pub fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 1 << 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 1 << 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 1 << 30),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(factor)
}

/// Reads a time such as `1h 30m`, `60s`, `500ms` in milliseconds. A number alone is of seconds.
pub fn milliseconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut left = text;
    if left.is_empty() {
        return None;
    }
    while !left.is_empty() {
        let end = left.find(|c: char| !c.is_ascii_digit()).unwrap_or(left.len());
        let (digits, rest) = left.split_at(end);
        let value = number(digits)?;
        let (factor, rest) = if let Some(rest) = rest.strip_prefix("ms") {
            (1, rest)
        } else {
            let mut chars = rest.chars();
            let factor = match chars.next() {
                None | Some('s' | ' ') => 1000,
                Some('m') => 60_000,
                Some('h') => 3_600_000,
                Some('d') => 86_400_000,
                Some('w') => 604_800_000,
                Some('M') => 2_592_000_000,
                Some('y') => 31_536_000_000,
                Some(_) => return None,
            };
            (factor, chars.as_str())
        };
        total = total.checked_add(value.checked_mul(factor)?)?;
        left = rest.trim_start_matches(' ');
    }
    Some(total)
}

/// Reads a time in whole seconds, at least 1; rounded up.
pub fn seconds(text: &str) -> Option<u64> {
    Some(milliseconds(text)?.div_ceil(1000))
}

fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!(size("8k"), Some(8192));
        assert_eq!(size("1x"), None);
        assert_eq!(size(""), None);
        assert_eq!(milliseconds("1h30m"), Some(5_400_000));
        assert_eq!(milliseconds("500ms"), Some(500));
        assert_eq!(seconds("90"), Some(90));
        assert_eq!(seconds("1M"), Some(2_592_000));
        assert_eq!(milliseconds("m"), None);
    }
}
