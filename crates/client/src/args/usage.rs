//! Arguments of `site usage`.

use clap::Args;

/// Arguments of `site usage`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each request counts once its response is complete or was cut short, for the month (in UTC) in which
that is. RECEIVED and SENT are bytes of heads and bodies, without TLS and TCP. PHP is the time for
which scripts ran, in seconds. A message counts for each of its recipients once a mail server has
taken it. Requests of hosts that no site has count as \"default\".

  howdah site usage                             all sites, this month
  howdah site usage shop --month 2026-10 --json

Exit status: 0 shown, 1 there are no counts of this site or month, or the server refuses the
request, 2 mistake in the command line, 3 no server answers.")]
pub struct UsageArgs {
    /// Name of a site [default: all]
    pub site: Option<String>,
    /// The month, such as 2026-11; 12 months before this one are kept [default: this one]
    #[arg(long, value_name = "MONTH", value_parser = month)]
    pub month: Option<String>,
    /// Print the response of the API as JSON
    #[arg(long)]
    pub json: bool,
}

fn month(text: &str) -> Result<String, String> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('-') {
        Some((year, month))
            if year.len() == 4
                && month.len() == 2
                && digits(year)
                && digits(month)
                && ("01"..="12").contains(&month) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("must be a month such as 2026-11".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_a_year_and_a_number() {
        assert_eq!(month("2026-11").as_deref(), Ok("2026-11"));
        for wrong in ["", "11", "2026", "2026-13", "2026-00", "2026-1", "26-11", "2026-1a", "-"] {
            assert!(month(wrong).is_err(), "{wrong}");
        }
    }
}
