//! `rewrite`, and the elements of `try`: a path, and a change of the query.

use howdah_template::{Part, Template, Variable};

use crate::error::Error;
use crate::node::Node;
use crate::templates;

/// A path that replaces the request's, and the query that comes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The path, percent-encoded.
    pub path: Template,
    /// Change of the query of the request.
    pub query: QueryChange,
    /// Path of the text in the document.
    pub place: String,
}

/// Change of the request's query by a rewrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryChange {
    /// The query stays.
    Keep,
    /// This query replaces it.
    Replace(Template),
    /// This query is put in front of it.
    Prepend(Template),
}

impl Rewrite {
    /// Reads `rewrite`. A query is put in front of that of the request, as by nginx's `rewrite`,
    /// unless the text ends with `?` or has the query of the request already.
    pub(crate) fn read(node: &Node<'_>) -> Result<Rewrite, Error> {
        let (path, query) = split(node.string()?);
        let path = templates::read_text(node, path)?;
        let Some(query) = query.filter(|_| node.scope.defaults.rewrites_query) else {
            return Ok(Rewrite { path, query: QueryChange::Keep, place: node.place() });
        };
        let (query, is_whole) = match query.strip_suffix('?') {
            Some(query) => (query, true),
            None => (query, query.is_empty()),
        };
        let query = templates::read_text(node, query)?;
        let has_query = query
            .parts()
            .iter()
            .any(|part| matches!(part, Part::Variable(Variable::Arguments | Variable::RequestUri)));
        let query = if is_whole || has_query {
            QueryChange::Replace(query)
        } else {
            QueryChange::Prepend(query)
        };
        Ok(Rewrite { path, query, place: node.place() })
    }

    /// Reads an element of `try`. A query replaces that of the request, as in nginx's `try_files`.
    pub(crate) fn read_candidate(node: &Node<'_>) -> Result<Rewrite, Error> {
        let (path, query) = split(node.text()?);
        let path = templates::read_text(node, path)?;
        let query = match query {
            Some(query) => QueryChange::Replace(templates::read_text(node, query)?),
            None => QueryChange::Keep,
        };
        Ok(Rewrite { path, query, place: node.place() })
    }
}

/// Splits a target at its first `?`, or at the `$is_args` that stands for it, and drops a fragment.
fn split(text: &str) -> (&str, Option<&str>) {
    let text = text.split('#').next().unwrap_or_default();
    let splits = ["?", "$is_args", "${is_args}"].into_iter().filter_map(|at| text.split_once(at));
    match splits.min_by_key(|(path, _)| path.len()) {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Action, Config, Defaults};

    fn action(action: serde_json::Value, defaults: Defaults) -> Action {
        let document = json!({"routes": [{"action": action}]});
        let mut config = Config::from_value_with(document, &defaults).expect("a document");
        std::sync::Arc::unwrap_or_clone(config.routes.remove(0).steps.remove(0).action)
    }

    fn rewrite(text: &str) -> Rewrite {
        let action = action(json!({"rewrite": text, "return": 200}), Defaults::default());
        action.rewrite.expect("a rewrite")
    }

    fn template(text: &str) -> Template {
        Template::parse(text).expect("a template")
    }

    #[test]
    fn a_query_is_kept_replaced_or_put_in_front() {
        let prepend = |text| QueryChange::Prepend(template(text));
        let replace = |text| QueryChange::Replace(template(text));
        for (text, path, query) in [
            ("/a", "/a", QueryChange::Keep),
            ("/a?b=c", "/a", prepend("b=c")),
            ("/a?b=$uri", "/a", prepend("b=$uri")),
            ("/a?b=c?", "/a", replace("b=c")),
            ("/a?", "/a", replace("")),
            ("/a??", "/a", replace("")),
            ("/a?b=$uri&$args", "/a", replace("b=$uri&$args")),
            ("/a$is_args$args", "/a", replace("$args")),
            ("/a${is_args}b=$args?c", "/a", replace("b=$args?c")),
            ("/a?$query_string", "/a", replace("$args")),
            ("/a?b#c?", "/a", prepend("b")),
            ("/a#b?c", "/a", QueryChange::Keep),
            ("", "", QueryChange::Keep),
        ] {
            let rewrite = rewrite(text);
            assert_eq!((rewrite.path, rewrite.query), (template(path), query), "{text}");
            assert_eq!(rewrite.place, "/routes/0/action/rewrite");
        }
    }

    #[test]
    fn a_document_of_unit_leaves_the_query_alone() {
        let value = json!({"rewrite": "/a?b=c", "return": 200});
        let rewrite = action(value, Defaults::of_unit()).rewrite.expect("a rewrite");
        assert_eq!((rewrite.path, rewrite.query), (template("/a"), QueryChange::Keep));
    }

    #[test]
    fn a_broken_query_is_refused_with_its_place() {
        let document = json!({"routes": [{"action": {"rewrite": "/a?$nothing", "return": 200}}]});
        let error = Config::from_value(document).expect_err("there is no such variable");
        assert_eq!(error.path(), "/routes/0/action/rewrite");
    }
}
