//! Frames as text, made of two samples.

use std::time::Duration;

use howdah_questions::Status;
use howdah_watch::{History, Row};
use serde_json::{Value, json};

use super::detail::{self, Detail};
use super::keys::Key;
use super::layout::{self, FIRST_ROW, HEADING_ROW, Line, Style};
use super::view::{Outcome, View};
use crate::args::top::Sort;

const SCREEN: (usize, usize) = (80, 24);

/// The status of sites: for each its name, and changes of its application.
fn status(sites: &[(&str, Value)]) -> Status {
    let mut status = json!({"applications": {}, "php": {}, "sites": {}});
    for (name, given) in sites {
        let of = |key: &str| given.get(key).cloned().unwrap_or_else(|| json!({}));
        status["applications"][name] = of("application");
        status["php"][name] = json!({
            "state": "loaded", "activity": of("activity"), "processes": of("processes"),
        });
        if let Some(traffic) = given.get("traffic") {
            status["sites"][name] = traffic.clone();
        }
    }
    serde_json::from_value(status).unwrap()
}

/// A history of two samples with this many seconds between them.
fn history(before: &[(&str, Value)], now: &[(&str, Value)], seconds: u64) -> History {
    let mut history = History::default();
    history.add(status(before), Duration::from_secs(100));
    history.add(status(now), Duration::from_secs(100 + seconds));
    history
}

fn processes(all: u64, programs: u64, cpu_us: u64, private: u64) -> Value {
    json!({"all": all, "programs": programs, "cpu_us": cpu_us, "private": private << 20})
}

fn traffic(requests: u64, errors: u64, time_us: u64) -> Value {
    let total = json!({"requests": requests, "errors": errors, "time_us": time_us});
    json!({"requests": requests, "errors": errors, "total": total})
}

fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

fn frame(view: &View, history: &History, size: (usize, usize)) -> Vec<Line> {
    layout::list(view, &history.rows(), &history.status, "12:00:00", size)
}

/// One site for each fault, one that works, and one without requests.
fn faults() -> History {
    let before = |cpu: u64| json!({"processes": processes(2, 0, cpu, 10)});
    let names = ["burns", "crashes", "floods", "forks", "leaks", "sleeps", "works", "idle"];
    let before: Vec<_> = names.map(|name| (name, before(1_000))).into_iter().collect();
    let busy = json!({"requests": {"active": 1}, "processes": {"running": 1}});
    let calm = processes(2, 0, 1_000, 10);
    let now = [
        ("burns", json!({"processes": processes(2, 0, 1_971_000, 10), "application": busy})),
        (
            "crashes",
            json!({
                "processes": calm, "traffic": traffic(4, 4, 40_000),
                "activity": {"failed_last_minute": {"signal_11": 3, "out_of_memory": 1}},
            }),
        ),
        (
            "floods",
            json!({"processes": calm, "activity": {"log_bytes": 8 << 20, "dropped_lines": 120}}),
        ),
        ("forks", json!({"processes": processes(44, 42, 1_000, 20)})),
        ("leaks", json!({"processes": processes(2, 0, 1_000, 58)})),
        (
            "sleeps",
            json!({
                "processes": calm, "activity": {"longest_us": 4_200_000},
                "application": {"requests": {"active": 4}, "processes": {"running": 1}},
            }),
        ),
        ("works", json!({"processes": calm, "traffic": traffic(100, 0, 1_000_000)})),
        ("idle", json!({"processes": calm})),
    ];
    history(&before, &now, 2)
}

#[test]
fn each_fault_is_named_on_a_small_screen() {
    let lines = frame(&View::default(), &faults(), SCREEN);
    let expected = "\
howdah top  12:00:00  7 of 8 sites active, by trouble
now: 1.0 processors, 52 requests/s, 3 waiting, PHP memory 0 KB
last minute: 104 requests, 4 errors (5xx), 4 crashes

SITE                CPU%   MEM REQ/S  5XX   TIME WAIT  WHAT IS UNUSUAL
crashes                0 10.0M   2.0    4  10 ms    0  3 crashes: signal 11, ki…
leaks                  0 58.0M     0    0      -    0  memory +48.0M in 2.0 s
forks                  0 20.0M     0    0      -    0  42 programs of scripts
floods                 0 10.0M     0    0      -    0  log 4.0M/s, 120 dropped
burns                 98 10.0M     0    0      -    0  uses 1.0 processors
sleeps                 0 10.0M     0    0  4.2 s    3  slow: script runs 4.2 s,…
works                  0 10.0M    50    0  10 ms    0";
    let shown = texts(&lines);
    let all: Vec<_> = expected.lines().collect();
    assert_eq!(shown[..all.len()], all, "{}", shown.join("\n"));
    assert_eq!(lines.len(), 24);
    assert!(shown[23].starts_with("q quit"));
    assert!(shown.iter().all(|line| line.chars().count() <= 80));
    assert_eq!(lines[FIRST_ROW].style, Style::Selected);
    assert_eq!((lines[FIRST_ROW + 1].style, lines[2].style), (Style::Alarm, Style::Alarm));
    assert_eq!(lines[FIRST_ROW + 6].style, Style::Plain);
}

#[test]
fn a_file_gets_whole_lines() {
    let history = faults();
    let view = View { sort: Sort::Name, all: true, ..View::default() };
    let lines = layout::plain(&view, &history.rows(), &history.status, "12:00:00");
    assert_eq!(lines[3], "SITE     CPU%   MEM REQ/S  5XX   TIME WAIT  WHAT IS UNUSUAL");
    let crashes = lines.iter().find(|line| line.starts_with("crashes")).unwrap();
    assert!(crashes.ends_with("3 crashes: signal 11, killed: out of memory, 4 errors in a minute"));
    let names: Vec<_> = lines[4..].iter().filter_map(|line| line.split(' ').next()).collect();
    let expected = ["burns", "crashes", "floods", "forks", "idle", "leaks", "sleeps", "works"];
    assert_eq!(names, expected);
}

#[test]
fn one_sample_has_no_rates_and_no_growth() {
    let mut history = History::default();
    history.add(
        status(&[("a", json!({"processes": processes(2, 0, 99_000_000, 900)}))]),
        Duration::ZERO,
    );
    let row = &history.rows()[0];
    assert_eq!((row.processors, row.requests, row.notices.len()), (None, None, 0));
}

#[test]
fn memory_of_new_processes_is_no_growth() {
    let before = [("a", json!({"processes": processes(2, 0, 0, 20)}))];
    let now = [("a", json!({"processes": processes(12, 0, 0, 120)}))];
    assert_eq!(history(&before, &now, 5).rows()[0].notices, []);
    let grown = [("a", json!({"processes": processes(2, 0, 0, 60)}))];
    let notices = &history(&before, &grown, 5).rows()[0].notices;
    assert_eq!(notices[0].text, "memory +40.0M in 5.0 s");
}

#[test]
fn a_site_that_gets_too_little_on_a_busy_machine_is_named() {
    let mut history = History::default();
    for second in 0..5 {
        let used = json!({"all": 2, "runnable": 1, "cpu_us": 1 + second * 200_000, "private": 1});
        history.add(status(&[("a", json!({ "processes": used }))]), Duration::from_secs(second));
        let expected = if second < 3 { vec![] } else { vec!["gets 0.2 of 1.0 processors"] };
        let rows = history.rows();
        let notices: Vec<_> = rows[0].notices.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!(notices, expected, "{second}");
    }
}

#[test]
fn lower_counters_are_no_rates() {
    let before =
        [("a", json!({"processes": processes(2, 0, 9_000_000, 20), "traffic": traffic(90, 0, 5)}))];
    let now = [("a", json!({"processes": processes(2, 0, 1, 20), "traffic": traffic(2, 0, 1)}))];
    let row = &history(&before, &now, 1).rows()[0];
    assert_eq!((row.processors, row.requests, row.seconds), (Some(0.0), Some(0.0), None));
}

#[test]
fn each_order_has_its_first_site() {
    let history = faults();
    let rows = history.rows();
    for (sort, first) in [
        (Sort::Trouble, "crashes"),
        (Sort::Processor, "burns"),
        (Sort::Memory, "leaks"),
        (Sort::Requests, "works"),
        (Sort::Errors, "crashes"),
        (Sort::Latency, "sleeps"),
        (Sort::Name, "burns"),
    ] {
        let view = View { sort, ..View::default() };
        assert_eq!(view.choose(&rows)[0].site, first, "{sort:?}");
    }
}

fn many() -> Vec<Row> {
    (0..100).map(|n| Row { site: format!("site{n:02}"), active: true, ..Row::default() }).collect()
}

/// Presses keys on a screen with these rows.
fn press(view: &mut View, rows: &[Row], keys: &[Key]) -> Outcome {
    let mut outcome = Outcome::Draw;
    for key in keys {
        let shown: Vec<_> = view.choose(rows).iter().map(|row| row.site.clone()).collect();
        let shown: Vec<_> = shown.iter().map(String::as_str).collect();
        outcome = view.on(*key, &shown, SCREEN);
    }
    outcome
}

#[test]
fn keys_and_clicks_lead_through_many_sites() {
    let (rows, mut view) = (many(), View::default());
    assert_eq!(press(&mut view, &rows, &[Key::PageDown, Key::Down]), Outcome::Draw);
    assert_eq!((view.selected, view.first), (18, 1));
    press(&mut view, &rows, &[Key::End]);
    assert_eq!((view.selected, view.first), (99, 82));
    press(&mut view, &rows, &[Key::Home, Key::WheelDown]);
    assert_eq!((view.selected, view.first), (3, 0));
    let second = Key::Click { column: 3, row: FIRST_ROW + 1 };
    assert_eq!(press(&mut view, &rows, &[second]), Outcome::Ask);
    assert_eq!(view.detail.as_deref(), Some("site01"));
    press(&mut view, &rows, &[Key::Escape]);
    assert_eq!(view.detail, None);
    for (column, sort) in
        [(0, Sort::Name), (20, Sort::Processor), (27, Sort::Memory), (79, Sort::Trouble)]
    {
        press(&mut view, &rows, &[Key::Click { column, row: HEADING_ROW }]);
        assert_eq!(view.sort, sort);
    }
    press(&mut view, &rows, &[Key::Char('e')]);
    assert_eq!(view.sort, Sort::Errors);
    let typed = [Key::Char('/'), Key::Char('9'), Key::Char('q'), Key::Backspace, Key::Enter];
    press(&mut view, &rows, &typed);
    assert_eq!((view.filter.as_str(), view.choose(&rows).len()), ("9", 19));
    press(&mut view, &rows, &[Key::Enter]);
    assert_eq!(view.detail.as_deref(), Some("site09"));
    press(&mut view, &rows, &[Key::Escape, Key::Escape, Key::Char('?')]);
    assert_eq!((view.filter.as_str(), view.help), ("", true));
    for (key, outcome) in [
        (Key::Char('x'), Outcome::Draw),
        (Key::Suspend, Outcome::Suspend),
        (Key::Char(' '), Outcome::Ask),
        (Key::Char('q'), Outcome::Quit),
        (Key::Interrupt, Outcome::Quit),
    ] {
        assert_eq!(press(&mut view, &rows, &[key]), outcome, "{key:?}");
    }
    assert!(!view.help);
}

#[test]
fn idle_sites_are_shown_when_asked_for() {
    let (history, mut view) = (faults(), View::default());
    let rows = history.rows();
    assert_eq!(view.choose(&rows).len(), 7);
    press(&mut view, &rows, &[Key::Char('a')]);
    assert_eq!(view.choose(&rows).len(), 8);
}

#[test]
fn a_screen_of_any_size_is_filled_exactly() {
    let history = faults();
    for size in [(1, 1), (10, 3), (20, 6), (80, 24), (200, 60), (79, 2)] {
        for view in [View::default(), View { filter: "none".to_owned(), ..View::default() }] {
            let mut view = view;
            view.keep_within(view.choose(&history.rows()).len(), size);
            let row = &history.rows()[0];
            for lines in [
                frame(&view, &history, size),
                layout::help(size),
                detail::screen(row, &details(), "12:00:00", size),
            ] {
                assert_eq!(lines.len(), size.1);
                assert!(lines.iter().all(|line| line.text.chars().count() <= size.0), "{size:?}");
            }
        }
    }
}

/// A process whose script and request would command the terminal.
fn details() -> Detail {
    let process = |pid: u64, state: &str, cpu: u64| {
        json!({
            "pid": pid, "state": state, "requests": 7, "request-duration": 4_200_000,
            "request-method": "GET", "request-uri": "/a\u{1b}[2J", "query-string": "b=c\u{202e}",
            "script": "/srv/a/sl\u{9b}eep.php", "memory": 12_582_912, "processor-time": cpu,
        })
    };
    let pool = |cpu| {
        let procs = [process(8, "Idle", cpu), process(7, "Running", cpu)];
        serde_json::from_value(json!({"procs": procs})).unwrap()
    };
    let request = |time: &str, status: u16| json!({"time": time, "method": "GET", "target": "/b\r\n", "status": status, "seconds": 1.5});
    let mut crashed = request("2026-11-20T15:04:06.678Z", 502);
    crashed["failure"] = json!("worker process 7 exited on signal 11, in a\u{1b}()");
    let requests = [crashed, request("2026-11-20T15:04:05.678Z", 500)];
    Detail {
        pool: Some(pool(1_500_000)),
        before: Some((pool(500_000), Duration::from_secs(2))),
        errors: serde_json::from_value(json!(requests)).unwrap(),
        slow: serde_json::from_value(json!([request("T15:04:06", 200)])).unwrap(),
    }
}

#[test]
fn a_site_is_shown_with_its_processes_and_requests_but_cannot_command_the_terminal() {
    let row = Row {
        site: "shop\u{1b}]0;x\u{7}".to_owned(),
        errors: 2,
        notices: faults().rows().into_iter().flat_map(|row| row.notices).take(1).collect(),
        ..Row::default()
    };
    let lines = detail::screen(&row, &details(), "12:00:00", SCREEN);
    let expected = "\
howdah top  12:00:00  site shop\u{fffd}]0;x\u{fffd}
now: 0.0 processors, 0K, 0 requests/s, - a request, 0 waiting
last minute: 2 errors (5xx), 0 crashes
! uses 1.0 processors
     PID STATE     TIME CPU%   MEM SERVED  SCRIPT, REQUEST
       7 Running  4.2 s   50 12.0M      7  sl\u{fffd}eep.php, GET /a\u{fffd}[2J?b=c\u{fffd}
       8 Idle     4.2 s   50 12.0M      7  sl\u{fffd}eep.php, GET /a\u{fffd}[2J?b=c\u{fffd}
LAST ERRORS
  15:04:06  502   1.5 s  GET /b\u{fffd}\u{fffd}: worker process 7 exited on signal 11, in a\u{fffd}()
  15:04:05  500   1.5 s  GET /b\u{fffd}\u{fffd}
SLOW REQUESTS
  15:04:06  200   1.5 s  GET /b\u{fffd}\u{fffd}";
    let shown = texts(&lines);
    let all: Vec<_> = expected.lines().collect();
    assert_eq!(shown[..all.len()], all, "{}", shown.join("\n"));
    let hostile =
        [("a\u{1b}[2J\u{9d}\u{202e}", json!({"activity": {"failed_last_minute": {"x\u{1b}": 1}}}))];
    let history = history(&hostile, &hostile, 1);
    let view = View { filter: String::new(), ..View::default() };
    let list = frame(&view, &history, SCREEN);
    let plain = layout::plain(&view, &history.rows(), &history.status, "").join("");
    let all = texts(&lines).join("") + &texts(&list).join("") + &plain;
    assert!(!all.chars().any(|c| c.is_control() || c == '\u{202e}'), "{all:?}");
}
