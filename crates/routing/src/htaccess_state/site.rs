//! Sites with `.htaccess` files, and the engines of a thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use howdah_config::{
    Htaccess, HtaccessAlias, HtaccessMap, HtaccessSection, Pattern, PatternError, Patterns, Prefix,
    ScriptExtensions, Subject, Symlinks,
};
use howdah_files::hidden;
use howdah_files::mime::MimeTypes;
use howdah_htaccess::allow::Allow;
use howdah_htaccess::base::{Alias, Section, SectionKind};
use howdah_htaccess::engine::{Base, Engine};
use howdah_htaccess::memory::SiteMemory;
use howdah_htaccess::merge;
use howdah_htaccess::rewrite_map::{Function, RewriteMap};
use howdah_htaccess::world::{Broken, FileRule};
use tokio::sync::Semaphore;

use super::allowance::Allowance;
use super::compiled::CompiledFiles;
use crate::auth::{Passwords, Permits};

/// Maximum number of different bases that are compiled in a thread. Most sites have the same one.
const MAX_BASES: usize = 32;

/// Maximum number of requests of a site that have the names of a directory at a time: they may take
/// 50 MiB.
const MAX_LISTINGS: usize = 2;

/// Maximum number of handlers of other servers that the log has of a site.
const MAX_FOREIGN_HANDLERS: usize = 16;

/// An application or a share with `.htaccess` files.
#[derive(Debug)]
pub struct Site {
    /// Distinguishes sites; a new configuration has new sites.
    pub id: u64,
    /// The configuration outside of the files, or the error in the settings.
    pub base: Result<Arc<Base>, Broken>,
    /// Path of the root in URLs, if it is not `/`.
    pub prefix: Option<Prefix>,
    /// Name of the files.
    pub file: Box<[u8]>,
    /// Settings for files that are sent.
    pub files: howdah_files::Share,
    /// Application that runs scripts.
    pub scripts: Option<Box<str>>,
    /// Files that have been compiled.
    pub compiled: Arc<CompiledFiles>,
    /// Memory of the compiled files.
    pub memory: Arc<SiteMemory>,
    /// Checks of passwords.
    pub passwords: Passwords,
    /// Permits to read and search files.
    pub searches: Permits,
    /// Permits to have the names of a directory.
    pub listings: Arc<Semaphore>,
    /// The turn to compile a file.
    pub compiling: Arc<Semaphore>,
    /// Processor time for directives.
    pub allowance: Allowance,
    /// Handlers of other servers that the log has.
    foreign_handlers: Mutex<Vec<Box<[u8]>>>,
    /// Directories of aliases, without a slash at their ends, and files of passwords.
    roots: Vec<Box<[u8]>>,
    /// Files that are neither sent nor run.
    closed: Option<Patterns>,
    /// Files that are not run.
    without_scripts: Option<Patterns>,
}

impl Site {
    /// Prepares a site. `scripts` is the application that runs PHP, with the endings of its
    /// scripts; files with the endings in `sources` are never sent.
    pub fn new(
        settings: &Htaccess,
        scripts: Option<(&str, ScriptExtensions)>,
        traverse_mounts: bool,
        mut sources: Vec<String>,
        mime: &Arc<MimeTypes>,
    ) -> Site {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (scripts, extensions) = scripts.unzip();
        let extensions = extensions.filter(ScriptExtensions::is_configured);
        sources.extend(extensions.iter().flat_map(|own| own.endings()).cloned());
        let memory = Arc::<SiteMemory>::default();
        let base = base(settings, scripts.is_some(), extensions.as_ref(), &memory);
        let source_names = base.as_ref().ok().and_then(|base| base.php_pattern.as_deref());
        let source_names = source_names.map(|expression| format!("~{expression}"));
        let lists =
            compile_lists([source_names.as_slice(), &settings.closed, &settings.without_scripts]);
        let (base, [source_names, closed, without_scripts]) = match lists {
            Ok(lists) => (base, lists),
            Err(problem) => (Err(Broken::new(problem.to_string())), [None, None, None]),
        };
        let options = howdah_files::Options {
            sources,
            source_names,
            index: Vec::new(),
            symlinks: Symlinks::OwnerMatch,
            traverse_mounts,
            is_decided: true,
            scripts: scripts.is_some(),
            precompressed: false,
            mime: Arc::clone(mime),
            ..howdah_files::Options::default()
        };
        Site {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            base,
            prefix: None,
            file: settings.file.as_bytes().into(),
            files: howdah_files::Share::new("", options),
            scripts: scripts.map(Into::into),
            compiled: CompiledFiles::new(),
            memory,
            passwords: Passwords::default(),
            searches: Permits::for_files(),
            listings: Arc::new(Semaphore::new(MAX_LISTINGS)),
            compiling: Arc::new(Semaphore::new(1)),
            allowance: Allowance::default(),
            foreign_handlers: Mutex::default(),
            roots: roots(settings),
            closed,
            without_scripts,
        }
    }

    /// Places the root at a prefix of the path.
    pub fn at(self, prefix: Option<Prefix>) -> Site {
        Site { prefix, ..self }
    }

    /// Returns the document's rule for the file at a path below the root. Names that begin with a
    /// dot are hidden as in shares; a rule may lead to a `.well-known` of any directory.
    pub fn rule(&self, path: &[u8]) -> FileRule {
        let has = |list: &Option<Patterns>| list.as_ref().is_some_and(|list| list.matches(path));
        if has(&self.closed) {
            return FileRule::Closed;
        }
        if path.split(|byte| *byte == b'/').any(hidden::is_hidden_segment) {
            return FileRule::Hidden;
        }
        if has(&self.without_scripts) { FileRule::NotRun } else { FileRule::Open }
    }

    /// Divides the absolute path of a file into a directory whose files the document names, and the
    /// path below it, which begins with a slash; `root` is the root of the site. `None` outside of
    /// all of them.
    pub fn divided<'p>(&self, path: &'p [u8], root: &[u8]) -> Option<(&'p [u8], &'p [u8])> {
        let below = |root: &[u8]| {
            let rest = path.strip_prefix(root)?;
            let rest = if rest.is_empty() { &b"/"[..] } else { rest };
            rest.starts_with(b"/").then_some((&path[..root.len()], rest))
        };
        if let Some(found) = below(root) {
            return Some(found);
        }
        let root = self.roots.iter().find(|root| below(root).is_some())?;
        if path.len() > root.len() {
            return below(root);
        }
        // A file: it is opened in its directory.
        let slash = memchr::memrchr(b'/', path)?;
        Some(path.split_at(slash))
    }

    /// Returns true for the first request for which a handler of another server has chosen PHP.
    pub fn is_new_handler(&self, name: &[u8]) -> bool {
        let mut known = self.foreign_handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = known.len() < MAX_FOREIGN_HANDLERS && !known.iter().any(|own| **own == *name);
        if is_new {
            known.push(name.into());
        }
        is_new
    }
}

/// Compiles lists of patterns of paths and names; `None` for an empty list, which would match
/// everything.
fn compile_lists<const N: usize>(
    lists: [&[String]; N],
) -> Result<[Option<Patterns>; N], PatternError> {
    let mut compiled = [const { None }; N];
    for (list, patterns) in lists.into_iter().zip(&mut compiled) {
        for text in list {
            let pattern = Pattern::parse(text, Subject::Uri)?;
            patterns.get_or_insert_with(Patterns::default).push(pattern);
        }
    }
    Ok(compiled)
}

/// Returns the configuration outside of the files.
fn base(
    settings: &Htaccess,
    runs_scripts: bool,
    extensions: Option<&ScriptExtensions>,
    memory: &Arc<SiteMemory>,
) -> Result<Arc<Base>, Broken> {
    let allow = Allow::parse(&settings.allow).map_err(Broken::new)?;
    Ok(Arc::new(Base {
        allow,
        directory_index: settings.index.iter().map(|name| name.clone().into_bytes()).collect(),
        options: settings.options.join(" "),
        php_pattern: runs_scripts.then(|| php_pattern(settings, extensions)),
        memory: Some(Arc::clone(memory)),
        extra: settings.directives.join("\n"),
        sections: settings.sections.iter().map(section).collect::<Result<_, _>>()?,
        aliases: settings.aliases.iter().map(alias).collect(),
        maps: settings.maps.iter().map(map).collect(),
        ..Base::default()
    }))
}

fn section(section: &HtaccessSection) -> Result<Section, Broken> {
    let allow = section.allow.as_ref().map(|words| Allow::parse(words)).transpose();
    Ok(Section {
        kind: match section.kind {
            "directory" => SectionKind::Directory,
            "directory_match" => SectionKind::DirectoryMatch,
            "location" => SectionKind::Location,
            _ => SectionKind::LocationMatch,
        },
        pattern: section.pattern.clone(),
        directives: section.directives.join("\n"),
        reads_files: section.files,
        allow: allow.map_err(Broken::new)?,
    })
}

fn alias(alias: &HtaccessAlias) -> Alias {
    Alias {
        path: alias.path.clone(),
        is_expression: alias.is_expression,
        target: alias.target.clone(),
        root: alias.root().to_owned(),
    }
}

fn map((name, map): (&String, &HtaccessMap)) -> (String, RewriteMap) {
    let bytes = |text: &String| text.clone().into_bytes();
    let map = match map {
        HtaccessMap::Function(function) => match Function::of_name(function) {
            Some(function) => RewriteMap::Function(function),
            None => RewriteMap::Values(BTreeMap::new()),
        },
        HtaccessMap::Values(values) => {
            let values = values.iter();
            let values = values.map(|(key, all)| (bytes(key), all.iter().map(bytes).collect()));
            RewriteMap::Values(values.collect())
        }
    };
    (name.clone(), map)
}

/// Returns the directories of aliases, and the files of passwords, that the document names.
fn roots(settings: &Htaccess) -> Vec<Box<[u8]>> {
    let aliases = settings.aliases.iter().map(HtaccessAlias::root);
    let files = settings.password_files();
    let mut roots: Vec<Box<[u8]>> =
        aliases.chain(files).map(|root| root.as_bytes().into()).collect();
    // The longest one that a path begins with counts.
    roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
    roots.dedup();
    roots
}

/// Returns the expression of the names of scripts: that of the settings, and the endings that the
/// application has. PHP source whose ending it does not have goes to the application as well, which
/// refuses it.
fn php_pattern(settings: &Htaccess, extensions: Option<&ScriptExtensions>) -> String {
    // An ending is a dot, letters and digits.
    let endings = extensions.into_iter().flat_map(ScriptExtensions::endings);
    endings.fold(settings.scripts.clone(), |all, ending| format!("{all}|\\{ending}$"))
}

/// The engines of a thread, by site.
#[derive(Debug, Default)]
pub struct Engines {
    known: RefCell<HashMap<u64, Known>>,
    /// Number of bases that were compiled for them.
    bases: Cell<usize>,
}

/// The engine of a site.
#[derive(Debug)]
struct Known {
    /// Is gone with the site.
    files: Weak<CompiledFiles>,
    /// Number of compiled files when the engine was last used.
    changes: u64,
    engine: Rc<Engine>,
}

impl Engines {
    /// Forgets merged directives: of a site, or of all.
    pub fn forget(&self, site: Option<u64>) {
        let known = self.known.borrow();
        match site {
            Some(site) => known.get(&site).into_iter().for_each(|known| known.engine.forget()),
            None => known.values().for_each(|known| known.engine.forget()),
        }
    }

    /// Returns the engine of a site.
    ///
    /// # Errors
    ///
    /// The settings of the site have an error.
    pub fn of(&self, site: &Site) -> Result<Rc<Engine>, Broken> {
        let mut engines = self.known.borrow_mut();
        let changes = site.compiled.changes();
        if merge::is_full() {
            engines.values().for_each(|known| known.engine.forget());
        }
        if let Some(known) = engines.get_mut(&site.id) {
            if known.changes != changes {
                // Otherwise each change of a file would leave merged directives behind.
                known.changes = changes;
                known.engine.forget();
            }
            return Ok(Rc::clone(&known.engine));
        }
        let base = site.base.clone()?;
        let like = engines.values().find_map(|known| known.engine.of_like(&base));
        let engine = Rc::new(match like {
            Some(engine) => engine,
            None => {
                if self.bases.get() >= MAX_BASES {
                    // Engines in use are made again.
                    engines.clear();
                    self.bases.set(0);
                }
                self.bases.set(self.bases.get() + 1);
                Engine::new(base)?
            }
        });
        engines.retain(|_, known| known.files.strong_count() > 0);
        let files = Arc::downgrade(&site.compiled);
        engines.insert(site.id, Known { files, changes, engine: Rc::clone(&engine) });
        Ok(engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(options: &str) -> Site {
        let settings = Htaccess { options: vec![options.to_owned()], ..Htaccess::default() };
        Site::new(&settings, None, true, Vec::new(), &Arc::default())
    }

    #[test]
    fn each_site_keeps_its_engine_however_many_there_are() {
        let engines = Engines::default();
        let sites: Vec<_> = (0..3 * MAX_BASES).map(|_| site("FollowSymLinks")).collect();
        let first: Vec<_> = sites.iter().map(|site| engines.of(site).unwrap()).collect();
        let again: Vec<_> = sites.iter().map(|site| engines.of(site).unwrap()).collect();
        assert!(first.iter().zip(&again).all(|(first, again)| Rc::ptr_eq(first, again)));
        assert_eq!(engines.bases.get(), 1, "the base is compiled once");
    }

    #[test]
    fn engines_of_sites_that_are_gone_are_dropped() {
        let engines = Engines::default();
        let gone: Vec<_> = (0..100).map(|_| site("FollowSymLinks")).collect();
        gone.iter().for_each(|site| drop(engines.of(site).unwrap()));
        drop(gone);
        let new = site("FollowSymLinks");
        engines.of(&new).unwrap();
        assert_eq!(engines.known.borrow().len(), 1);
        assert_eq!(engines.bases.get(), 1, "one of them was like it");
    }

    #[test]
    fn different_bases_are_limited() {
        let engines = Engines::default();
        let sites: Vec<_> = (0..3 * MAX_BASES)
            .map(|number| site(["None", "Indexes", "FollowSymLinks"][number % 3]))
            .collect();
        sites.iter().for_each(|site| drop(engines.of(site).unwrap()));
        assert_eq!((engines.bases.get(), engines.known.borrow().len()), (3, sites.len()));
        engines.bases.set(MAX_BASES);
        let other = site("Indexes FollowSymLinks");
        engines.of(&other).unwrap();
        assert_eq!((engines.bases.get(), engines.known.borrow().len()), (1, 1));
    }
}
