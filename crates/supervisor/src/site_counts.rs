//! What sites have used, by month. No I/O, no clock.
//!
//! The file of a month is loaded once, and what was counted meanwhile is added to it. A month is
//! stored only after that. So a clock that jumps to another month, and back, loses nothing.
//!
//! The router tells the numbers, and an attacker may have taken it over: names and their number are
//! limited, and numbers only grow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use howdah_questions::{SiteUsage, Usage};
use howdah_wire::messages::MAX_SITE_NAME;
use serde::{Deserialize, Serialize};

/// Time from a count until it is stored, at most. A crash loses as much.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of names in a month, beside those that the configuration defines.
const MAX_NAMES: usize = 10_000;

/// Maximum number of months in memory.
const MAX_MONTHS: usize = 40;

/// Name of what is counted for no site because there are too many names.
const OTHER: &str = "(other)";

/// The counts of all months in memory.
#[derive(Debug)]
pub(crate) struct SiteCounts {
    months: BTreeMap<String, Month>,
    /// Counts since another server was told to take over; it does not have them.
    since_hand_over: Option<Vec<Usage>>,
    /// This server stores the counts. Otherwise it keeps them for the one that does.
    is_owner: bool,
    save_due: Option<Instant>,
}

/// A month, as one server hands it over to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedMonth {
    usage: Usage,
    /// The counts of the file are among them.
    is_loaded: bool,
}

#[derive(Debug, Default)]
struct Month {
    usage: Usage,
    file: FileState,
    is_changed: bool,
    is_saving: bool,
}

/// State of the file of a month.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum FileState {
    #[default]
    Unread,
    Reading,
    /// It could not be read.
    Failed,
    /// Its counts are in memory.
    Read,
}

/// What has to be done with the file of a month.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read it.
    Load(String),
    /// Store these counts.
    Save(Usage),
}

impl Default for SiteCounts {
    fn default() -> Self {
        let (months, since_hand_over, save_due) = Default::default();
        SiteCounts { months, since_hand_over, is_owner: true, save_due }
    }
}

impl SiteCounts {
    /// Counts for a site. `is_known`: the configuration defines the name.
    pub(crate) fn count(
        &mut self,
        month: &str,
        site: &str,
        is_known: bool,
        used: SiteUsage,
        now: Instant,
    ) {
        if used == SiteUsage::default() {
            return;
        }
        let counted = self.month(month);
        let is_new = !counted.usage.sites.contains_key(site);
        let is_full = is_new && !is_known && counted.usage.sites.len() >= MAX_NAMES;
        let site = if is_full || site.len() > MAX_SITE_NAME { OTHER } else { site };
        add(&mut counted.usage, site, used);
        counted.is_changed = true;
        if let Some(since) = &mut self.since_hand_over {
            match since.iter_mut().find(|usage| usage.month == month) {
                Some(usage) => add(usage, site, used),
                None => {
                    let mut usage = Usage { month: month.to_owned(), ..Usage::default() };
                    add(&mut usage, site, used);
                    since.push(usage);
                }
            }
        }
        self.save_due.get_or_insert(now + SAVE_INTERVAL);
    }

    /// Returns the counts of a month; `None` if its file is not read yet, which is due then.
    pub(crate) fn of_month(&mut self, month: &str) -> Result<Option<&Usage>, &'static str> {
        if !self.is_owner {
            return Err("another server that takes this one's place has the counts; ask again");
        }
        if !self.has_room(month) {
            return Err("too many months are asked for; ask again in a minute");
        }
        let found = self.month(month);
        if found.file == FileState::Failed {
            found.file = FileState::Unread;
        }
        found.usage.sites.sort_unstable_keys();
        Ok((found.file == FileState::Read).then_some(&found.usage))
    }

    /// Returns the files to read and to store; `is_end`: even if it is not time yet. Months that
    /// have passed and are stored are forgotten, except without files (`has_files`).
    pub(crate) fn work(
        &mut self,
        current: &str,
        has_files: bool,
        is_end: bool,
        now: Instant,
    ) -> Vec<Work> {
        if !self.is_owner {
            return Vec::new();
        }
        let is_due = is_end || self.save_due.take_if(|due| *due <= now).is_some();
        let mut work = Vec::new();
        for (name, month) in &mut self.months {
            match month.file {
                _ if !has_files => (month.file, month.is_changed) = (FileState::Read, false),
                FileState::Unread => {
                    month.file = FileState::Reading;
                    work.push(Work::Load(name.clone()));
                }
                FileState::Read if is_due && month.is_changed && !month.is_saving => {
                    (month.is_changed, month.is_saving) = (false, true);
                    month.usage.sites.sort_unstable_keys();
                    work.push(Work::Save(month.usage.clone()));
                }
                FileState::Failed if is_due => {
                    month.file = FileState::Reading;
                    work.push(Work::Load(name.clone()));
                }
                FileState::Reading | FileState::Failed | FileState::Read => {}
            }
        }
        if has_files {
            self.months.retain(|name, month| {
                name == current
                    || month.is_changed
                    || month.is_saving
                    || month.file != FileState::Read
            });
        } else {
            while self.months.len() > MAX_MONTHS / 2 {
                self.months.pop_first();
            }
        }
        if self.months.values().any(|month| month.is_changed) {
            self.save_due.get_or_insert(now + SAVE_INTERVAL);
        }
        work
    }

    /// Adds the counts of a file. `None`: there is no file.
    pub(crate) fn loaded(&mut self, month: &str, stored: Option<Usage>) {
        let Some(found) = self.months.get_mut(month) else { return };
        if found.file == FileState::Reading {
            found.file = FileState::Read;
            stored.into_iter().for_each(|stored| add_all(&mut found.usage, stored));
        }
    }

    /// A file could not be read. It is tried again with the next count that is stored.
    pub(crate) fn load_failed(&mut self, month: &str) {
        if let Some(found) = self.months.get_mut(month) {
            found.file = FileState::Failed;
            if !found.is_changed {
                self.months.remove(month);
            }
        }
    }

    /// A month was stored, or could not be, and is stored later.
    pub(crate) fn saved(&mut self, month: &str, is_done: bool, now: Instant) {
        let Some(found) = self.months.get_mut(month) else { return };
        found.is_saving = false;
        if !is_done {
            found.is_changed = true;
            self.save_due.get_or_insert(now + SAVE_INTERVAL);
        }
    }

    /// Returns true while counts are not stored.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.is_owner && self.months.values().any(|month| month.is_changed || month.is_saving)
    }

    /// Returns the time of the next [`SiteCounts::work`]; `None` if there is none.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let is_unread = |month: &Month| month.file == FileState::Unread;
        let unread = self.months.values().any(is_unread).then_some(now);
        unread.or(self.save_due).filter(|_| self.is_owner)
    }

    /// Lets another server store the counts until this one takes over.
    pub(crate) fn stand_by(&mut self) {
        self.is_owner = false;
    }

    /// Stores the counts from now on, beginning with those of the server before, if it has handed
    /// them over.
    pub(crate) fn take_over(&mut self, handed: Vec<HandedMonth>, now: Instant) {
        self.is_owner = true;
        self.since_hand_over = None;
        for HandedMonth { usage, is_loaded } in handed {
            let month = self.month(&usage.month);
            if is_loaded {
                month.file = FileState::Read;
            }
            month.is_changed = true;
            add_all(&mut month.usage, usage);
        }
        self.save_due = Some(now + SAVE_INTERVAL);
    }

    /// Returns the counts for another server that takes over. This one continues until
    /// [`SiteCounts::handed_over`].
    pub(crate) fn hand_over(&mut self) -> Vec<HandedMonth> {
        self.since_hand_over = Some(Vec::new());
        let of = |month: &Month| HandedMonth {
            usage: month.usage.clone(),
            is_loaded: month.file == FileState::Read,
        };
        self.months.values().filter(|month| !month.usage.sites.is_empty()).map(of).collect()
    }

    /// The other server has taken over: it gets what is counted further.
    pub(crate) fn handed_over(&mut self) {
        self.is_owner = false;
        self.months.clear();
        let since = self.since_hand_over.take().unwrap_or_default();
        self.put_back(since);
    }

    /// The other server has not taken over.
    pub(crate) fn keep(&mut self) {
        self.since_hand_over = None;
    }

    /// Takes the counts for the server that stores them.
    pub(crate) fn take_counted(&mut self) -> Vec<Usage> {
        std::mem::take(&mut self.months).into_values().map(|month| month.usage).collect()
    }

    /// Keeps counts that could not be sent.
    pub(crate) fn put_back(&mut self, counted: Vec<Usage>) {
        for usage in counted {
            let month = self.month(&usage.month);
            month.is_changed = true;
            add_all(&mut month.usage, usage);
        }
    }

    /// Adds the counts of a server that finishes its requests.
    pub(crate) fn add(&mut self, counted: Vec<Usage>, now: Instant) {
        self.put_back(counted);
        self.save_due.get_or_insert(now + SAVE_INTERVAL);
    }

    fn has_room(&self, month: &str) -> bool {
        self.months.len() < MAX_MONTHS || self.months.contains_key(month)
    }

    fn month(&mut self, name: &str) -> &mut Month {
        self.months.entry(name.to_owned()).or_insert_with(|| Month {
            usage: Usage { month: name.to_owned(), ..Usage::default() },
            ..Month::default()
        })
    }
}

fn add(usage: &mut Usage, site: &str, used: SiteUsage) {
    match usage.sites.get_mut(site) {
        Some(counted) => counted.add(used),
        None => usage.sites.entry(site.to_owned()).or_default().add(used),
    }
}

fn add_all(usage: &mut Usage, other: Usage) {
    other.sites.iter().for_each(|(site, used)| add(usage, site, *used));
}

#[cfg(test)]
mod tests;
