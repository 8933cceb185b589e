//! `/requests`: reads the query that says which of the last requests are wanted.

use howdah_questions::{MAX_REQUESTS, Question, RequestFilter};
use howdah_text::percent;

use crate::refusal::Refusal;

/// Number of requests if the query does not say.
const DEFAULT_LIMIT: usize = 100;

/// Translates the query of a request target.
pub(crate) fn read(target: &[u8]) -> Result<Question, Refusal> {
    let end = target.iter().position(|byte| *byte == b'#').unwrap_or(target.len());
    let target = target.get(..end).unwrap_or(target);
    let start = target.iter().position(|byte| *byte == b'?').map_or(target.len(), |at| at + 1);
    let query = target.get(start..).unwrap_or_default();
    let mut filter = RequestFilter { max: DEFAULT_LIMIT, ..RequestFilter::default() };
    for argument in query.split(|byte| *byte == b'&').filter(|argument| !argument.is_empty()) {
        let equals = argument.iter().position(|byte| *byte == b'=').unwrap_or(argument.len());
        let (name, value) = argument.split_at(equals);
        let value = percent::decode_form(value.get(1..).unwrap_or_default());
        let value = value.and_then(|value| String::from_utf8(value).ok());
        let value = value.ok_or_else(|| invalid("a value is not valid UTF-8".to_owned()))?;
        match name {
            b"site" => filter.sites = Some(vec![value]),
            b"after" => filter.after = value,
            b"status" => filter.status = Some(status(&value)?),
            b"slow" => filter.min_us = micros(&value)?,
            b"limit" => filter.max = limit(&value)?,
            name => {
                let name = String::from_utf8_lossy(name);
                let known = "\"site\", \"status\", \"slow\", \"limit\" and \"after\"";
                return Err(invalid(format!("there is no \"{name}\"; there are {known}")));
            }
        }
    }
    Ok(Question::LastRequests(filter))
}

/// Reads a status, such as `404`, or a class, such as `5xx`.
fn status(text: &str) -> Result<(u16, u16), Refusal> {
    let class = text.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok());
    let status = text.parse::<u16>().ok().filter(|status| (100..600).contains(status));
    match (class, status) {
        (Some(class @ 1..=5), _) => Ok((class * 100, class * 100 + 99)),
        (_, Some(status)) => Ok((status, status)),
        _ => Err(invalid("\"status\" must be a status such as 404, or a class: 5xx".to_owned())),
    }
}

fn micros(text: &str) -> Result<u64, Refusal> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=1e9).contains(seconds));
    let seconds = seconds.ok_or_else(|| invalid("\"slow\" must be seconds".to_owned()))?;
    Ok((seconds * 1e6) as u64)
}

fn limit(text: &str) -> Result<usize, Refusal> {
    let number = text.parse().ok().filter(|number| (1..=MAX_REQUESTS).contains(number));
    number.ok_or_else(|| invalid(format!("\"limit\" must be from 1 to {MAX_REQUESTS}")))
}

fn invalid(detail: String) -> Refusal {
    Refusal::InvalidQuery { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(target: &str) -> RequestFilter {
        match read(target.as_bytes()) {
            Ok(Question::LastRequests(filter)) => filter,
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn a_query_selects_requests() {
        let usual = RequestFilter { max: 100, ..RequestFilter::default() };
        assert_eq!(filter("/requests"), usual);
        assert_eq!(filter("/requests?&"), usual);
        let all = filter("/requests?site=a%20b+c&status=5xx&slow=0.25&limit=7&after=1-2");
        let expected = RequestFilter {
            sites: Some(vec!["a b c".to_owned()]),
            status: Some((500, 599)),
            min_us: 250_000,
            after: "1-2".to_owned(),
            max: 7,
        };
        assert_eq!(all, expected);
        assert_eq!(filter("/requests?status=404").status, Some((404, 404)));
    }

    #[test]
    fn a_mistake_in_a_query_is_refused_with_the_reason() {
        for query in [
            "status=6xx",
            "status=-1",
            "status=99",
            "status=",
            "slow=-1",
            "slow=NaN",
            "slow=1s",
            "limit=0",
            "limit=10001",
            "user=1",
            "site=%ff",
            "slow=1e300",
        ] {
            let refused = read(format!("/requests?{query}").as_bytes());
            assert!(matches!(refused, Err(Refusal::InvalidQuery { .. })), "{query}");
        }
    }
}
