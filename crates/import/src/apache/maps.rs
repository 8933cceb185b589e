//! `RewriteMap`: tables and functions in which rules look values up.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::{Source, Status};

use super::scope::mark;
use super::site::Site;
use super::tree::Node;

/// Functions of Apache that the engine has.
const FUNCTIONS: [&str; 4] = ["tolower", "toupper", "escape", "unescape"];

/// Maximum number of keys of a map.
const MAX_KEYS: usize = 100_000;

/// Longest line of a map that Apache reads, in bytes.
const MAX_LINE_BYTES: usize = 1022;

impl<'n> Site<'_, 'n> {
    /// Returns the maps of the host, and marks them.
    pub(super) fn maps(&mut self) -> Map<String, Value> {
        let inherits = self.own.iter().any(|node| {
            node.name == "rewriteoptions" && node.arguments.to_ascii_lowercase().contains("inherit")
        });
        let mut maps = Map::new();
        let is_map = |node: &&Node| node.name == "rewritemap";
        for node in self.common.server.iter().copied().filter(is_map).collect::<Vec<_>>() {
            if self.own.is_empty() || inherits {
                self.add_map(node, &mut maps);
            } else {
                mark(self.report, node, Status::NotNeeded, "virtual hosts do not inherit maps");
            }
        }
        for node in self.own.iter().copied().filter(is_map).collect::<Vec<_>>() {
            self.add_map(node, &mut maps);
        }
        maps
    }

    fn add_map(&mut self, node: &'n Node, maps: &mut Map<String, Value>) {
        let words = node.words();
        let [name, source, ..] = words.as_slice() else {
            let reason = "it takes a name, and a kind with a file or a function";
            return mark(self.report, node, Status::NotConverted, reason);
        };
        let (kind, rest) = source.split_once(':').unwrap_or(("txt", source));
        let map = match kind.to_ascii_lowercase().as_str() {
            "int" if FUNCTIONS.contains(&rest) => {
                self.converted(node);
                maps.insert(name.clone(), rest.into());
                return;
            }
            "txt" | "rnd" => {
                let path = self.absolute(rest);
                read(self.common.source, &path, kind.eq_ignore_ascii_case("rnd"))
            }
            _ => Err(format!("there are no maps of the kind {kind}:, but txt:, rnd: and int:")),
        };
        match map {
            Ok(map) => {
                let turns = if kind.eq_ignore_ascii_case("rnd") {
                    "; several values of a key are taken in turns"
                } else {
                    ""
                };
                let reason = format!(
                    "its lines are those at the time of the import; Apache reads them again once the file has changed{turns}"
                );
                mark(self.report, node, Status::Changed, reason);
                maps.insert(name.clone(), map);
            }
            Err(reason) => {
                let reason = format!("{reason}; rules that use the map are left out");
                mark(self.report, node, Status::NotConverted, reason);
                maps.remove(name);
            }
        }
    }
}

/// Reads a file of keys and values.
fn read(source: &Source, path: &str, has_choices: bool) -> Result<Value, String> {
    let place = source.locate(Path::new(path), Path::new("/"));
    let text = source.text(&place).map_err(|error| error.to_string())?;
    let mut values = Map::new();
    for line in text.lines().filter(|line| line.len() <= MAX_LINE_BYTES) {
        let is_entry = !line.starts_with(['#', ' ', '\t']);
        let mut words = line.split_ascii_whitespace().filter(|_| is_entry);
        let (Some(key), Some(value)) = (words.next(), words.next()) else { continue };
        let value = if has_choices && value.contains('|') {
            json!(value.split('|').collect::<Vec<_>>())
        } else {
            value.into()
        };
        // The first line of a key counts.
        values.entry(key).or_insert(value);
        if values.len() > MAX_KEYS {
            return Err(format!("{path} has more than {MAX_KEYS} keys"));
        }
    }
    Ok(values.into())
}

/// Returns true if all maps that a text looks something up in are known.
pub fn are_known(text: &str, maps: &Map<String, Value>) -> bool {
    let mut looks_up = text.split("${").skip(1);
    looks_up.all(|rest| rest.split_once(':').is_some_and(|(name, _)| maps.contains_key(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_maps_are_read_as_apache_reads_them() {
        let text = "# a comment\na 1 more\n b 2\na 3\nc\nd  x|y\n";
        let source = Source::default().with_file("/m".into(), text.into());
        let of = |has_choices| read(&source, "/m", has_choices).unwrap();
        assert_eq!(of(false), json!({"a": "1", "d": "x|y"}));
        assert_eq!(of(true), json!({"a": "1", "d": ["x", "y"]}));
        assert!(read(&source, "/none", false).is_err());
        let maps = Map::from_iter([("lc".to_owned(), Value::from("tolower"))]);
        assert!(are_known("/x/${lc:$1}", &maps) && are_known("/x", &maps));
        assert!(!are_known("/${other:${lc:$1}|x}", &maps) && !are_known("${", &maps));
    }
}
