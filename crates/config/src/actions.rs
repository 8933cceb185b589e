//! Lists the actions of a document and the files that they serve, each with its path.

use std::path::{Path, PathBuf};

use howdah_template::{Part, Template};

use crate::action::{Action, ActionKind, PageSource};
use crate::cache::{self, Cache, CacheStore, Difference};
use crate::error::{Error, ErrorKind};
use crate::node::path;
use crate::{AccessLog, Config, Htaccess, Route, Symlinks};

/// A file or directory that the router reads for requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterPath {
    /// The path of the key that names it.
    pub path: String,
    /// The file or directory, or the part of its path that does not depend on the request.
    pub file: PathBuf,
    /// True if it is a directory.
    pub is_directory: bool,
    /// Symbolic links that are followed to it.
    pub symlinks: Symlinks,
}

impl Config {
    /// Returns the actions of all routes, each with its path.
    pub fn actions(&self) -> Vec<(String, &Action)> {
        let mut all = Vec::new();
        for route in &self.routes {
            for (index, step) in route.steps.iter().enumerate() {
                add(&mut all, place(route, index), &step.action);
            }
        }
        all
    }

    /// Returns true if an action responds with the page of the server.
    pub fn has_dashboard(&self) -> bool {
        self.actions().iter().any(|(_, action)| matches!(action.kind, ActionKind::Dashboard))
    }

    /// Returns all access logs, each with its path.
    pub fn access_logs(&self) -> Vec<(String, &AccessLog)> {
        let of_listeners = self.listeners.iter().filter_map(|listener| {
            let logs = listener.access_log.as_ref()?;
            Some((path(["listeners", listener.key.as_str()]), logs))
        });
        let actions = self.actions();
        let of_actions = actions.iter().filter_map(|(place, action)| {
            Some((place.clone(), action.options.access_log.as_ref()?))
        });
        let of_applications = self.applications.iter().filter_map(|application| {
            let logs = application.access_log.as_ref()?;
            Some((path(["applications", application.name.as_str()]), logs))
        });
        let all = [(String::new(), &self.access_log)].into_iter();
        let all = all.chain(of_listeners).chain(of_actions).chain(of_applications);
        let mut named = Vec::new();
        for (place, logs) in all {
            for (index, log) in logs.iter().enumerate() {
                let index = if logs.len() > 1 { format!("/{index}") } else { String::new() };
                named.push((format!("{place}/access_log{index}"), log));
            }
        }
        named
    }

    /// Returns the files and directories of shares, error pages and passwords.
    pub fn action_paths(&self) -> Vec<RouterPath> {
        let mut all = Vec::new();
        for (place, action) in self.actions() {
            let mut name = |key: &str, (file, is_directory): (PathBuf, bool), symlinks| {
                all.push(RouterPath {
                    path: format!("{place}/{key}"),
                    file,
                    is_directory,
                    symlinks,
                });
            };
            if let Some(auth) = &action.access.basic_auth {
                if let (file, false) = auth.users_path() {
                    name("basic_auth/users_file", (file, false), Symlinks::All);
                }
                let groups = auth.members.as_ref().and_then(|it| it.groups_file.clone());
                if let Some(file) = groups {
                    name("basic_auth/groups_file", (file, false), Symlinks::All);
                }
            }
            for page in &action.error_pages {
                if let PageSource::File(file) = &page.source {
                    let key = format!("error_pages/{}", page.status);
                    name(&key, (file.clone(), false), Symlinks::OwnerMatch);
                }
            }
            let ActionKind::Share(share) = &action.kind else { continue };
            // With several paths, each may be for another host.
            if let [only] = share.paths.as_slice() {
                fixed(only).into_iter().for_each(|fixed| name("share", fixed, share.symlinks));
            }
            let chroot = share.chroot.as_ref().and_then(fixed);
            chroot.into_iter().for_each(|(file, _)| name("chroot", (file, true), share.symlinks));
        }
        for application in self.applications.iter().filter(|found| found.htaccess.is_some()) {
            all.extend(application.targets.iter().map(|target| RouterPath {
                path: format!("applications{}/{}", path([&application.name]), target.key("root")),
                file: target.root.clone(),
                is_directory: true,
                symlinks: Symlinks::OwnerMatch,
            }));
        }
        all
    }

    /// Returns the stores that the caches of all actions use.
    pub fn cache_stores(&self) -> Vec<CacheStore> {
        let actions = self.actions();
        cache::stores(caches(&actions).map(|(_, cache)| cache)).unwrap_or_default()
    }

    /// Returns the stores that have a file, each with the path of the key that names its directory.
    pub fn cache_files(&self) -> Vec<(String, CacheStore)> {
        let actions = self.actions();
        let place = |name: &str| {
            let mut all = caches(&actions);
            let found = all.find(|(_, cache)| cache.name == name && cache.disk.is_some());
            format!("{}/cache/path", found.map_or("", |(place, _)| place))
        };
        let stores = self.cache_stores().into_iter().filter(|store| store.disk.is_some());
        stores.map(|store| (place(&store.name), store)).collect()
    }

    /// Checks that actions with the same store agree on its memory and its file.
    pub(crate) fn check_cache_stores(&self) -> Result<(), Error> {
        let actions = self.actions();
        let found = cache::stores(caches(&actions).map(|(_, cache)| cache));
        let Err(Difference { index, key }) = found else { return Ok(()) };
        let (place, name) = caches(&actions)
            .nth(index)
            .map_or(("", ""), |(place, cache)| (place, cache.name.as_str()));
        let message = format!(
            "\"{key}\" differs from that of another action with the cache \"{name}\"; write it \
             once, or give this cache another \"name\""
        );
        Err(Error::new(ErrorKind::InvalidValue, format!("{place}/cache/{key}"), message))
    }

    /// Returns the directories whose `.htaccess` files are read, with the settings for them:
    /// document roots of applications, and shares. A share whose directory depends on the request
    /// is left out.
    pub fn htaccess_roots(&self) -> Vec<(PathBuf, &Htaccess)> {
        let mut all = Vec::new();
        for application in &self.applications {
            let Some(settings) = &application.htaccess else { continue };
            all.extend(application.targets.iter().map(|target| (target.root.clone(), settings)));
        }
        for (_, action) in self.actions() {
            let ActionKind::Share(share) = &action.kind else { continue };
            let (Some(settings), [path]) = (&share.htaccess, share.paths.as_slice()) else {
                continue;
            };
            all.extend(fixed(path).map(|(directory, _)| (directory, settings)));
        }
        all
    }

    /// Returns the applications whose scripts the `.htaccess` files of a share decide about.
    pub(crate) fn applications_of_htaccess_shares(&self) -> Vec<String> {
        let name = |(_, action): (String, &Action)| match &action.kind {
            ActionKind::Share(share) if share.htaccess.is_some() => {
                share.scripts.as_ref()?.application().map(str::to_owned)
            }
            _ => None,
        };
        self.actions().into_iter().filter_map(name).collect()
    }
}

/// Returns the caches of actions, each with the path of its action.
fn caches<'a>(actions: &'a [(String, &'a Action)]) -> impl Iterator<Item = (&'a str, &'a Cache)> {
    actions.iter().filter_map(|(place, action)| {
        let cache = action.options.cache.as_ref()?.settings()?;
        Some((place.as_str(), &**cache))
    })
}

fn place(route: &Route, step: usize) -> String {
    let routes = ["routes"].into_iter().chain(route.name.as_deref());
    format!("{}/{step}/action", path(routes))
}

/// Adds an action and those that are part of it.
pub(crate) fn add<'a>(all: &mut Vec<(String, &'a Action)>, place: String, action: &'a Action) {
    if let ActionKind::Share(share) = &action.kind {
        share.fallback.iter().for_each(|next| add(all, format!("{place}/fallback"), next));
    }
    if let Some(check) = &action.auth_request {
        add(all, format!("{place}/auth_request/action"), &check.action);
    }
    for (index, mirror) in action.mirror.iter().enumerate() {
        let key = match action.mirror.len() {
            1 => "mirror".to_owned(),
            _ => format!("mirror/{index}"),
        };
        add(all, format!("{place}/{key}/action"), &mirror.action);
    }
    for page in &action.error_pages {
        if let PageSource::Action { action, .. } = &page.source {
            add(all, format!("{place}/error_pages/{}/action", page.status), action);
        }
    }
    all.push((place, action));
}

/// Returns the file of a name, or the directory that contains all files that it can expand to.
fn fixed(name: &Template) -> Option<(PathBuf, bool)> {
    if let Some(name) = name.constant() {
        return Some((name.into(), name.ends_with('/')));
    }
    let Some(Part::Literal(start)) = name.parts().first() else { return None };
    // A variable that is a path begins with a slash.
    let directory = match name.parts().get(1) {
        Some(Part::Variable(crate::Variable::Uri)) => start.as_str(),
        _ => start.rsplit_once('/')?.0,
    };
    (!directory.is_empty()).then(|| (Path::new(directory).into(), true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn action_paths(action: serde_json::Value) -> Vec<(String, String, bool)> {
        let document = json!({"routes": {"a/b": [{"action": action}]}});
        let served = Config::from_value(document).unwrap().action_paths();
        let plain = |s: RouterPath| (s.path, s.file.display().to_string(), s.is_directory);
        served.into_iter().map(plain).collect()
    }

    #[test]
    fn what_actions_read_is_named_with_its_place() {
        let named = action_paths(json!({
            "share": "/www$uri",
            "chroot": "/www/$host/",
            "basic_auth": {"users_file": "/passwords"},
            "error_pages": {"404": "/404.html", "500": {"action": {"share": "/sorry.html"}}},
            "fallback": {"share": "/other/"},
        }));
        let place = "/routes/a%2Fb/0/action";
        let expected = [
            ("/fallback/share", "/other/", true),
            ("/error_pages/500/action/share", "/sorry.html", false),
            ("/basic_auth/users_file", "/passwords", false),
            ("/error_pages/404", "/404.html", false),
            ("/share", "/www", true),
            ("/chroot", "/www", true),
        ];
        let expected = expected.map(|(key, file, is_directory)| {
            (format!("{place}{key}"), file.to_owned(), is_directory)
        });
        assert_eq!(named, expected);
    }

    #[test]
    fn what_actions_read_has_the_links_of_its_share() {
        let action = json!({
            "share": "/www$uri",
            "chroot": "/www",
            "follow_symlinks": true,
            "basic_auth": {"users_file": "/passwords"},
            "error_pages": {"404": "/404.html"},
            "fallback": {"share": "/other$uri"},
        });
        let document = json!({"routes": [{"action": action}]});
        let served = Config::from_value(document).unwrap().action_paths();
        for RouterPath { path, symlinks, .. } in served {
            let is_owner_match = path.ends_with("fallback/share") || path.ends_with("404");
            assert_eq!(symlinks == Symlinks::OwnerMatch, is_owner_match, "{path}");
        }
    }

    #[test]
    fn what_only_a_request_tells_is_not_named() {
        assert_eq!(action_paths(json!({"share": "$host$uri"})), []);
        assert_eq!(action_paths(json!({"share": ["/a$uri", "/b$uri"]})), []);
        let named = action_paths(json!({"share": "/www/site-$host/x$uri"}));
        assert_eq!(named[0].1, "/www");
    }
}
