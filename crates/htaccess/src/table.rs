//! Ordered multi-map with names that are compared without case (Apache's `apr_table_t`): header fields, notes
//! and the environment of a request.

/// Names and values in the order of their insertion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Table {
    /// Returns the first value of a name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Returns all values of a name, in order.
    pub fn all(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        let named = self.entries.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice())
    }

    /// Replaces all values of a name by one, at the place of the first and with its spelling.
    pub fn set(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let (name, value) = (name.into(), value.into());
        let first = self.entries.iter().position(|(other, _)| other.eq_ignore_ascii_case(&name));
        let Some(first) = first else { return self.entries.push((name, value)) };
        let mut index = 0;
        self.entries.retain(|(other, _)| {
            index += 1;
            index - 1 <= first || !other.eq_ignore_ascii_case(&name)
        });
        self.entries[first].1 = value;
    }

    /// Appends a value, beside those that a name has.
    pub fn add(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.entries.push((name.into(), value.into()));
    }

    /// Removes all values of a name.
    pub fn unset(&mut self, name: &[u8]) {
        self.entries.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    /// Keeps the last value of each name.
    pub fn keep_last(&mut self) {
        let mut index = 0;
        while index < self.entries.len() {
            let name = &self.entries[index].0;
            let later = &self.entries[index + 1..];
            if later.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                self.entries.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Returns all names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Returns true without any entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
