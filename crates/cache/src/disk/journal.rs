//! Purges on the disk: purged responses must not come back after a restart.
//!
//! Of two halves, one is in use. Each purge appends a record to it. When it is full, the state of
//! all purges is written to the other half, whose header makes it the valid one. A state that does
//! not fit is shortened fairly: the oldest marks of each application become its floor, so that more
//! of its own pages are purged, and none less.
//!
//! A damaged record makes the whole file worthless: its purge is unknown.

use crate::place::Subject;
use crate::purge::{Effect, Mark, MarkOf};
use crate::space::layout::{PAGE, Reader, put_optional, put_text, sum};

/// Bytes of the header of a half: magic, generation, checksum.
pub const HEADER: usize = 24;

const MAGIC: [u8; 8] = *b"HOWDAHJ1";

/// In the upper half of a length: zeros are the end, all else that is no length is damage.
const LENGTH: u32 = 0xA5C3_0000;

/// Longest record.
const MAX_RECORD: usize = 0xFFFF;

/// A change of the marks of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Name of the application; all applications if `None`.
    pub group: Option<Vec<u8>>,
    /// The change.
    pub effect: Effect,
}

impl Record {
    /// Returns its bytes. `None` if it is too long.
    fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(64);
        let mut fits = put_optional(&mut bytes, self.group.as_deref());
        match &self.effect {
            Effect::Floor(number) => {
                bytes.push(0);
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            Effect::Marks(of, mark) => {
                bytes.push(if matches!(of, MarkOf::Subjects(_)) { 1 } else { 2 });
                for number in [mark.hard, mark.soft, mark.soft_at] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                match of {
                    MarkOf::Subjects(subjects) => subjects
                        .iter()
                        .for_each(|one| bytes.extend_from_slice(&one.number().to_le_bytes())),
                    MarkOf::Prefix { host, path } => {
                        fits &= put_optional(&mut bytes, host.as_deref());
                        fits &= put_text(&mut bytes, path);
                    }
                }
            }
        }
        (fits && bytes.len() <= MAX_RECORD).then_some(bytes)
    }

    /// Reads a record. `None` if it is malformed.
    fn decode(bytes: &[u8]) -> Option<Record> {
        let mut reader = Reader(bytes);
        let group = reader.optional()?.map(<[u8]>::to_vec);
        let kind = reader.u8()?;
        if kind == 0 {
            let number = reader.u64()?;
            let effect = Effect::Floor(number);
            return reader.0.is_empty().then_some(Record { group, effect });
        }
        let (hard, soft, soft_at) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let mark = Mark { hard, soft, soft_at };
        let of = match kind {
            1 => {
                let (numbers, rest) = reader.0.as_chunks();
                if !rest.is_empty() {
                    return None;
                }
                let subject = |bytes: &[u8; 8]| Subject::of_number(u64::from_le_bytes(*bytes));
                MarkOf::Subjects(numbers.iter().map(subject).collect())
            }
            2 => {
                let host = reader.optional()?.map(<[u8]>::to_vec);
                let path = reader.text()?.to_vec();
                if !reader.0.is_empty() {
                    return None;
                }
                MarkOf::Prefix { host, path }
            }
            _ => return None,
        };
        Some(Record { group, effect: Effect::Marks(of, mark) })
    }

    /// Returns the number of the last purge that it is about.
    pub fn last(&self) -> u64 {
        match &self.effect {
            Effect::Floor(number) => *number,
            Effect::Marks(_, mark) => mark.last(),
        }
    }
}

/// Appends the frame of a record: length, checksum, bytes. A record that is too long becomes a
/// floor.
pub fn frame(record: &Record, generation: u64, out: &mut Vec<u8>) {
    let floor = || Record { group: record.group.clone(), effect: Effect::Floor(record.last()) };
    let bytes = record.encode().or_else(|| floor().encode());
    // Names of applications are short.
    let bytes = bytes.unwrap_or_default();
    let length = LENGTH | u32::try_from(bytes.len()).unwrap_or_default();
    out.extend_from_slice(&length.to_le_bytes());
    let sum = sum(&[&generation.to_le_bytes(), &length.to_le_bytes(), &bytes]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&bytes);
}

/// Returns the header of a half.
pub fn header(generation: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&generation.to_le_bytes());
    let sum = sum(&[&bytes]);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Returns the generation of a half; `None` if it has no header.
pub fn generation(half: &[u8]) -> Option<u64> {
    let (fields, rest) = half.split_at_checked(16)?;
    let is_known = fields.starts_with(&MAGIC) && Reader(rest).u64()? == sum(&[fields]);
    Reader(fields.get(8..)?).u64().filter(|_| is_known)
}

/// Reads the records of a half with this generation. Returns them and where the next one goes;
/// `None` if one is damaged.
pub fn read(half: &[u8], of: u64) -> Option<(Vec<Record>, usize)> {
    let mut reader = Reader(half.get(HEADER..)?);
    let mut records = Vec::new();
    loop {
        let at = half.len() - reader.0.len();
        let Some(length) = reader.u32() else {
            return reader.0.iter().all(|byte| *byte == 0).then_some((records, at));
        };
        if length == 0 {
            return reader.0.iter().all(|byte| *byte == 0).then_some((records, at));
        }
        let count = usize::try_from(length ^ LENGTH).ok().filter(|count| *count <= MAX_RECORD)?;
        let found = reader.u64()?;
        let bytes = reader.take(count)?;
        if found != sum(&[&of.to_le_bytes(), &length.to_le_bytes(), bytes]) {
            return None;
        }
        records.push(Record::decode(bytes)?);
    }
}

/// Returns a half with the state of all purges, filled up with zeros, and where the next record
/// goes. `groups` are the records of each group.
pub fn half(generation: u64, groups: Vec<Vec<Record>>, size: usize) -> (Vec<u8>, usize) {
    let mut out = header(generation);
    // Half of the room is for purges to come.
    let room = (size / 2).saturating_sub(HEADER);
    let share = room / groups.len().max(1);
    for mut records in groups {
        records.sort_by_key(|record| std::cmp::Reverse(record.last()));
        let start = out.len();
        let mut dropped = None;
        for record in &records {
            let end = out.len();
            frame(record, generation, &mut out);
            if out.len() - start + 64 > share {
                out.truncate(end);
                dropped = Some(record);
                break;
            }
        }
        if let Some(record) = dropped {
            let floor = Effect::Floor(record.last());
            frame(&Record { group: record.group.clone(), effect: floor }, generation, &mut out);
        }
    }
    if out.len() + PAGE as usize > size {
        // There are so many applications that not even their floors fit: everything is purged.
        out.truncate(HEADER);
        frame(&Record { group: None, effect: Effect::Floor(u64::MAX >> 1) }, generation, &mut out);
    }
    let end = out.len();
    out.resize(size, 0);
    (out, end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 64 << 10;

    fn record(group: Option<&str>, number: u64) -> Record {
        let subjects = MarkOf::Subjects(vec![Subject::tag(&number.to_le_bytes())]);
        let effect = Effect::Marks(subjects, Mark { hard: number, soft: 0, soft_at: 0 });
        Record { group: group.map(|name| name.as_bytes().to_vec()), effect }
    }

    fn records() -> Vec<Record> {
        let prefix = MarkOf::Prefix { host: Some(b"a.org".to_vec()), path: b"/blog/".to_vec() };
        let mark = Mark { hard: 0, soft: 9, soft_at: 1_700_000_000 };
        vec![
            record(None, 5),
            Record { group: Some(b"b".to_vec()), effect: Effect::Marks(prefix, mark) },
            Record { group: Some(b"b".to_vec()), effect: Effect::Floor(7) },
        ]
    }

    #[test]
    fn a_half_is_read_as_it_was_written() {
        let (mut half, mut end) = half(3, vec![vec![record(Some("a"), 1)]], SIZE);
        for record in records() {
            let mut bytes = Vec::new();
            frame(&record, 3, &mut bytes);
            half[end..end + bytes.len()].copy_from_slice(&bytes);
            end += bytes.len();
        }
        assert_eq!(generation(&half), Some(3));
        let (found, next) = read(&half, 3).unwrap();
        assert_eq!(next, end);
        assert_eq!(found[0], record(Some("a"), 1));
        assert_eq!(found[1..], records());
    }

    #[test]
    fn a_state_that_does_not_fit_purges_more_of_its_own_group_only() {
        let many: Vec<_> = (1..10_000).map(|number| record(Some("many"), number)).collect();
        let (half, _) = half(1, vec![many, vec![record(Some("few"), 3)]], SIZE);
        let (found, _) = read(&half, 1).unwrap();
        assert!(found.contains(&record(Some("few"), 3)));
        let floors: Vec<_> = found
            .iter()
            .filter_map(|one| match one.effect {
                Effect::Floor(number) => Some((one.group.clone(), number)),
                Effect::Marks(..) => None,
            })
            .collect();
        let [(group, floor)] = &floors[..] else { panic!("{floors:?}") };
        assert_eq!(group.as_deref(), Some(&b"many"[..]));
        let kept = found.iter().filter(|one| one.group == *group).map(Record::last).min().unwrap();
        assert_eq!(kept, *floor, "all after the floor are there");
        assert!(*floor > 9000, "{floor}");
    }

    #[test]
    fn a_record_that_is_too_long_becomes_a_floor() {
        let of = MarkOf::Prefix { host: None, path: vec![b'a'; MAX_RECORD] };
        let effect = Effect::Marks(of, Mark { hard: 8, soft: 0, soft_at: 0 });
        let mut bytes = header(1);
        frame(&Record { group: None, effect }, 1, &mut bytes);
        let found = read(&bytes, 1).unwrap().0;
        assert_eq!(found, [Record { group: None, effect: Effect::Floor(8) }]);
    }

    proptest! {
        /// Otherwise a purge could be undone.
        #[test]
        fn no_change_of_a_byte_hides_a_purge(at: prop::sample::Index, change in 1u8..) {
            let (mut half, _) = half(3, vec![records()], 4 * PAGE as usize);
            let whole = read(&half, 3).unwrap().0;
            let at = at.index(half.len());
            half[at] ^= change;
            let found = generation(&half).and_then(|of| read(&half, of));
            prop_assert!(found.is_none_or(|(found, _)| found == whole));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, of: u64) {
            let _ = read(&bytes, of);
            let _ = Record::decode(&bytes);
            let framed = [header(of), bytes].concat();
            prop_assert_eq!(generation(&framed), Some(of));
            let _ = read(&framed, of);
        }
    }
}
