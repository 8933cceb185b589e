//! Answers the question about the last requests: asks the threads, and hides secrets.

use std::sync::Arc;
use std::time::Duration;

use howdah_access_log::secrets;
use howdah_http::exchange::SendOutcome;
use howdah_http::mask::mask_query;
use howdah_http::message::ShownRequestId;
use howdah_metrics::{Filter, KeptRequest, KeptRequests};
use howdah_pipeline::thread::ThreadCommand;
use howdah_questions::{LastRequest, LastRequests, MAX_REQUESTS, RequestFilter};
use howdah_text::date;

use super::command::Commands;
use super::threads::send_and_wait;

impl Commands {
    /// Returns the last requests of a filter, the oldest first.
    pub(super) async fn last_requests(&self, wanted: RequestFilter) -> LastRequests {
        let after = read_cursor(&wanted.after);
        let filter = Arc::new(Filter {
            sites: wanted.sites,
            status: wanted.status,
            min_time: wanted.min_us,
            after,
            max: wanted.max.min(MAX_REQUESTS),
        });
        let list = |done| ThreadCommand::ListRequests { filter: Arc::clone(&filter), done };
        let answers: Vec<KeptRequests> = send_and_wait(&self.threads, list).await;
        let mut last = vec![0; self.threads.len()];
        for KeptRequests { thread, last: number, .. } in &answers {
            if let Some(place) = last.get_mut(*thread as usize) {
                *place = *number;
            }
        }
        let mut all: Vec<_> = answers.into_iter().flat_map(|answer| answer.requests).collect();
        all.sort_by_key(|request| request.at);
        let surplus = all.len().saturating_sub(filter.max);
        all.drain(..surplus);
        let secrets = secrets(&self.shared.snapshot.load().config);
        let requests = all.iter().map(|request| shown(request, &secrets)).collect();
        LastRequests { requests, next: cursor(&last) }
    }
}

/// Writes the number of the last request of each thread.
fn cursor(last: &[u64]) -> String {
    let numbers: Vec<_> = last.iter().map(u64::to_string).collect();
    numbers.join("-")
}

/// Reads what [`cursor`] has written. Another text stands for the beginning.
fn read_cursor(text: &str) -> Vec<u64> {
    text.split('-').map(|number| number.parse().unwrap_or(0)).collect()
}

fn shown(request: &KeptRequest, secrets: &[String]) -> LastRequest {
    let texts = request.texts();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut target = texts.target.to_vec();
    mask_query(&mut target, 0, secrets);
    let mut target = text(&target);
    if request.is_cut {
        target.push('…');
    }
    let mut time = String::new();
    date::rfc3339(request.at, &mut time);
    let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
    let (parts, script) = (&request.parts, request.script.as_ref());
    LastRequest {
        time,
        id: request.id.map(|id| ShownRequestId(id).to_string()),
        trace: request.trace.map(|trace| trace.to_string()),
        site: text(texts.site),
        listener: text(texts.listener),
        method: text(texts.method),
        target,
        status: request.status,
        received: request.received,
        sent: request.sent,
        seconds: seconds(request.whole),
        queue: parts.queue.map(seconds),
        php_start: parts.start.map(seconds),
        script: parts.script.map(seconds),
        upstream: parts.upstream.map(seconds),
        sending: parts.sending.map(seconds),
        cpu: script.map(|script| seconds(script.cpu_us)),
        memory_peak: script.map(|script| script.peak_memory),
        servers: text(texts.upstreams).split_whitespace().map(str::to_owned).collect(),
        failure: request.failure.as_deref().map(str::to_owned),
        cache: request.cache_status.map(str::to_owned),
        cut_by: match request.outcome {
            SendOutcome::Complete => None,
            SendOutcome::ClientGone => Some("client".into()),
            SendOutcome::BodyFailed => Some("server".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_another_text_is_the_beginning() {
        for numbers in [vec![0], vec![1, 2, u64::MAX]] {
            assert_eq!(read_cursor(&cursor(&numbers)), numbers);
        }
        assert_eq!(read_cursor(""), [0]);
        assert_eq!(read_cursor("x-3--99999999999999999999999"), [0, 3, 0, 0]);
    }

    #[test]
    fn secrets_of_the_document_and_usual_ones_are_hidden() {
        let config = br#"{"access_log": {"path": "/x", "mask": ["card"]}}"#;
        let secrets = secrets(&howdah_config::parse(config).unwrap());
        let mut line = b"/a?card=1&b=2&TOKEN=3&PHPSESSID=4#x".to_vec();
        mask_query(&mut line, 0, &secrets);
        assert_eq!(line, b"/a?card=***&b=2&TOKEN=***&PHPSESSID=***#x");
    }
}
