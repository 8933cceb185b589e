//! Selects the script of a request, from the target's settings and the path alone.
//!
//! As in Unit: a target with `script` runs that script for every path; otherwise the path names a
//! script under `root`, `PATH_INFO` begins after the first `.php` (or another of the application's
//! `limit_extensions`) that a slash follows, and a path
//! that ends in a slash gets the index. The comparison is byte-exact: a look-alike of `.php` is
//! never a script. The worker opens the script under its own user, and responds with 404 or 403 if
//! it cannot.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{PhpTarget, Prefix, ScriptExtensions};

/// A script to run, with its CGI paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// `SCRIPT_NAME`: URL path of the script.
    pub name: Bytes,
    /// `PATH_INFO`: rest of the URL path after the script.
    pub path_info: Bytes,
    /// `SCRIPT_FILENAME`: path of the file.
    pub file: Arc<Path>,
    /// `DOCUMENT_ROOT`: document root of the target.
    pub root: Arc<Path>,
    /// Settings of `.htaccess` files for the script; `None` where they are not read.
    pub directives: Option<Arc<Directives>>,
}

impl Script {
    /// Puts a prefix that was not looked up in front of the script's name.
    pub fn below(mut self, prefix: Option<&Prefix>) -> Script {
        if let Some(prefix) = prefix {
            self.name = [prefix.as_bytes(), &self.name].concat().into();
        }
        self
    }
}

/// Settings of `.htaccess` files for a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Variables beside those of CGI, which win over them.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Settings of PHP for the request, by name.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// The script sees `HTTP_AUTHORIZATION`.
    pub passes_authorization: bool,
    /// Status of the response unless the script sets another: that of the error whose page it is.
    pub status: u16,
    /// Port of the server, as the client knows it.
    pub server_port: u16,
}

/// A compiled target of an application.
#[derive(Debug)]
pub struct Target {
    root: Arc<Path>,
    fixed: Option<(Bytes, Arc<Path>)>,
    index: String,
    prefix: Option<Prefix>,
    extensions: Arc<ScriptExtensions>,
}

/// The targets of an application.
#[derive(Debug)]
pub struct Targets(Vec<(Option<String>, Target)>);

impl Targets {
    /// Compiles the targets of an application whose scripts have these endings.
    pub fn new(config: &[PhpTarget], extensions: &ScriptExtensions) -> Self {
        let extensions = Arc::new(extensions.clone());
        let target = |target| Target::new(target, Arc::clone(&extensions));
        Targets(config.iter().map(|config| (config.name.clone(), target(config))).collect())
    }

    /// Returns the target of this name; without a name the first.
    pub fn get(&self, name: Option<&str>) -> Option<&Target> {
        let found = self.0.iter().find(|(n, _)| n.as_deref() == name);
        found.or_else(|| self.0.first().filter(|_| name.is_none())).map(|(_, target)| target)
    }

    /// Returns true if a file is the `script` of a target.
    pub fn is_fixed(&self, file: &Path) -> bool {
        let mut fixed = self.0.iter().filter_map(|(_, target)| target.fixed.as_ref());
        fixed.any(|(_, other)| **other == *file)
    }
}

impl Target {
    /// Compiles a target.
    pub fn new(config: &PhpTarget, extensions: Arc<ScriptExtensions>) -> Self {
        let root: Arc<Path> = trim_slash(&config.root).into();
        let fixed = config.script.as_ref().map(|script| {
            let script = script.trim_start_matches('/');
            (Bytes::from(format!("/{script}")), root.join(script).into())
        });
        let (index, prefix) = (config.index.clone(), config.prefix.clone());
        Target { root, fixed, index, prefix, extensions }
    }

    /// Returns the document root.
    pub fn root(&self) -> &Arc<Path> {
        &self.root
    }

    /// Returns the script for a decoded, normalised path. `None` if the path is not below the
    /// target's prefix.
    pub fn script(&self, path: &Bytes) -> Option<Script> {
        if let Some((name, file)) = &self.fixed {
            let (file, root) = (Arc::clone(file), Arc::clone(&self.root));
            let (name, path_info) = (name.clone(), Bytes::new());
            let script = Script { name, path_info, file, root, directives: None };
            return Some(script.below(self.prefix.as_ref()));
        }
        let path = &match &self.prefix {
            Some(prefix) => path.slice_ref(prefix.rest(path)?),
            None => path.clone(),
        };
        let (name, path_info) = match self.extensions.script_ends(path).next() {
            Some(end) => (path.slice(..end), path.slice(end..)),
            None if path.ends_with(b"/") => {
                (Bytes::from([path, self.index.as_bytes()].concat()), Bytes::new())
            }
            None => (path.clone(), Bytes::new()),
        };
        Some(self.found(name, path_info).below(self.prefix.as_ref()))
    }

    /// Returns the script of this name under the document root.
    pub fn found(&self, name: Bytes, path_info: Bytes) -> Script {
        let mut file = self.root.as_os_str().as_bytes().to_vec();
        file.extend_from_slice(&name);
        let file = Path::new(std::ffi::OsStr::from_bytes(&file)).into();
        Script { name, path_info, file, root: Arc::clone(&self.root), directives: None }
    }
}

fn trim_slash(root: &Path) -> &Path {
    let bytes = root.as_os_str().as_bytes();
    match bytes.strip_suffix(b"/") {
        Some(shorter) if !shorter.is_empty() => Path::new(std::ffi::OsStr::from_bytes(shorter)),
        _ => root,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(script: Option<&str>, path: &'static str) -> (String, String, String) {
        script_below(None, script, path).expect("no prefix")
    }

    fn script_below(
        prefix: Option<&str>,
        script: Option<&str>,
        path: &'static str,
    ) -> Option<(String, String, String)> {
        let config = PhpTarget {
            name: None,
            root: "/site/".into(),
            script: script.map(str::to_owned),
            index: "index.php".to_owned(),
            prefix: prefix.and_then(Prefix::parse),
        };
        let target = Target::new(&config, Arc::default());
        let script = target.script(&Bytes::from_static(path.as_bytes()))?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(&script.name), text(&script.path_info), script.file.display().to_string()))
    }

    fn parts(name: &str, info: &str, file: &str) -> (String, String, String) {
        (name.to_owned(), info.to_owned(), file.to_owned())
    }

    #[test]
    fn a_path_names_a_script_and_its_path_info() {
        assert_eq!(script(None, "/a/b.php"), parts("/a/b.php", "", "/site/a/b.php"));
        assert_eq!(script(None, "/a.php/x/y"), parts("/a.php", "/x/y", "/site/a.php"));
        assert_eq!(script(None, "/a/"), parts("/a/index.php", "", "/site/a/index.php"));
    }

    #[test]
    fn a_fixed_script_runs_for_every_path() {
        assert_eq!(script(Some("app.php"), "/any/x.php/y"), parts("/app.php", "", "/site/app.php"));
    }

    #[test]
    fn a_prefix_is_part_of_the_name_but_not_of_the_file() {
        let below = |script, path| script_below(Some("/shop"), script, path);
        let is = |name, info, file| Some(parts(name, info, file));
        assert_eq!(below(None, "/shop/a.php/x"), is("/shop/a.php", "/x", "/site/a.php"));
        assert_eq!(below(None, "/shop/"), is("/shop/index.php", "", "/site/index.php"));
        assert_eq!(below(None, "/shop"), is("/shop", "", "/site"), "the worker redirects");
        assert_eq!((below(None, "/shopping/a.php"), below(None, "/a.php")), (None, None));
        assert_eq!(below(Some("i.php"), "/any"), is("/shop/i.php", "", "/site/i.php"));
    }

    #[test]
    fn a_picture_is_never_taken_for_a_script() {
        let (name, info, _) = script(None, "/upload/a.jpg/x.php");
        assert_eq!((name.as_str(), info.as_str()), ("/upload/a.jpg/x.php", ""));
    }

    #[test]
    fn path_info_keeps_line_feeds_byte_for_byte() {
        assert_eq!(script(None, "/i.php/\n").1, "/\n");
    }
}
