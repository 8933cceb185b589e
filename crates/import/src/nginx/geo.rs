//! `geo`: a variable by an address.

use std::net::Ipv4Addr;

use serde_json::json;

use super::access::network;
use super::context::Place;
use super::convert::Converter;
use super::reader::Directive;
use super::state::State;
use super::template::Template;
use super::variables::{Object, Reason};

impl<'t> Converter<'_> {
    /// Returns the value of a `geo`.
    pub fn geo(&mut self, table: &'t Directive, place: &Place<'t>) -> Result<Template, Reason> {
        let subject = match table.args.as_slice() {
            [address, _] => self.value(address, place, &State::default())?,
            _ => Template::variable("remote_addr"),
        };
        let has_ranges =
            table.children().iter().any(|entry| entry.name == "ranges" && entry.args.is_empty());
        let (mut values, mut default) = (Object::new(), String::new());
        let mut ranges = Ranges::default();
        for entry in table.children() {
            let value = Template::text(entry.arg(0)).render();
            match (entry.name.as_str(), entry.args.len()) {
                ("include", _) | ("ranges", 0) => {}
                ("proxy" | "proxy_recursive", _) => {
                    return Err(format!(
                        "\"{}\" in line {} has no equivalent",
                        entry.name, entry.line
                    ));
                }
                ("default", 1) => default = value,
                ("delete", 1) if has_ranges => ranges.delete(range(entry.arg(0), entry)?),
                ("delete", 1) => {
                    values.shift_remove(&network(entry.arg(0)));
                }
                (key, 1) if has_ranges => ranges.set(range(key, entry)?, value),
                (key, 1) => {
                    values.insert(network(key), value.into());
                }
                (key, _) => {
                    return Err(format!("the entry \"{key}\" in line {} has no value", entry.line));
                }
            }
        }
        for (first, last, value) in ranges.0 {
            for network in networks(first, last) {
                values.insert(network, value.clone().into());
            }
        }
        let definition = json!({ "geo": subject.render(), "values": values, "default": default });
        let hint = table.args.last().map_or("", String::as_str).trim_start_matches('$');
        Ok(Template::variable(&self.define(&hint.to_ascii_lowercase(), definition)))
    }
}

/// Ranges of addresses with their values, none of which overlap.
#[derive(Default)]
struct Ranges(Vec<(u32, u32, String)>);

impl Ranges {
    /// Takes a range away if it is there as a whole, as nginx does.
    fn delete(&mut self, range: (u32, u32)) {
        self.0.retain(|(first, last, _)| (*first, *last) != range);
    }

    /// Gives a range a value; a later range takes its addresses from former ones.
    fn set(&mut self, (first, last): (u32, u32), value: String) {
        let mut kept = Vec::with_capacity(self.0.len() + 2);
        for (start, end, old) in self.0.drain(..) {
            if end < first || start > last {
                kept.push((start, end, old));
                continue;
            }
            if start < first {
                kept.push((start, first - 1, old.clone()));
            }
            if end > last {
                kept.push((last + 1, end, old));
            }
        }
        kept.push((first, last, value));
        self.0 = kept;
    }
}

/// Reads a range of addresses, both ends of which belong to it.
fn range(text: &str, entry: &Directive) -> Result<(u32, u32), Reason> {
    let ends = text.split_once('-').and_then(|(first, last)| {
        let address = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
        Some((address(first)?, address(last)?))
    });
    ends.filter(|(first, last)| first <= last)
        .ok_or_else(|| format!("\"{text}\" in line {} is no range of addresses", entry.line))
}

/// Returns the networks that a range consists of.
fn networks(first: u32, last: u32) -> Vec<String> {
    let (mut start, end) = (u64::from(first), u64::from(last));
    let mut found = Vec::new();
    while start <= end {
        let mut bits = if start == 0 { 32 } else { start.trailing_zeros().min(32) };
        while start + (1_u64 << bits) - 1 > end {
            bits -= 1;
        }
        let address = Ipv4Addr::from(u32::try_from(start).unwrap_or(u32::MAX));
        found.push(format!("{address}/{}", 32 - bits));
        start += 1_u64 << bits;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_some_networks() {
        let of = |first: [u8; 4], last: [u8; 4]| {
            networks(Ipv4Addr::from(first).into(), Ipv4Addr::from(last).into())
        };
        assert_eq!(of([127, 0, 0, 0], [127, 0, 0, 9]), ["127.0.0.0/29", "127.0.0.8/31"]);
        assert_eq!(of([0; 4], [255; 4]), ["0.0.0.0/0"]);
        assert_eq!(of([10, 0, 0, 1], [10, 0, 0, 1]), ["10.0.0.1/32"]);
        assert_eq!(of([255, 255, 255, 254], [255; 4]), ["255.255.255.254/31"]);
    }

    #[test]
    fn a_later_range_takes_addresses_from_former_ones() {
        let mut ranges = Ranges::default();
        ranges.set((1, 10), "a".to_owned());
        ranges.set((4, 5), "b".to_owned());
        ranges.set((9, u32::MAX), "c".to_owned());
        ranges.delete((2, 3));
        ranges.delete((9, u32::MAX));
        let found: Vec<_> = ranges.0.iter().map(|(a, b, text)| (*a, *b, text.as_str())).collect();
        assert_eq!(found, [(1, 3, "a"), (6, 8, "a"), (4, 5, "b")]);
    }
}
