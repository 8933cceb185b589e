//! Findings in the `.htaccess` files of a site.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::search::{Found, search, search_for_review};
use super::site_file;
use howdah_config::{ActionKind, Config, Htaccess};
use howdah_htaccess::allow::Allow;
use howdah_htaccess::base::{Base, Section, SectionKind};
use howdah_htaccess::parse::review::{Line, Review, review};
use howdah_htaccess::world::Broken;
use howdah_htaccess::{handler_name, server_config};

/// Maximum size of a file that is read, in bytes; that of the server.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of warnings, and of notes, about files that are not read.
const MAX_WARNINGS: usize = 10;

/// Beginning of a line that stands for a file.
pub const FILE: &str = "f";
/// Beginning of a line with an error.
pub const ERROR: &str = "e";
/// Beginning of a line with a note.
pub const NOTE: &str = "n";
/// Beginning of a line with a warning.
pub const WARNING: &str = "w";

/// Reviews all files below a directory; the lines are those of [`FILE`], [`ERROR`] and [`NOTE`].
pub fn findings(root: &Path, settings: &Htaccess) -> String {
    let Found { files, is_complete, unreadable } = search_for_review(root, &settings.file);
    let mut lines = Vec::new();
    let mut add = |kind: &str, text: &str| lines.push(format!("{kind}{}", one_line(text)));
    for error in of_document(settings) {
        add(ERROR, &format!("{}: {error}; all requests get 500", root.display()));
    }
    for file in &files {
        let shown = file.display();
        add(FILE, "");
        let review = match reviewed(root, file, settings) {
            Ok(review) => review,
            Err(error) => {
                add(ERROR, &format!("{shown}: {error}"));
                continue;
            }
        };
        review.error.iter().for_each(|error| add(ERROR, &error.message));
        for line in review.skipped.iter().filter(|line| is_unread(&line.text)) {
            let Line { number, text } = line;
            add(
                NOTE,
                &format!("{shown}: line {number}: {text} is not read: its condition is false"),
            );
        }
        review.warnings.iter().for_each(|warning| add(NOTE, warning));
        for line in &review.directives {
            if let Some(note) = foreign_handler(&line.text) {
                add(NOTE, &format!("{shown}: line {}: {note}", line.number));
            }
        }
    }
    if let Some(first) = unreadable.first() {
        let others = match unreadable.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} other directories"),
        };
        let first = first.display();
        add(NOTE, &format!("{first}{others}: files below were not looked at: permission denied"));
    }
    if !is_complete {
        add(NOTE, &format!("{}: not all files were looked at: there are too many", root.display()));
    }
    lines.join("\n")
}

/// Returns the errors in the directives, sections and aliases of the document.
fn of_document(settings: &Htaccess) -> Vec<String> {
    let mut errors = Vec::new();
    let mut add = |place: &str, result: Result<(), Broken>| {
        if let Err(broken) = result {
            errors.push(format!("\"{place}\" of \"htaccess\": {}", broken.message));
        }
    };
    add("directives", server_config::check(&settings.directives.join("\n")));
    for section in &settings.sections {
        add("sections", server_config::check(&section.directives.join("\n")));
        if section.kind.ends_with("_match") {
            add("sections", server_config::check_expression(&section.pattern));
        }
    }
    for alias in settings.aliases.iter().filter(|alias| alias.is_expression) {
        add("aliases", server_config::check_expression(&alias.path));
    }
    errors
}

/// Returns lines about files that are not read, below document roots and shares without `htaccess`:
/// one of [`WARNING`] for each that denies access, one of [`NOTE`] for each that sends requests to
/// other files where the document sends none.
pub fn unread(config: &Config) -> String {
    let mut roots: Vec<_> = config
        .applications
        .iter()
        .filter(|application| !application.obeys_htaccess && application.isolation.rootfs.is_none())
        .flat_map(|application| application.targets.iter().map(|target| target.root.clone()))
        .collect();
    let shares = config.action_paths().into_iter().filter(|path| path.path.ends_with("/share"));
    roots.extend(shares.filter(|share| share.is_directory).map(|share| share.file));
    roots.sort();
    roots.dedup();
    let read: HashSet<_> = config.htaccess_roots().into_iter().map(|(root, _)| root).collect();
    let all: HashSet<&Path> = roots.iter().map(PathBuf::as_path).collect();
    let nested = |root: &Path| root.ancestors().skip(1).any(|directory| all.contains(directory));
    let falls_back = roots_with_fallback(config);
    let (mut warnings, mut notes) = (Lines::default(), Lines::default());
    for root in roots.iter().filter(|root| !read.contains(*root) && !nested(root)) {
        for file in search(root, ".htaccess").files {
            let Ok(review) = reviewed(root, &file, &Htaccess::default()) else { continue };
            let file = file.display();
            if let Some(Line { number, text }) = review.denials.first() {
                warnings.add(format_args!(
                    "{file}: line {number} ({text}) denies access, but .htaccess files are not \
                     read here; set \"htaccess\": true on the application or share, or deny \
                     access in the routes"
                ));
            } else if let Some(Line { number, text }) = review.rewrites.first()
                && !falls_back.contains(root)
            {
                notes.add(format_args!(
                    "{file}: line {number} ({text}) sends requests to another file, but .htaccess \
                     files are not read here; set \"htaccess\": true on the application or share, \
                     or write a \"fallback\" or \"rewrite\" in the routes"
                ));
            }
        }
    }
    let warnings = warnings.end(WARNING, "deny access");
    warnings.chain(notes.end(NOTE, "send requests to other files")).collect::<Vec<_>>().join("\n")
}

/// Returns the directories of shares with a `fallback`, and the document roots of applications with
/// a `script`.
fn roots_with_fallback(config: &Config) -> HashSet<PathBuf> {
    let actions = config.actions().into_iter();
    let places: HashSet<_> = actions
        .filter(|(_, action)| match &action.kind {
            ActionKind::Share(share) => share.fallback.is_some(),
            _ => false,
        })
        .map(|(place, _)| format!("{place}/share"))
        .collect();
    let shares = config.action_paths().into_iter().filter(|path| places.contains(&path.path));
    let targets = config.applications.iter().flat_map(|application| &application.targets);
    let with_script = targets.filter(|target| target.script.is_some());
    let roots = with_script.map(|target| target.root.clone());
    shares.map(|share| share.file).chain(roots).collect()
}

/// Lines about files, up to [`MAX_WARNINGS`].
#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    more: usize,
}

impl Lines {
    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        if self.lines.len() < MAX_WARNINGS {
            self.lines.push(one_line(&line.to_string()))
        } else {
            self.more += 1
        }
    }

    /// Returns the lines with this beginning, and one that counts those that are left out.
    fn end(self, kind: &str, deed: &str) -> impl Iterator<Item = String> {
        let Lines { mut lines, more } = self;
        if more > 0 {
            lines.push(format!("{more} more .htaccess files {deed} and are not read"));
        }
        lines.into_iter().map(move |line| format!("{kind}{line}"))
    }
}

/// Returns true if a section that is not read is one of a module that the server does not have. One
/// for servers without a module (`<IfModule !mod_authz_core.c>`) or of another version is meant for
/// others.
fn is_unread(section: &str) -> bool {
    let section = section.to_ascii_lowercase();
    !section.starts_with("<ifmodule !") && !section.starts_with("<ifversion")
}

/// Returns a note about a directive that chooses PHP by the name that another server has for it.
fn foreign_handler(directive: &str) -> Option<String> {
    const OWN: [&str; 2] = ["application/x-httpd-php", "php-script"];
    let mut words = directive.split_ascii_whitespace();
    let name = words.next()?.to_ascii_lowercase();
    let handler = words.next()?.trim_matches('"').to_ascii_lowercase();
    let is_handler = matches!(&*name, "sethandler" | "addhandler" | "addtype" | "forcetype");
    if !is_handler || OWN.contains(&&*handler) || !handler_name::names_php(handler.as_bytes()) {
        return None;
    }
    let version = handler_name::php_version(handler.as_bytes());
    let wanted = version.map(|version| format!("; it means PHP {version}")).unwrap_or_default();
    Some(format!(
        "{handler} is PHP of another server; the PHP of the application runs such files{wanted}"
    ))
}

/// Reads a file of the site below `root`. A link to a file of another user would show the owner of
/// the link the content of the file.
fn reviewed(root: &Path, file: &Path, settings: &Htaccess) -> Result<Review, String> {
    let error = |error: std::io::Error| error.to_string();
    let root = fs::canonicalize(root).map_err(error)?;
    let bytes = site_file::read(&root, file, MAX_FILE_BYTES + 1).map_err(error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("has more than {MAX_FILE_BYTES} bytes"));
    }
    let base = base(settings)?;
    let mut directory = file.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes().to_vec();
    directory.push(b'/');
    let exists = |path: &[u8]| Path::new(std::ffi::OsStr::from_bytes(path)).exists();
    Ok(review(&bytes, file.as_os_str().as_bytes(), &directory, &base, &exists))
}

/// Returns the base for the files of a site: what they may have.
fn base(settings: &Htaccess) -> Result<Base, String> {
    let mut sections = Vec::new();
    for section in &settings.sections {
        let Some(words) = &section.allow else { continue };
        sections.push(Section {
            kind: SectionKind::Directory,
            pattern: section.pattern.clone(),
            directives: String::new(),
            reads_files: None,
            allow: Some(Allow::parse(words)?),
        });
    }
    Ok(Base { allow: Allow::parse(&settings.allow)?, sections, ..Base::default() })
}

/// Returns a text without line breaks and other control characters, which names of files may have,
/// and which would reach a terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_out_of_the_site_is_named_and_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("site");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink("/proc/version", root.join(".htaccess")).unwrap();
        // A link of root is the administrator's.
        let is_root = fs::symlink_metadata(root.join(".htaccess"))
            .is_ok_and(|link| std::os::unix::fs::MetadataExt::uid(&link) == 0);
        if is_root {
            std::os::unix::fs::lchown(root.join(".htaccess"), Some(65534), None).unwrap();
        }
        let found = findings(&root, &Htaccess::default());
        assert!(found.contains("is not followed"), "{found}");
        assert!(!found.contains("Linux"), "{found}");
    }

    #[test]
    fn a_mistake_in_directives_of_the_document_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let document = serde_json::json!({"routes": [{"action": {"share": "/srv$uri", "htaccess": {
            "directives": ["Header set X-A b", "Heder set X-A b"],
            "sections": [{"location_match": "^/(a", "directives": "Require all denied"}],
            "aliases": [{"match": "^/[", "target": "/srv"}],
        }}}]});
        let config = howdah_config::Config::from_value(document).unwrap();
        let (_, settings) = config.htaccess_roots().into_iter().next().unwrap();
        let found = findings(directory.path(), settings);
        assert_eq!(found.lines().count(), 3, "{found}");
        assert!(found.contains("line 2") && found.contains("Heder"), "{found}");
        assert!(found.contains("^/(a") && found.contains("\"aliases\""), "{found}");
        assert!(!findings(directory.path(), &Htaccess::default()).contains(ERROR));
    }

    #[test]
    fn a_finding_has_no_control_characters() {
        assert_eq!(one_line("Foo\x1b]0;x\x07\n"), "Foo?]0;x??");
    }
}
