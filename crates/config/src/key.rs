//! Tables of the keys of a document's objects.
//!
//! Beside each struct that an object is read into is its [`Shape`]: a row for each key. The reader
//! looks up the known keys, ranges and defaults there. The JSON Schema, the tables of the
//! documentation and missing keys of the example document are generated from it (`make generate`).

use std::ops::RangeInclusive;

/// The keys of a kind of object.
#[derive(Debug)]
pub struct Shape {
    /// Name of the definition in the JSON Schema.
    pub name: &'static str,
    /// The rows; kinds of objects share lists of them.
    pub parts: &'static [&'static [Key]],
}

/// A key of an object.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The meaning: a sentence in Markdown, without links and a full stop.
    pub about: &'static str,
    /// Further sentences in Markdown for the documentation, with a full stop after all but the
    /// last.
    pub details: &'static str,
    /// The value that an absent key stands for: in JSON, or in words; empty if there is none.
    pub default: &'static str,
    /// Tells if the object must have the key.
    pub presence: Presence,
    /// The key without which this one is not allowed.
    pub beside: Option<&'static str>,
    /// Effect on the actions that an action passes requests to.
    pub inheritance: Inheritance,
    /// True if NGINX Unit has the key.
    pub is_of_unit: bool,
}

/// The rule for the presence of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The object may have the key.
    Optional,
    /// The object must have the key.
    Required,
    /// The object must have exactly one of its keys of this presence, which names its kind.
    Kind,
    /// NGINX Unit has the key; it is refused.
    Unavailable,
    /// The key is replaced before the document is read, and refused then.
    Replaced,
    /// The server itself writes the key. Messages and documentation do not name it.
    Internal,
}

/// Effect of a key of an action on the actions that the request is passed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inheritance {
    /// None.
    Own,
    /// The value also holds for actions that do not have the key.
    Inherited,
    /// The members of all actions count.
    AddsUp,
}

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A string.
    Text,
    /// `true` or `false`.
    Switch,
    /// `false`.
    Off,
    /// An integer with its minimum and maximum.
    Integer(i64, i64),
    /// An integer number of seconds with its minimum.
    Seconds(i64),
    /// An integer number of bytes with its minimum.
    Bytes(i64),
    /// Any number.
    Number,
    /// A string, or an array of strings.
    Texts,
    /// A string that matches this pattern.
    Matching(&'static str),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// An object.
    Object(&'static Shape),
    /// An object of this name, which contains objects of the same kind.
    Recursive(&'static str),
    /// An object with names as keys and values of this type.
    Named(&'static Kind),
    /// An array.
    Array(&'static Kind),
    /// A value of this type, or an array of them.
    OneOrMany(&'static Kind),
    /// A value of any of these types.
    Either(&'static [Kind]),
    /// `null`.
    Null,
}

/// Maximum of counts.
pub(crate) const COUNT: i64 = i32::MAX as i64;

/// Maximum of seconds: 31 bits of milliseconds (24 days), as in Unit.
pub(crate) const SECONDS: i64 = COUNT / 1000;

impl Key {
    /// Returns the row of an optional key.
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Key {
        Key {
            name,
            kind,
            about,
            details: "",
            default: "",
            presence: Presence::Optional,
            beside: None,
            inheritance: Inheritance::Own,
            is_of_unit: false,
        }
    }

    /// Returns the row of a Boolean key.
    pub const fn switch(name: &'static str, default: bool, about: &'static str) -> Key {
        Key::new(name, Kind::Switch, about).default(if default { "true" } else { "false" })
    }

    /// Sets the default.
    pub const fn default(self, default: &'static str) -> Key {
        Key { default, ..self }
    }

    /// Sets the details.
    pub const fn details(self, details: &'static str) -> Key {
        Key { details, ..self }
    }

    /// Makes the key one that the object must have.
    pub const fn required(self) -> Key {
        Key { presence: Presence::Required, ..self }
    }

    /// Makes the key one that names the kind of the object.
    pub const fn kind(self) -> Key {
        Key { presence: Presence::Kind, ..self }
    }

    /// Makes the key one that is refused.
    pub const fn unavailable(self) -> Key {
        Key { presence: Presence::Unavailable, is_of_unit: true, ..self }
    }

    /// Makes the key one that is replaced before the document is read.
    pub const fn replaced(self) -> Key {
        Key { presence: Presence::Replaced, ..self }
    }

    /// Makes the key one that only the server writes.
    pub const fn internal(self) -> Key {
        Key { presence: Presence::Internal, ..self }
    }

    /// Allows the key only beside another one.
    pub const fn beside(self, other: &'static str) -> Key {
        Key { beside: Some(other), ..self }
    }

    /// Makes the key one that the destination of the request inherits.
    pub const fn inherited(self) -> Key {
        Key { inheritance: Inheritance::Inherited, ..self }
    }

    /// Makes the key one whose members of all actions count.
    pub const fn adds_up(self) -> Key {
        Key { inheritance: Inheritance::AddsUp, ..self }
    }

    /// Marks the key as one of NGINX Unit.
    pub const fn unit(self) -> Key {
        Key { is_of_unit: true, ..self }
    }

    /// Returns the range of the integers that the key accepts.
    pub(crate) fn range(&self) -> RangeInclusive<i64> {
        self.kind.range().unwrap_or(i64::MIN..=i64::MAX)
    }
}

impl Shape {
    /// Returns all rows.
    pub fn keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.parts.iter().copied().flatten()
    }

    /// Returns the row of a name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// Returns the shapes of this object and of all objects in it, each once.
    pub fn all(&'static self) -> Vec<&'static Shape> {
        let mut found = vec![self];
        let mut next = 0;
        while let Some(shape) = found.get(next) {
            for key in shape.keys() {
                key.kind.collect(&mut found);
            }
            next += 1;
        }
        found
    }
}

impl Kind {
    fn range(&self) -> Option<RangeInclusive<i64>> {
        match self {
            Kind::Integer(low, high) => Some(*low..=*high),
            Kind::Seconds(low) => Some(*low..=SECONDS),
            Kind::Bytes(low) => Some(*low..=i64::MAX),
            Kind::OneOrMany(kind) => kind.range(),
            Kind::Either(kinds) => kinds.iter().find_map(Kind::range),
            _ => None,
        }
    }

    /// Adds the shapes of objects in values of this type that `found` does not have.
    fn collect(&self, found: &mut Vec<&'static Shape>) {
        match self {
            Kind::Named(kind) | Kind::Array(kind) | Kind::OneOrMany(kind) => kind.collect(found),
            Kind::Either(kinds) => kinds.iter().for_each(|kind| kind.collect(found)),
            Kind::Object(shape) if found.iter().all(|other| other.name != shape.name) => {
                found.push(shape);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static INNER: Shape =
        Shape { name: "inner", parts: &[&[Key::new("a", Kind::Recursive("outer"), "")]] };
    static OTHER: Shape = Shape { name: "other", parts: &[&[Key::switch("a", true, "")], &[]] };
    static OUTER: Shape = Shape {
        name: "outer",
        parts: &[
            &[
                Key::new("one", Kind::Named(&Kind::Object(&INNER)), ""),
                Key::new("many", Kind::OneOrMany(&Kind::Object(&INNER)), ""),
            ],
            &[
                Key::new("any", Kind::Either(&[Kind::Off, Kind::Array(&Kind::Object(&OTHER))]), ""),
                Key::new("one", Kind::Text, "Only the first row of a name counts"),
            ],
        ],
    };

    #[test]
    fn a_type_has_the_range_of_its_integers() {
        let range = |kind| Key::new("key", kind, "").range();
        assert_eq!(range(Kind::Integer(1, 2)), 1..=2);
        assert_eq!(range(Kind::Seconds(1)), 1..=2_147_483);
        assert_eq!(range(Kind::Bytes(5)), 5..=i64::MAX);
        assert_eq!(range(Kind::OneOrMany(&Kind::Integer(3, 4))), 3..=4);
        assert_eq!(range(Kind::Either(&[Kind::Off, Kind::Integer(5, 6)])), 5..=6);
        assert_eq!(range(Kind::Text), i64::MIN..=i64::MAX);
    }

    #[test]
    fn a_row_has_the_properties_that_it_was_made_with() {
        let key = Key::new("key", Kind::Text, "about");
        assert_eq!((key.presence, key.inheritance), (Presence::Optional, Inheritance::Own));
        assert!(key.beside.is_none() && !key.is_of_unit && key.default.is_empty());
        let defaults = [true, false].map(|default| Key::switch("key", default, "").default);
        assert_eq!(defaults, ["true", "false"]);
        assert!(key.unavailable().is_of_unit && key.unit().is_of_unit);
        let presences = [key.required(), key.kind(), key.replaced(), key.internal()];
        assert_eq!(
            presences.map(|key| key.presence),
            [Presence::Required, Presence::Kind, Presence::Replaced, Presence::Internal]
        );
        assert_eq!(key.inherited().inheritance, Inheritance::Inherited);
        assert_eq!(key.adds_up().inheritance, Inheritance::AddsUp);
        assert_eq!(key.beside("other").beside, Some("other"));
    }

    #[test]
    fn the_objects_in_an_object_are_found_once() {
        let names: Vec<_> = OUTER.all().iter().map(|shape| shape.name).collect();
        assert_eq!(names, ["outer", "inner", "other"]);
        assert_eq!(OUTER.keys().count(), 4);
        assert!(OUTER.key("one").is_some_and(|key| matches!(key.kind, Kind::Named(_))));
        assert!(OUTER.key("two").is_none());
    }
}
