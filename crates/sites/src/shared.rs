//! An application that several sites share (`php.shared`).
//!
//! What all of them have in common is the application: user, directory, version, processes. Its name
//! is made from that, so a site needs to know no other one, and a site that differs has another
//! application. What differs by host comes with each request: variables, and settings of PHP that
//! may differ between requests.

use std::collections::BTreeMap;

use howdah_config::include::{SHARED, SiteProblem};
use howdah_config::{Site, SiteWorker, Template, is_request_setting};
use howdah_sys::environment::LIBRARY_VARIABLES;
use howdah_text::fnv::fnv;
use serde_json::{Map, Value, json};

/// The variable with the name of the site. It tells the responses of sites apart in a cache, too.
const SITE: &str = "HOWDAH_SITE";

/// First parts of the names of variables that programs read, which a request cannot change, nor
/// those that are [`LIBRARY_VARIABLES`]. Sites that have different ones share no application.
const OF_PROCESS: [&str; 8] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMP", "TZ", "USER"];

/// Variables of CGI that a variable of a request would replace.
const OF_CGI: [&str; 14] = [
    "AUTH_TYPE",
    "CONTENT_",
    "CONTEXT_",
    "DOCUMENT_",
    "FCGI_ROLE",
    "GATEWAY_INTERFACE",
    "HTTP",
    "ORIG_",
    "QUERY_STRING",
    "REDIRECT_",
    "REMOTE_",
    "REQUEST_",
    "SCRIPT_",
    "SERVER_",
];

/// The parts of an application that differ between the sites that share it.
pub(crate) struct OfRequests {
    /// Variables, as `environment` of an action.
    pub(crate) environment: Value,
    /// Settings of PHP, as `options` of an action, if there are any.
    pub(crate) options: Option<Value>,
}

/// Takes from the application of a site what comes with each request, and returns the name of the
/// application.
///
/// # Errors
///
/// The site is one that stays in memory, or has jobs or releases.
pub(crate) fn share(
    site: &Site,
    application: &mut Value,
) -> Result<(String, OfRequests), SiteProblem> {
    if site.worker != SiteWorker::Off {
        let problem = "\"shared\" is not possible with \"worker\": an application that stays in \
                       memory reads its environment once; leave out one of them";
        let key = vec!["php".to_owned(), "shared".to_owned()];
        return Err(SiteProblem { key, problem: problem.to_owned(), because_of: None });
    }
    if site.jobs.is_some() {
        let problem = "are not possible with \"shared\" of \"php\": processes that several sites \
                       share have no jobs of one of them; leave out one of both";
        let key = vec!["jobs".to_owned()];
        return Err(SiteProblem { key, problem: problem.to_owned(), because_of: None });
    }
    if site.releases {
        let problem = "is not possible with \"shared\" of \"php\": processes that several sites \
                       share are not restarted for one of them; leave out one of both";
        let key = vec!["releases".to_owned()];
        return Err(SiteProblem { key, problem: problem.to_owned(), because_of: None });
    }
    let mut environment = take(application, &["environment"], is_request_variable);
    for value in environment.values_mut() {
        *value = json!(Template::escape(value.as_str().unwrap_or_default()));
    }
    environment.insert(SITE.to_owned(), json!(site.name));
    let ini = take(application, &["options", "admin"], |name, value| {
        is_request_setting(name) && !value.chars().any(char::is_control)
    });
    // With `.htaccess` files a worker takes any setting from the router, otherwise those that the
    // document names: another name would be a change for the sites that are there.
    let names: Vec<_> = if site.htaccess { Vec::new() } else { sorted(&ini).into_keys().collect() };
    application["limits"]["fair"] = json!("$site");
    // Two applications of one digest would be refused as contradicting.
    let digest = fnv(json!([canonical(application), names]).to_string().as_bytes());
    let directory = site.root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let directory: String = directory.chars().filter(is_plain).take(40).collect();
    let name = format!("{SHARED}{directory}:{:010x}", digest >> 24);
    let options = (!ini.is_empty()).then(|| json!({"admin": ini}));
    Ok((name, OfRequests { environment: environment.into(), options }))
}

/// Gives the application of a site its shared name where a part of a route passes requests to it.
pub(crate) fn rename(part: &mut Value, old: &str, new: &str) {
    match part {
        Value::Array(elements) => elements.iter_mut().for_each(|part| rename(part, old, new)),
        Value::Object(members) => {
            for (key, value) in members {
                let rest = value.as_str().filter(|_| key == "pass" || key == "scripts");
                let rest = rest.and_then(|text| text.strip_prefix("applications/"));
                let rest = rest.and_then(|text| text.strip_prefix(old));
                match rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
                    Some(rest) => *value = json!(format!("applications/{new}{rest}")),
                    None => rename(value, old, new),
                }
            }
        }
        _ => {}
    }
}

/// Returns true for a variable that scripts get in the same way with each request.
fn is_request_variable(name: &str, value: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let mut others = OF_PROCESS.iter().chain(&LIBRARY_VARIABLES).chain(&OF_CGI);
    let is_other = others.any(|first| name.starts_with(first));
    is_plain && !name.is_empty() && !value.is_empty() && !is_other
}

/// Removes members of an object of texts, and the object if it becomes empty. Returns the members.
fn take(
    value: &mut Value,
    path: &[&str],
    is_taken: impl Fn(&str, &str) -> bool,
) -> Map<String, Value> {
    let Some((first, rest)) = path.split_first() else {
        let Some(members) = value.as_object_mut() else { return Map::new() };
        let (taken, kept) = std::mem::take(members)
            .into_iter()
            .partition(|(name, value)| value.as_str().is_some_and(|value| is_taken(name, value)));
        *members = kept;
        return taken;
    };
    let Some(members) = value.as_object_mut() else { return Map::new() };
    let Some(below) = members.get_mut(*first) else { return Map::new() };
    let taken = take(below, rest, is_taken);
    if below.as_object().is_some_and(Map::is_empty) {
        members.shift_remove(*first);
    }
    taken
}

fn sorted(members: &Map<String, Value>) -> BTreeMap<String, Value> {
    members.iter().map(|(name, value)| (name.clone(), canonical(value))).collect()
}

/// Returns a value whose objects are in the order of their names.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => sorted(members).into_iter().collect::<Map<_, _>>().into(),
        Value::Array(elements) => elements.iter().map(canonical).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_programs_and_of_cgi_are_those_of_the_application() {
        for (name, value, expected) in [
            ("DB_PASSWORD", "s", true),
            ("APP_ENV", "prod", true),
            ("REDIS_URL", "redis:/", true),
            ("EMPTY", "", false),
            ("A.B", "c", false),
            ("TZ", "UTC", false),
            ("PATH", "/bin", false),
            ("HTTP_PROXY", "x", false),
            ("SCRIPT_FILENAME", "x", false),
            ("REMOTE_ADDR", "x", false),
            ("PATH_INFO", "x", false),
        ] {
            assert_eq!(is_request_variable(name, value), expected, "{name}");
        }
    }

    #[test]
    fn steps_of_the_site_pass_to_the_shared_application() {
        let mut step = json!({"match": {"uri": "applications/a"}, "action": {
            "share": "/x", "scripts": "applications/a", "fallback": {"pass": "applications/a/front"},
        }});
        rename(&mut step, "a", "shared:a:1");
        let expected = json!({"match": {"uri": "applications/a"}, "action": {
            "share": "/x",
            "scripts": "applications/shared:a:1",
            "fallback": {"pass": "applications/shared:a:1/front"},
        }});
        assert_eq!(step, expected);
        let mut other = json!({"action": {"pass": "applications/ab"}});
        rename(&mut other, "a", "b");
        assert_eq!(other, json!({"action": {"pass": "applications/ab"}}));
    }

    #[test]
    fn an_object_without_members_goes() {
        let mut value = json!({"options": {"admin": {"a": "1", "b": "2"}}, "x": 1});
        let taken = take(&mut value, &["options", "admin"], |name, _| name == "a");
        assert_eq!(
            (json!(taken), &value["options"]),
            (json!({"a": "1"}), &json!({"admin": {"b": "2"}}))
        );
        take(&mut value, &["options", "admin"], |_, _| true);
        assert_eq!(value, json!({"x": 1}));
        assert!(take(&mut value, &["environment"], |_, _| true).is_empty());
    }
}
