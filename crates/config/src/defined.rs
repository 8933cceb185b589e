//! `variables`: variables that a document defines from other variables (nginx's `map`, `geo` and
//! `split_clients`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::captures::Captures;
use crate::defined_networks::Networks;
use crate::defined_uses;
use crate::error::Error;
use crate::geo_database::{GeoDatabase, GeoPath};
use crate::groups::Groups;
use crate::node::{Node, Object, Scope};
use crate::pattern::{Pattern, Subject};
use crate::template::{Part, Template, Variable};

/// A variable that the document defines.
#[derive(Debug, Clone)]
pub struct Defined(Arc<Definition>);

/// The defined variables of a document that have been read so far.
#[derive(Default)]
pub(crate) struct DefinedVariables(RefCell<HashMap<String, Defined>>);

/// The value that a table has for a text.
enum Found<'t> {
    Template(&'t Template),
    /// A template with captures of the regular expression that has accepted the text.
    Captured(&'t Template, Captures),
    Text(String),
}

struct Definition {
    name: String,
    /// The definition as written, for comparisons.
    text: String,
    /// Text that is looked up.
    source: Template,
    table: Table,
    default: Template,
    /// Maximum number of variables that are evaluated for one value.
    weight: usize,
}

enum Table {
    Map {
        texts: HashMap<Box<[u8]>, Template>,
        patterns: Vec<(Pattern, Template)>,
    },
    Geo(Networks<Template>),
    /// A file with records of networks, and the path of the value in a record.
    Database(Arc<GeoDatabase>, GeoPath),
    /// Upper ends of the shares of all 32-bit hashes, and their values.
    Split(Vec<(u64, Template)>),
}

/// Maximum number of variables that one definition may lead to.
const MAX_WEIGHT: usize = 1000;

impl Defined {
    /// Returns the name, without `$`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Appends the value. `value` appends the value of another variable. Returns false if the value
    /// is empty.
    pub fn write(&self, out: &mut Vec<u8>, value: &dyn Fn(&Variable, &mut Vec<u8>)) -> bool {
        let mut source = Vec::new();
        self.0.source.expand(&mut source, value);
        let before = out.len();
        match self.0.table.find(&source) {
            Some(Found::Template(found)) => found.expand(out, value),
            Some(Found::Captured(found, captures)) => {
                found.expand(out, |variable, out| match variable {
                    Variable::Capture(group) => {
                        out.extend_from_slice(captures.get(group).unwrap_or_default());
                    }
                    other => value(other, out),
                });
            }
            Some(Found::Text(found)) => out.extend_from_slice(found.as_bytes()),
            None => self.0.default.expand(out, value),
        }
        out.len() > before
    }

    /// Returns the database that the value is looked up in, if it could not be read yet.
    pub fn unread_database(&self) -> Option<&Arc<GeoDatabase>> {
        match &self.0.table {
            Table::Database(database, _) if database.stamp().is_none() => Some(database),
            _ => None,
        }
    }

    /// Returns true if the value depends on the response.
    pub(crate) fn is_of_response(&self) -> bool {
        let mut all = self.0.templates().flat_map(Template::parts);
        all.any(|part| matches!(part, Part::Variable(variable) if variable.is_of_response()))
    }
}

impl DefinedVariables {
    /// Reads `variables`. A definition can use those in front of it.
    pub fn read(&self, node: &Node<'_>) -> Result<(), Error> {
        let variables = node.value;
        for (name, node) in node.members()? {
            let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            if name.is_empty() || !name.bytes().all(is_name) {
                return Err(node.invalid("must have a name of letters and \"_\""));
            }
            if name == "dollar" || Variable::named(name).is_some() {
                let error = node.invalid("has the name of a variable that exists already");
                node.part::<()>(Err(error.with_hint("choose another name")))?;
                continue;
            }
            let definition = Definition::read(name, &node).map_err(|error| {
                let is_read = |name: &str| self.0.borrow().contains_key(name);
                defined_uses::explain(error, name, variables, is_read)
            });
            // The name is defined, also for the templates that use a definition with a mistake.
            let definition = node.part(definition)?.unwrap_or_else(|| Definition::empty(name));
            self.0.borrow_mut().insert(name.to_owned(), Defined(Arc::new(definition)));
        }
        Ok(())
    }

    /// Returns the variable of this name.
    pub fn get(&self, name: &str) -> Option<Defined> {
        self.0.borrow().get(name).cloned()
    }

    /// Returns the databases of variables, each with its place in the document.
    pub fn databases(&self) -> Vec<(String, Arc<GeoDatabase>)> {
        let all = self.0.borrow();
        let databases = all.values().filter_map(|defined| match &defined.0.table {
            Table::Database(database, _) => {
                let place = crate::node::path(["variables", defined.name(), "database"]);
                Some((place, Arc::clone(database)))
            }
            _ => None,
        });
        let mut databases: Vec<_> = databases.collect();
        databases.sort_by(|(one, _), (other, _)| one.cmp(other));
        databases
    }

    /// Returns the name that is most similar to a text, if one is similar.
    pub fn nearest(&self, text: &str) -> Option<String> {
        let all = self.0.borrow();
        crate::suggest::nearest(text, all.keys().map(String::as_str)).map(str::to_owned)
    }
}

impl Definition {
    fn read(name: &str, node: &Node<'_>) -> Result<Definition, Error> {
        let object = node.object()?;
        // The caller explains the first error with the names of all definitions.
        let read = |key| object.optional(key).map(|node| Template::read(&node)).transpose();
        let (source, table) = match (read("map")?, read("geo")?, read("split")?) {
            (Some(source), None, None) => (source, Table::read_map(&object)?),
            (None, Some(source), None) => (source, Table::read_geo(&object)?),
            (None, None, Some(source)) => (source, Table::read_split(&object)?),
            (None, None, None) => return Err(object.missing(&["map", "geo", "split"])),
            _ => return Err(node.invalid("must have just one of \"map\", \"geo\" or \"split\"")),
        };
        let default = read("default")?.unwrap_or_default();
        object.end()?;
        let (name, text) = (name.to_owned(), node.value.to_string());
        let mut definition = Definition { name, text, source, table, default, weight: 0 };
        definition.weight = definition.sum_of_weights();
        match definition.weight > MAX_WEIGHT {
            true => Err(node.invalid(format_args!(
                "leads to more than {MAX_WEIGHT} variables by the definitions in front of it"
            ))),
            false => Ok(definition),
        }
    }

    /// Returns a definition without a value.
    fn empty(name: &str) -> Definition {
        Definition {
            name: name.to_owned(),
            text: String::new(),
            source: Template::default(),
            table: Table::Split(Vec::new()),
            default: Template::default(),
            weight: 0,
        }
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let (texts, patterns, networks, shares) = match &self.table {
            Table::Map { texts, patterns } => (Some(texts), Some(patterns), None, None),
            Table::Geo(networks) => (None, None, Some(networks), None),
            Table::Split(shares) => (None, None, None, Some(shares)),
            Table::Database(..) => (None, None, None, None),
        };
        let values = texts.into_iter().flat_map(HashMap::values);
        let values = values.chain(patterns.into_iter().flatten().map(|(_, value)| value));
        let values = values.chain(networks.into_iter().flat_map(Networks::values));
        let values = values.chain(shares.into_iter().flatten().map(|(_, value)| value));
        [&self.source, &self.default].into_iter().chain(values)
    }

    fn sum_of_weights(&self) -> usize {
        let weight = |template: &Template| {
            template.parts().iter().fold(0_usize, |sum, part| match part {
                Part::Variable(Variable::Defined(other)) => sum.saturating_add(other.0.weight),
                Part::Variable(_) => sum.saturating_add(1),
                Part::Literal(_) => sum,
            })
        };
        let largest = self.templates().skip(1).map(weight).max().unwrap_or(0);
        weight(&self.source).saturating_add(largest).saturating_add(1)
    }
}

impl Table {
    fn read_map(object: &Object<'_>) -> Result<Table, Error> {
        let (mut texts, mut patterns) = (HashMap::new(), Vec::new());
        let node = object.required("values")?;
        for (key, value) in node.members()? {
            let pattern = match key.starts_with(['~', '!']) || key.contains('*') {
                true => {
                    let pattern = Pattern::parse(key, Subject::Header);
                    Some(pattern.map_err(|error| value.invalid(error))?)
                }
                false => None,
            };
            let groups = Groups::of_map(pattern.as_ref());
            let template =
                Template::read(&value.within(&Scope { groups: &groups, ..*value.scope }))?;
            match pattern {
                Some(pattern) => patterns.push((pattern, template)),
                None => {
                    let text = key.as_bytes().to_ascii_lowercase();
                    texts.insert(text.into_boxed_slice(), template);
                }
            }
        }
        Ok(Table::Map { texts, patterns })
    }

    fn read_geo(object: &Object<'_>) -> Result<Table, Error> {
        let database = object.read("database", |node| {
            let file = node.file()?;
            match file.is_absolute() && file.file_name().is_some() {
                true => Ok(GeoDatabase::at(&file)),
                false => Err(node.invalid("must be the name of a file that starts with \"/\"")),
            }
        })?;
        if let Some(database) = database {
            let path = object.required("path")?;
            let found = GeoPath::parse(path.text()?).ok_or_else(|| {
                let error = path.invalid("must be names with dots between them");
                error.with_hint("write \"country.iso_code\"")
            })?;
            return Ok(Table::Database(database, found));
        }
        let mut networks = Vec::new();
        let node = object.required("values")?;
        for (key, value) in node.members()? {
            let Some(network) = crate::defined_networks::parse(key) else {
                let error = value.invalid("must be named after an address or a network");
                return Err(error.with_hint("write \"10.0.0.0/8\", \"192.0.2.1\" or \"fd00::/8\""));
            };
            networks.push((network, Template::read(&value)?));
        }
        Ok(Table::Geo(Networks::new(networks)))
    }

    fn read_split(object: &Object<'_>) -> Result<Table, Error> {
        let (mut shares, mut sum) = (Vec::new(), 0.0);
        let node = object.required("values")?;
        for (key, share) in node.members()? {
            let percent = share.value.as_f64().filter(|percent| (0.0..=100.0).contains(percent));
            let Some(percent) = percent else {
                let error = share.wrong_type("a number of percent from 0 to 100");
                return Err(error.with_hint("write {\"one\": 50, \"other\": 50}"));
            };
            sum += percent;
            if sum > 100.0 + 1e-6 {
                return Err(share.invalid("makes all shares together more than 100 percent"));
            }
            let end = (sum / 100.0 * 4_294_967_296.0).round();
            // At most 2³², which a number of this type has exactly.
            shares.push((end as u64, Template::read_text(&share, key)?));
        }
        Ok(Table::Split(shares))
    }

    /// Returns the value for a text.
    fn find(&self, text: &[u8]) -> Option<Found<'_>> {
        let address = || std::str::from_utf8(text).ok()?.parse::<IpAddr>().ok();
        let found = match self {
            Table::Map { texts, patterns } => {
                if let Some(found) = texts.get(text.to_ascii_lowercase().as_slice()) {
                    return Some(Found::Template(found));
                }
                let (pattern, value) =
                    patterns.iter().find(|(pattern, _)| pattern.matches(text))?;
                let is_capture = |part: &Part| matches!(part, Part::Variable(Variable::Capture(_)));
                return Some(match value.parts().iter().any(is_capture) {
                    true => Found::Captured(value, Captures::of_text(pattern, text)),
                    false => Found::Template(value),
                });
            }
            Table::Geo(networks) => networks.find(address()?),
            Table::Database(database, path) => {
                return database.find(address()?, path).map(Found::Text);
            }
            Table::Split(shares) => {
                let hash = u64::from(hash(text));
                shares.iter().find(|(end, _)| hash < *end).map(|(_, value)| value)
            }
        };
        found.map(Found::Template)
    }
}

/// Hashes a text: the same value for all versions and machines, so that visitors keep their share.
fn hash(text: &[u8]) -> u32 {
    // FNV-1a with 64 bits, of which the finaliser of SplitMix64 mixes all into the upper half.
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = text.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash >> 32) as u32
}

impl PartialEq for Defined {
    /// Compares names and definitions. Variables that a definition uses are in the same document.
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
            && self.0.text == other.0.text
            && self.0.source == other.0.source
            && self.0.templates().eq(other.0.templates())
    }
}

impl Eq for Defined {}

impl Hash for Defined {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

#[cfg(test)]
#[path = "defined_tests.rs"]
mod tests;
