//! `howdah requests`: the last requests, a line for each.

use std::fmt::Write;
use std::time::Duration;

use howdah_questions::{LastRequest, LastRequests};
use serde_json::Value;

use crate::STATUS_TIMEOUT;
use crate::args::requests::RequestsArgs;
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::find::connect_as_site_user;
use crate::output::{printable, write_out};

/// Interval between two questions while requests are followed.
const INTERVAL: Duration = Duration::from_millis(500);

/// Number of requests in an answer while requests are followed.
const MAX_FOLLOWED: usize = 10_000;

/// Runs the command.
pub(super) fn run(args: &RequestsArgs) -> Result<(), Failure> {
    let client = connect_as_site_user(&args.server)?.with_timeout(STATUS_TIMEOUT);
    let mut next = show(&client, &target(args, "", args.number), args.json)?;
    if !args.follow {
        return Ok(());
    }
    loop {
        std::thread::sleep(INTERVAL);
        match show(&client, &target(args, &next, MAX_FOLLOWED), args.json) {
            Ok(shown) => next = shown,
            // The server may be restarting; the requests of the next router are new.
            Err(Failure::Unreachable(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Returns the request target of the API.
fn target(args: &RequestsArgs, after: &str, limit: usize) -> String {
    let mut target = format!("/requests?limit={limit}");
    let site = args.site.as_ref().map(|site| ("site", encode(site)));
    let status = args.status.as_ref().map(|status| ("status", encode(status)));
    let slow = args.slow.map(|seconds| ("slow", seconds.to_string()));
    let after = Some(("after", encode(after))).filter(|(_, after)| !after.is_empty());
    for (name, value) in [site, status, slow, after].into_iter().flatten() {
        let _ = write!(target, "&{name}={value}");
    }
    target
}

/// Prints the requests of an answer. Returns where the next ones begin.
fn show(client: &Client, target: &str, json: bool) -> Result<String, Failure> {
    let answer = client.request("GET", target, b"")?;
    let mut text = String::new();
    if json {
        for request in answer.get("requests").and_then(Value::as_array).into_iter().flatten() {
            let _ = writeln!(text, "{request}");
        }
    }
    let LastRequests { requests, next } = client.read(answer)?;
    if !json {
        requests.iter().for_each(|request| text.push_str(&line(request)));
    }
    write_out(&text)?;
    Ok(next)
}

/// Returns the line of a request.
fn line(request: &LastRequest) -> String {
    let time = request.time.split_once('T').map_or(&*request.time, |(_, time)| time);
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { printable(text) };
    let mut line = format!(
        "{} {} {} {} {} {:.3}",
        printable(time),
        or_dash(&request.site),
        or_dash(&request.method),
        or_dash(&request.target),
        request.status,
        request.seconds
    );
    for (name, part) in [
        ("queue", request.queue),
        ("start", request.php_start),
        ("script", request.script),
        ("upstream", request.upstream),
        ("sending", request.sending),
        ("cpu", request.cpu),
    ] {
        if let Some(seconds) = part {
            let _ = write!(line, " {name}={seconds:.3}");
        }
    }
    if let Some(bytes) = request.memory_peak {
        let _ = write!(line, " memory={:.1}M", bytes as f64 / f64::from(1 << 20));
    }
    if !request.servers.is_empty() {
        let _ = write!(line, " servers={}", printable(&request.servers.join(",")));
    }
    let words = [
        ("cache", request.cache.as_deref()),
        ("cut", request.cut_by.as_deref()),
        ("trace", request.trace.as_deref()),
        // Has spaces, so that it is the last one.
        ("failure", request.failure.as_deref()),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            let _ = write!(line, " {name}={}", printable(word));
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_a_line_that_cannot_command_the_terminal() {
        let request: LastRequest = serde_json::from_value(json!({
            "time": "2026-11-20T15:04:05.678Z", "site": "shop", "method": "GET",
            "target": "/a\u{1b}[2J\n?b", "status": 503, "seconds": 1.2346, "queue": 1.0,
            "script": 0.2, "cpu": 0.1, "memory_peak": 3 << 20, "servers": ["10.0.0.1:80", "b"],
            "cache": "MISS", "cut_by": "client",
        }))
        .unwrap();
        assert_eq!(
            line(&request),
            "15:04:05.678Z shop GET /a\u{fffd}[2J\u{fffd}?b 503 1.235 queue=1.000 script=0.200 \
             cpu=0.100 memory=3.0M servers=10.0.0.1:80,b cache=MISS cut=client\n"
        );
        let refused = LastRequest { status: 400, ..LastRequest::default() };
        assert_eq!(line(&refused), " - - - 400 0.000\n");
        let failure = Some("worker process 7 exited on signal 11, in a\u{1b}()".to_owned());
        let crashed = LastRequest { status: 502, failure, ..LastRequest::default() };
        assert_eq!(
            line(&crashed),
            " - - - 502 0.000 failure=worker process 7 exited on signal 11, in a\u{fffd}()\n"
        );
    }
}
