//! The screen of one site: its processes, its slow scripts and its last errors. No I/O, no clock.

use std::time::Duration;

use howdah_questions::LastRequest;
use howdah_watch::Row;
use howdah_watch::format::{bytes, cut, rate, seconds};

use super::layout::{Line, Style, fill};
use crate::output::printable;
use crate::pools::{Pool, Process};

/// Answers about a site. Without an application, or from a server that does not keep requests, some
/// are missing.
#[derive(Debug, Default)]
pub(super) struct Detail {
    /// The application.
    pub(super) pool: Option<Pool>,
    /// The application as asked before, and the time since.
    pub(super) before: Option<(Pool, Duration)>,
    /// The last requests with an error of the server, the newest first.
    pub(super) errors: Vec<LastRequest>,
    /// The last slow requests, the newest first.
    pub(super) slow: Vec<LastRequest>,
}

/// Returns the line of a request.
fn request(request: &LastRequest) -> Line {
    let time = request.time.split_once('T').map_or(&*request.time, |(_, time)| time);
    let time: String = time.chars().take(8).collect();
    let [time, method, target] =
        [&time, &request.method, &request.target].map(|text| printable(text));
    let took = seconds(request.seconds);
    let failure = request.failure.iter().map(|text| format!(": {}", printable(text)));
    let failure: String = failure.collect();
    Line::new(
        format!("  {time}  {}  {took:>6}  {method} {target}{failure}", request.status),
        Style::Plain,
    )
}

/// Returns the lines of the screen.
pub(super) fn screen(row: &Row, detail: &Detail, time: &str, size: (usize, usize)) -> Vec<Line> {
    let mut lines =
        vec![Line::new(format!("howdah top  {time}  site {}", printable(&row.site)), Style::Plain)];
    lines.push(Line::new(
        format!(
            "now: {:.1} processors, {}, {} requests/s, {} a request, {} waiting",
            row.processors.unwrap_or(0.0),
            bytes(row.memory),
            rate(row.requests.unwrap_or(0.0)),
            row.seconds.map_or_else(|| "-".to_owned(), seconds),
            row.waiting
        ),
        Style::Plain,
    ));
    lines.push(Line::new(
        format!("last minute: {} errors (5xx), {} crashes", row.errors, row.crashes),
        if row.errors + row.crashes > 0 { Style::Alarm } else { Style::Plain },
    ));
    for notice in &row.notices {
        lines.push(Line::new(format!("! {}", printable(&notice.text)), Style::Alarm));
    }
    // Of a small screen, processes get what the requests leave.
    let others = [&detail.errors, &detail.slow].map(|list| list.len().min(3) + 1);
    let others: usize = others.into_iter().filter(|lines| *lines > 1).sum();
    let room = size.1.saturating_sub(lines.len() + 2 + others).max(2);
    lines.extend(processes(detail, room));
    for (title, requests) in [("LAST ERRORS", &detail.errors), ("SLOW REQUESTS", &detail.slow)] {
        if !requests.is_empty() {
            let left = size.1.saturating_sub(lines.len() + 2);
            lines.push(Line::new(title, Style::Heading));
            lines.extend(requests.iter().take(left.clamp(1, 3)).map(request));
        }
    }
    fill(lines, "Esc back  Space now  h help  q quit", size)
}

/// Returns the table of processes: first those with a request, the longest request first.
fn processes(detail: &Detail, room: usize) -> Vec<Line> {
    let Some(pool) = &detail.pool else {
        return vec![Line::new("no PHP application has this name", Style::Plain)];
    };
    let heading = format!(
        "{:>8} {:<7} {:>6} {:>4} {:>5} {:>6}  {}",
        "PID", "STATE", "TIME", "CPU%", "MEM", "SERVED", "SCRIPT, REQUEST"
    );
    let mut lines = vec![Line::new(heading, Style::Heading)];
    let mut all: Vec<_> = pool.procs.iter().collect();
    all.sort_by_key(|process| {
        let is_idle = process.state != "Running";
        (is_idle, u64::MAX - if is_idle { 0 } else { process.request_duration }, process.pid)
    });
    let hidden = all.len().saturating_sub(room.saturating_sub(1));
    let shown = if hidden > 0 { room.saturating_sub(2) } else { all.len() };
    lines.extend(all.iter().take(shown).map(|process| line(process, detail)));
    if hidden > 0 {
        lines.push(Line::new(format!("  and {} more", all.len() - shown), Style::Plain));
    }
    lines
}

fn line(process: &Process, detail: &Detail) -> Line {
    let used = detail.before.as_ref().and_then(|(before, time)| {
        let before = before.procs.iter().find(|before| before.pid == process.pid)?;
        let used = process.processor_time.saturating_sub(before.processor_time) as f64 / 1e6;
        Some(used / time.as_secs_f64().max(0.001))
    });
    let used = used.map_or_else(|| "-".to_owned(), |used| format!("{:.0}", used * 100.0));
    let name = process.script.rsplit('/').next().unwrap_or_default();
    let query = if process.query_string.is_empty() { "" } else { "?" };
    let request = format!(
        "{}, {} {}{query}{}",
        name, process.request_method, process.request_uri, process.query_string
    );
    let request = if process.request_method.is_empty() || process.request_method == "-" {
        String::new()
    } else {
        printable(&request)
    };
    Line::new(
        format!(
            "{:>8} {:<7} {:>6} {used:>4} {:>5} {:>6}  {request}",
            process.pid,
            cut(&printable(&process.state), 7),
            seconds(process.request_duration as f64 / 1e6),
            bytes(process.memory),
            process.requests,
        ),
        Style::Plain,
    )
}
