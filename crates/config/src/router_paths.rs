//! Lists all files and directories that the router may open for requests, for its sandbox.

use std::path::{Path, PathBuf};

use howdah_template::{Part, Template};

use crate::action::{ActionKind, PageSource};
use crate::actions::RouterPath;
use crate::node::path;
use crate::{Config, Htaccess, Symlinks};

impl Config {
    /// Returns all files and directories that the router must be able to read. A name with
    /// variables is represented by the directory that contains all its expansions. Certificates and
    /// keys are not included, as the supervisor reads them.
    pub fn router_paths(&self) -> Vec<RouterPath> {
        let mut all = Vec::new();
        let mut add = |path: String, (file, is_directory): (PathBuf, bool)| {
            let symlinks = Symlinks::default();
            all.push(RouterPath { path, file, is_directory, symlinks });
        };
        for (place, database) in &self.geo_databases {
            add(place.clone(), (database.file.clone(), false));
        }
        for (place, action) in self.actions() {
            if let Some(auth) = &action.access.basic_auth {
                add(format!("{place}/basic_auth/users_file"), auth.users_path());
                let groups = auth.members.as_ref().and_then(|it| it.groups_file.clone());
                if let Some(file) = groups {
                    add(format!("{place}/basic_auth/groups_file"), (file, false));
                }
            }
            for page in &action.error_pages {
                if let PageSource::File(file) = &page.source {
                    add(format!("{place}/error_pages/{}", page.status), (file.clone(), false));
                }
            }
            let ActionKind::Share(share) = &action.kind else { continue };
            for (index, name) in share.paths.iter().enumerate() {
                let key = match share.paths.len() {
                    1 => format!("{place}/share"),
                    _ => format!("{place}/share/{index}"),
                };
                add(key, widest(name));
            }
            for elsewhere in share.htaccess.iter().flat_map(Htaccess::elsewhere) {
                add(format!("{place}/htaccess"), elsewhere);
            }
        }
        for application in &self.applications {
            for elsewhere in application.htaccess.iter().flat_map(Htaccess::elsewhere) {
                add(path(["applications", application.name.as_str(), "htaccess"]), elsewhere);
            }
        }
        let delegations = self
            .applications
            .iter()
            .map(|one| ("applications", &one.name, &one.delegation))
            .chain(self.fastcgi.iter().map(|one| ("applications", &one.name, &one.delegation)))
            .chain(self.upstreams.iter().map(|one| ("upstreams", &one.name, &one.delegation)));
        for (kind, name, delegation) in delegations {
            let place = path([kind, name.as_str()]);
            for (index, directory) in delegation.directories.iter().enumerate() {
                add(format!("{place}/sendfile/{index}"), (directory.clone(), true));
            }
        }
        all
    }
}

/// Returns the file of a name, or the directory that contains all its expansions.
fn widest(name: &Template) -> (PathBuf, bool) {
    if let Some(name) = name.constant() {
        return (name.into(), name.ends_with('/'));
    }
    let start = match name.parts().first() {
        Some(Part::Literal(start)) => start.as_str(),
        _ => "",
    };
    let directory = match name.parts().get(1) {
        // The variable begins with a slash.
        Some(Part::Variable(crate::Variable::Uri)) => start,
        _ => start.rsplit_once('/').map_or("", |(directory, _)| directory),
    };
    let directory = if directory.is_empty() { "/" } else { directory };
    (Path::new(directory).into(), true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn router_paths(document: serde_json::Value) -> Vec<(String, String, bool)> {
        let plain = |s: RouterPath| (s.path, s.file.display().to_string(), s.is_directory);
        Config::from_value(document).unwrap().router_paths().into_iter().map(plain).collect()
    }

    #[test]
    fn whatever_requests_can_lead_to_is_named() {
        let action = json!({
            "share": ["/www$uri", "/hosts/$host$uri", "/sites/of-$host/x", "/one/file.html",
                "/two/"],
            "basic_auth": {
                "users_file": "/passwords/of-$host", "groups_file": "/groups", "groups": "a",
            },
            "error_pages": {"404": "/pages/404.html"},
            "fallback": {"share": "$header_root/file"},
        });
        let found = router_paths(json!({
            "routes": [{"action": action}],
            "applications": {"a": {"type": "php", "root": "/app", "sendfile": ["/private", "/b"]}},
            "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}, "sendfile": ["/c"]}},
        }));
        let place = "/routes/0/action";
        let expected = [
            (format!("{place}/fallback/share"), "/", true),
            (format!("{place}/basic_auth/users_file"), "/passwords", true),
            (format!("{place}/basic_auth/groups_file"), "/groups", false),
            (format!("{place}/error_pages/404"), "/pages/404.html", false),
            (format!("{place}/share/0"), "/www", true),
            (format!("{place}/share/1"), "/hosts", true),
            (format!("{place}/share/2"), "/sites", true),
            (format!("{place}/share/3"), "/one/file.html", false),
            (format!("{place}/share/4"), "/two/", true),
            ("/applications/a/sendfile/0".to_owned(), "/private", true),
            ("/applications/a/sendfile/1".to_owned(), "/b", true),
            ("/upstreams/u/sendfile/0".to_owned(), "/c", true),
        ];
        let expected =
            expected.map(|(key, file, is_directory)| (key, file.to_owned(), is_directory));
        assert_eq!(found, expected);
    }
}
