//! Arguments of `requests`.

use clap::Args;

use super::Server;

/// Arguments of `requests`.
#[derive(Debug, Args)]
#[command(after_help = "\
The server keeps the last requests in memory (settings.last_requests, 10,000 by default). A line has
the end of the request (UTC), site, method, target, status, time, the parts of that time in seconds,
upstream servers, the result of the cache, the processor time and the peak memory of PHP. The values
of arguments such as token and password are hidden, and those that an access log masks.

  queue     waiting for a process               start     waiting for PHP to start
  script    run time of PHP                     upstream  time with other servers
  sending   from the head of a response of a script or another server to the last byte

  howdah requests -f                            follow, like tail -f
  howdah requests --site shop --slow 1s         the slow ones of a site
  howdah requests --status 5xx --json           a JSON object in each line

Exit status: 0 shown, 1 failed, 2 mistake in the command line, 3 no server answers.")]
pub struct RequestsArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Go on with new requests as they end
    #[arg(short, long)]
    pub follow: bool,
    /// Only requests of this site, application or upstream
    #[arg(long, value_name = "NAME")]
    pub site: Option<String>,
    /// Only requests that took at least this time, such as 1s or 250ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub slow: Option<f64>,
    /// Only requests with this status, such as 404, or of this class: 5xx
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Number of requests: the last ones, up to 10000
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 50)]
    pub number: usize,
    /// Print each request as a line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Reads a time as seconds.
fn time(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * unit);
    let seconds = seconds.filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "must be a time such as 1s or 250ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!((time("1s"), time("250ms"), time("0.5")), (Ok(1.0), Ok(0.25), Ok(0.5)));
        for wrong in ["", "s", "1m", "-1", "NaN", "1e9"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
