//! Numbers with units, as other servers and the command line have them.

/// Returns the number of bytes in a text such as `64M` or `64 MiB`; `None` for other texts.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Returns the number of seconds in a text such as `30s` or `5m`; `None` for other texts.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.as_str() {
        "" | "s" | "sec" => 1,
        "ms" if number % 1000 == 0 => return Some(number / 1000),
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Returns the number at the start of a text and the unit behind it, in lower case.
fn split_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    // The counted bytes are ASCII, so this is a character boundary.
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start().to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_read_with_their_units() {
        for (text, expected) in [
            ("64M", Some(67_108_864)),
            ("64 MiB", Some(67_108_864)),
            ("8k", Some(8192)),
            ("10", Some(10)),
            ("2g", Some(2 << 30)),
            ("M", None),
            ("-1M", None),
            ("99999999999999999T", None),
            ("64 apples", None),
            ("ä", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        for (text, expected) in
            [("30s", Some(30)), ("5m", Some(300)), ("2000ms", Some(2)), ("1500ms", None)]
        {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
