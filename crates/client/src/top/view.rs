//! What the user has chosen: order, filter, position; and what keys change. No I/O.

use howdah_watch::Row;

use super::keys::Key;
use super::layout::{FIRST_ROW, HEADING_ROW, heading_at, list_height};
use crate::args::top::Sort;

/// The orders with their keys.
pub(super) const SORTS: [(char, Sort); 7] = [
    ('t', Sort::Trouble),
    ('c', Sort::Processor),
    ('m', Sort::Memory),
    ('r', Sort::Requests),
    ('e', Sort::Errors),
    ('l', Sort::Latency),
    ('n', Sort::Name),
];

/// The choices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) sort: Sort,
    /// Idle sites are shown, too.
    pub(super) all: bool,
    /// Part of the names of sites that are shown, in any case.
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// Index of the first site on the screen, and of the selected one.
    pub(super) first: usize,
    pub(super) selected: usize,
    /// The site whose details are shown.
    pub(super) detail: Option<String>,
    pub(super) help: bool,
    /// Reason why the server does not answer.
    pub(super) problem: Option<String>,
}

/// What the terminal must do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Draw again.
    Draw,
    /// Ask the server at once.
    Ask,
    Suspend,
    Quit,
}

impl View {
    /// Returns the sites that are shown, in their order.
    pub(super) fn choose<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let filter = self.filter.to_lowercase();
        let is_shown =
            |row: &&Row| (self.all || row.active) && row.site.to_lowercase().contains(&filter);
        let mut shown: Vec<_> = rows.iter().filter(is_shown).collect();
        let number = |row: &Row| match self.sort {
            Sort::Trouble => row.notices.iter().map(|notice| f64::from(notice.rank)).sum(),
            Sort::Processor => row.processors.unwrap_or(0.0),
            Sort::Memory => row.memory as f64,
            Sort::Requests => row.requests.unwrap_or(0.0),
            Sort::Errors => (row.errors + row.crashes) as f64,
            Sort::Latency => row.seconds.unwrap_or(0.0),
            Sort::Name => 0.0,
        };
        // Stable: sites with the same number stay in the order of their names.
        shown.sort_by(|a, b| {
            let then = b.processors.unwrap_or(0.0).total_cmp(&a.processors.unwrap_or(0.0));
            let same = if self.sort == Sort::Trouble { then } else { std::cmp::Ordering::Equal };
            number(b).total_cmp(&number(a)).then(same)
        });
        shown
    }

    /// Keeps the position on a list of this length.
    pub(super) fn keep_within(&mut self, length: usize, size: (usize, usize)) {
        let height = list_height(size);
        self.selected = self.selected.min(length.saturating_sub(1));
        self.first = self.first.min(length.saturating_sub(height)).min(self.selected);
        if self.selected >= self.first + height {
            self.first = self.selected + 1 - height;
        }
    }

    /// Handles a key; `shown` are the names on the list.
    pub(super) fn on(&mut self, key: Key, shown: &[&str], size: (usize, usize)) -> Outcome {
        let outcome = self.handle(key, shown, size);
        self.keep_within(shown.len(), size);
        outcome
    }

    fn handle(&mut self, key: Key, shown: &[&str], size: (usize, usize)) -> Outcome {
        match key {
            Key::Interrupt => return Outcome::Quit,
            Key::Suspend => return Outcome::Suspend,
            _ if self.is_typing => return self.type_filter(key),
            _ if self.help => {
                self.help = false;
                return if key == Key::Char('q') { Outcome::Quit } else { Outcome::Draw };
            }
            _ => {}
        }
        let page = list_height(size).saturating_sub(1).max(1);
        match key {
            Key::Char('q' | 'Q') => return Outcome::Quit,
            Key::Char('h' | '?') => self.help = true,
            Key::Char(' ') => return Outcome::Ask,
            Key::Escape | Key::Backspace if self.detail.is_some() => self.detail = None,
            Key::Escape => self.filter.clear(),
            _ if self.detail.is_some() => {}
            Key::Char('/') => self.is_typing = true,
            Key::Char('a') => self.all = !self.all,
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected += 1,
            Key::PageUp => self.selected = self.selected.saturating_sub(page),
            Key::PageDown => self.selected += page,
            Key::Home => self.selected = 0,
            Key::End => self.selected = shown.len(),
            Key::WheelUp => self.selected = self.selected.saturating_sub(3),
            Key::WheelDown => self.selected += 3,
            Key::Enter => return self.open(shown.get(self.selected)),
            Key::Click { column, row: HEADING_ROW } => {
                if let Some(sort) = heading_at(column, size.0) {
                    self.sort_by(sort);
                }
            }
            Key::Click { row, .. } => {
                let index = row.checked_sub(FIRST_ROW).filter(|index| *index < list_height(size));
                let index = index.map(|index| index + self.first);
                if let Some((index, site)) = index.and_then(|at| Some((at, shown.get(at)?))) {
                    self.selected = index;
                    return self.open(Some(site));
                }
            }
            Key::Char(c) => {
                if let Some((_, sort)) = SORTS.into_iter().find(|(key, _)| *key == c) {
                    self.sort_by(sort);
                }
            }
            _ => {}
        }
        Outcome::Draw
    }

    fn type_filter(&mut self, key: Key) -> Outcome {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter | Key::Up | Key::Down => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        (self.first, self.selected) = (0, 0);
        Outcome::Draw
    }

    fn sort_by(&mut self, sort: Sort) {
        (self.sort, self.first, self.selected) = (sort, 0, 0);
    }

    fn open(&mut self, site: Option<&&str>) -> Outcome {
        self.detail = site.map(|site| (*site).to_owned());
        if self.detail.is_some() { Outcome::Ask } else { Outcome::Draw }
    }
}
