//! `No-Vary-Search`: parameters of a query that a response does not depend on (RFC-to-be
//! draft-ietf-httpbis-no-vary-search).
//!
//! Queries that a response states to be equal have one key. Applications may read queries in other
//! ways than this cache: PHP takes ` id`, `id[]` and `i.d` for other names. A query in which a
//! parameter would be left out or moved whose name an application may take for another one
//! therefore counts as it is.

use std::borrow::Cow;

use howdah_http::message::FieldBlock;
use howdah_text::percent;

use crate::control::values;
use crate::structured::{self, Value};

/// Maximum number of names in a field, and of parameters in a query.
const MAX_PARAMETERS: usize = 128;

/// The effect of queries on a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variance {
    ignores_order: bool,
    parameters: Parameters,
}

/// Parameters, by their decoded names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parameters {
    /// These parameters have no effect on the response.
    Ignored(Vec<Vec<u8>>),
    /// Only these have an effect.
    Relevant(Vec<Vec<u8>>),
}

impl Variance {
    /// Reads the field of a response. `None` if queries are compared as they are, also if the field
    /// is malformed.
    pub fn of(fields: &FieldBlock) -> Option<Variance> {
        let all: Vec<_> = values(fields, "no-vary-search").collect();
        if all.is_empty() {
            return None;
        }
        let members = structured::dictionary(&all.join(&b", "[..]))?;
        let value = |key: &[u8]| members.iter().find(|(k, _)| k == key).map(|(_, value)| value);
        let ignores_order = match value(b"key-order") {
            None => false,
            Some(Value::Boolean(is_set)) => *is_set,
            Some(_) => return None,
        };
        let relevant = match value(b"except") {
            None => None,
            Some(Value::Texts(names)) => Some(decoded(names)?),
            Some(_) => return None,
        };
        let parameters = match (value(b"params"), relevant) {
            (None | Some(Value::Boolean(true)), Some(names)) => Parameters::Relevant(names),
            (_, Some(_)) => return None,
            (Some(Value::Boolean(true)), None) => Parameters::Relevant(Vec::new()),
            (None | Some(Value::Boolean(false)), None) => Parameters::Ignored(Vec::new()),
            (Some(Value::Texts(names)), None) => Parameters::Ignored(decoded(names)?),
            (Some(_), None) => return None,
        };
        let variance = Variance { ignores_order, parameters };
        let is_default = !ignores_order && variance.parameters == Parameters::Ignored(Vec::new());
        (!is_default).then_some(variance)
    }

    /// Returns the part of a query that a response depends on, in an order that does not depend on
    /// that of the query if that has no effect. `None` if the query has to be compared as it is.
    pub fn canonical(&self, query: &[u8]) -> Option<Vec<u8>> {
        let mut kept: Vec<(Cow<'_, [u8]>, &[u8])> = Vec::new();
        let pieces = query.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty());
        for (number, piece) in pieces.enumerate() {
            if number >= MAX_PARAMETERS {
                return None;
            }
            let end = memchr::memchr(b'=', piece).unwrap_or(piece.len());
            let name = decode(piece.get(..end).unwrap_or_default());
            let is_kept = match &self.parameters {
                Parameters::Ignored(names) => !names.iter().any(|other| *other == *name),
                Parameters::Relevant(names) => {
                    let is_relevant = names.iter().any(|other| *other == *name);
                    if !is_relevant && names.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
                        return None;
                    }
                    is_relevant
                }
            };
            // A listed name is left out on the application's word; all others must be unambiguous.
            let is_listed = matches!(self.parameters, Parameters::Ignored(_)) && !is_kept;
            if !is_listed && (!is_kept || self.ignores_order) && !is_plain(&name) {
                return None;
            }
            if is_kept {
                kept.push((name, piece));
            }
        }
        if self.ignores_order {
            kept.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let pieces: Vec<_> = kept.into_iter().map(|(_, piece)| piece).collect();
        Some(pieces.join(&b'&'))
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let (Parameters::Ignored(names) | Parameters::Relevant(names)) = &self.parameters;
        let names = names.iter().map(|name| size_of::<Vec<u8>>() + name.capacity().max(16) + 16);
        size_of::<Variance>() + names.sum::<usize>()
    }

    /// Appends the parts of a key that identify this variance.
    pub fn write(&self, key: &mut Vec<u8>) {
        let (kind, names) = match &self.parameters {
            Parameters::Ignored(names) => (b'i', names),
            Parameters::Relevant(names) => (b'r', names),
        };
        key.extend_from_slice(&[kind, u8::from(self.ignores_order)]);
        for name in names {
            key.extend_from_slice(&(name.len() as u64).to_le_bytes());
            key.extend_from_slice(name);
        }
    }
}

/// Returns true for a name that every application reads as it is.
fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
}

/// Returns the decoded names of a list, in an order of their own. `None` if there are too many.
fn decoded(names: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    if names.len() > MAX_PARAMETERS {
        return None;
    }
    let mut names: Vec<_> = names.iter().map(|name| decode(name).into_owned()).collect();
    names.sort_unstable();
    names.dedup();
    Some(names)
}

/// Decodes a name of `application/x-www-form-urlencoded`.
fn decode(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.iter().any(|byte| matches!(byte, b'+' | b'%')) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(percent::decoded_form(name).collect())
}

#[cfg(test)]
mod tests;
