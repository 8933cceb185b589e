//! `variables`: variables that a document defines from other variables (nginx's `map`, `geo`,
//! `split_clients` and `secure_link`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use howdah_text::fnv::fnv;

use super::{Part, SecureLink, Template, Variable};
use crate::captures::Captures;
use crate::geo_database::{GeoDatabase, GeoPath};
use crate::networks::Networks;
use crate::pattern::Pattern;

/// Maximum number of variables that one definition may lead to.
pub const MAX_WEIGHT: usize = 1000;

/// A variable that the document defines.
#[derive(Debug, Clone)]
pub struct Defined(Arc<Definition>);

/// The defined variables of a document that have been read so far.
#[derive(Default)]
pub struct DefinedVariables(RefCell<HashMap<String, Defined>>);

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

/// Values for texts.
pub enum Table {
    /// `map`: values of texts, and of patterns for other texts.
    Map {
        /// By the text in lower case.
        texts: HashMap<Box<[u8]>, Template>,
        /// The first that matches counts.
        patterns: Vec<(Pattern, Template)>,
    },
    /// `geo`: values of networks.
    Geo(Networks<Template>),
    /// A file with records of networks, and the path of the value in a record.
    Database(Arc<GeoDatabase>, GeoPath),
    /// The check of a link.
    SecureLink(SecureLink),
    /// Upper ends of the shares of all 32-bit hashes, and their values.
    Split(Vec<(u64, Template)>),
}

impl Defined {
    /// Creates a variable. `text` is the definition as written, `source` the text that is looked
    /// up.
    ///
    /// # Errors
    ///
    /// `None` if a value leads to more than [`MAX_WEIGHT`] variables.
    pub fn new(
        name: &str,
        text: String,
        source: Template,
        table: Table,
        default: Template,
    ) -> Option<Defined> {
        let name = name.to_owned();
        let mut definition = Definition { name, text, source, table, default, weight: 0 };
        definition.weight = definition.sum_of_weights();
        (definition.weight <= MAX_WEIGHT).then(|| Defined(Arc::new(definition)))
    }

    /// Creates a variable without a value.
    pub fn empty(name: &str) -> Defined {
        Defined(Arc::new(Definition {
            name: name.to_owned(),
            text: String::new(),
            source: Template::default(),
            table: Table::Split(Vec::new()),
            default: Template::default(),
            weight: 0,
        }))
    }

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
        if let Table::SecureLink(check) = &self.0.table {
            if !check.write(&source, out, value) {
                self.0.default.expand(out, value);
            }
            return out.len() > before;
        }
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

    /// Returns the database that the value is looked up in.
    pub fn database(&self) -> Option<&Arc<GeoDatabase>> {
        match &self.0.table {
            Table::Database(database, _) => Some(database),
            _ => None,
        }
    }

    /// Returns the database that the value is looked up in, if it could not be read yet.
    pub fn unread_database(&self) -> Option<&Arc<GeoDatabase>> {
        self.database().filter(|database| database.stamp().is_none())
    }

    /// Returns true if one of the variables that the value is made from is of this kind.
    pub(super) fn leads_to(&self, is_wanted: &dyn Fn(&Variable) -> bool) -> bool {
        self.0.templates().any(|template| template.leads_to(is_wanted))
    }
}

impl DefinedVariables {
    /// Returns the variable of this name.
    pub fn get(&self, name: &str) -> Option<Defined> {
        self.0.borrow().get(name).cloned()
    }

    /// Returns all variables, in no order.
    pub fn all(&self) -> Vec<Defined> {
        self.0.borrow().values().cloned().collect()
    }

    /// Adds a variable.
    pub fn insert(&self, variable: Defined) {
        self.0.borrow_mut().insert(variable.name().to_owned(), variable);
    }
}

impl Definition {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let (texts, patterns, networks, shares) = match &self.table {
            Table::Map { texts, patterns } => (Some(texts), Some(patterns), None, None),
            Table::Geo(networks) => (None, None, Some(networks), None),
            Table::Split(shares) => (None, None, None, Some(shares)),
            Table::Database(..) | Table::SecureLink(_) => (None, None, None, None),
        };
        let hashed = match &self.table {
            Table::SecureLink(SecureLink::Md5(text)) => Some(text),
            _ => None,
        };
        let values = texts.into_iter().flat_map(HashMap::values);
        let values = values.chain(patterns.into_iter().flatten().map(|(_, value)| value));
        let values = values.chain(networks.into_iter().flat_map(Networks::values));
        let values = values.chain(shares.into_iter().flatten().map(|(_, value)| value));
        [&self.source, &self.default].into_iter().chain(values).chain(hashed)
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
                return Some(if value.parts().iter().any(is_capture) {
                    Found::Captured(value, Captures::of_text(pattern, text))
                } else {
                    Found::Template(value)
                });
            }
            Table::Geo(networks) => networks.find(address()?),
            Table::Database(database, path) => {
                return database.find(address()?, path).map(Found::Text);
            }
            Table::SecureLink(_) => return None,
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
    let mut hash = fnv(text);
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
