//! Dates in messages.

use howdah_text::date::Date;

/// Returns the date of a time in seconds since 1970, in UTC (RFC 5322, 3.3).
pub fn rfc5322(seconds: u64) -> String {
    let date = date(seconds);
    let (day_name, month, time) = (date.day_name(), date.month_name(), time(&date));
    format!("{day_name}, {} {month} {} {time} +0000", date.day, date.year)
}

/// Returns the date of a time in seconds since 1970 as a mailbox has it (RFC 4155).
pub fn asctime(seconds: u64) -> String {
    let date = date(seconds);
    let (day_name, month, time) = (date.day_name(), date.month_name(), time(&date));
    format!("{day_name} {month} {:2} {time} {}", date.day, date.year)
}

fn date(seconds: u64) -> Date {
    Date::of(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn time(date: &Date) -> String {
    format!("{:02}:{:02}:{:02}", date.hour, date.minute, date.second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "Thu, 1 Jan 1970 00:00:00 +0000"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 +0000"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 +0000"),
            (1_795_737_600, "Fri, 27 Nov 2026 00:00:00 +0000"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 +0000"),
        ] {
            assert_eq!(rfc5322(seconds), expected);
        }
        assert_eq!(asctime(0), "Thu Jan  1 00:00:00 1970");
    }
}
