//! `match`: the conditions of a step.

use howdah_template::{Patterns, Subject};

use crate::address_pattern::AddressPatterns;
use crate::condition::Condition;
use crate::error::Error;
use crate::fields::{CookieNames, FieldPatterns};
use crate::file_conditions::{self, FileCondition};
use crate::key::{Key, Kind, Shape};
use crate::node::Node;
use crate::patterns;

/// Named patterns, or alternatives of them.
const FIELDS: Kind = Kind::OneOrMany(&Kind::Named(&Kind::Texts));

/// Conditions.
pub(crate) static MATCH: Shape = Shape {
    name: "match",
    parts: &[
        &[
            Key::new("method", Kind::Texts, "Patterns of the method")
                .details(
                    "Case-insensitive. Requests whose method has other characters than capital \
                     letters, `-` and `_` are answered with 400, as by nginx and Unit: \
                     applications take `post` for `POST`",
                )
                .unit(),
            Key::new("scheme", Kind::Text, "The scheme: `\"http\"` or `\"https\"`").unit(),
            Key::new("host", Kind::Texts, "Patterns of the requested host, without port")
                .details("Case-insensitive")
                .unit(),
            Key::new("source", Kind::Texts, "Patterns of the client's address")
                .details("[Address patterns](#address-patterns)")
                .unit(),
            Key::new(
                "destination",
                Kind::Texts,
                "Patterns of the address that the client connected to",
            )
            .details("[Address patterns](#address-patterns)")
            .unit(),
            Key::new(
                "uri",
                Kind::Texts,
                "Patterns of the path, decoded and normalised, without query",
            )
            .details(
                "Case-sensitive. The pattern is written percent-encoded: `%2A` is a literal star",
            )
            .unit(),
            Key::new("query", Kind::Texts, "Patterns of the query, decoded")
                .details("The pattern is written percent-encoded, `+` is a space")
                .unit(),
            Key::new("arguments", FIELDS, "Patterns of arguments of the query by name")
                .details(
                    "Names and values are decoded; patterns are written percent-encoded. A name \
                     also stands for those that PHP makes the same: `rest_route` for \
                     `rest.route`, `rest route`, `rest_route[]`",
                )
                .unit(),
            Key::new("headers", FIELDS, "Patterns of header fields by name")
                .details("Case-insensitive")
                .unit(),
            Key::new("cookies", FIELDS, "Patterns of cookies by name")
                .details("Names as in `arguments`")
                .unit(),
        ],
        file_conditions::KEYS,
        &[Key::new(
            "if",
            Kind::Text,
            "Text with variables; the condition holds unless the text is empty, `0`, `false`, \
             `null` or `undefined`",
        )
        .details("See [Variables](variables.md). A `!` in front negates the condition")
        .unit()],
    ],
};

/// Conditions, all of which must hold. An absent condition holds.
#[derive(Debug, Clone, Default)]
pub struct Match {
    /// The method.
    pub method: Option<Patterns>,
    /// The scheme.
    pub scheme: Option<Scheme>,
    /// The requested host, without port.
    pub host: Option<Patterns>,
    /// The client's address.
    pub source: Option<AddressPatterns>,
    /// The address that the client connected to.
    pub destination: Option<AddressPatterns>,
    /// The decoded, normalised path.
    pub uri: Option<Patterns>,
    /// The decoded query.
    pub query: Option<Patterns>,
    /// Arguments of the query, names and values decoded.
    pub arguments: Option<FieldPatterns>,
    /// Header fields.
    pub headers: Option<FieldPatterns>,
    /// Cookies.
    pub cookies: Option<FieldPatterns>,
    /// Files that must exist, or must not.
    pub files: Vec<FileCondition>,
    /// `if`: a template; its text must be neither empty nor false.
    pub condition: Option<Condition>,
}

/// The scheme of a request, as the server or a trusted proxy received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Match {
    /// Returns true if there is no condition but `uri`.
    pub fn is_of_path_alone(&self) -> bool {
        let Match {
            uri: _,
            method: None,
            scheme: None,
            host: None,
            source: None,
            destination: None,
            query: None,
            arguments: None,
            headers: None,
            cookies: None,
            files,
            condition: None,
        } = self
        else {
            return false;
        };
        files.is_empty()
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Match, Error> {
        Match::read_with(node, CookieNames::Exact)
    }

    /// Reads a condition of a cache, where names of cookies may have a `*`.
    pub(crate) fn read_for_cache(node: &Node<'_>) -> Result<Match, Error> {
        Match::read_with(node, CookieNames::Php)
    }

    fn read_with(node: &Node<'_>, names: CookieNames) -> Result<Match, Error> {
        let object = node.object(&MATCH)?;
        let patterns = |key, subject| {
            let read = |node: &Node<'_>| patterns::read(node, subject);
            object.read(key, read)
        };
        let addresses = |key| object.read(key, AddressPatterns::read);
        let fields = |key, subject| {
            let read = |node: &Node<'_>| FieldPatterns::read(node, subject);
            object.read(key, read)
        };
        let conditions = Match {
            method: patterns("method", Subject::Method)?,
            scheme: object.read("scheme", Scheme::read)?,
            host: patterns("host", Subject::Host)?,
            source: addresses("source")?,
            destination: addresses("destination")?,
            uri: object.read("uri", |uri| patterns::read(uri, Subject::Uri))?,
            query: patterns("query", Subject::Query)?,
            arguments: fields("arguments", Subject::Argument)?,
            headers: fields("headers", Subject::Header)?,
            cookies: object.read("cookies", |node| FieldPatterns::read_cookies(node, names))?,
            files: FileCondition::read_all(&object)?,
            condition: object.read("if", Condition::read)?,
        };
        object.end()?;
        Ok(conditions)
    }
}

impl Scheme {
    fn read(node: &Node<'_>) -> Result<Scheme, Error> {
        match node.string()?.to_ascii_lowercase().as_str() {
            "http" => Ok(Scheme::Http),
            "https" => Ok(Scheme::Https),
            _ => Err(node.wrong_type("\"http\" or \"https\"")),
        }
    }
}
