//! The lines of a screen. No I/O, no clock.

use howdah_questions::Status;
use howdah_watch::Row;
use howdah_watch::format::{bytes, cut, rate, seconds};

use super::view::{SORTS, View};
use crate::args::top::Sort;
use crate::output::{one_line, printable};
use crate::status;

/// Line with the headings of the table, counted from 0.
pub(super) const HEADING_ROW: usize = 4;

/// Line of the first site.
pub(super) const FIRST_ROW: usize = HEADING_ROW + 1;

/// Maximum width of the names of sites on a narrow screen.
const NAME_WIDTH: usize = 18;

/// Headings of the numbers with their widths and orders.
const NUMBERS: [(&str, usize, Sort); 6] = [
    ("CPU%", 5, Sort::Processor),
    ("MEM", 5, Sort::Memory),
    ("REQ/S", 5, Sort::Requests),
    ("5XX", 4, Sort::Errors),
    ("TIME", 6, Sort::Latency),
    ("WAIT", 4, Sort::Latency),
];

/// Emphasis of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    Heading,
    Selected,
    /// Something is unusual.
    Alarm,
}

/// A line of the screen, without control characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Line {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Line {
        Line { text: text.into(), style }
    }

    fn plain(text: impl Into<String>) -> Line {
        Line::new(text, Style::Plain)
    }
}

/// Returns the number of sites that a screen has room for.
pub(super) fn list_height(size: (usize, usize)) -> usize {
    size.1.saturating_sub(FIRST_ROW + 1).max(1)
}

/// Returns the order whose heading is in a column.
pub(super) fn heading_at(column: usize, width: usize) -> Option<Sort> {
    let mut start = name_width(width);
    if column < start {
        return Some(Sort::Name);
    }
    for (_, width, sort) in NUMBERS {
        start += width + 1;
        if column < start {
            return Some(sort);
        }
    }
    Some(Sort::Trouble)
}

/// Returns the width of names on a screen of this width: wider screens have room for longer ones.
fn name_width(width: usize) -> usize {
    (width * NAME_WIDTH / 80).clamp(8, 60)
}

/// Returns the lines of the list of sites.
pub(super) fn list(
    view: &View,
    rows: &[Row],
    status: &Status,
    time: &str,
    size: (usize, usize),
) -> Vec<Line> {
    let shown = view.choose(rows);
    let mut lines = head(view, rows, shown.len(), status, time);
    lines.push(Line::new(headings(name_width(size.0)), Style::Heading));
    let visible = shown.iter().enumerate().skip(view.first).take(list_height(size));
    for (index, row) in visible {
        let style = match row.notices.is_empty() {
            _ if index == view.selected => Style::Selected,
            true => Style::Plain,
            false => Style::Alarm,
        };
        lines.push(Line::new(line(row, name_width(size.0), size.0), style));
    }
    if shown.is_empty() {
        lines.push(Line::plain(match view.filter.is_empty() {
            true if view.all => "no sites",
            true => "no site is active; a shows all",
            false => "no site has this in its name; Esc shows all",
        }));
    }
    fill(lines, "q quit  Enter site  / filter  a all  t c m r e l n sort  h help", size)
}

/// Returns all lines for a file or another program.
pub(super) fn plain(view: &View, rows: &[Row], status: &Status, time: &str) -> Vec<String> {
    let shown = view.choose(rows);
    let longest = shown.iter().map(|row| row.site.chars().count()).max().unwrap_or(0);
    let width = longest.max(4);
    let head = head(view, rows, shown.len(), status, time).into_iter().map(|line| line.text);
    let lines = shown.iter().map(|row| line(row, width, usize::MAX));
    let all = head.take(3).chain([headings(width)]).chain(lines);
    all.map(|line| line.trim_end().to_owned()).collect()
}

fn head(view: &View, rows: &[Row], shown: usize, status: &Status, time: &str) -> Vec<Line> {
    let active = rows.iter().filter(|row| row.active).count();
    let sum = |number: fn(&Row) -> f64| rows.iter().map(number).sum::<f64>();
    let (errors, crashes) = (sum(|row| row.errors as f64), sum(|row| row.crashes as f64));
    let requests: u64 = status.sites.values().map(|site| site.requests).sum();
    let kind = match view.sort {
        Sort::Trouble => "trouble",
        Sort::Processor => "processor",
        Sort::Memory => "memory",
        Sort::Requests => "requests",
        Sort::Errors => "errors",
        Sort::Latency => "time of a request",
        Sort::Name => "name",
    };
    let problem = view.problem.as_ref().map(|problem| Line::new(one_line(problem), Style::Alarm));
    let filter = match (view.is_typing, view.filter.as_str()) {
        (false, "") if view.all => "all sites are shown".to_owned(),
        (false, "") => String::new(),
        (true, filter) => format!("filter: {}_", printable(filter)),
        (false, filter) => format!("filter: {} ({shown} shown)", printable(filter)),
    };
    vec![
        Line::plain(format!(
            "howdah top  {time}  {active} of {} sites active, by {kind}",
            rows.len()
        )),
        Line::plain(format!(
            "now: {:.1} processors, {} requests/s, {} waiting, PHP memory {}",
            sum(|row| row.processors.unwrap_or(0.0)),
            rate(sum(|row| row.requests.unwrap_or(0.0))),
            sum(|row| row.waiting as f64),
            status::memory(status),
        )),
        Line::new(
            format!("last minute: {requests} requests, {errors} errors (5xx), {crashes} crashes"),
            if errors + crashes > 0.0 { Style::Alarm } else { Style::Plain },
        ),
        problem.unwrap_or_else(|| Line::plain(filter)),
    ]
}

fn headings(name: usize) -> String {
    let mut text = format!("{:<name$}", "SITE");
    for (heading, width, _) in NUMBERS {
        text.push_str(&format!(" {heading:>width$}"));
    }
    text + "  WHAT IS UNUSUAL"
}

fn line(row: &Row, name: usize, width: usize) -> String {
    let dash = || "-".to_owned();
    let numbers = [
        row.processors.map_or_else(dash, |used| format!("{:.0}", used * 100.0)),
        bytes(row.memory),
        row.requests.map_or_else(dash, rate),
        row.errors.to_string(),
        row.seconds.map_or_else(dash, seconds),
        row.waiting.to_string(),
    ];
    let mut text = format!("{:<name$}", cut(&printable(&row.site), name));
    for (number, (_, width, _)) in numbers.into_iter().zip(NUMBERS) {
        text.push_str(&format!(" {number:>width$}"));
    }
    let notices: Vec<_> = row.notices.iter().map(|notice| printable(&notice.text)).collect();
    text.push_str("  ");
    text.push_str(&notices.join(", "));
    cut(&text, width)
}

/// Returns the lines of the help.
pub(super) fn help(size: (usize, usize)) -> Vec<Line> {
    let mut lines = vec![
        Line::new("howdah top: keys", Style::Heading),
        Line::plain("  Up Down j k PgUp PgDn Home End   select a site; the wheel scrolls"),
        Line::plain("  Enter, or a click                details of the site; Esc leads back"),
        Line::plain("  /                                sites with this in their names; Esc: all"),
        Line::plain("  a                                idle sites, too"),
        Line::plain("  Space                            ask the server now"),
        Line::plain("  q, Ctrl-C                        quit;  Ctrl-Z  suspend"),
        Line::plain(""),
        Line::plain("Order (or a click on a heading):"),
    ];
    for (key, sort) in SORTS {
        lines.push(Line::plain(format!(
            "  {key}  {}",
            match sort {
                Sort::Trouble =>
                    "trouble: crashes, growing memory, programs, a flood of the log, …",
                Sort::Processor => "CPU%   processors in use; 100 is one of them",
                Sort::Memory => "MEM    private memory of all processes",
                Sort::Requests => "REQ/S  requests a second",
                Sort::Errors => "5XX    responses with a status of 500 or above in a minute",
                Sort::Latency => "TIME   time of a request, or of one that runs longer",
                Sort::Name => "name",
            }
        )));
    }
    fill(lines, "any key leads back", size)
}

/// Cuts lines to the screen, and puts a last line at its end.
pub(super) fn fill(mut lines: Vec<Line>, last: &str, size: (usize, usize)) -> Vec<Line> {
    let (width, height) = size;
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(Line::plain(last));
    lines.truncate(height);
    for line in &mut lines {
        line.text = cut(line.text.trim_end(), width);
    }
    lines
}
