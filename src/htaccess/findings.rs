//! What the `.htaccess` files of a site say.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::search::{Found, search, search_for_review};
use super::site_file;
use howdah_config::{Config, Htaccess};
use howdah_htaccess::allow::Allow;
use howdah_htaccess::base::Base;
use howdah_htaccess::handler_name;
use howdah_htaccess::parse::review::{Line, Review, review};

/// Maximum size of a file that is read, in bytes; that of the server.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of warnings about files that are not read.
const MAX_WARNINGS: usize = 10;

/// Beginning of a line that stands for a file.
pub const FILE: &str = "f";
/// Beginning of a line with an error.
pub const ERROR: &str = "e";
/// Beginning of a line with a note.
pub const NOTE: &str = "n";

/// Reviews all files below a directory; the lines are those of [`FILE`], [`ERROR`] and [`NOTE`].
pub fn findings(root: &Path, settings: &Htaccess) -> String {
    let Found { files, is_complete, unreadable } = search_for_review(root, &settings.file);
    let mut lines = Vec::new();
    let mut add = |kind: &str, text: &str| lines.push(format!("{kind}{}", one_line(text)));
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

/// Returns a warning for each file that denies access and is not read: those below document roots and shares
/// without `htaccess`.
pub fn unread_denials(config: &Config) -> Vec<String> {
    let mut roots: Vec<_> = { config.applications.iter() }
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
    let mut warnings = Vec::new();
    let mut more = 0;
    for root in roots.iter().filter(|root| !read.contains(*root) && !nested(root)) {
        for file in search(root, ".htaccess").files {
            let Ok(review) = reviewed(root, &file, &Htaccess::default()) else { continue };
            let Some(first) = review.denials.first() else { continue };
            if warnings.len() == MAX_WARNINGS {
                more += 1;
                continue;
            }
            let text = format!(
                "{}: line {} ({}) denies access, but .htaccess files are not read here; set \"htaccess\": \
                 true on the application or share, or deny access in the routes",
                file.display(),
                first.number,
                first.text
            );
            warnings.push(one_line(&text));
        }
    }
    if more > 0 {
        warnings.push(format!("{more} more .htaccess files deny access and are not read"));
    }
    warnings
}

/// Returns true if a section that is not read is one of a module that the server does not have. One for servers
/// without a module (`<IfModule !mod_authz_core.c>`) or of another version is meant for others.
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

/// Reads a file of the site below `root`. A link to a file of another user would show its owner what is in that.
fn reviewed(root: &Path, file: &Path, settings: &Htaccess) -> Result<Review, String> {
    let error = |error: std::io::Error| error.to_string();
    let root = fs::canonicalize(root).map_err(error)?;
    let bytes = site_file::read(&root, file, MAX_FILE_BYTES + 1).map_err(error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("has more than {MAX_FILE_BYTES} bytes"));
    }
    let base = Base { allow: Allow::parse(&settings.allow)?, ..Base::default() };
    let mut directory = file.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes().to_vec();
    directory.push(b'/');
    let exists = |path: &[u8]| Path::new(std::ffi::OsStr::from_bytes(path)).exists();
    Ok(review(&bytes, file.as_os_str().as_bytes(), &directory, &base, &exists))
}

/// Returns a text without line breaks and other control characters, which names of files may have, and which would
/// reach a terminal.
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
    fn a_finding_has_no_control_characters() {
        assert_eq!(one_line("Foo\x1b]0;x\x07\n"), "Foo?]0;x??");
    }
}
