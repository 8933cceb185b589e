//! Files that shares must not send, since an application runs them by its `limit_extensions`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use howdah_template::{Part, Template, Variable};

use crate::action::Share;
use crate::config::Config;
use crate::script_extensions::ScriptExtensions;
use crate::target::Pass;

/// The endings of scripts that applications have configured, by the directories of the
/// applications. Shares of those directories must not send files with these endings.
#[derive(Debug, Default)]
pub struct ScriptSources<'c> {
    by_application: HashMap<&'c str, &'c ScriptExtensions>,
    by_directory: BTreeMap<&'c Path, BTreeSet<&'c str>>,
    /// Endings of directories whose place is not certain.
    anywhere: BTreeSet<&'c str>,
    all: BTreeSet<&'c str>,
    /// The endings that all applications have in common.
    common: ScriptExtensions,
}

impl<'c> ScriptSources<'c> {
    /// Collects the endings of the applications of a document.
    pub fn new(config: &'c Config) -> Self {
        let mut lists = config.applications.iter().map(|one| &one.limit_extensions);
        let common = lists.next().cloned().unwrap_or_default();
        let common = lists.fold(common, ScriptExtensions::intersection);
        let mut sources = ScriptSources { common, ..ScriptSources::default() };
        for one in config.applications.iter().filter(|one| one.limit_extensions.is_configured()) {
            sources.by_application.insert(&one.name, &one.limit_extensions);
            let endings = one.limit_extensions.endings().iter().map(String::as_str);
            sources.all.extend(endings.clone());
            let roots = one.targets.iter().map(|target| &target.root);
            for directory in roots.chain(&one.script_directories.allowed) {
                let place = if is_plain(directory) {
                    sources.by_directory.entry(directory).or_default()
                } else {
                    &mut sources.anywhere
                };
                place.extend(endings.clone());
            }
        }
        sources
    }

    /// Returns the endings of the scripts of an application.
    pub fn of_application(&self, application: &str) -> ScriptExtensions {
        self.by_application.get(application).copied().cloned().unwrap_or_default()
    }

    /// Returns the endings of scripts that the target of a share runs: if requests choose the
    /// application, those that all applications have.
    pub fn of_target(&self, target: Option<&Pass>) -> ScriptExtensions {
        match target {
            Some(Pass::Variable(_)) => self.common.clone(),
            Some(Pass::Fixed(_)) | None => {
                let name = target.and_then(Pass::application);
                name.map(|name| self.of_application(name)).unwrap_or_default()
            }
        }
    }

    /// Returns the endings of files that a share must not send: those of the application that runs
    /// its scripts, and those of applications whose directories may overlap with a path of the
    /// share.
    pub fn of_share(&self, share: &Share) -> Vec<String> {
        let runs = share.scripts.as_ref().and_then(|target| target.application());
        let own = runs.and_then(|name| self.by_application.get(name));
        let mut found: BTreeSet<&str> = BTreeSet::new();
        found.extend(own.iter().flat_map(|own| own.endings().iter().map(String::as_str)));
        for path in &share.paths {
            self.add(fixed_directory(path), &mut found);
        }
        found.into_iter().map(str::to_owned).collect()
    }

    /// Returns the same for a directory whose files are sent on behalf of an application or
    /// upstream.
    pub fn below(&self, directory: &Path) -> Vec<String> {
        let mut found = BTreeSet::new();
        self.add(Some(directory), &mut found);
        found.into_iter().map(str::to_owned).collect()
    }

    /// Adds the endings of directories that may overlap with this one; `None` overlaps with all.
    fn add(&self, directory: Option<&Path>, found: &mut BTreeSet<&'c str>) {
        let Some(directory) = directory.filter(|directory| is_plain(directory)) else {
            found.extend(&self.all);
            return;
        };
        found.extend(&self.anywhere);
        let above = directory.ancestors().filter_map(|above| self.by_directory.get(above));
        found.extend(above.flatten());
        let behind = self.by_directory.range(directory..);
        let below = behind.take_while(|(other, _)| other.starts_with(directory));
        found.extend(below.flat_map(|(_, endings)| endings));
    }
}

/// Returns the directory that all files of a share are in; `None` if a request may name any.
fn fixed_directory(path: &Template) -> Option<&Path> {
    match path.parts() {
        [Part::Literal(literal), rest @ ..] => {
            // The path of a request begins with a slash.
            let end = match rest.first() {
                None | Some(Part::Variable(Variable::Uri)) => literal.len(),
                Some(_) => literal.rfind('/')?,
            };
            literal.get(..end).map(Path::new)
        }
        _ => None,
    }
}

/// Returns true if the text alone tells where a directory is.
fn is_plain(directory: &Path) -> bool {
    directory.is_absolute()
        && !directory.components().any(|part| part == std::path::Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn shares_keep_what_runs_in_their_directories() {
        let document = |share: Value| {
            let document = json!({
                "routes": [{"action": share}],
                "applications": {
                    "site": {"type": "php", "root": "/srv/site/public",
                             "limit_extensions": [".php", ".inc"]},
                    "other": {"type": "php", "root": "/srv/other"},
                },
            });
            Config::from_value(document).unwrap()
        };
        let sources = |share: Value| {
            let config = document(share);
            let actions = config.actions();
            let Some(crate::ActionKind::Share(share)) = actions.first().map(|one| &one.1.kind)
            else {
                panic!("a share")
            };
            ScriptSources::new(&config).of_share(share)
        };
        for path in [
            "/srv/site$uri",
            "/srv/$host/public$uri",
            "$uri",
            "/srv/site/public/a$uri",
            "/srv/other/../site$uri",
            "srv$uri",
            "/srv/site/public/x.inc",
        ] {
            assert_eq!(sources(json!({"share": path})), [".inc", ".php"], "{path}");
        }
        for path in ["/srv/other$uri", "/srv/site/publicity/$uri", "/www/a.html"] {
            assert_eq!(sources(json!({"share": path})), [""; 0], "{path}");
        }
        let elsewhere = json!({"share": "/www$uri", "scripts": "applications/site"});
        assert_eq!(sources(elsewhere), [".inc", ".php"]);
    }
}
