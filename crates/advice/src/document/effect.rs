//! Conditions that hold for every request or for none, and steps that no request reaches.

use howdah_config::{
    AccessLog, Config, Listener, Moment, Part, Rewrite, Route, Shown, Step, Subject, path,
};
use serde_json::Value;

use super::absent;
use super::habits::{self, NO_COMPARISONS, is_comparison, leaves_paths_below};
use super::line::{Advice, add};
use super::scripts::{how_to_run_scripts, is_script, leaves_path_info, refuses_scripts};

/// The requests for which a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Always,
    Never,
    Depends,
}

impl From<Option<bool>> for Holds {
    fn from(constant: Option<bool>) -> Holds {
        match constant {
            Some(true) => Holds::Always,
            Some(false) => Holds::Never,
            None => Holds::Depends,
        }
    }
}

/// Checks the conditions of a route's steps and their order.
pub(super) fn of_route(config: &Config, route: &Route, all: &mut Vec<Advice>) {
    let routes = config.document.get("routes");
    let (place, steps) = match &route.name {
        Some(name) => (path(["routes", name]), routes.and_then(|routes| routes.get(name))),
        None => ("/routes".to_owned(), routes),
    };
    let mut last = None;
    for (index, step) in route.steps.iter().enumerate() {
        let place = format!("{place}/{index}");
        let conditions =
            steps.and_then(|steps| steps.get(index)).and_then(|step| step.get("match"));
        if let Some(conditions) = conditions {
            habits::of_match(&format!("{place}/match"), conditions, all);
            absent::of_match(&format!("{place}/match"), conditions, &step.action, steps, all);
        }
        let holds = match conditions {
            Some(conditions) => of_match(config, &place, conditions, step, all),
            None => Holds::Always,
        };
        if let Some(before) = last {
            let message = format!("no request comes here, as step {before} takes all of them");
            add(all, place, message);
            return;
        }
        if holds == Holds::Always {
            last = Some(index);
        }
    }
}

/// Checks the `rewrite` of an action at `place`.
pub(super) fn of_rewrite(place: &str, rewrite: &Rewrite) -> Option<Advice> {
    let Part::Literal(start) = rewrite.path.parts().first()? else { return None };
    if ["/", "http://", "https://"].iter().any(|begin| start.starts_with(begin)) {
        return None;
    }
    let message = format!(
        "\"{0}\" does not begin with a slash, so requests get 500; write \"/{0}\"",
        Shown(start)
    );
    Some(Advice { path: format!("{place}/rewrite"), message, is_note: false })
}

/// Checks the `if` of the access log.
pub(super) fn of_access_log(place: &str, log: &AccessLog, all: &mut Vec<Advice>) {
    let Some(condition) = &log.condition else { return };
    let message = match condition.constant(Moment::AfterResponse) {
        Some(true) => "always holds, so it has no effect; leave it out",
        Some(false) => "never holds, so no request gets a line",
        None => return,
    };
    add(all, format!("{place}/if"), message);
}

fn of_match(
    config: &Config,
    place: &str,
    conditions: &Value,
    step: &Step,
    all: &mut Vec<Advice>,
) -> Holds {
    let place = format!("{place}/match");
    let Some(members) = conditions.as_object() else { return Holds::Depends };
    if members.is_empty() {
        add(all, place, "has no condition, so the step takes all requests; leave it out");
        return Holds::Always;
    }
    let mut holds = Holds::Always;
    for (key, value) in members {
        let place = format!("{place}/{key}");
        let one = match key.as_str() {
            "method" => of_patterns(&place, value, Subject::Method, all),
            "host" => of_patterns(&place, value, Subject::Host, all),
            "uri" => {
                if asks_for_scripts(value) && refuses_scripts(&step.action) {
                    let message = format!(
                        "asks for scripts, and the step's \"share\" has no \"scripts\", so they \
                         are refused; {}",
                        how_to_run_scripts(config)
                    );
                    add(all, place.clone(), message);
                }
                let open = leaves_path_info(config, &step.action, &elements(value));
                if let Some((pattern, both)) = open {
                    let remedy = if pattern.starts_with('~') { "write" } else { "add" };
                    let message = format!(
                        "\"{}\" leaves out paths behind the script's name, such as /x.php/y, with \
                         which the script runs too; {remedy} \"{}\"",
                        Shown(pattern),
                        Shown(&both)
                    );
                    add(all, place.clone(), message);
                }
                if let Some(pattern) = leaves_paths_below(&step.action, &elements(value)) {
                    let pattern = Shown(pattern);
                    let message = format!(
                        "\"{pattern}\" leaves out paths below it, which are not protected; add \
                         \"{pattern}/*\""
                    );
                    add(all, place.clone(), message);
                }
                of_patterns(&place, value, Subject::Uri, all)
            }
            "query" => of_patterns(&place, value, Subject::Query, all),
            "source" | "destination" if is_empty(value) => Holds::Never,
            "headers" | "cookies" | "arguments" if has_empty(value) => Holds::Always,
            "scheme" => of_scheme(config, value),
            "if" if is_comparison(value) => {
                add(all, place.clone(), NO_COMPARISONS);
                Holds::Depends
            }
            "if" => {
                let condition = step.conditions.condition.as_ref();
                condition.and_then(|condition| condition.constant(Moment::BeforeResponse)).into()
            }
            _ => Holds::Depends,
        };
        match one {
            Holds::Always => add(all, place, "always holds, so it has no effect; leave it out"),
            Holds::Never => add(all, place, "never holds, so the step takes no request"),
            Holds::Depends => {}
        }
        holds = match (holds, one) {
            (Holds::Never, _) | (_, Holds::Never) => Holds::Never,
            (Holds::Depends, _) | (_, Holds::Depends) => Holds::Depends,
            (Holds::Always, Holds::Always) => Holds::Always,
        };
    }
    holds
}

/// Checks a pattern or a list of patterns.
fn of_patterns(place: &str, value: &Value, subject: Subject, all: &mut Vec<Advice>) -> Holds {
    let texts = elements(value);
    let (mut including, mut excluding) = (Vec::new(), Vec::new());
    for (index, text) in texts.iter().enumerate() {
        let (negative, pattern) = match text.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, *text),
        };
        let finds = match impossible(pattern, subject) {
            _ if pattern == "*" => Holds::Always,
            Some(reason) => {
                let place =
                    if value.is_array() { format!("{place}/{index}") } else { place.into() };
                add(all, place, format!("\"{}\" matches nothing: {reason}", Shown(text)));
                Holds::Never
            }
            None => Holds::Depends,
        };
        if negative { &mut excluding } else { &mut including }.push(finds);
    }
    let is = |list: &[Holds], holds| list.iter().all(|one| *one == holds);
    if excluding.contains(&Holds::Always) || (!including.is_empty() && is(&including, Holds::Never))
    {
        return Holds::Never;
    }
    let includes_all = including.is_empty() || including.contains(&Holds::Always);
    if includes_all && is(&excluding, Holds::Never) { Holds::Always } else { Holds::Depends }
}

/// Returns the reason why no request can match a pattern. Regular expressions are not examined.
fn impossible(pattern: &str, subject: Subject) -> Option<String> {
    let owned = |reason: &str| Some(reason.to_owned());
    let is_bare = |pattern: &str| !pattern.starts_with('[');
    match subject {
        Subject::Uri | Subject::Host if pattern.starts_with("~ ") => Some(format!(
            "the expression begins with a space; write \"~{}\"",
            Shown(pattern.trim_start_matches(['~', ' ']))
        )),
        _ if pattern.starts_with('~') => None,
        Subject::Uri if pattern.contains('?') => {
            owned("the path is compared without its query; that has \"query\" and \"arguments\"")
        }
        Subject::Uri if pattern.starts_with("^/") || pattern.starts_with("^\\/") => {
            Some(format!("a regular expression begins with \"~\"; write \"~{}\"", Shown(pattern)))
        }
        Subject::Uri if !pattern.starts_with(['/', '*', '%']) => {
            let path = pattern.trim_start_matches(['=', '^', '~', ' ']);
            let slash = if path.starts_with('/') { "" } else { "/" };
            let star = if pattern.starts_with("^~") { "*" } else { "" };
            Some(format!("a path begins with a slash; write \"{slash}{}{star}\"", Shown(path)))
        }
        Subject::Host if pattern.starts_with('.') => {
            let name = Shown(pattern.trim_start_matches('.'));
            Some(format!(
                "this is nginx's form; write [\"{name}\", \"*.{name}\"] for the name and all \
                 below it"
            ))
        }
        Subject::Host if pattern.contains("://") => owned("a host has no scheme; leave it out"),
        Subject::Host if pattern.contains('/') => owned("a host has no path; that is \"uri\""),
        Subject::Host if pattern.contains([' ', ',']) => {
            owned("a host has no spaces or commas; write an array of names")
        }
        Subject::Host if pattern.contains(':') && is_bare(pattern) => {
            owned("the host is compared without its port; the port is in \"destination\"")
        }
        Subject::Host if pattern.len() > 1 && pattern.ends_with('.') => {
            owned("the host is compared without a dot at its end")
        }
        Subject::Method if pattern.contains([' ', ',']) => {
            owned("a method has no spaces or commas; write an array, as in [\"GET\", \"POST\"]")
        }
        _ => None,
    }
}

/// Checks `scheme`: requests over https need a listener with TLS or a trusted proxy.
fn of_scheme(config: &Config, value: &Value) -> Holds {
    let is_https = value.as_str().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let may_be = |listener: &Listener| {
        let forwarded = listener.forwarded.as_ref().or(listener.client_ip.as_ref());
        listener.tls.is_some() || forwarded.is_some_and(|forwarded| forwarded.protocol.is_some())
    };
    if is_https && !config.listeners.is_empty() && !config.listeners.iter().any(may_be) {
        Holds::Never
    } else {
        Holds::Depends
    }
}

/// Returns true if a condition on the path accepts names of scripts.
fn asks_for_scripts(value: &Value) -> bool {
    elements(value).iter().any(|text| {
        !text.starts_with('!')
            && (is_script(text) || text.trim_end_matches('$').ends_with("\\.php"))
    })
}

fn elements(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(elements) => elements.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Returns true if there are no alternatives, or one of them has no names.
fn has_empty(value: &Value) -> bool {
    let is_empty_object = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    match value.as_array() {
        Some(alternatives) => alternatives.is_empty() || alternatives.iter().any(is_empty_object),
        None => is_empty_object(value),
    }
}
