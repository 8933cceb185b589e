//! Numbers in a few characters.

/// Formats bytes in at most five characters: `850K`, `12.3M`, `1.2G`.
pub fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    let units = [(1u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit as f64);
    let (unit, letter) = unit.unwrap_or((1 << 10, "K"));
    let value = bytes / unit as f64;
    let digits = usize::from(value < 99.95 && letter != "K");
    format!("{value:.digits$}{letter}")
}

/// Formats seconds: `250 ms`, `2.5 s`, `12 s`, `5 min`, `3 h`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", (s / 60.0).floor()),
        s => format!("{:.0} h", (s / 3600.0).floor()),
    }
}

/// Formats a rate in at most five characters.
pub fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        r if r < 9.95 => format!("{r:.1}"),
        r if r < 99_999.0 => format!("{r:.0}"),
        r => format!("{:.0}k", r / 1000.0),
    }
}

/// Cuts a text to a number of characters; what is cut ends with `…`.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all: Vec<_> = [0, 870_000, 12_900_000, 130 << 20, 1_300_000_000, u64::MAX]
            .into_iter()
            .map(bytes)
            .collect();
        assert_eq!(all, ["0K", "850K", "12.3M", "130M", "1.2G", "16777216T"]);
        let all = [0.0, 0.25, 0.9999, 2.51, 12.3, 300.0, 10_000.0].map(seconds);
        assert_eq!(all, ["0 ms", "250 ms", "1.0 s", "2.5 s", "12 s", "5 min", "2 h"]);
        assert_eq!([0.0, 0.25, 12.3, 120_000.0].map(rate), ["0", "0.2", "12", "120k"]);
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!([cut("äbc", 3), cut("äbcd", 3), cut("abc", 0)], ["äbc", "äb…", ""]);
    }
}
