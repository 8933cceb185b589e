//! `--watch` with `--worker`: the application starts again when its code changes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Where projects of Laravel, Symfony and others have their code and configuration. Directories that
/// an application writes to, such as caches, would restart it without an end.
const WATCHED: [&str; 12] = [
    ".env",
    ".env.local",
    "app",
    "composer.lock",
    "config",
    "lang",
    "resources",
    "routes",
    "src",
    "templates",
    "translations",
    "views",
];

/// Returns the paths of a project that are watched.
pub fn paths(directory: &Path) -> Vec<PathBuf> {
    let project = std::path::absolute(directory).unwrap_or_default();
    WATCHED.iter().map(|name| project.join(name)).filter(|path| path.exists()).collect()
}

/// Lets the application of a document watch those of a project that are there. Error: none is.
pub fn add(document: &mut Value, directory: &Path) -> Result<String, String> {
    let paths = paths(directory);
    if paths.is_empty() {
        return Err(format!(
            "--watch: {} has none of {}; name what is to be watched in a configuration (\"watch\" \
             of \"worker\")",
            directory.display(),
            WATCHED.join(", ")
        ));
    }
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let application = &mut document["applications"]["site"];
    let script = application["script"].clone();
    let worker = &mut application["worker"];
    if !worker.is_object() {
        *worker = json!({"script": script});
    }
    worker["watch"] = json!(paths);
    Ok(format!("watched: {names}; a change starts the application again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_there_is_watched() {
        let project = tempfile::tempdir().unwrap();
        let mut added = json!({"applications": {"site": {
            "type": "php", "root": "/srv", "script": "index.php", "worker": true,
        }}});
        assert!(add(&mut added, project.path()).unwrap_err().contains("has none of"));
        std::fs::create_dir(project.path().join("src")).unwrap();
        std::fs::write(project.path().join(".env"), "").unwrap();
        let line = add(&mut added, project.path()).unwrap();
        assert!(line.contains(".env, src;"), "{line}");
        let watch = [project.path().join(".env"), project.path().join("src")];
        let worker = &added["applications"]["site"]["worker"];
        assert_eq!(worker, &json!({"script": "index.php", "watch": watch}));
        howdah_config::parse(added.to_string().as_bytes()).unwrap();
    }
}
