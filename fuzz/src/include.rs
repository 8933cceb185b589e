//! Documents of several files.

use std::path::Path;

use howdah_config::include::{self, IncludedFiles, SiteParts, SiteProblem};
use howdah_config::{Config, Site};
use serde_json::{Map, Value, json};

use crate::split;

/// A file `a.json`, and the table `b.json`.
struct Files<'i>(&'i [u8], &'i [u8]);

impl IncludedFiles for Files<'_> {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        match file.to_str() {
            Some("/h/a.json") => Ok(self.0.to_vec()),
            Some("/h/b.json") => Ok(self.1.to_vec()),
            _ => Err("there is no such file".to_owned()),
        }
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
        match directory.to_str() {
            Some("/h") => Ok(vec!["b.json".to_owned(), ".c.json".to_owned(), "a.json".to_owned()]),
            _ => Ok(Vec::new()),
        }
    }

    fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem> {
        let values = site.hosts.iter().map(|host| (host.clone(), site.name.clone().into()));
        let values: Map<String, Value> = values.collect();
        let routes = Value::Array(site.routes.clone());
        let parts =
            json!({"variables": {"site": {"values": values}}, "routes": {&site.name: routes}});
        let document = parts.as_object().cloned().unwrap_or_default();
        Ok(SiteParts { document, ..SiteParts::default() })
    }
}

/// First line: a document; second: a file; the rest: another one. Errors are lines that name a
/// file; an expanded document has nothing more to expand, and its tables read again are the same.
pub fn expand(input: &[u8]) {
    let (document, rest) = split(input);
    let (first, second) = split(rest);
    let files = Files(first, second);
    let main = Path::new("/h/howdah.json");
    let expanded = match include::expand(document, main, &files) {
        Ok(Some(expanded)) => expanded,
        Ok(None) => return,
        Err(problem) => {
            assert_lines(&problem);
            return;
        }
    };
    assert!(expanded.files().all(|file| file.starts_with("/h")));
    if let Err(error) = Config::from_value(expanded.document.clone()) {
        assert_lines(&expanded.explain(&error));
    }
    let again = include::expand_tables(expanded.document.clone(), &files).expect("as before");
    assert_eq!(again.document, expanded.document);
    let tables = include::tables(&expanded.document);
    let watched = include::watched_by_tables(&expanded.document, &files);
    assert!(tables.is_empty() == watched.is_empty());
}

fn assert_lines(problems: &str) {
    for line in problems.split('\n') {
        assert!(line.starts_with("/h/") || line.starts_with("and "), "{problems}");
        assert!(!line.chars().any(char::is_control), "{problems:?}");
    }
}
