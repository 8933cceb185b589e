//! Typed access to a value tree: every value knows its path, every object its keys.
//!
//! An [`Object`] knows the table of its keys ([`Shape`]): their ranges, their defaults, and which
//! keys [`Object::end`] refuses.

use std::fmt::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Component, PathBuf};
use std::time::Duration;

use howdah_template::{DefinedVariables, Groups};
use serde_json::{Map, Value};

use crate::defaults::Defaults;
use crate::definitions::Definitions;
use crate::error::{Error, ErrorKind, Unknown};
use crate::key::{Key, Presence, Shape};
use crate::mistakes::Mistakes;
use crate::place::write_key;
use crate::suggest::nearest;
use crate::units;

pub use howdah_template::Shown;

pub(crate) use crate::place::{path, split_path};

/// Context of all values of a document.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// Definitions of the document, for checks of references.
    pub definitions: Definitions<'a>,
    /// Defaults for absent keys.
    pub defaults: Defaults,
    /// Groups of the step's regular expressions, for templates.
    pub groups: &'a Groups,
    /// Variables that the document defines.
    pub variables: &'a DefinedVariables,
    /// Errors of parts that were read.
    pub mistakes: &'a Mistakes<Error>,
}

/// A value and its path.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub value: &'a Value,
    pub scope: &'a Scope<'a>,
    path: Path<'a>,
}

/// An object that is being read key by key.
pub(crate) struct Object<'a> {
    node: &'a Node<'a>,
    members: &'a Map<String, Value>,
    shape: &'static Shape,
}

#[derive(Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Node<'a> {
    pub fn root(value: &'a Value, scope: &'a Scope<'a>) -> Node<'a> {
        Node { value, scope, path: Path { parent: None, segment: Segment::Root } }
    }

    /// Returns the same value in another scope.
    pub fn within(self, scope: &'a Scope<'a>) -> Node<'a> {
        Node { scope, ..self }
    }

    /// Returns another value at the same path.
    pub fn with_value(self, value: &'a Value) -> Node<'a> {
        Node { value, ..self }
    }

    /// Returns the path as errors show it.
    pub fn place(&self) -> String {
        self.path.to_string()
    }

    fn child(&'a self, segment: Segment<'a>, value: &'a Value) -> Node<'a> {
        Node { value, scope: self.scope, path: Path { parent: Some(&self.path), segment } }
    }

    /// Returns the last step of the path, for messages: `"share"` or `element 3`.
    fn subject(&self) -> String {
        match self.path.segment {
            Segment::Root => "the configuration".to_owned(),
            Segment::Key(key) => format!("\"{}\"", Shown(key)),
            Segment::Index(index) => format!("element {index}"),
        }
    }

    pub fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, self.path.to_string(), message)
    }

    pub fn invalid(&self, message: impl fmt::Display) -> Error {
        self.error(ErrorKind::InvalidValue, format!("{} {message}", self.subject()))
    }

    /// Returns the error for a value whose type is not `allowed`, as in "a string or an array".
    pub fn wrong_type(&self, allowed: &str) -> Error {
        let found = match self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => format!("the number {number}"),
            Value::String(string) => format!("the string \"{}\"", Shown(string)),
            Value::Array(_) => "an array".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        let message = format!("{} must be {allowed}, but is {found}", self.subject());
        let error = self.error(ErrorKind::WrongType, message);
        match self.value.as_str().and_then(|text| without_quotes(text, allowed)) {
            Some(value) => error.with_hint(format!("write {value}, without quotes")),
            None => error,
        }
    }

    pub fn string(&self) -> Result<&'a str, Error> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a string"))
    }

    /// Reads a name: a string that is not empty and, as it may reach a system call, has no NUL.
    pub fn text(&self) -> Result<&'a str, Error> {
        match self.string()? {
            "" => Err(self.invalid("must not be empty")),
            text if text.contains('\0') => Err(self.invalid("must not contain a null character")),
            text => Ok(text),
        }
    }

    pub fn file(&self) -> Result<PathBuf, Error> {
        self.text().map(PathBuf::from)
    }

    /// Reads an absolute path of a directory and removes redundant slashes.
    pub fn directory(&self, text: &str) -> Result<PathBuf, Error> {
        let normal: PathBuf = std::path::Path::new(text).components().collect();
        let sound = normal.is_absolute() && !normal.components().any(|c| c == Component::ParentDir);
        if sound {
            Ok(normal)
        } else {
            Err(self.invalid("must be a directory that starts with \"/\", without \"..\""))
        }
    }

    /// Keeps the error of a part of the document, so that other parts are read as well
    /// ([`Mistakes::part`]).
    pub fn part<T>(&self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        self.scope.mistakes.part(read)
    }

    pub fn boolean(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    pub fn integer(&self, range: RangeInclusive<i64>) -> Result<i64, Error> {
        let value = self.value.as_i64().ok_or_else(|| self.wrong_type("an integer"))?;
        if range.contains(&value) {
            return Ok(value);
        }
        let allowed = match (*range.start(), *range.end()) {
            (low, i64::MAX) => format!("{low} or more"),
            (low, high) => format!("between {low} and {high}"),
        };
        Err(self.invalid(format_args!("must be {allowed}, but is {value}")))
    }

    /// Reads an integer from `low` to 2,147,483,647.
    pub fn count(&self, low: u32) -> Result<u32, Error> {
        let value = self.integer(i64::from(low)..=i64::from(i32::MAX))?;
        // In range by the line above.
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Reads a number of bytes, at least `low`.
    pub fn size(&self, low: u64) -> Result<u64, Error> {
        let range = i64::try_from(low).unwrap_or(i64::MAX)..=i64::MAX;
        let value = self.integer(range).map_err(|error| self.in_units(error, units::bytes))?;
        Ok(value.unsigned_abs())
    }

    /// Adds the number as a hint to an error about a string that contains a number with a unit.
    fn in_units(&self, error: Error, number: fn(&str) -> Option<u64>) -> Error {
        match self.value.as_str().and_then(number) {
            Some(number) => error.with_hint(format!("write {number}, without quotes or a unit")),
            None => error,
        }
    }

    /// Reads whole seconds, from `low` to 2,147,483 (31 bits of milliseconds, 24 days), as in Unit.
    pub fn seconds(&self, low: u64) -> Result<Duration, Error> {
        let low = i64::try_from(low).unwrap_or(i64::MAX);
        let value = self.integer(low..=i64::from(i32::MAX) / 1000);
        let value = value.map_err(|error| self.in_units(error, units::seconds))?;
        Ok(Duration::from_secs(value.unsigned_abs()))
    }

    pub fn elements(&'a self) -> Result<impl Iterator<Item = Node<'a>>, Error> {
        let elements = self.value.as_array().ok_or_else(|| self.wrong_type("an array"))?;
        let child = |(index, value)| self.child(Segment::Index(index), value);
        Ok(elements.iter().enumerate().map(child))
    }

    /// Returns the elements of an array, or the value itself as the only element.
    pub fn one_or_many(&'a self) -> impl Iterator<Item = Node<'a>> {
        let (one, many) = match self.value {
            Value::Array(elements) => (None, elements.as_slice()),
            _ => (Some(*self), [].as_slice()),
        };
        let child = |(index, value)| self.child(Segment::Index(index), value);
        one.into_iter().chain(many.iter().enumerate().map(child))
    }

    /// Returns a string as the only element, or the elements of an array. They need not be strings.
    pub fn strings(&'a self) -> Result<impl Iterator<Item = Node<'a>>, Error> {
        if self.value.is_string() || self.value.is_array() {
            Ok(self.one_or_many())
        } else {
            Err(self.wrong_type("a string or an array of strings"))
        }
    }

    /// Returns the members of an object whose keys are names chosen by the user.
    pub fn members(&'a self) -> Result<impl Iterator<Item = (&'a str, Node<'a>)>, Error> {
        let members = self.value.as_object().ok_or_else(|| self.wrong_type("an object"))?;
        Ok(members
            .iter()
            .map(|(name, value)| (name.as_str(), self.child(Segment::Key(name), value))))
    }

    /// Returns an object with the keys of a shape. Error: it has a key that is not available.
    pub fn object(&'a self, shape: &'static Shape) -> Result<Object<'a>, Error> {
        let members = self.value.as_object().ok_or_else(|| self.wrong_type("an object"))?;
        for key in shape.keys().filter(|key| key.presence == Presence::Unavailable) {
            if let Some((name, value)) = members.get_key_value(key.name) {
                return Err(unavailable(&self.child(Segment::Key(name), value)));
            }
        }
        Ok(Object { node: self, members, shape })
    }
}

impl<'a> Object<'a> {
    /// Returns the path of the object.
    pub fn place(&self) -> String {
        self.node.place()
    }

    /// Returns true if the object has a key, whether or not it is read.
    pub fn has(&self, key: &str) -> bool {
        self.members.contains_key(key)
    }

    /// Returns the row of a key.
    fn row(&self, key: &str) -> Option<&'static Key> {
        let row = self.shape.key(key);
        debug_assert!(row.is_some(), "\"{key}\" is not in the table of \"{}\"", self.shape.name);
        row
    }

    /// Returns the value of a key, if the object has it.
    pub fn optional(&self, key: &'static str) -> Option<Node<'a>> {
        // Most keys of an object are absent, and the table is long.
        debug_assert!(self.row(key).is_some());
        let (key, value) = self.members.get_key_value(key)?;
        Some(self.node.child(Segment::Key(key), value))
    }

    /// Returns the value of a key that the object must have.
    pub fn required(&self, key: &'static str) -> Result<Node<'a>, Error> {
        self.optional(key).ok_or_else(|| self.missing(&[key]))
    }

    /// Reads the value of a key with `read`, if the object has it. An error is kept
    /// ([`Node::part`]), so that the other keys of the object are read as well.
    pub fn read<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Node<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.optional(key).map(|node| read(&node)) {
            Some(read) => self.node.part(read),
            None => Ok(None),
        }
    }

    /// Reads the value of a key with `read`. Without the key, it reads the default of the table,
    /// which must be JSON.
    pub fn read_or_default<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Node<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(value) = self.read(key, &read)? {
            return Ok(value);
        }
        let default = self.row(key).and_then(|row| serde_json::from_str(row.default).ok());
        read(&self.node.child(Segment::Key(key), &default.unwrap_or(Value::Null)))
    }

    /// Reads a boolean, if the object has it.
    pub fn boolean(&self, key: &'static str) -> Result<Option<bool>, Error> {
        self.read(key, |node| node.boolean())
    }

    /// Reads a boolean. Without the key, it has the default of the table.
    pub fn switch(&self, key: &'static str) -> Result<bool, Error> {
        let default = || self.row(key).is_some_and(|row| row.default == "true");
        Ok(self.boolean(key)?.unwrap_or_else(default))
    }

    /// Reads an integer in the range of the table, if the object has it.
    pub fn integer<T: TryFrom<i64>>(&self, key: &'static str) -> Result<Option<T>, Error> {
        let range = self.row(key).map_or(i64::MIN..=i64::MAX, Key::range);
        let value = self.read(key, |node| node.integer(range))?;
        Ok(value.and_then(|value| T::try_from(value).ok()))
    }

    /// Reads an integer in the range of the table. Without the key, it has the default of the
    /// table.
    pub fn integer_or_default<T: TryFrom<i64> + Default>(
        &self,
        key: &'static str,
    ) -> Result<T, Error> {
        let default = || self.row(key)?.default.parse::<i64>().ok()?.try_into().ok();
        Ok(self.integer(key)?.or_else(default).unwrap_or_default())
    }

    /// Reads an integer in the range of the table, which the object must have.
    pub fn required_integer<T: TryFrom<i64> + Default>(
        &self,
        key: &'static str,
    ) -> Result<T, Error> {
        let range = self.row(key).map_or(i64::MIN..=i64::MAX, Key::range);
        Ok(T::try_from(self.required(key)?.integer(range)?).unwrap_or_default())
    }

    /// Reads a number of bytes, at least the minimum of the table, if the object has it.
    pub fn bytes(&self, key: &'static str) -> Result<Option<u64>, Error> {
        self.read(key, |node| node.size(self.minimum(key)))
    }

    /// Reads whole seconds, at least the minimum of the table, if the object has it.
    pub fn seconds(&self, key: &'static str) -> Result<Option<Duration>, Error> {
        self.read(key, |node| node.seconds(self.minimum(key)))
    }

    /// Reads whole seconds, at least the minimum of the table. Without the key, they have the
    /// default of the table.
    pub fn seconds_or_default(&self, key: &'static str) -> Result<Duration, Error> {
        self.read_or_default(key, |node| node.seconds(self.minimum(key)))
    }

    fn minimum(&self, key: &'static str) -> u64 {
        self.row(key).map_or(0, |row| row.range().start().unsigned_abs())
    }

    /// Reads a name ([`Node::text`]), if the object has it.
    pub fn text(&self, key: &'static str) -> Result<Option<String>, Error> {
        self.read(key, |node| node.text().map(str::to_owned))
    }

    /// Reads a file name, if the object has it.
    pub fn file(&self, key: &'static str) -> Result<Option<PathBuf>, Error> {
        self.read(key, |node| node.file())
    }

    /// Returns the names of the keys that the object may have.
    fn allowed(&self) -> impl Iterator<Item = &'static str> {
        let is_allowed = |key: &&Key| match key.presence {
            Presence::Optional | Presence::Required => key.beside.is_none_or(|key| self.has(key)),
            Presence::Kind => self.has(key.name),
            Presence::Replaced | Presence::Unavailable | Presence::Internal => false,
        };
        self.shape.keys().filter(is_allowed).map(|key| key.name)
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.allowed().any(|key| key == name)
    }

    /// Returns the error for an object without any of these keys. A mistyped key is named instead.
    pub fn missing(&self, keys: &[&'static str]) -> Error {
        let is_new = |name: &&String| !keys.contains(&name.as_str()) && !self.is_allowed(name);
        let others = || self.members.keys().filter(is_new);
        for name in others() {
            if let Some(meant) = nearest(name, keys.iter().copied()) {
                return self.unknown(name, Some(meant));
            }
        }
        let (message, missing) = match keys {
            [key] => (format!("\"{key}\" is missing"), Some(*key)),
            keys => (format!("one of {} is missing", quoted(keys)), None),
        };
        let error = self.node.error(ErrorKind::MissingKey, message).with_key(missing);
        if keys.iter().any(|key| self.has(key)) {
            return error.follow_on();
        }
        let names = others().cloned().collect();
        error.about(Unknown::InsteadOf { names, missing: keys.to_vec() })
    }

    /// Refuses members that the object must not have. If there are several, the errors of all but
    /// the last are kept ([`Node::part`]).
    pub fn end(self) -> Result<(), Error> {
        let is_internal =
            |name: &str| self.shape.key(name).is_some_and(|key| key.presence == Presence::Internal);
        let mut result = Ok(());
        for name in self.members.keys() {
            if !self.is_allowed(name) && !is_internal(name) {
                self.node.part(result)?;
                result = Err(self.unknown(name, nearest(name, self.allowed())));
            }
        }
        result
    }

    fn unknown(&self, name: &str, meant: Option<&'static str>) -> Error {
        let message = format!("unknown key \"{}\"", Shown(name));
        let known: Vec<_> = self.allowed().collect();
        let hint = match meant {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None if known.is_empty() => "no key is allowed here".to_owned(),
            None => format!("allowed here: {}", quoted(&known)),
        };
        let error = self.node.error(ErrorKind::UnknownKey, message).with_key(meant);
        error.with_hint(hint).about(Unknown::Key { name: name.to_owned(), known, nearest: meant })
    }
}

/// Implements `Default`: the value that a reader makes of an object without keys.
macro_rules! default_of_reader {
    ($type:ident, $read:expr) => {
        impl Default for $type {
            fn default() -> Self {
                $crate::node::of_empty_object($read)
            }
        }
    };
}

pub(crate) use default_of_reader;

/// Reads an object without keys, all of which have defaults in their table.
pub(crate) fn of_empty_object<T>(read: impl Fn(&Node<'_>) -> Result<T, Error>) -> T {
    let (document, mistakes) = (Value::Object(Map::new()), Mistakes::default());
    let scope = Scope {
        definitions: Definitions::of(&document),
        defaults: Defaults::default(),
        groups: &Groups::default(),
        variables: &DefinedVariables::default(),
        mistakes: &mistakes,
    };
    // The tables are constants.
    read(&Node::root(&document, &scope)).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the number or switch of an `allowed` type that a text was written for.
fn without_quotes<'t>(text: &'t str, allowed: &str) -> Option<&'t str> {
    if ["integer", "number"].iter().any(|kind| allowed.contains(kind))
        && text.parse::<i64>().is_ok()
    {
        return Some(text);
    }
    match text.to_ascii_lowercase().as_str() {
        _ if !allowed.contains("true or false") && !allowed.contains("boolean") => None,
        "true" | "on" | "yes" | "1" => Some("true"),
        "false" | "off" | "no" | "0" => Some("false"),
        _ => None,
    }
}

/// Returns the error for a key that Howdah does not support.
fn unavailable(node: &Node<'_>) -> Error {
    let message = format!("{} is not available in this version of Howdah", node.subject());
    node.error(ErrorKind::Unavailable, message)
}

/// Formats words as `"a", "b" or "c"`.
pub(crate) fn quoted(words: &[&str]) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        let separator = match index {
            0 => "",
            last if last + 1 == words.len() => " or ",
            _ => ", ",
        };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}\"{}\"", Shown(word));
    }
    text
}

impl fmt::Display for Path<'_> {
    /// Formats the path; recursion is bounded by the depth of the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Index(index) => write!(f, "/{index}"),
            Segment::Key(key) => write_key(f, key),
        }
    }
}

#[cfg(test)]
mod tests;
