//! What the page shows: rows and histories of sites, and the pages that are open.

mod events;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use howdah_questions::Status;
use howdah_watch::{Figures, Histories, History, Range, Row};
use serde_json::{Map, Value, json};

use crate::Problem;
use crate::frames;

pub(crate) use self::events::Events;
use self::events::{Subscriber, message};

/// Maximum number of sites of a question about histories.
pub(crate) const MAX_ASKED: usize = 100;

/// What the last samples of the status have, and the pages that are told of it.
#[derive(Debug, Default)]
pub(crate) struct State {
    watched: RefCell<Watched>,
    pages: RefCell<Vec<Weak<Subscriber>>>,
}

#[derive(Debug, Default)]
struct Watched {
    history: History,
    histories: Histories,
    /// The number and the frame of each site.
    sites: HashMap<String, (u32, Value)>,
    last_id: u32,
    server: Value,
    total: Value,
    /// The second of the last sample, since the start.
    second: u64,
    /// Reason why the server does not answer.
    problem: Option<String>,
}

impl State {
    /// Takes a sample, and tells all pages about the differences. `at` is the time since the start.
    pub(crate) fn on_sample(&self, sample: Result<Status, Problem>, at: Duration) {
        let message = self.watched.borrow_mut().take(sample, at);
        self.pages.borrow_mut().retain(|page| match page.upgrade() {
            Some(page) => {
                page.send(&message);
                true
            }
            None => false,
        });
    }

    /// Adds a page.
    pub(crate) fn open(&self, session: u64) -> Rc<Subscriber> {
        let page = Rc::new(Subscriber::new(session));
        let mut pages = self.pages.borrow_mut();
        pages.retain(|page| page.strong_count() > 0);
        pages.push(Rc::downgrade(&page));
        page
    }

    /// Returns the sessions of the open pages.
    pub(crate) fn open_sessions(&self) -> Vec<u64> {
        self.pages.borrow().iter().filter_map(Weak::upgrade).map(|page| page.session).collect()
    }

    /// Ends the pages of sessions that are no more.
    pub(crate) fn close_unless(&self, is_open: impl Fn(u64) -> bool) {
        let pages = self.pages.borrow();
        let pages = pages.iter().filter_map(Weak::upgrade);
        pages.filter(|page| !is_open(page.session)).for_each(|page| page.end());
    }

    /// Returns a message with everything.
    pub(crate) fn everything(&self) -> Bytes {
        let watched = self.watched.borrow();
        let sites: Vec<_> = watched.sites.values().map(|(_, frame)| frame).collect();
        let mut data = watched.head();
        data.insert("sites".to_owned(), json!(sites));
        data.insert("server".to_owned(), watched.server.clone());
        message("all", &Value::Object(data))
    }

    /// Returns the histories of sites by their numbers, and that of the server as 0.
    pub(crate) fn histories(&self, ids: &[u32], range: Range) -> Value {
        let watched = self.watched.borrow();
        let points = |site: Option<&str>| {
            frames::points(&watched.histories.points(site, range, watched.second))
        };
        let mut found = Map::new();
        if ids.contains(&0) {
            found.insert("0".to_owned(), points(None));
        }
        for (name, (id, _)) in watched.sites.iter().filter(|(_, (id, _))| ids.contains(id)) {
            found.insert(id.to_string(), points(Some(name)));
        }
        json!({"second": watched.second, "points": range.points(), "sites": found})
    }

    /// Returns what the last status has about something.
    pub(crate) fn of_status<T>(&self, part: impl FnOnce(&Status) -> T) -> T {
        part(&self.watched.borrow().history.status)
    }
}

impl Watched {
    fn take(&mut self, sample: Result<Status, Problem>, at: Duration) -> Bytes {
        self.second = at.as_secs();
        match sample {
            Ok(status) => {
                self.problem = None;
                self.history.add(status, at);
            }
            Err(problem) => {
                self.problem = Some(problem.text().to_owned());
                self.history.clear();
                return message("tick", &Value::Object(self.head()));
            }
        }
        let rows = self.history.rows();
        self.histories.add(&rows, self.second);
        self.total = total(&rows, &self.history.status);
        let changed = self.changes(&rows);
        let mut data = self.head();
        data.insert("sites".to_owned(), json!(changed));
        let gone = self.remove_gone(&rows);
        if !gone.is_empty() {
            data.insert("gone".to_owned(), json!(gone));
        }
        let server = frames::server(&self.history.status);
        if server != self.server {
            data.insert("server".to_owned(), server.clone());
            self.server = server;
        }
        message("tick", &Value::Object(data))
    }

    /// Returns the members that every message has.
    fn head(&self) -> Map<String, Value> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut data = Map::new();
        data.insert("second".to_owned(), json!(self.second));
        data.insert("time".to_owned(), json!(time.as_millis() as u64));
        data.insert("total".to_owned(), self.total.clone());
        if let Some(problem) = &self.problem {
            data.insert("problem".to_owned(), json!(problem));
        }
        data
    }

    /// Returns the frames that differ from those before.
    fn changes(&mut self, rows: &[Row]) -> Vec<Value> {
        let mut changed = Vec::new();
        for row in rows {
            let known = self.sites.get(&row.site).map(|(id, _)| *id);
            let id = known.unwrap_or_else(|| {
                self.last_id = self.last_id.wrapping_add(1).max(1);
                self.last_id
            });
            let frame = frames::row(id, row);
            let before = self.sites.insert(row.site.clone(), (id, frame.clone()));
            if before.is_none_or(|(_, before)| before != frame) {
                changed.push(frame);
            }
        }
        changed
    }

    fn remove_gone(&mut self, rows: &[Row]) -> Vec<u32> {
        if self.sites.len() == rows.len() {
            return Vec::new();
        }
        // Rows are in the order of their names.
        let is_gone = |name: &String, _: &mut (u32, Value)| {
            rows.binary_search_by(|row| row.site.as_str().cmp(name)).is_err()
        };
        self.sites.extract_if(is_gone).map(|(_, (id, _))| id).collect()
    }
}

/// Returns the figures of the whole server, and numbers of connections and sites.
fn total(rows: &[Row], status: &Status) -> Value {
    let active = rows.iter().filter(|row| row.active).count();
    let failing = rows.iter().filter(|row| !row.notices.is_empty()).count();
    json!({
        "figures": frames::figures(Figures::of_server(rows)),
        "connections": [status.connections.active, status.connections.idle],
        "sites": [rows.len(), active, failing],
    })
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use howdah_http::body::BodyStream;

    use super::*;

    fn status(requests: u64) -> Status {
        serde_json::from_value(json!({
            "applications": {"calm": {}, "<b>": {"requests": {"active": 2}}},
            "sites": {"calm": {"requests": requests, "errors": 0, "total": {
                "requests": requests, "errors": 0, "time_us": requests * 1_000,
            }}},
        }))
        .unwrap()
    }

    /// Takes the messages that wait for a page.
    fn messages(events: &mut Events) -> Vec<(String, Value)> {
        let mut found = Vec::new();
        while let Poll::Ready(Some(bytes)) =
            events.poll_next(&mut Context::from_waker(Waker::noop()))
        {
            let text = String::from_utf8(bytes.unwrap().to_vec()).unwrap();
            let lines = text.strip_prefix("event: ").unwrap().strip_suffix("\n\n").unwrap();
            let (kind, data) = lines.split_once("\ndata: ").unwrap();
            found.push((kind.to_owned(), serde_json::from_str(data).unwrap()));
        }
        found
    }

    #[test]
    fn pages_are_told_of_differences_only() {
        let state = Rc::new(State::default());
        let sample = |requests, second| {
            state.on_sample(Ok(status(requests)), Duration::from_secs(second));
        };
        sample(1, 1);
        sample(1, 2);
        let mut page = Events { subscriber: state.open(1), state: Rc::clone(&state) };
        let first = messages(&mut page);
        let [(kind, all)] = &first[..] else { panic!("{first:?}") };
        assert_eq!((kind.as_str(), all["sites"].as_array().unwrap().len()), ("all", 2));
        sample(1, 3);
        sample(9, 4);
        let ticks = messages(&mut page);
        let [(_, same), (_, other)] = &ticks[..] else { panic!("{ticks:?}") };
        assert_eq!(same["sites"], json!([]));
        let changed = other["sites"].as_array().unwrap();
        assert_eq!((changed.len(), &changed[0][1]), (1, &json!("calm")));
        assert!(same.get("server").is_none() && other.get("gone").is_none());
        // A site that is no more.
        let rest = json!({"applications": {"<b>": {}}});
        state.on_sample(Ok(serde_json::from_value(rest).unwrap()), Duration::from_secs(5));
        assert_eq!(messages(&mut page)[0].1["gone"].as_array().unwrap().len(), 1);
        // A server that does not answer, and a page that is slow.
        for second in 6..20 {
            let problem = Problem::Unreachable("it hangs".to_owned());
            state.on_sample(Err(problem), Duration::from_secs(second));
        }
        let anew = messages(&mut page);
        assert_eq!((anew.len(), anew[0].0.as_str()), (1, "all"));
        assert_eq!(anew[0].1["problem"], "it hangs");
    }

    #[test]
    fn pages_of_a_session_end_with_it() {
        let state = Rc::new(State::default());
        let mut pages = [1, 2]
            .map(|session| Events { subscriber: state.open(session), state: Rc::clone(&state) });
        pages.iter_mut().for_each(|page| drop(messages(page)));
        state.close_unless(|session| session == 2);
        let ended = pages
            .each_mut()
            .map(|page| page.poll_next(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(ended, [true, false]);
        assert_eq!(state.open_sessions(), [1, 2]);
    }
}
