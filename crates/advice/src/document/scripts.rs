//! Advice on PHP scripts in shares and the applications that run them.

use std::path::Path;

use howdah_config::{Action, ActionKind, Config, Pass, Route, Shown, Step, Target};

/// Returns true if a file name is that of a PHP script.
pub(super) fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("php"))
}

/// Returns the setting with which a share's scripts are run.
pub(super) fn how_to_run_scripts(config: &Config) -> String {
    let first = config.applications.iter().map(|one| &one.name);
    match first.chain(config.fastcgi.iter().map(|one| &one.name)).next() {
        Some(name) => {
            let target = Target::Application { name: name.clone(), target: None };
            format!("write \"scripts\": \"{}\"", Shown(&target.to_string()))
        }
        None => "write \"scripts\": \"applications/NAME\", and the application".to_owned(),
    }
}

/// Returns true if an action answers requests for all scripts in its share with an error.
pub(super) fn refuses_scripts(action: &Action) -> bool {
    matches!(&action.kind, ActionKind::Share(share) if share.scripts.is_none()
        && share.fallback.is_none())
}

/// Returns the first of these patterns for paths that restricts a script by an action and leaves
/// out the same script with a path behind its name, and the pattern that has both.
pub(super) fn leaves_path_info<'p>(
    config: &Config,
    action: &Action,
    patterns: &[&'p str],
) -> Option<(&'p str, String)> {
    if !restricts(action) {
        return None;
    }
    let open = patterns.iter().find_map(|pattern| match pattern.strip_prefix('~') {
        Some(expression) => {
            let start = expression.strip_suffix("\\.php$")?;
            Some((*pattern, format!("~{start}\\.php(/|$)")))
        }
        None if pattern.ends_with(".php") && !pattern.starts_with('!') => {
            let both = format!("{pattern}/*");
            (!patterns.contains(&both.as_str())
                && !patterns.contains(&format!("{pattern}*").as_str()))
            .then_some((*pattern, both))
        }
        None => None,
    });
    let (pattern, both) = open?;
    let path = if pattern.starts_with('~') {
        "/a.php/b".to_owned()
    } else {
        format!("{}/b", pattern.replace('*', "a"))
    };
    runs(config, path.as_bytes()).then_some((pattern, both))
}

/// Returns true if an action is not for every client and every number of requests.
fn restricts(action: &Action) -> bool {
    let access = &action.access;
    matches!(&action.kind, ActionKind::Return(answer) if answer.status >= 400)
        || access.allow.is_some()
        || access.deny.is_some()
        || access.basic_auth.is_some()
        || action.auth_request.is_some()
        || action.options.internal
        || !action.limit.is_empty()
}

/// Returns true if a step or a listener may run the script that this path names.
fn runs(config: &Config, path: &[u8]) -> bool {
    let in_route = |route: &Route| {
        let takes_path =
            |step: &&Step| step.conditions.uri.as_ref().is_none_or(|uri| uri.matches(path));
        for step in route.steps.iter().filter(takes_path) {
            if is_origin(config, &step.action) {
                return true;
            }
            // No request for the path gets past a step that takes all of them.
            if step.conditions.is_of_path_alone() {
                return false;
            }
        }
        false
    };
    config.routes.iter().any(in_route)
        || config.listeners.iter().any(|listener| passes(config, &listener.pass))
}

/// Returns true if an action itself runs scripts by their names.
fn is_origin(config: &Config, action: &Action) -> bool {
    match &action.kind {
        ActionKind::Share(share) => {
            share.scripts.is_some()
                || share.fallback.as_ref().is_some_and(|fallback| is_origin(config, fallback))
        }
        ActionKind::Pass(pass) => action.rewrite.is_none() && passes(config, pass),
        _ => false,
    }
}

/// Returns true if a destination is an application that runs scripts by their names.
fn passes(config: &Config, pass: &Pass) -> bool {
    let Pass::Fixed(Target::Application { name, target }) = pass else { return false };
    let of_php = config.applications.iter().map(|one| (&one.name, &one.targets));
    let mut all = of_php.chain(config.fastcgi.iter().map(|one| (&one.name, &one.targets)));
    let Some((_, targets)) = all.find(|(other, _)| *other == name) else { return false };
    let named = targets.iter().find(|one| one.name == *target).or(targets.first());
    named.is_some_and(|target| target.script.is_none())
}
