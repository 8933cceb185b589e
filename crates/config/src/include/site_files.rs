//! The files of a document that have a site each.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::sites::SITES;
use super::{IncludedFiles, Place, Reading, Source};
use crate::json;

/// The places of the sites of a document.
#[derive(Debug, Default, PartialEq)]
pub struct SiteFiles {
    /// Files with a site each.
    pub files: Vec<PathBuf>,
    /// Names of the sites that the document itself has.
    pub named: Vec<String>,
    /// Directory of the first pattern `*.json`: a new file there is a site.
    pub directory: Option<PathBuf>,
    /// `defaults`, or null.
    pub defaults: Value,
    /// Lines about files beside those of sites.
    pub notes: Vec<String>,
}

/// Returns the places of the sites of a document. Files of sites are not read.
///
/// # Errors
///
/// The document cannot be parsed, or the directory of a pattern cannot be read.
pub fn site_files(
    text: &[u8],
    file: &Path,
    files: &dyn IncludedFiles,
) -> Result<SiteFiles, String> {
    let value = json::parse(text).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut reading = Reading::new(files, vec![Source::of_document(file, text)]);
    let place = Place { source: 0, inner: Vec::new(), path: Vec::new() };
    // Mistakes of other parts are not of interest.
    let _ = reading.value(value, &place);
    let found = std::mem::take(&mut reading.found);
    let defaults = found.defaults.map(|(defaults, _)| defaults).unwrap_or_default();
    let mut all = SiteFiles { defaults, ..SiteFiles::default() };
    for (sites, place) in found.sites {
        if let Value::Object(sites) = sites {
            all.named.extend(sites.into_iter().map(|(name, _)| name));
            continue;
        }
        let source = reading.sources.get(place.source).map(|source| source.file.as_path());
        let above = source.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let patterns: Vec<_> = match &sites {
            Value::Array(patterns) => patterns.iter().filter_map(Value::as_str).collect(),
            pattern => pattern.as_str().into_iter().collect(),
        };
        let of_new = |pattern: &str| {
            let path = above.join(pattern);
            let is_any = path.file_name().is_some_and(|name| name == "*.json");
            path.parent().filter(|_| is_any).map(Path::to_owned)
        };
        all.directory = all.directory.or_else(|| patterns.iter().find_map(|one| of_new(one)));
        all.notes.extend(reading.beside_sites(&sites, &place));
        for pattern in patterns {
            match reading.named(&Value::String(pattern.to_owned()), &place) {
                Ok(named) => all.files.extend(named),
                // The directory is made for the first site.
                Err(_) if of_new(pattern).is_some_and(|directory| !directory.exists()) => {}
                Err(problem) => return Err(problem),
            }
        }
    }
    Ok(all)
}

/// Returns a document in which these files are the only sites.
///
/// # Errors
///
/// The document cannot be parsed.
pub fn with_only_sites(text: &[u8], file: &Path, sites: &[&Path]) -> Result<Vec<u8>, String> {
    let mut value = json::parse(text).map_err(|error| format!("{}: {error}", file.display()))?;
    if let Some(members) = value.as_object_mut() {
        let sites: Vec<_> = sites.iter().map(|site| site.to_string_lossy().into_owned()).collect();
        members.insert(SITES.to_owned(), sites.into());
    }
    Ok(value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{SiteParts, SiteProblem};
    use super::*;
    use crate::site::Site;

    /// Files by their paths.
    struct Files(BTreeMap<&'static str, &'static str>);

    impl IncludedFiles for Files {
        fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
            let text = self.0.get(file.to_str().unwrap()).ok_or("there is no such file")?;
            Ok(text.as_bytes().to_vec())
        }

        fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
            let inside =
                self.0.keys().filter_map(|file| Path::new(file).strip_prefix(directory).ok());
            let names: Vec<_> = inside.map(|name| name.display().to_string()).collect();
            if names.is_empty() { Err("there is no such directory".to_owned()) } else { Ok(names) }
        }

        fn compile(&self, _site: &Site) -> Result<SiteParts, SiteProblem> {
            Ok(SiteParts::default())
        }
    }

    #[test]
    fn the_places_of_sites_are_found_also_in_included_files() {
        let files = Files(BTreeMap::from([
            ("/etc/sites/a.json", "{"),
            ("/etc/sites/b.json", "1"),
            ("/etc/sites/c", "1"),
            ("/etc/sites/d.conf", "1"),
            ("/etc/sites/e.json.off", "1"),
            ("/etc/sites/README.md", "1"),
            ("/etc/sites/.b.json.new", "1"),
            ("/etc/more.json", r#"{"sites": "/srv/one.json"}"#),
        ]));
        let text =
            br#"{"sites": "sites/*.json", "include": "more.json", "defaults": {"cache": true}}"#;
        let found = site_files(text, Path::new("/etc/h.json"), &files).unwrap();
        let expected = ["/etc/sites/a.json", "/etc/sites/b.json", "/srv/one.json"];
        assert_eq!(found.files, expected.map(PathBuf::from));
        assert_eq!(found.directory.as_deref(), Some(Path::new("/etc/sites")));
        assert_eq!(found.defaults, json!({"cache": true}));
        let [note] = found.notes.as_slice() else { panic!("{:?}", found.notes) };
        assert!(note.starts_with("/etc/sites/c (and 1 more) is no site, as its name"), "{note}");
    }

    #[test]
    fn the_directory_of_the_first_site_need_not_exist() {
        let files = Files(BTreeMap::new());
        let of = |text: &str| site_files(text.as_bytes(), Path::new("/etc/h.json"), &files);
        let found = of(r#"{"sites": ["none/*.json"]}"#).unwrap();
        assert_eq!((found.files.len(), found.directory), (0, Some("/etc/none".into())));
        assert_eq!(of(r#"{"sites": {"a": {}, "b": {}}}"#).unwrap().named, ["a", "b"]);
        assert_eq!(of("{}").unwrap(), SiteFiles::default());
        assert!(of("{").unwrap_err().starts_with("/etc/h.json: line 1"));
    }
}
