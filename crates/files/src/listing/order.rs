//! Order of a listing: directories first; names as people read them, `file9` before `file10`.

use std::cmp::Ordering;

use super::entry::Entry;

/// Order of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// The property that is compared.
    pub by: SortBy,
    /// The largest comes first.
    pub is_descending: bool,
}

/// The property that is compared; files with equal ones are ordered by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortBy {
    /// Names.
    Name,
    /// Sizes.
    Size,
    /// Times of modification.
    Time,
}

impl SortBy {
    /// Returns the value of `sort` in a query.
    pub fn word(self) -> &'static str {
        match self {
            SortBy::Name => "name",
            SortBy::Size => "size",
            SortBy::Time => "time",
        }
    }
}

impl Order {
    /// Returns the order that a query such as `sort=size&order=desc` asks for. Anything else in it
    /// has no meaning.
    pub fn of_query(query: &[u8]) -> Order {
        let mut order = Order { by: SortBy::Name, is_descending: false };
        for part in query.split(|byte| *byte == b'&') {
            match part {
                b"sort=name" => order.by = SortBy::Name,
                b"sort=size" => order.by = SortBy::Size,
                b"sort=time" => order.by = SortBy::Time,
                b"order=desc" => order.is_descending = true,
                b"order=asc" => order.is_descending = false,
                _ => {}
            }
        }
        order
    }

    pub(super) fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        let value = match self.by {
            SortBy::Name => Ordering::Equal,
            SortBy::Size => a.size.cmp(&b.size),
            SortBy::Time => a.modified.cmp(&b.modified),
        };
        let order = value.then_with(|| natural(&a.name, &b.name));
        let order = if self.is_descending { order.reverse() } else { order };
        b.is_directory.cmp(&a.is_directory).then(order)
    }
}

/// Compares names without regard to case, and numbers in them by value. Names that differ are not
/// equal.
fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut rest_a, mut rest_b) = (a, b);
    loop {
        let (token_a, next_a) = token(rest_a);
        let (token_b, next_b) = token(rest_b);
        match (token_a, token_b) {
            ([], []) => return a.cmp(b),
            ([], _) => return Ordering::Less,
            (_, []) => return Ordering::Greater,
            _ => {}
        }
        let order = match (number(token_a), number(token_b)) {
            (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            _ => token_a.to_ascii_lowercase().cmp(&token_b.to_ascii_lowercase()),
        };
        if order != Ordering::Equal {
            return order;
        }
        (rest_a, rest_b) = (next_a, next_b);
    }
}

/// Splits off the digits at the start, or one other byte.
fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at(digits.max(1).min(text.len()))
}

/// Returns the digits of a number without zeros in front.
fn number(token: &[u8]) -> Option<&[u8]> {
    let is_number = token.first().is_some_and(u8::is_ascii_digit);
    let zeros = token.iter().take_while(|byte| **byte == b'0').count();
    is_number.then(|| token.get(zeros..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_in_the_order_of_people() {
        let mut names = ["b", "file10", "File9", "file010", "a", "file1x", "A", "", "é", "10", "9"];
        names.sort_by(|a, b| natural(a.as_bytes(), b.as_bytes()));
        let expected = ["", "9", "10", "A", "a", "b", "file1x", "File9", "file010", "file10", "é"];
        assert_eq!(names, expected);
    }

    #[test]
    fn directories_come_first_in_each_order() {
        let entries = || {
            vec![
                Entry::file(b"b".to_vec(), 5, 10),
                Entry::directory(b"z".to_vec(), 1),
                Entry::file(b"a".to_vec(), 9, 5),
            ]
        };
        for (query, expected) in [
            ("", "zab"),
            ("order=desc", "zba"),
            ("sort=size", "zba"),
            ("sort=size&order=desc", "zab"),
            ("sort=time&x", "zab"),
            ("sort=other&order=", "zab"),
        ] {
            let order = Order::of_query(query.as_bytes());
            let mut entries = entries();
            entries.sort_by(|a, b| order.compare(a, b));
            let names: Vec<_> = entries.iter().flat_map(|entry| entry.name.clone()).collect();
            assert_eq!(String::from_utf8(names).unwrap(), expected, "{query}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_total(
            names in prop::collection::vec(
                prop::collection::vec(prop::sample::select(&b"aA0019-\xff"[..]), 0..6), 3),
        ) {
            let [a, b, c] = [&names[0], &names[1], &names[2]];
            prop_assert_eq!(natural(a, b), natural(b, a).reverse());
            prop_assert_eq!(natural(a, b) == Ordering::Equal, a == b);
            if natural(a, b) != Ordering::Greater && natural(b, c) != Ordering::Greater {
                prop_assert_ne!(natural(a, c), Ordering::Greater);
            }
        }
    }
}
