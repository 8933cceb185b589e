//! Directives of the server's configuration for a site: the content of a `<VirtualHost>`, with its
//! sections and aliases.

use std::collections::BTreeMap;
use std::sync::Arc;

use howdah_text::wildcard;

use crate::allow::Allow;
use crate::base::{Base, Section, SectionKind, is_wildcard_of, slashes};
use crate::config::DirConfig;
use crate::modules::pattern::{Pattern, replaced};
use crate::modules::{alias, rewrite, setenvif};
use crate::parse::compile;
use crate::world::Broken;

/// Directives that the server's configuration may have and a `.htaccess` may not.
const SERVER_ONLY: [&str; 2] = ["php_admin_value", "php_admin_flag"];

/// Compiled sections and aliases.
#[derive(Debug, Default)]
pub(crate) struct ServerConfig {
    /// Directories, those with the fewest segments first; expressions are in `expressions`.
    directories: Vec<Compiled>,
    expressions: Vec<Compiled>,
    locations: Vec<Compiled>,
    aliases: Vec<CompiledAlias>,
    /// Rules and redirects that are applied to the path of the URL.
    pub rewrite: rewrite::Config,
    pub redirects: alias::Config,
    /// Variables by header fields, which all phases see (mod_setenvif).
    pub environment: setenvif::Config,
}

#[derive(Debug)]
struct Compiled {
    matcher: Matcher,
    /// Number of slashes of a directory.
    depth: usize,
    config: Arc<DirConfig>,
    reads_files: Option<bool>,
}

#[derive(Debug)]
enum Matcher {
    Exact(Vec<u8>),
    Wildcard(Vec<u8>),
    Regex(Pattern),
}

#[derive(Debug)]
struct CompiledAlias {
    source: Source,
    target: Vec<u8>,
    root: Vec<u8>,
}

#[derive(Debug)]
enum Source {
    Path(Vec<u8>),
    Regex(Pattern),
}

impl ServerConfig {
    /// Compiles the sections and aliases of a base. `server` has the directives outside of
    /// sections; its rules, redirects and variables become those of the server.
    pub(crate) fn new(base: &Base, server: &mut DirConfig) -> Result<ServerConfig, Broken> {
        let mut compiled = ServerConfig {
            rewrite: server.of::<rewrite::Config>().of_server(),
            redirects: server.of::<alias::Config>().clone(),
            environment: server.of::<setenvif::Config>().clone(),
            ..ServerConfig::default()
        };
        server.set(rewrite::Config::default());
        server.set(alias::Config::default());
        server.set(setenvif::Config::default());
        for section in &base.sections {
            compiled.add(section, base)?;
        }
        compiled.directories.sort_by_key(|section| section.depth);
        for alias in &base.aliases {
            let source = if alias.is_expression {
                Source::Regex(pattern(&alias.path)?)
            } else {
                Source::Path(alias.path.clone().into_bytes())
            };
            let root = alias.root.clone().into_bytes();
            let target = alias.target.clone().into_bytes();
            compiled.aliases.push(CompiledAlias { source, target, root });
        }
        Ok(compiled)
    }

    fn add(&mut self, section: &Section, base: &Base) -> Result<(), Broken> {
        let is_directory =
            matches!(section.kind, SectionKind::Directory | SectionKind::DirectoryMatch);
        let path = section.path();
        let directory = if is_directory { path.as_slice() } else { b"/" };
        let config = Arc::new(compile_base(&section.directives, directory, base)?);
        let matcher = match section.kind {
            SectionKind::DirectoryMatch | SectionKind::LocationMatch => {
                Matcher::Regex(pattern(&section.pattern)?)
            }
            _ if wildcard::is_pattern(&path) => Matcher::Wildcard(path.clone()),
            _ => Matcher::Exact(path.clone()),
        };
        let depth = slashes(&path);
        let list = match section.kind {
            SectionKind::Directory => &mut self.directories,
            SectionKind::DirectoryMatch => &mut self.expressions,
            SectionKind::Location | SectionKind::LocationMatch => &mut self.locations,
        };
        list.push(Compiled { matcher, depth, config, reads_files: section.reads_files });
        Ok(())
    }

    /// Returns true if there is no section of directories.
    pub(crate) fn has_no_directories(&self) -> bool {
        self.directories.is_empty() && self.expressions.is_empty()
    }

    /// Returns the sections of a directory, which has a slash at its end.
    pub(crate) fn of_directory<'a>(
        &'a self,
        path: &'a [u8],
    ) -> impl Iterator<Item = (&'a Arc<DirConfig>, Option<bool>)> {
        let depth = slashes(path);
        let sections = self.directories.iter();
        sections
            .skip_while(move |section| section.depth < depth)
            .take_while(move |section| section.depth == depth)
            .filter(|section| section.matcher.matches_all_of(path))
            .map(|section| (&section.config, section.reads_files))
    }

    /// Returns the sections whose expressions match a directory with a slash at its end.
    pub(crate) fn of_expressions(&self, path: &[u8]) -> impl Iterator<Item = &Arc<DirConfig>> {
        let sections = self.expressions.iter();
        sections
            .filter(|section| section.matcher.matches_all_of(path))
            .map(|section| &section.config)
    }

    /// Returns the sections of a path of a URL.
    pub(crate) fn of_location(&self, path: &[u8]) -> impl Iterator<Item = &Arc<DirConfig>> {
        let sections = self.locations.iter();
        sections.filter(|section| section.matcher.matches_url(path)).map(|section| &section.config)
    }

    /// Returns the file of a path of a URL that an alias has.
    pub(crate) fn aliased(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.aliases.iter().find_map(|alias| match &alias.source {
            Source::Path(own) => {
                let length = alias::path_matches(own, path)?;
                Some([&alias.target, &path[length..]].concat())
            }
            Source::Regex(pattern) => {
                let groups = pattern.groups(path).ok().flatten()?;
                replaced(&alias.target, path, &groups)
            }
        })
    }

    /// Returns the length of the root directory of an alias that a file is in.
    pub(crate) fn root_of(&self, file: &[u8]) -> Option<usize> {
        let is_below = |root: &Vec<u8>| {
            file.strip_prefix(root.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let roots = self.aliases.iter().map(|alias| &alias.root);
        roots.filter(|root| is_below(root)).map(Vec::len).max()
    }
}

impl Matcher {
    /// Returns true for a directory of this path, with a slash at its end.
    fn matches_all_of(&self, path: &[u8]) -> bool {
        match self {
            Matcher::Exact(own) => own == path,
            Matcher::Wildcard(own) => is_wildcard_of(own, path),
            Matcher::Regex(regex) => regex.is_match(path).unwrap_or(true),
        }
    }

    /// Returns true for a path of a URL.
    fn matches_url(&self, path: &[u8]) -> bool {
        match self {
            Matcher::Exact(own) => path.strip_prefix(own.as_slice()).is_some_and(|rest| {
                own.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/")
            }),
            other => other.matches_all_of(path),
        }
    }
}

/// Returns the error in directives of the server's configuration, a line each.
pub fn check(directives: &str) -> Result<(), Broken> {
    compile_base(directives, b"/", &Base::default()).map(drop)
}

/// Returns the error in an expression of a section or an alias.
pub fn check_expression(expression: &str) -> Result<(), Broken> {
    pattern(expression).map(drop)
}

fn pattern(text: &str) -> Result<Pattern, Broken> {
    Pattern::new(text.as_bytes(), false)
        .map_err(|reason| Broken::new(format!("the expression {text} is not valid: {reason}")))
}

/// Compiles a text of the server's configuration for a directory.
pub(crate) fn compile_base(text: &str, directory: &[u8], base: &Base) -> Result<DirConfig, Broken> {
    let allow =
        Allow { list: SERVER_ONLY.iter().map(|name| (*name).to_owned()).collect(), ..Allow::all() };
    let unlimited = Base {
        allow,
        memory: None,
        sections: Vec::new(),
        aliases: Vec::new(),
        maps: BTreeMap::new(),
        types: base.types.clone(),
        ..Base::default()
    };
    compile(text.as_bytes(), b"base", directory, &unlimited, &|_| false)
}
