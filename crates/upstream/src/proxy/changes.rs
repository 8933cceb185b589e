//! Changes that an upstream makes to the head of a request.

use howdah_config as config;
use howdah_http::message::Request;
use howdah_http::trace::TraceFields;
use howdah_http::trace_context::TRACESTATE;
use howdah_http::variables::VariableSource;

use crate::proxy::field_value::plain;
use crate::proxy::forwarded;

/// Fields that an upstream sets or removes.
#[derive(Debug, Clone, Default)]
pub struct HeadChanges {
    /// Value of `Host`; `None` for the client's.
    pub host: Option<Vec<u8>>,
    /// Fields that replace the client's fields of the same name.
    pub set: Vec<(String, Vec<u8>)>,
    /// Names of the client's fields that are removed.
    pub removed: Vec<String>,
    /// All fields of the client but `Host` are removed.
    pub removes_all: bool,
}

impl HeadChanges {
    /// Returns the changes that an upstream and the options of an action make to a request.
    pub fn new(
        config: &config::Upstream,
        options: &config::ServerOptions,
        request: &Request,
        source: &VariableSource<'_>,
    ) -> Self {
        let host = config.host.as_ref().map(|host| plain(&source.expand(host)));
        let mut changes = HeadChanges {
            host: host.filter(|host| !host.is_empty()),
            set: forwarded::fields(options.forwarded.unwrap_or(config.forwarded), request),
            removed: Vec::new(),
            removes_all: !options.passes_headers(),
        };
        if let Some(fields) = TraceFields::for_attempt(request) {
            let own = fields.pairs().map(|(name, value)| (name.to_owned(), value.to_vec()));
            changes.set.extend(own);
            if fields.state.is_none() {
                changes.removed.push(TRACESTATE.to_owned());
            }
        }
        for (name, value) in config.headers.iter().chain(&options.headers) {
            let value = value.as_ref().map(|value| plain(&source.expand(value)));
            let value = value.filter(|value| !value.is_empty());
            if name.eq_ignore_ascii_case("host") {
                changes.host = value.or(changes.host);
                continue;
            }
            changes.set.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            match value {
                Some(value) => changes.set.push((name.clone(), value)),
                None => changes.removed.push(name.clone()),
            }
        }
        changes
    }

    /// Returns true if a field of the client is removed or replaced.
    pub fn leaves_out(&self, name: &[u8]) -> bool {
        let is = |other: &String| other.as_bytes().eq_ignore_ascii_case(name);
        (self.removes_all && !name.eq_ignore_ascii_case(b"host"))
            || self.removed.iter().any(is)
            || self.set.iter().any(|(other, _)| is(other))
    }
}

#[cfg(test)]
mod tests;
