//! Conditions of a step (`match`), and their combinations.

use serde_json::{Map, Value, json};

/// Conditions that all have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// Patterns of the path.
    pub uri: Vec<String>,
    /// Patterns of the method.
    pub method: Vec<String>,
    /// Patterns of the host.
    pub host: Vec<String>,
    /// Patterns of the query.
    pub query: Vec<String>,
    /// Patterns of the client's address.
    pub source: Vec<String>,
    /// `http` or `https`.
    pub scheme: Option<&'static str>,
    /// Patterns of header fields.
    pub headers: Vec<(String, Vec<String>)>,
    /// Text that must not be empty, or must be with a `!`.
    pub text: Option<String>,
    /// Only for the path that was asked for, not for one that a rule has led to; a step cannot say that.
    pub is_first_round: bool,
}

impl Match {
    /// Conditions on the path.
    pub fn uri(patterns: Vec<String>) -> Match {
        Match { uri: patterns, ..Match::default() }
    }

    /// Returns true if a step needs no condition.
    pub fn is_empty(&self) -> bool {
        *self == Match { is_first_round: self.is_first_round, ..Match::default() }
    }

    /// Returns conditions that hold if both do; `None` if a step cannot say that.
    pub fn and(&self, other: &Match) -> Option<Match> {
        let mut headers = self.headers.clone();
        for (name, patterns) in &other.headers {
            match headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, known)) => *known = both(known, patterns)?,
                None => headers.push((name.clone(), patterns.clone())),
            }
        }
        Some(Match {
            uri: both(&self.uri, &other.uri)?,
            method: both(&self.method, &other.method)?,
            host: both(&self.host, &other.host)?,
            query: both(&self.query, &other.query)?,
            source: both(&self.source, &other.source)?,
            scheme: either(&self.scheme, &other.scheme)?,
            headers,
            text: either(&self.text, &other.text)?,
            is_first_round: self.is_first_round || other.is_first_round,
        })
    }

    /// Returns the `match` of a step.
    pub fn as_json(&self) -> Value {
        let mut members = Map::new();
        let lists = [
            ("uri", &self.uri),
            ("method", &self.method),
            ("host", &self.host),
            ("query", &self.query),
            ("source", &self.source),
        ];
        for (name, list) in lists {
            if !list.is_empty() {
                members.insert(name.to_owned(), one_or_more(list));
            }
        }
        if let Some(scheme) = self.scheme {
            members.insert("scheme".to_owned(), json!(scheme));
        }
        if !self.headers.is_empty() {
            let headers: Map<_, _> = { self.headers.iter() }
                .map(|(name, patterns)| (name.clone(), one_or_more(patterns)))
                .collect();
            members.insert("headers".to_owned(), Value::Object(headers));
        }
        if let Some(text) = &self.text {
            members.insert("if".to_owned(), json!(text));
        }
        Value::Object(members)
    }

    /// Returns a step with an action.
    pub fn step(&self, action: Value) -> Value {
        match self.is_empty() {
            true => json!({ "action": action }),
            false => json!({ "match": self.as_json(), "action": action }),
        }
    }
}

/// Returns the alternatives that hold if one of each of both lists does.
pub fn product(left: &[Match], right: &[Match]) -> Option<Vec<Match>> {
    if left.len() * right.len() > MAX_ALTERNATIVES {
        return None;
    }
    let pairs = left.iter().flat_map(|left| right.iter().map(move |right| left.and(right)));
    pairs.collect()
}

/// Maximum number of steps that one rule becomes.
const MAX_ALTERNATIVES: usize = 64;

/// A list of patterns accepts what a pattern accepts and none with a `!` excludes: of those that have to accept,
/// only one list can be there.
fn both(left: &[String], right: &[String]) -> Option<Vec<String>> {
    let accepts = |list: &[String]| list.iter().any(|pattern| !pattern.starts_with('!'));
    if left == right {
        return Some(left.to_vec());
    }
    match accepts(left) && accepts(right) {
        true => None,
        false => Some(left.iter().chain(right).cloned().collect()),
    }
}

fn either<T: Clone + PartialEq>(left: &Option<T>, right: &Option<T>) -> Option<Option<T>> {
    match (left, right) {
        (Some(left), Some(right)) if left != right => None,
        _ => Some(left.clone().or_else(|| right.clone())),
    }
}

fn one_or_more(list: &[String]) -> Value {
    match list {
        [only] => json!(only),
        list => json!(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(patterns: &[&str]) -> Match {
        Match::uri(patterns.iter().map(|&pattern| pattern.to_owned()).collect())
    }

    #[test]
    fn excluding_patterns_can_be_added_and_accepting_ones_cannot() {
        let both = uri(&["/a/*"]).and(&uri(&["!/a/b"])).unwrap();
        assert_eq!(both.uri, ["/a/*", "!/a/b"]);
        assert_eq!(uri(&["/a/*"]).and(&uri(&["*.html"])), None);
        assert_eq!(uri(&["/a"]).and(&uri(&["/a"])), Some(uri(&["/a"])));
    }

    #[test]
    fn a_step_without_conditions_has_no_match() {
        assert_eq!(
            Match::default().step(json!({"return": 404})),
            json!({"action": {"return": 404}})
        );
        let step = uri(&["/a", "/b"]).step(json!({}));
        assert_eq!(step, json!({"match": {"uri": ["/a", "/b"]}, "action": {}}));
    }
}
