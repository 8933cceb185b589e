//! `howdah worker-check`: whether an application is fit for worker mode.
//!
//! Starts two copies of a running server, one in which the application runs in the classic mode and
//! one in which it runs in worker mode, visits the same pages of both, and compares the answers.

mod compare;
mod servers;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use compare::Expected;
use howdah_questions::{ApplicationStatus, PhpStatus, WorkerStatus};
use serde_json::Value;

use crate::args::WorkerCheckArgs;
use crate::client::{Client, encode};
use crate::copies::{self, Copy, Place};
use crate::failure::Failure;
use crate::output::{one_line, printable, write_out};
use crate::visitor::{Url, Visitor};

/// Requests in worker mode for each page: more than there are processes.
const VISITS: usize = 4;

/// Maximum number of pages named for each result.
const MAX_NAMED: usize = 20;

/// The findings of a check.
#[derive(Default)]
struct Findings {
    pages: usize,
    /// The status of each page in the classic mode.
    statuses: Vec<u16>,
    /// Targets, each with how the answers differ.
    different: Vec<(String, String)>,
    /// Targets whose body changes from one request to the next in the classic mode already.
    not_comparable: Vec<String>,
    classic: Vec<Duration>,
    resident: Vec<Duration>,
}

/// Runs the command. Fails if a page differs.
pub(super) fn run(client: &Client, args: &WorkerCheckArgs) -> Result<(), Failure> {
    let url = Url::parse(&args.url).ok_or_else(|| {
        Failure::Failed(format!("{}: write http://HOST:PORT/ or https://HOST/", args.url))
    })?;
    let running = client.compiled()?;
    let name =
        servers::application(&running, args.application.as_deref()).map_err(Failure::Failed)?;
    let documents = servers::documents(&running, &name, url.port, args.script.as_deref());
    let [classic, resident] = documents.map_err(Failure::Failed)?;
    let place = Place::new().map_err(Failure::Failed)?;
    let start = |mode: &str, file: &str, document: &Value| {
        Copy::start(&place, file, document, &["--strict"])
            .map_err(|problem| Failure::Failed(format!("{mode} does not start: {problem}")))
    };
    let classic = start("the classic mode", "classic", &classic)?;
    let resident = start("the worker mode", "worker", &resident)?;
    let control = Client::new(&format!("unix:{}", resident.control.display()), None)?;
    // Beside other applications, the copy starts also if the worker script does not work.
    let part = |part: &str| format!("/{part}/{}", encode(&name));
    let php: PhpStatus = control.get(&part("status/php"))?;
    if php.worker.is_none() {
        let application: ApplicationStatus = control.get(&part("status/applications"))?;
        return Err(Failure::Failed(not_booted(&name, &application, &resident.last_problem())));
    }
    let findings = compare(&url, args.pages, &classic, &resident)?;
    let pool = control.request("GET", &part("pools"), b"")?;
    if pool["accepted-conn"] == 0 {
        return Err(Failure::Failed(not_reached(&name, &url, &running, &findings)));
    }
    let worker = control.get::<PhpStatus>(&part("status/php"))?.worker.unwrap_or_default();
    write_out(&report(&name, &findings, &worker))?;
    match findings.different.len() {
        0 => Ok(()),
        1 => Err(Failure::Failed("one page differs in worker mode".to_owned())),
        count => Err(Failure::Failed(format!("{count} pages differ in worker mode"))),
    }
}

/// Returns the message for a worker script that does not ask for a request.
fn not_booted(name: &str, application: &ApplicationStatus, logged: &str) -> String {
    let problem = application.problem.as_deref();
    let problem = problem.filter(|text| !text.contains("started again"));
    format!(
        "the worker script of the application \"{}\" does not start: {}\nIt must load the \
         framework and then call frankenphp_handle_request() in a loop; \"worker\" of the \
         application, or --script, names it",
        printable(name),
        one_line(problem.unwrap_or(logged))
    )
}

/// Returns the message for a URL whose pages do not come from the application.
fn not_reached(name: &str, url: &Url, running: &Value, findings: &Findings) -> String {
    let listener = copies::listener(running, url.port).map_or("", |(listener, _)| listener);
    let status = findings.statuses.first().copied().unwrap_or_default();
    let pages = match findings.pages {
        1 => format!("{} was not answered", printable(&url.target)),
        count => format!("none of {count} pages from {} on was answered", printable(&url.target)),
    };
    format!(
        "{pages} by the application \"{}\": requests for the host \"{}\" to the listener \"{}\" \
         lead elsewhere, and the first got status {status}\nGive the URL of a page of the \
         application, with the name and the port of its site, or another --application",
        printable(name),
        printable(&url.host),
        printable(listener)
    )
}

/// Visits pages of both servers, beginning with that of the URL.
fn compare(url: &Url, pages: usize, classic: &Copy, resident: &Copy) -> Result<Findings, Failure> {
    let visitor = |copy: &Copy| Visitor::new(copy.address, &url.host, url.is_https);
    let (mut one, mut two) = (visitor(classic), visitor(resident));
    let (mut waiting, mut known) = (VecDeque::from([url.target.clone()]), BTreeSet::new());
    known.insert(url.target.clone());
    let mut findings = Findings::default();
    let mut firsts = Vec::new();
    while let Some(target) = waiting.pop_front().filter(|_| findings.pages < pages) {
        let failed = |error| Failure::Failed(format!("{target}: {error}"));
        let timed = |visitor: &mut Visitor<'_>, times: &mut Vec<Duration>| {
            let began = Instant::now();
            let page = visitor.get(&target).map_err(failed);
            times.push(began.elapsed());
            page
        };
        let first = timed(&mut one, &mut findings.classic)?;
        let second = timed(&mut one, &mut findings.classic)?;
        for link in one.links(&target, &first) {
            if known.len() < pages * 4 && known.insert(link.clone()) {
                waiting.push_back(link);
            }
        }
        findings.statuses.push(first.status);
        let expected = Expected::new(first, &second);
        let mut difference = None;
        for _ in 0..VISITS {
            let page = timed(&mut two, &mut findings.resident)?;
            difference = difference.or_else(|| expected.difference(&page));
        }
        findings.pages += 1;
        if !expected.is_comparable() {
            findings.not_comparable.push(target.clone());
        }
        match difference {
            Some(difference) => findings.different.push((target, difference)),
            None => firsts.push((target, expected)),
        }
    }
    // State that an earlier request has left shows in the pages of new visitors.
    for (target, expected) in firsts.into_iter().rev() {
        let failed = |error| Failure::Failed(format!("{target}: {error}"));
        let fresh = visitor(classic).get(&target).map_err(failed)?;
        let page = visitor(resident).get(&target).map_err(failed)?;
        if expected.difference(&fresh).is_none()
            && let Some(difference) = expected.difference(&page)
        {
            findings.different.push((target, format!("for a new visitor: {difference}")));
        }
    }
    Ok(findings)
}

fn report(name: &str, findings: &Findings, worker: &WorkerStatus) -> String {
    let Findings { pages, different, not_comparable, classic, resident, .. } = findings;
    let name = printable(name);
    let mut text = match pages {
        1 => format!("One page of \"{name}\" was compared.\n"),
        _ => format!("{pages} pages of \"{name}\" were compared.\n"),
    };
    let mut list = |title: &str, lines: Vec<String>| {
        let _ = writeln!(text, "\n{title}: {}", lines.len());
        for line in lines.iter().take(MAX_NAMED) {
            let _ = writeln!(text, "  {}", printable(line));
        }
        if lines.len() > MAX_NAMED {
            let _ = writeln!(text, "  and {} others", lines.len() - MAX_NAMED);
        }
    };
    if !different.is_empty() {
        let line = |(target, difference): &(String, String)| format!("{target}: {difference}");
        list("Different in worker mode", different.iter().map(line).collect());
    }
    if !not_comparable.is_empty() {
        list(
            "Compared by status and header alone, as two classic answers differ too much",
            not_comparable.clone(),
        );
    }
    let retired: Vec<_> = worker
        .retired
        .iter()
        .filter(|(reason, _)| *reason != "requests")
        .map(|(reason, count)| format!("{}: {count}", printable(reason)))
        .collect();
    if !retired.is_empty() {
        list("Processes that had to be replaced, by reason", retired);
    }
    let median = |times: &[Duration]| {
        let mut times = times.to_vec();
        times.sort();
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let (classic, resident) = (median(classic), median(resident));
    let _ = writeln!(
        text,
        "\nTime of an answer, median: {classic:.1} ms classic, {resident:.1} ms worker mode."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_differs_and_why_processes_ended() {
        let different = (0..30).map(|n| (format!("/{n}"), "status 500 instead of 200".to_owned()));
        let findings = Findings {
            pages: 40,
            statuses: vec![200; 40],
            different: different.collect(),
            not_comparable: vec!["/clock".to_owned()],
            classic: vec![Duration::from_millis(9); 3],
            resident: vec![Duration::from_millis(2); 3],
        };
        let retired = [("exit".to_owned(), 3), ("requests".to_owned(), 2)];
        let worker = WorkerStatus { retired: retired.into(), ..WorkerStatus::default() };
        let text = report("shop", &findings, &worker);
        assert!(
            text.contains("Different in worker mode: 30\n  /0: status 500 instead of 200\n"),
            "{text}"
        );
        assert!(text.contains("and 10 others") && text.contains("/clock"), "{text}");
        assert!(text.contains("exit: 3") && !text.contains("requests: 2"), "{text}");
        assert!(text.contains("9.0 ms classic, 2.0 ms worker mode"), "{text}");
    }
}
