//! Advice on texts that are written as for nginx, are legal here and mean something else.

use howdah_config::{Action, ActionKind, PageSource, Part, Shown, Template, path};
use serde_json::Value;

use super::line::{Advice, add};

/// Checks the conditions of a step at `place`.
pub(super) fn of_match(place: &str, conditions: &Value, all: &mut Vec<Advice>) {
    let Some(headers) = conditions.get("headers") else { return };
    let objects = headers.as_array().map_or(std::slice::from_ref(headers), Vec::as_slice);
    for name in objects.iter().filter_map(Value::as_object).flat_map(|names| names.keys()) {
        let Some(written) = name.strip_prefix("http_").or_else(|| name.strip_prefix("HTTP_"))
        else {
            continue;
        };
        let message = format!(
            "is no name of a header field, so the step takes no request; write \"{}\"",
            Shown(&written.replace('_', "-"))
        );
        add(all, format!("{place}/headers{}", path([name.as_str()])), message);
    }
}

/// Returns true if an `if` is written as a comparison, which would be a text that is never empty.
pub(super) fn is_comparison(condition: &Value) -> bool {
    let text = condition.as_str().unwrap_or_default();
    let operators = [" = ", " != ", " == ", " ~ ", " ~* ", " !~ ", " !~* "];
    text.contains('$') && operators.iter().any(|operator| text.contains(operator))
}

/// The advice for a comparison.
pub(super) const NO_COMPARISONS: &str = "is not compared, but a text that always holds; write a \
     key of \"match\", as in \"headers\": {\"User-Agent\": \"*bot*\"}, or an \"if\" of a variable \
     with a \"map\" of the value to compare";

/// Checks an action at `place`.
pub(super) fn of_action(place: &str, action: &Action, all: &mut Vec<Advice>) {
    for page in &action.error_pages {
        if let PageSource::File(file) = &page.source
            && file.extension().is_some_and(|end| end.eq_ignore_ascii_case("php"))
        {
            let status = page.status;
            let message = "names a script, which is neither run nor sent as a page; write \
                           {\"action\": \
                           {\"rewrite\": \"/404.php\", \"pass\": \"applications/NAME\"}}";
            add(all, format!("{place}/error_pages/{status}"), message);
        }
    }
    let ActionKind::Share(share) = &action.kind else { return };
    if let Some(names) = share.index.iter().find(|name| name.trim().contains(' ')) {
        let names: Vec<_> = names.split_whitespace().map(quoted).collect();
        let message = format!("is the name of one file, with spaces; write [{}]", names.join(", "));
        add(all, format!("{place}/index"), message);
    }
    let has_space = |part: &Part| matches!(part, Part::Literal(text) if text.contains(' '));
    let is_list = |template: &Template| template.parts().iter().any(has_space);
    if share.candidates.iter().any(|candidate| is_list(&candidate.target.path)) {
        let message = "has one path with spaces; write an array of paths, as in [\"$uri\", \
                       \"$uri/\", \"/index.php\"]";
        add(all, format!("{place}/try"), message);
    }
}

/// Checks the `variables` of a document.
pub(super) fn of_variables(document: &Value, all: &mut Vec<Advice>) {
    let variables = document.get("variables").and_then(Value::as_object);
    for (name, definition) in variables.into_iter().flatten() {
        if definition.get("values").and_then(|values| values.get("default")).is_some()
            && definition.get("map").is_some()
            && definition.get("default").is_none()
        {
            let place = path(["variables", name.as_str(), "values", "default"]);
            add(all, place, "is for the text \"default\"; write \"default\" beside \"values\"");
        }
    }
}

/// Returns the first of these patterns for paths that protects one path and leaves out those below
/// it, unless another one has them: nginx's `location /admin` and Apache's `<Location /admin>` are
/// about both.
pub(super) fn leaves_paths_below<'p>(action: &Action, patterns: &[&'p str]) -> Option<&'p str> {
    let access = &action.access;
    let is_protected = access.allow.is_some()
        || access.deny.is_some()
        || access.basic_auth.is_some()
        || action.auth_request.is_some();
    let is_of_site =
        matches!(&action.kind, ActionKind::Pass(_) | ActionKind::Share(_) | ActionKind::Proxy(_));
    if !is_protected || !is_of_site {
        return None;
    }
    let is_one_directory = |pattern: &str| {
        let name = pattern.rsplit('/').next().unwrap_or_default();
        pattern.starts_with('/')
            && !name.is_empty()
            && !pattern.contains('*')
            && !name.contains('.')
    };
    let has_more = |pattern: &str| {
        let others = patterns.iter().filter(|other| **other != pattern);
        let mut below = others.filter(|other| other.starts_with('~') || other.starts_with(pattern));
        below.next().is_some()
    };
    patterns.iter().copied().find(|pattern| is_one_directory(pattern) && !has_more(pattern))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", Shown(name))
}
