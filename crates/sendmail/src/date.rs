//! Dates in messages.

/// Returns the date of a time in seconds since 1970, in UTC (RFC 5322, 3.3).
pub fn rfc5322(seconds: u64) -> String {
    let Date { weekday, day, month, year, time } = Date::of(seconds);
    format!("{weekday}, {day} {month} {year} {time} +0000")
}

/// Returns the date of a time in seconds since 1970 as a mailbox has it (RFC 4155).
pub fn asctime(seconds: u64) -> String {
    let Date { weekday, day, month, year, time } = Date::of(seconds);
    format!("{weekday} {month} {day:2} {time} {year}")
}

struct Date {
    weekday: &'static str,
    day: u64,
    month: &'static str,
    year: u64,
    time: String,
}

impl Date {
    fn of(seconds: u64) -> Date {
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
        // Years begin in March, so a leap day is the last day.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let year = era * 400 + year_of_era + u64::from(month >= 10);
        let month_name =
            ["Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Jan", "Feb"]
                [(month % 12) as usize];
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let time = format!("{hour:02}:{minute:02}:{second:02}");
        Date { weekday, day, month: month_name, year, time }
    }
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
