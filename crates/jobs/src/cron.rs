//! Times in the form of cron: `15 3 * * mon-fri`, `@daily`.
//!
//! The grammar and the meaning are those of Vixie cron, which Debian's cron and cronie have. A crate
//! such as `croner` would bring `chrono`, which reads no time zones of the system, for what is five
//! sets of small numbers.

use std::fmt;

/// Times of a timer: a set of minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    /// Bits 0 to 59.
    minutes: u64,
    /// Bits 0 to 23.
    hours: u64,
    /// Bits 1 to 31.
    days: u64,
    /// Bits 1 to 12.
    months: u64,
    /// Bits 0 (Sunday) to 6.
    weekdays: u64,
    /// The field of the days of the month or that of the days of the week begins with `*`: a day
    /// must be in both sets. Otherwise it must be in one of them.
    needs_both_days: bool,
    /// The field of the minutes or that of the hours begins with `*`: cron follows the clock of the
    /// wall when it is changed, and makes up for nothing.
    is_wildcard: bool,
}

/// A minute of a day, by the clock of the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minute {
    /// From 0.
    pub minute: i8,
    /// From 0.
    pub hour: i8,
    /// The day.
    pub day: Day,
}

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// From 1.
    pub day: i8,
    /// From 1.
    pub month: i8,
    /// From 0, Sunday.
    pub weekday: i8,
}

/// A mistake in the times of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongTimes(String);

impl fmt::Display for WrongTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cron {
    /// Reads the five fields `MINUTE HOUR DAY MONTH WEEKDAY`, or a word such as `@daily`.
    ///
    /// A field is a list of `*`, numbers and ranges, which may have a step (`*/15`, `8-18/2`);
    /// months and weekdays may have the first three letters of their English names.
    pub fn parse(text: &str) -> Result<Cron, WrongTimes> {
        let text = text.trim();
        let fields = match text.strip_prefix('@') {
            Some(word) => fields_of_word(word)?,
            None => text,
        };
        let fields: Vec<_> = fields.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(wrong(format_args!(
                "must have five fields, MINUTE HOUR DAY MONTH WEEKDAY, but has {}",
                fields.len()
            )));
        };
        let weekdays = WEEKDAY.parse(weekday)?;
        let begins_open = |field: &str| field.starts_with('*');
        let cron = Cron {
            minutes: MINUTE.parse(minute)?,
            hours: HOUR.parse(hour)?,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?,
            // Sunday is 0 and 7.
            weekdays: (weekdays | weekdays >> 7) & 0x7f,
            needs_both_days: begins_open(day) || begins_open(weekday),
            is_wildcard: begins_open(minute) || begins_open(hour),
        };
        if !cron.can_match() {
            return Err(wrong(format_args!("no month of \"{month}\" has a day of \"{day}\"")));
        }
        Ok(cron)
    }

    /// Returns true if the minute is in the set.
    pub fn matches(&self, minute: Minute) -> bool {
        has(self.minutes, minute.minute)
            && has(self.hours, minute.hour)
            && self.matches_day(minute.day)
    }

    /// Returns true if some minute of the day is in the set.
    pub fn matches_day(&self, day: Day) -> bool {
        let (in_month, in_week) = (has(self.days, day.day), has(self.weekdays, day.weekday));
        let is_day = if self.needs_both_days { in_month && in_week } else { in_month || in_week };
        has(self.months, day.month) && is_day
    }

    /// Returns the hours and minutes of a day that are in the set, in order.
    pub fn times(&self) -> impl Iterator<Item = (i8, i8)> {
        let minutes = || (0..60).filter(|minute| has(self.minutes, *minute));
        let hours = (0..24).filter(|hour| has(self.hours, *hour));
        hours.flat_map(move |hour| minutes().map(move |minute| (hour, minute)))
    }

    /// Returns true if the field of the minutes or that of the hours begins with `*`.
    pub fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    /// Returns false if no month has the days, as with 31 February.
    fn can_match(&self) -> bool {
        const LENGTHS: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut months = (1i8..).zip(LENGTHS).filter(|(month, _)| has(self.months, *month));
        let in_month = months.any(|(_, length)| (1..=length).any(|day| has(self.days, day)));
        in_month || !self.needs_both_days
    }
}

/// A field: its name, its smallest and largest number, and the names of numbers.
struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
    /// The number of the first name.
    first_name: u8,
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[], first_name: 0 };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[], first_name: 0 };
const DAY: Field = Field { name: "day of the month", min: 1, max: 31, names: &[], first_name: 0 };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    first_name: 1,
};
const WEEKDAY: Field = Field {
    name: "day of the week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    first_name: 0,
};

impl Field {
    /// Returns the numbers of a field as bits.
    fn parse(&self, text: &str) -> Result<u64, WrongTimes> {
        text.split(',').try_fold(0, |all, part| Ok(all | self.parse_part(text, part)?))
    }

    fn parse_part(&self, text: &str, part: &str) -> Result<u64, WrongTimes> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((first, last)) => (self.number(text, first)?, self.number(text, last)?),
            None if step.is_some() => {
                let name = self.name;
                let message = format_args!(
                    "the {name} \"{text}\" has a step without a range: write \"*/2\" or \"{range}-\
                     {}/2\"",
                    self.max
                );
                return Err(wrong(message));
            }
            None => {
                let number = self.number(text, range)?;
                (number, number)
            }
        };
        if first > last {
            let message =
                format_args!("the {} \"{text}\" has a range that ends before it begins", self.name);
            return Err(wrong(message));
        }
        let step = match step.map(str::parse::<u8>) {
            None => 1,
            Some(Ok(step)) if step > 0 => step,
            _ => {
                let message = format_args!(
                    "the {} \"{text}\" has a step that is no number above 0",
                    self.name
                );
                return Err(wrong(message));
            }
        };
        Ok((first..=last).step_by(step.into()).fold(0, |bits, number| bits | 1 << number))
    }

    fn number(&self, text: &str, word: &str) -> Result<u8, WrongTimes> {
        let is_digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|_| is_digits);
        let named = || self.names.iter().position(|name| name.eq_ignore_ascii_case(word));
        let named = || Some(self.first_name + u8::try_from(named()?).ok()?);
        number.or_else(named).filter(|number| (self.min..=self.max).contains(number)).ok_or_else(
            || {
                let (name, min, max) = (self.name, self.min, self.max);
                let names = if self.names.is_empty() { "" } else { " or names of three letters" };
                wrong(format_args!(
                    "the {name} \"{text}\" must have numbers from {min} to {max}{names}"
                ))
            },
        )
    }
}

/// Returns the fields of a word such as `@daily`, without the `@`.
fn fields_of_word(word: &str) -> Result<&'static str, WrongTimes> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "yearly" | "annually" => "0 0 1 1 *",
        "monthly" => "0 0 1 * *",
        "weekly" => "0 0 * * 0",
        "daily" | "midnight" => "0 0 * * *",
        "hourly" => "0 * * * *",
        "reboot" => {
            return Err(wrong(format_args!(
                "\"@reboot\" is no time: leave \"cron\" out, and write \"restart\": \"never\""
            )));
        }
        _ => {
            return Err(wrong(format_args!(
                "\"@{word}\" is none of @yearly, @monthly, @weekly, @daily and @hourly"
            )));
        }
    })
}

fn wrong(message: fmt::Arguments<'_>) -> WrongTimes {
    WrongTimes(message.to_string())
}

/// Returns true if a set of bits has a number.
fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).ok().and_then(|number| bits.checked_shr(number)).unwrap_or(0) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i8, hour: i8, day: i8, month: i8, weekday: i8) -> Minute {
        Minute { minute, hour, day: Day { day, month, weekday } }
    }

    #[test]
    fn fields_have_lists_ranges_steps_and_names() {
        for (text, minute, is_in) in [
            ("15 3 * * *", at(15, 3, 7, 5, 2), true),
            ("15 3 * * *", at(15, 4, 7, 5, 2), false),
            ("*/20 * * * *", at(40, 4, 7, 5, 2), true),
            ("*/20 * * * *", at(50, 4, 7, 5, 2), false),
            ("10-30/7 * * * *", at(24, 4, 7, 5, 2), true),
            ("10-30/7 * * * *", at(31, 4, 7, 5, 2), false),
            ("1,5-6,59 * * * *", at(59, 4, 7, 5, 2), true),
            ("0 0 * jan,DEC Mon-fri", at(0, 0, 7, 12, 5), true),
            ("0 0 * jan,DEC Mon-fri", at(0, 0, 7, 12, 6), false),
            ("0 0 * * 7", at(0, 0, 7, 12, 0), true),
            ("0 0 * * 5-7", at(0, 0, 7, 12, 0), true),
            ("0 0 * * 0", at(0, 0, 7, 12, 0), true),
            ("  0\t0 1 1 *  ", at(0, 0, 1, 1, 3), true),
            ("@Weekly", at(0, 0, 9, 3, 0), true),
            ("@hourly", at(0, 17, 9, 3, 1), true),
            ("@annually", at(0, 0, 1, 1, 1), true),
        ] {
            assert_eq!(Cron::parse(text).unwrap().matches(minute), is_in, "{text}");
        }
    }

    #[test]
    fn a_day_is_in_one_of_the_two_fields_unless_one_of_them_begins_with_an_asterisk() {
        // Friday the 13th, a Friday, a 13th, neither.
        let days = [at(0, 0, 13, 6, 5), at(0, 0, 20, 6, 5), at(0, 0, 13, 7, 0), at(0, 0, 1, 7, 1)];
        for (text, expected) in [
            ("0 0 13 * 5", [true, true, true, false]),
            ("0 0 13 * *", [true, false, true, false]),
            ("0 0 * * 5", [true, true, false, false]),
            // Its first character counts, as in cron's own source.
            ("0 0 */12 * 5", [true, false, false, false]),
            ("0 0 13 * */5", [true, false, true, false]),
            ("0 0 1-31 * 5", [true, true, true, true]),
        ] {
            let cron = Cron::parse(text).unwrap();
            assert_eq!(days.map(|day| cron.matches(day)), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "five fields"),
            ("* * * *", "has 4"),
            ("0 * * * * *", "has 6"),
            ("60 * * * *", "the minute \"60\" must have numbers from 0 to 59"),
            ("+1 * * * *", "the minute"),
            ("0 24 * * *", "the hour"),
            ("0 0 0 * *", "day of the month"),
            ("0 0 * 13 *", "the month \"13\" must have numbers from 1 to 12 or names"),
            ("0 0 * * 8", "day of the week"),
            ("0 0 * * fr", "day of the week"),
            ("0 0 jan * *", "day of the month"),
            ("5/15 * * * *", "5-59/2"),
            ("*/0 * * * *", "no number above 0"),
            ("*/x * * * *", "no number above 0"),
            ("1- * * * *", "the minute"),
            ("1,,2 * * * *", "the minute"),
            ("30-10 * * * *", "ends before it begins"),
            ("0 0 * * fri-mon", "ends before it begins"),
            ("0 0 L * *", "day of the month"),
            ("0 0 31 2,4 *", "no month of \"2,4\" has a day of \"31\""),
            ("@reboot", "restart"),
            ("@often", "@daily"),
            ("@daily x", "@daily"),
            ("\u{e4} * * * *", "the minute"),
        ] {
            let problem = Cron::parse(text).unwrap_err().to_string();
            assert!(problem.contains(part), "{text}: {problem}");
        }
        assert!(Cron::parse("0 0 31 2 1").is_ok(), "Mondays of February");
        assert!(Cron::parse("0 0 29 2 *").is_ok());
    }

    #[test]
    fn the_times_of_a_day_are_in_order() {
        let cron = Cron::parse("30,0 5,3 * * *").unwrap();
        assert_eq!(cron.times().collect::<Vec<_>>(), [(3, 0), (3, 30), (5, 0), (5, 30)]);
    }
}
