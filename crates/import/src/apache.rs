//! Configurations of Apache httpd.
//!
//! 1. [`reader`] reads files into a tree: includes, variables, macros and conditions are resolved.
//! 2. [`hosts`] finds the virtual hosts of each socket.
//! 3. [`site`] writes the route and the application of a host. Directives of directories, of
//!    locations and of the host itself go to the engine of `.htaccess` ([`scope`]), which has
//!    Apache's order and meaning; requests to other servers have steps of a route ([`proxy`]).

mod access;
mod check;
mod debian;
mod document;
mod environment;
mod files;
mod front;
mod handlers;
mod headers;
mod host_logs;
mod hosts;
mod lines;
mod listeners;
mod logs;
mod maps;
mod modules;
mod proxy;
mod reader;
mod repair;
mod rules;
mod scope;
mod sections;
mod settings;
mod site;
mod status;
mod targets;
mod tls;
mod tree;
mod words;

use std::path::{Path, PathBuf};

use crate::{Error, Import, Options, Report, Source, php_fpm};

use self::modules::Modules;
use self::reader::Reader;
use self::tree::Node;

/// Directives that a main file has, and no file of virtual hosts.
const OF_MAIN_FILES: [&str; 2] = ["serverroot", "loadmodule"];

/// Imports a main file, or files of virtual hosts, around which Debian's configuration stands.
///
/// # Errors
///
/// A file that cannot be read, or that Apache would not begin to read.
pub fn import(files: &[PathBuf], options: &Options, source: &mut Source) -> Result<Import, Error> {
    let mut report = Report::default();
    let pools = php_fpm::read(&options.pools, source, &mut report)?;
    let texts: Vec<String> =
        files.iter().map(|file| source.read(file)).collect::<Result<_, _>>()?;
    let is_main = texts.first().is_some_and(|text| is_main(text));
    let modules = if is_main { Modules::built_in() } else { Modules::of_hosts(&texts) };
    let mut reader = Reader::new(source, &mut report, modules);
    if let Some(root) = files.first().and_then(|file| server_root(file)) {
        reader.server_root = root;
    }
    let mut nodes = Vec::new();
    if !is_main {
        nodes = reader.text(debian::AROUND_HOSTS)?;
    }
    for file in files {
        nodes.extend(reader.file(file)?);
    }
    reader.finish();
    let has_mod_php = reader.modules.has("mod_php.c") || reader.modules.has("php7_module");
    let facts = document::Facts {
        server_root: reader.written_root.clone(),
        has_mod_php,
        has_includes: reader.modules.has("mod_include.c"),
        is_main,
        php_version: nodes.iter().find_map(php_version).unwrap_or_default(),
    };
    let document = document::of(&nodes, facts, &pools, source, &mut report);
    Ok(Import { document, report })
}

/// Returns the version in the name of mod_php's file: `8.2` for `libphp8.2.so`.
fn php_version(node: &Node) -> Option<String> {
    let words = node.words();
    let file = words.get(1).filter(|_| node.name == "loadmodule")?;
    let name = file.rsplit('/').next()?;
    let version = name.strip_prefix("libphp")?.strip_suffix(".so")?;
    version.contains('.').then(|| version.to_owned())
}

/// Returns true for the text of a main file.
fn is_main(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        let name = line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        OF_MAIN_FILES.contains(&name.as_str())
            || name.starts_with("include") && line.contains("mods-enabled")
    })
}

/// Returns the directory of relative paths for a file of `sites-available` or `sites-enabled`, or
/// for a main file that names none.
fn server_root(file: &Path) -> Option<PathBuf> {
    let directory = file.parent()?;
    let name = directory.file_name()?.to_str()?;
    matches!(name, "sites-available" | "sites-enabled")
        .then(|| directory.parent().map(Path::to_owned))?
}

#[cfg(test)]
mod tests;
