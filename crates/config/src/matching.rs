//! `match`: the conditions of a step.

use howdah_template::{Patterns, Subject};

use crate::address_pattern::AddressPatterns;
use crate::condition::Condition;
use crate::error::Error;
use crate::fields::{CookieNames, FieldPatterns};
use crate::file_conditions::FileCondition;
use crate::node::Node;
use crate::patterns;

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
        let object = node.object()?;
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
