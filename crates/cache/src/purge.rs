//! Purges: marks with a number that entries are compared with when they are used. Purging takes no
//! scan of the entries, and takes effect at once for all threads.
//!
//! Each purge has the next number. An entry has the number of the last purge before the request
//! that it answers; it is purged if a later purge concerns it, also if that purge came while the
//! response was being computed. The number of marks is limited: the oldest are replaced by one for
//! all entries of their time. Marks are in groups, one for each application, so that only its own
//! entries are concerned, also if it purges without end.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use howdah_questions::Purge;

use crate::entry::Entry;
use crate::place::{Place, Subject};

/// Maximum number of marks of subjects for all applications.
const MAX_MARKS: usize = 1 << 16;

/// Maximum number of marks of subjects for one application.
const MAX_OWN_MARKS: usize = 1 << 12;

/// Maximum number of marks of prefixes in a group.
const MAX_PREFIXES: usize = 256;

/// Maximum bytes of the hosts and paths of these prefixes.
const MAX_PREFIX_BYTES: usize = 1 << 20;

/// State of an entry with regard to purges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No purge concerns it.
    Valid,
    /// Stale since this time, in seconds since 1970.
    Stale(u64),
    /// Removed.
    Gone,
}

/// The purges of a store.
#[derive(Debug)]
pub struct Purges {
    /// Number of purges.
    count: AtomicU64,
    /// Purges of the entries of all applications.
    everyone: Group,
}

/// Purges that concern the same entries; by default, those of one application.
#[derive(Debug)]
pub struct Group {
    /// Number of the last purge.
    last: AtomicU64,
    marks: RwLock<Marks>,
    max_marks: usize,
}

impl Default for Purges {
    fn default() -> Self {
        let everyone = Group { max_marks: MAX_MARKS, ..Group::default() };
        Purges { count: AtomicU64::default(), everyone }
    }
}

impl Default for Group {
    fn default() -> Self {
        let (last, marks) = (AtomicU64::default(), RwLock::default());
        Group { last, marks, max_marks: MAX_OWN_MARKS }
    }
}

#[derive(Debug, Default)]
struct Marks {
    subjects: HashMap<Subject, Mark>,
    prefixes: Vec<(Option<Vec<u8>>, Vec<u8>, Mark)>,
    /// Entries with a lower number are gone.
    floor: u64,
}

/// Numbers of the last purges of a subject; 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of the last purge.
    pub hard: u64,
    /// Number of the last soft purge.
    pub soft: u64,
    /// Time of the last soft purge, in seconds since 1970.
    pub soft_at: u64,
}

impl Mark {
    /// Returns the number of the last purge of either kind.
    pub fn last(&self) -> u64 {
        self.hard.max(self.soft)
    }

    /// Adds the purges of another mark.
    fn add(&mut self, other: Mark) {
        self.hard = self.hard.max(other.hard);
        if other.soft > self.soft {
            (self.soft, self.soft_at) = (other.soft, other.soft_at);
        }
    }
}

/// The entries that a mark concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkOf {
    /// Entries with one of these subjects.
    Subjects(Vec<Subject>),
    /// Entries whose path begins so.
    Prefix {
        /// Host; all if `None`.
        host: Option<Vec<u8>>,
        /// Beginning of the decoded path.
        path: Vec<u8>,
    },
}

/// The effect of a purge on a group, for those that keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Entries with a lower number are gone.
    Floor(u64),
    /// Entries with one of these marks are purged.
    Marks(MarkOf, Mark),
}

impl Purges {
    /// Returns the number of purges so far.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Lets the next numbers be greater than this one.
    pub fn skip_to(&self, number: u64) {
        self.count.fetch_max(number, Relaxed);
    }

    /// Returns the group of all applications.
    pub fn everyone(&self) -> &Group {
        &self.everyone
    }

    /// Purges entries of all applications; softly, they are stale from `now` on.
    pub fn purge(&self, what: &Purge, is_soft: bool, now: u64) -> Effect {
        self.purge_in(&self.everyone, what, is_soft, now)
    }

    /// Purges entries of one application. Returns the effect, which has taken place.
    pub fn purge_in(&self, group: &Group, what: &Purge, is_soft: bool, now: u64) -> Effect {
        let mut marks = group.marks.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Under the lock, so that a reader that sees the number sees the mark too.
        let number = self.count.fetch_add(1, Relaxed) + 1;
        group.last.store(number, Relaxed);
        let mark = if is_soft {
            Mark { hard: 0, soft: number, soft_at: now }
        } else {
            Mark { hard: number, ..Mark::default() }
        };
        let subjects = match what {
            Purge::All if !is_soft => {
                *marks = Marks { floor: number, ..Marks::default() };
                return Effect::Floor(number);
            }
            Purge::All => vec![Subject::all()],
            Purge::Host(host) => vec![Subject::host(host)],
            // Entries for several queries are purged with each of them.
            Purge::Url { host, path, query } => {
                vec![Subject::url(host, path, query), Subject::path(host, path)]
            }
            Purge::Tags { host, tags } => {
                let tags = tags.iter().map(|tag| Subject::tag(tag));
                let of_host = |tag| match host {
                    Some(host) => Subject::tag_of_host(host, tag),
                    None => tag,
                };
                tags.map(of_host).collect()
            }
            Purge::Prefix { host, path } => {
                let of = MarkOf::Prefix { host: host.clone(), path: path.clone() };
                marks.add(&of, mark, group.max_marks);
                return Effect::Marks(of, mark);
            }
        };
        let of = MarkOf::Subjects(subjects);
        marks.add(&of, mark, group.max_marks);
        Effect::Marks(of, mark)
    }

    /// Judges an entry by the purges of all applications and of its own.
    pub fn judge(&self, entry: &Entry, own: &Group) -> Verdict {
        let last = self.everyone.last.load(Relaxed).max(own.last.load(Relaxed));
        if entry.checked.load(Relaxed) >= last {
            return Verdict::Valid;
        }
        let judge = |group: &Group| {
            let marks = group.marks.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            marks.judge(&entry.place, entry.epoch)
        };
        let verdict = match (judge(&self.everyone), judge(own)) {
            (Verdict::Gone, _) | (_, Verdict::Gone) => Verdict::Gone,
            (Verdict::Stale(one), Verdict::Stale(other)) => Verdict::Stale(one.min(other)),
            (Verdict::Valid, verdict) | (verdict, Verdict::Valid) => verdict,
        };
        if verdict == Verdict::Valid {
            entry.checked.fetch_max(last, Relaxed);
        }
        verdict
    }
}

impl Group {
    /// Repeats the effect of a purge that took place before a restart.
    pub fn repeat(&self, effect: &Effect) {
        let mut marks = self.marks.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let number = match effect {
            Effect::Floor(number) => {
                marks.floor = marks.floor.max(*number);
                *number
            }
            Effect::Marks(of, mark) => {
                marks.add(of, *mark, self.max_marks);
                mark.last()
            }
        };
        self.last.fetch_max(number, Relaxed);
    }

    /// Returns the effects of all purges.
    pub fn effects(&self) -> Vec<Effect> {
        let marks = self.marks.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let floor = (marks.floor > 0).then_some(Effect::Floor(marks.floor));
        let subjects = marks.subjects.iter();
        let subjects = subjects.map(|(one, mark)| (MarkOf::Subjects(vec![*one]), *mark));
        let prefixes = marks.prefixes.iter().map(|(host, path, mark)| {
            (MarkOf::Prefix { host: host.clone(), path: path.clone() }, *mark)
        });
        let marks = subjects.chain(prefixes).map(|(of, mark)| Effect::Marks(of, mark));
        floor.into_iter().chain(marks).collect()
    }

    /// Returns the number below which all entries are gone.
    pub fn floor(&self) -> u64 {
        self.marks.read().unwrap_or_else(|poisoned| poisoned.into_inner()).floor
    }
}

impl Marks {
    fn add(&mut self, of: &MarkOf, mark: Mark, max: usize) {
        match of {
            MarkOf::Subjects(subjects) => subjects.iter().for_each(|subject| {
                self.subjects.entry(*subject).or_default().add(mark);
            }),
            MarkOf::Prefix { host, path } => {
                let known = self.prefixes.iter_mut().find(|(h, p, _)| h == host && p == path);
                match known {
                    Some((_, _, known)) => known.add(mark),
                    None => self.prefixes.push((host.clone(), path.clone(), mark)),
                }
            }
        }
        self.limit(max);
    }

    fn judge(&self, place: &Place, epoch: u64) -> Verdict {
        if epoch < self.floor {
            return Verdict::Gone;
        }
        let host = Subject::host(place.host());
        let general = [Subject::all(), host, place.url];
        let tags = place.tags.iter().copied();
        let tags = tags.flat_map(|tag| [tag, Subject::tag_of_host(place.host(), tag)]);
        let subjects = general.into_iter().chain(tags);
        let found = subjects.filter_map(|subject| self.subjects.get(&subject));
        let prefixes = self.prefixes.iter().filter_map(|(host, path, mark)| {
            let is_host = host.as_deref().is_none_or(|host| host == place.host());
            (is_host && place.path().starts_with(path)).then_some(mark)
        });
        let mut verdict = Verdict::Valid;
        for mark in found.chain(prefixes) {
            if mark.hard > epoch {
                return Verdict::Gone;
            }
            if mark.soft > epoch {
                verdict = match verdict {
                    Verdict::Stale(at) => Verdict::Stale(at.min(mark.soft_at)),
                    _ => Verdict::Stale(mark.soft_at),
                };
            }
        }
        verdict
    }

    /// Returns true if the prefixes are too many or too long.
    fn has_too_many_prefixes(&self) -> bool {
        let bytes = |(host, path, _): &(Option<Vec<u8>>, Vec<u8>, Mark)| {
            host.as_ref().map_or(0, Vec::len) + path.len()
        };
        self.prefixes.len() > MAX_PREFIXES
            || self.prefixes.iter().map(bytes).sum::<usize>() > MAX_PREFIX_BYTES
    }

    /// Replaces the older half of the marks by a floor while there are too many.
    fn limit(&mut self, max: usize) {
        while self.subjects.len() > max || self.has_too_many_prefixes() {
            self.drop_older_half();
        }
    }

    fn drop_older_half(&mut self) {
        let last = Mark::last;
        let numbers = |marks: &mut Vec<u64>| {
            let middle = marks.len() / 2;
            marks.select_nth_unstable(middle).1.to_owned()
        };
        let mut all: Vec<_> = if self.has_too_many_prefixes() {
            self.prefixes.iter().map(|(_, _, mark)| last(mark)).collect()
        } else {
            self.subjects.values().map(last).collect()
        };
        self.floor = self.floor.max(numbers(&mut all));
        let floor = self.floor;
        self.subjects.retain(|_, mark| last(mark) > floor);
        self.prefixes.retain(|(_, _, mark)| last(mark) > floor);
    }
}

#[cfg(test)]
mod tests;
