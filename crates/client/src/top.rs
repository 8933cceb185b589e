//! `howdah top`: which site hurts, and why; until `q` is pressed, or once.
//!
//! `howdah-watch` makes a table of the samples of the status, `view` has the choices of the user, `layout`
//! and `detail` make lines of them; only this file and `terminal` talk to the server and the
//! terminal.

mod detail;
mod keys;
mod layout;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use howdah_questions::LastRequests;
use howdah_sys::clock;
use howdah_watch::{History, Row};
use serde_json::json;

use self::detail::Detail;
use self::terminal::{Terminal, Wake};
use self::view::{Outcome, View};
use crate::args::top::TopArgs;
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::output::{json_text, write_out};
use crate::pools::Pool;

/// Number of requests that the details of a site ask for.
const REQUESTS: usize = 10;

/// Shows the sites until `q` is pressed; once without a terminal.
pub(super) fn run(client: &Client, args: &TopArgs) -> Result<(), Failure> {
    let filter = args.site.clone().unwrap_or_default();
    let mut top = Top {
        client,
        begun: Instant::now(),
        history: History::default(),
        rows: Vec::new(),
        view: View { sort: args.sort, all: args.all, filter, ..View::default() },
        detail: Detail::default(),
        detail_at: None,
    };
    let pause = Duration::from_secs_f64(args.interval);
    // Without a server, this fails before the screen opens.
    top.sample()?;
    let is_screen = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_screen && !args.once && !args.json {
        top.watch(pause)
    } else {
        top.once(pause, args.json)
    }
}

struct Top<'a> {
    client: &'a Client,
    begun: Instant,
    history: History,
    rows: Vec<Row>,
    view: View,
    detail: Detail,
    /// Time of the last question about the site that is shown.
    detail_at: Option<Instant>,
}

impl Top<'_> {
    fn sample(&mut self) -> Result<(), Failure> {
        let status = self.client.get("/status")?;
        self.history.add(status, self.begun.elapsed());
        self.rows = self.history.rows();
        self.sample_detail()
    }

    /// Asks about the site that is shown, if there is one. A server of another version does not keep
    /// requests.
    fn sample_detail(&mut self) -> Result<(), Failure> {
        let Some(site) = self.view.detail.as_deref() else {
            (self.detail, self.detail_at) = (Detail::default(), None);
            return Ok(());
        };
        let name = encode(site);
        let now = Instant::now();
        let before = self.detail.pool.take().zip(self.detail_at.map(|at| now - at));
        let requests = |what: &str| {
            let target = format!("/requests?site={name}&limit={REQUESTS}&{what}");
            let answer = self.client.get::<LastRequests>(&target);
            answer.map(|answer| answer.requests.into_iter().rev().collect::<Vec<_>>())
        };
        let detail = Detail {
            // Sites without PHP have none.
            pool: self.optional(self.client.get::<Pool>(&format!("/pools/{name}")))?,
            before,
            errors: self.optional(requests("status=5xx"))?.unwrap_or_default(),
            slow: self.optional(requests("slow=1"))?.unwrap_or_default(),
        };
        (self.detail, self.detail_at) = (detail, Some(now));
        Ok(())
    }

    fn optional<T>(&self, answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Failed(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Prints the table or JSON. Rates need a second sample.
    fn once(&mut self, pause: Duration, is_json: bool) -> Result<(), Failure> {
        std::thread::sleep(pause);
        self.sample()?;
        if is_json {
            let rows = self.view.choose(&self.rows);
            let rows = serde_json::to_value(rows);
            let rows = rows.map_err(|error| Failure::Failed(error.to_string()))?;
            return write_out(&json_text(&json!({ "sites": rows })));
        }
        let lines = layout::plain(&self.view, &self.rows, &self.history.status, &local_time());
        write_out(&(lines.join("\n") + "\n"))
    }

    /// Shows a screen until the user or a signal ends it.
    fn watch(&mut self, pause: Duration) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::Failed(format!("the terminal: {error}"));
        let terminal = Terminal::open().map_err(failed)?;
        let mut next = Instant::now() + pause;
        loop {
            let size = terminal.size();
            terminal.draw(&self.screen(size), size).map_err(failed)?;
            let left = next.saturating_duration_since(Instant::now());
            let mut must_ask = false;
            match terminal.wait(left).map_err(failed)? {
                Wake::End => return Ok(()),
                Wake::Redraw => {}
                Wake::Suspend => terminal.suspend().map_err(failed)?,
                Wake::Timeout => must_ask = true,
                Wake::Keys(keys) => {
                    for key in keys {
                        let shown = self.view.choose(&self.rows);
                        let shown: Vec<_> = shown.iter().map(|row| row.site.as_str()).collect();
                        match self.view.on(key, &shown, size) {
                            Outcome::Draw => {}
                            Outcome::Ask => must_ask = true,
                            Outcome::Suspend => terminal.suspend().map_err(failed)?,
                            Outcome::Quit => return Ok(()),
                        }
                    }
                }
            }
            if must_ask {
                self.view.problem = match self.sample() {
                    // The server may be restarting.
                    Err(Failure::Unreachable(problem) | Failure::Failed(problem)) => {
                        self.history.clear();
                        self.rows.clear();
                        Some(problem)
                    }
                    Ok(()) | Err(Failure::PartsOut(_)) => None,
                };
                next = Instant::now() + pause;
            }
        }
    }

    fn screen(&mut self, size: (usize, usize)) -> Vec<layout::Line> {
        let time = local_time();
        let none = Row::default();
        if self.view.help {
            return layout::help(size);
        }
        if let Some(site) = &self.view.detail {
            let row = self.rows.iter().find(|row| row.site == *site);
            let unknown = Row { site: site.clone(), ..none };
            return detail::screen(row.unwrap_or(&unknown), &self.detail, &time, size);
        }
        let shown = self.view.choose(&self.rows).len();
        self.view.keep_within(shown, size);
        layout::list(&self.view, &self.rows, &self.history.status, &time, size)
    }
}

fn local_time() -> String {
    let mut time = String::new();
    clock::local_time(&mut time);
    time
}
