//! Ordered multi-map with names that are compared without case (Apache's `apr_table_t`): header
//! fields, notes and the environment of a request.

use std::fmt;
use std::ops::Range;

/// Names and values in the order of their insertion, in one buffer: a request has several tables,
/// and sub-requests copy them.
#[derive(Clone, Default)]
pub struct Table {
    text: Vec<u8>,
    entries: Vec<Entry>,
    /// Number of bytes of the text that have lost their entry.
    unused: usize,
}

/// An entry, as ranges in the text.
#[derive(Clone)]
struct Entry {
    name: Range<usize>,
    value: Range<usize>,
}

/// Least number of unused bytes for which the text is written anew.
const MIN_UNUSED: usize = 4096;

impl Table {
    /// Returns the first value of a name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Returns all values of a name, in order.
    pub fn all(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        let named = self.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value)
    }

    /// Replaces all values of a name by one, at the place of the first and with its spelling.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (name.as_ref(), value.as_ref());
        let Some(first) = self.iter().position(|(other, _)| other.eq_ignore_ascii_case(name))
        else {
            return self.add(name, value);
        };
        let mut index = 0;
        self.retain(|other| {
            index += 1;
            index - 1 <= first || !other.eq_ignore_ascii_case(name)
        });
        self.unused += self.entries[first].value.len();
        let value = self.append(value);
        self.entries[first].value = value;
        self.tidy();
    }

    /// Appends a value, beside those that a name has.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (name, value) = (self.append(name.as_ref()), self.append(value.as_ref()));
        self.entries.push(Entry { name, value });
    }

    /// Removes all values of a name.
    pub fn unset(&mut self, name: &[u8]) {
        self.retain(|other| !other.eq_ignore_ascii_case(name));
        self.tidy();
    }

    /// Keeps the last value of each name.
    pub fn keep_last(&mut self) {
        let mut index = 0;
        while index < self.entries.len() {
            let name = &self.text[self.entries[index].name.clone()];
            let is_named = |(other, _): (&[u8], &[u8])| other.eq_ignore_ascii_case(name);
            let has_later = self.iter().skip(index + 1).any(is_named);
            if has_later {
                let Entry { name, value } = self.entries.remove(index);
                self.unused += name.len() + value.len();
            } else {
                index += 1;
            }
        }
    }

    /// Returns all names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |range: &Range<usize>| &self.text[range.clone()];
        self.entries.iter().map(move |entry| (part(&entry.name), part(&entry.value)))
    }

    /// Returns true without any entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn append(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }

    /// Keeps entries by their names.
    fn retain(&mut self, mut is_kept: impl FnMut(&[u8]) -> bool) {
        let (text, unused) = (&self.text, &mut self.unused);
        self.entries.retain(|Entry { name, value }| {
            let is_kept = is_kept(&text[name.clone()]);
            if !is_kept {
                *unused += name.len() + value.len();
            }
            is_kept
        });
    }

    /// Writes the text anew if most of it is unused: rules that run in a loop set a variable many
    /// times.
    fn tidy(&mut self) {
        if self.unused < MIN_UNUSED.max(self.text.len() / 2) {
            return;
        }
        let mut tidy = Table::default();
        self.iter().for_each(|(name, value)| tidy.add(name, value));
        *self = tidy;
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Table {}

impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes);
        formatter
            .debug_list()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(table: &Table) -> Vec<(&[u8], &[u8])> {
        table.iter().collect()
    }

    #[test]
    fn a_name_keeps_its_place_and_spelling() {
        let mut table = Table::default();
        for (name, value) in [("Vary", "a"), ("X", "1"), ("vary", "b"), ("Y", "2")] {
            table.add(name, value);
        }
        assert_eq!(table.all(b"VARY").collect::<Vec<_>>(), [b"a", b"b"]);
        table.set("VARY", "longer");
        assert_eq!(entries(&table), [(&b"Vary"[..], &b"longer"[..]), (b"X", b"1"), (b"Y", b"2")]);
        table.unset(b"x");
        table.add("y", "3");
        table.keep_last();
        assert_eq!(entries(&table), [(&b"Vary"[..], &b"longer"[..]), (b"y", b"3")]);
        assert!(table.get(b"X").is_none() && table == table.clone());
    }

    #[test]
    fn a_variable_that_is_set_in_a_loop_takes_the_memory_of_one() {
        let mut table = Table::default();
        table.add("other", "value");
        for round in 0..100_000 {
            table.set("name", format!("{round:0100}"));
        }
        assert_eq!(table.get(b"other"), Some(&b"value"[..]));
        assert_eq!(table.get(b"NAME").map(<[u8]>::len), Some(100));
        assert!(table.text.len() < 4 * MIN_UNUSED);
    }
}
