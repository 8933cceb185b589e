//! Reads configuration files, with the files that they include.

mod hanging;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use howdah_advice::explained;
use howdah_config::include::{self, Expanded, Former, IncludedFiles, SiteParts, SiteProblem};
use howdah_config::json;
use howdah_config::{Config, Defaults, Error, Site};
use howdah_sites::Machine;
use howdah_sites::sandbox::ProjectMarks;
use howdah_supervisor::file_progress;
use howdah_sys::credentials::Credentials;
use howdah_sys::regular_file::OwnedDirectory;
use howdah_sys::{clock, regular_file};
use serde_json::Value;

use crate::cli::CommonOptions;
use crate::{php_programs, server_user};

pub use self::hanging::Hanging;

/// Maximum length of a file, in bytes. The error of a document that is longer than a document may
/// be names its place.
const MAX_FILE: u64 = 2 * json::MAX_SIZE as u64;

/// A document that was read.
pub struct Document {
    /// Its text, with the content of the files that it includes.
    pub text: Vec<u8>,
    /// Notes about its patterns that name no file, and its sites, as lines with the file and the
    /// place.
    pub notes: Vec<String>,
}

impl Document {
    fn of_text(text: Vec<u8>) -> Document {
        Document { text, notes: Vec::new() }
    }

    fn of_files(expanded: Expanded) -> Document {
        let Expanded { document, notes, .. } = expanded;
        Document { text: document.to_string().into_bytes(), notes }
    }
}

/// Reads a configuration file, which may be a pipe without a name (`/dev/stdin`). The error has the
/// path and, for common mistakes, the remedy.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    file_progress(&path.display().to_string());
    // Its open would wait for a writer.
    let real = path.canonicalize().and_then(fs::symlink_metadata);
    if real.is_ok_and(|file| file.file_type().is_fifo()) {
        return Err(format!("{}: it is not a regular file", path.display()));
    }
    let read = File::open(path).and_then(|file| regular_file::read_opened(file, MAX_FILE));
    read.map_err(|error| explain(path, &error))
}

fn explain(path: &Path, error: &io::Error) -> String {
    let target = fs::read_link(path).ok().filter(|_| error.kind() == io::ErrorKind::NotFound);
    if let Some(target) = target {
        return format!(
            "{}: it is a link to {target:?}, which is not there; make that file, or remove the link",
            path.display()
        );
    }
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file",
        io::ErrorKind::PermissionDenied => "it may not be read by this user",
        io::ErrorKind::IsADirectory => {
            "it is a directory; to serve a directory, leave --config out"
        }
        _ => return format!("{}: {error}", path.display()),
    };
    format!("{}: {advice}", path.display())
}

/// Reads a document with the files that it includes, without those that cannot be used
/// ([`include::expand_leaving_out`]). `former` is the document that was read before. Errors as of
/// [`read_document`].
pub fn read_usable(
    path: &Path,
    disk: &Disk,
    defaults: &Defaults,
    former: Option<&[u8]>,
) -> Result<Document, String> {
    Ok(read_leaving_out(path, disk, defaults, former)?.0)
}

/// Reads a document as [`read_usable`] does. Returns it with the mistakes of the files that are
/// left out.
fn read_leaving_out(
    path: &Path,
    disk: &Disk,
    defaults: &Defaults,
    former: Option<&[u8]>,
) -> Result<(Document, Vec<String>), String> {
    let text = read(path)?;
    let former = former.map(Former::of_text).unwrap_or_default();
    let check = |document: &Value| -> Result<(), Error> {
        Config::check(document, defaults).map_err(explained)
    };
    let now = clock::wall_seconds();
    let none = BTreeSet::new();
    let expanded = include::expand_leaving_out(&text, path, disk, &former, now, &check, &none)?;
    Ok(match expanded {
        Some(mut expanded) => {
            let mistakes = std::mem::take(&mut expanded.mistakes);
            (Document::of_files(expanded), mistakes)
        }
        None => (Document::of_text(text), Vec::new()),
    })
}

/// Reads a document for a check: the part that the server would use, if any, and the mistakes of
/// all files as lines with the file and the place. Those of a document without files are left to
/// the caller.
pub fn read_checked(
    path: &Path,
    disk: &Disk,
    defaults: &Defaults,
) -> (Option<Document>, Vec<String>) {
    let problem = match read_document(path, disk, defaults) {
        Ok(document) => return (Some(document), Vec::new()),
        Err(problem) => problem,
    };
    let mut mistakes: Vec<_> = problem.lines().map(str::to_owned).collect();
    // A file that cannot be read hides mistakes of other files: the document is incomplete without
    // it.
    let (usable, others) = match read_leaving_out(path, disk, defaults, None) {
        Ok((document, others)) => (Some(document), others),
        Err(problem) => (None, problem.lines().map(str::to_owned).collect()),
    };
    for mistake in others {
        if !mistakes.contains(&mistake) {
            mistakes.push(mistake);
        }
    }
    (usable, mistakes)
}

/// Reads a document again of which files were left out. Returns the document that runs if none of
/// them can be used by now. Other files that have changed keep the content that runs until a
/// reload. Error: one can be used, but the document itself has changed, too.
pub fn read_left_out(
    path: &Path,
    disk: &Disk,
    defaults: &Defaults,
    running: &[u8],
) -> Result<Vec<u8>, String> {
    let text = read_usable(path, disk, defaults, Some(running))?.text;
    let parse = |text: &[u8]| json::parse(text).map_err(|error| error.to_string());
    let (before, after) = (parse(running)?, parse(&text)?);
    let missing = include::left_out_files(&after);
    let before_files = include::left_out_files(&before);
    let mended: Vec<_> = before_files.difference(&missing).copied().collect();
    if mended.is_empty() {
        return Ok(running.to_vec());
    }
    if include::differs_only_in_left_out(&before, &after) {
        return Ok(text);
    }
    let check = |document: &Value| -> Result<(), Error> {
        Config::check(document, defaults).map_err(explained)
    };
    let (document, changed) = (read(path)?, include::changed_files(&before, &after));
    let (former, now) = (Former::of_document(before.clone()), clock::wall_seconds());
    let held = include::expand_leaving_out(&document, path, disk, &former, now, &check, &changed);
    match held {
        Ok(Some(held)) if include::differs_only_in_left_out(&before, &held.document) => {
            Ok(held.document.to_string().into_bytes())
        }
        _ => Err(format!(
            "{} can be used again, but {} has changed as well: run howdah reload",
            mended.join(", "),
            path.display()
        )),
    }
}

/// Returns true if a running document was read without some of its files. Nothing is parsed.
pub fn may_have_left_out(document: &[u8]) -> bool {
    // Sites that were sent to the control API are in no file.
    let has = |text: &str| text.contains("\"left_out\"") && !text.contains("\"source:/sites");
    std::str::from_utf8(document).is_ok_and(has)
}

/// Reads a document with all files that it includes. The mistakes in several files are lines with
/// the file and the line; that of a single one is left to the caller, which parses the text.
pub fn read_document(path: &Path, disk: &Disk, defaults: &Defaults) -> Result<Document, String> {
    let text = read(path)?;
    let Some(expanded) = include::expand(&text, path, disk)? else {
        return Ok(Document::of_text(text));
    };
    match Config::check(&expanded.document, defaults) {
        Ok(_) => Ok(Document::of_files(expanded)),
        Err(error) => Err(expanded.explain(&error)),
    }
}

/// Reads the tables of a running document that are in files again. The error has the file and the
/// line.
pub fn reread_tables(document: &[u8], disk: &Disk, defaults: &Defaults) -> Result<Vec<u8>, String> {
    let document = json::parse(document).map_err(|error| error.to_string())?;
    let expanded = include::expand_tables(document, disk)?;
    match Config::check(&expanded.document, defaults) {
        Ok(_) => Ok(expanded.document.to_string().into_bytes()),
        Err(error) => Err(expanded.explain(&error)),
    }
}

/// Compiles the sites of a document that was sent to the control API. No file that it names is
/// read. `running` is the document that runs. The error has a line with the JSON path for each
/// mistake.
pub fn compile_sent(
    text: &[u8],
    running: &[u8],
    disk: &Disk,
    defaults: &Defaults,
) -> Result<Vec<u8>, String> {
    let document = json::parse(text).map_err(|error| error.to_string())?;
    let running = json::parse(running).ok();
    let now = clock::wall_seconds();
    let expanded = include::compile_sent(&document, running.as_ref(), disk, now)?;
    match Config::check(&expanded.document, defaults).map_err(explained) {
        Ok(_) => Ok(expanded.document.to_string().into_bytes()),
        Err(error) => Err(expanded.explain(&error)),
    }
}

/// Returns true if a running document may have tables in files. Nothing is parsed.
pub fn may_have_tables(document: &[u8]) -> bool {
    let text = std::str::from_utf8(document).unwrap_or_default();
    // The paths of parts that come from files. Single values are there, too, as those of sites.
    let paths = text.split("\"/variables/").skip(1);
    paths.filter_map(|rest| rest.split('"').next()).any(|path| path.ends_with("/values"))
}

/// Returns the files and directories on which the tables of a running document depend, and those
/// whose change can make files useful without which it was read.
pub fn watched(document: &[u8]) -> Vec<PathBuf> {
    let document = json::parse(document).unwrap_or_default();
    let mut files = include::watched_by_tables(&document, &Disk::default());
    files.extend(include::watched_by_left_out(&document));
    files
}

/// The files of the disk, and the machine that sites are compiled for.
#[derive(Default)]
pub struct Disk {
    /// The server's user; `None` is the user of this process.
    user: Option<Credentials>,
    /// Files that are not read, as they do not answer.
    hanging: Hanging,
    /// No file that a document names is read.
    is_without_files: bool,
    /// Directories and files of sites may be missing.
    is_for_another_machine: bool,
    /// Project marks of the directories above sites.
    marks: ProjectMarks,
    /// The open directory of the site file that was read last.
    site_directory: RefCell<Option<(PathBuf, OwnedDirectory)>>,
}

impl Disk {
    /// Returns the files for a server with these options.
    pub fn of(options: &CommonOptions) -> Result<Disk, String> {
        Ok(Disk { user: server_user::find(options)?, ..Disk::default() })
    }

    /// Reads no file that a document names.
    pub fn without_files(self) -> Disk {
        Disk { is_without_files: true, ..self }
    }

    /// Lets directories and files of sites be missing: the document is for another machine.
    pub fn for_another_machine(self) -> Disk {
        Disk { is_for_another_machine: true, ..self }
    }

    /// Leaves out files and sites that do not answer.
    pub fn without(self, hanging: &Hanging) -> Disk {
        Disk { hanging: hanging.clone(), ..self }
    }

    /// Opens the file of a site. Returns the file and its metadata, and those of its directory.
    fn open_site(&self, directory: &Path, file: &Path) -> io::Result<(File, Metadata, Metadata)> {
        let mut known = self.site_directory.borrow_mut();
        let known = match &mut *known {
            Some((path, known)) if path == directory => known,
            other => &mut other.insert((directory.to_owned(), OwnedDirectory::open(directory)?)).1,
        };
        let (file, metadata) = known.open_file(file)?;
        Ok((file, metadata, known.metadata.clone()))
    }
}

impl IncludedFiles for Disk {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        if self.is_without_files {
            return Err(format!(
                "{}: files are read for sites in files of a document only; send the value itself",
                file.display()
            ));
        }
        self.hanging.check(file)?;
        regular_file::read_owned(file, MAX_FILE).map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => {
                format!(
                    "{0}: it is a directory; write {0}/*.json for the files in it",
                    file.display()
                )
            }
            _ => explain(file, &error),
        })
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
        self.hanging.check(directory)?;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{}: there is no such directory; create or mount it, or correct the pattern",
                directory.display()
            ),
            _ => explain(directory, &error),
        };
        let entries = fs::read_dir(directory).map_err(failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        let names: Vec<_> = names.collect::<Result<_, _>>().map_err(failed)?;
        Ok(names.into_iter().flatten().collect())
    }

    fn begins(&self, place: &str) {
        file_progress(place);
    }

    fn absolute(&self, file: PathBuf) -> PathBuf {
        std::path::absolute(&file).unwrap_or(file)
    }

    fn read_site(&self, file: &Path) -> Result<Vec<u8>, String> {
        self.hanging.check(file)?;
        let directory = file.parent().unwrap_or(Path::new("/"));
        let (opened, metadata, above) =
            self.open_site(directory, file).map_err(|error| match error.kind() {
                io::ErrorKind::IsADirectory => format!(
                    "{}: it is a directory, and a site is a file; give it a name that does not end \
                     in .json, or move it elsewhere",
                    file.display()
                ),
                _ => explain(file, &error),
            })?;
        let own = rustix::process::geteuid().as_raw();
        for (path, metadata) in [(file, &metadata), (directory, &above)] {
            let is_writable = metadata.mode() & 0o022 != 0;
            let is_foreign = metadata.uid() != own && metadata.uid() != 0;
            if is_foreign || is_writable {
                let path = path.display();
                let who = if is_foreign { "its owner" } else { "others than its owner" };
                return Err(format!(
                    "{path}: {who} can change it, and a site chooses the user that PHP runs as; \
                     type: chown root:root {path} && chmod go-w {path}"
                ));
            }
        }
        regular_file::read_opened(opened, MAX_FILE).map_err(|error| explain(file, &error))
    }

    fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem> {
        self.hanging.check(&site.root).map_err(|problem| SiteProblem {
            key: vec!["root".to_owned()],
            problem,
            because_of: Some(site.root.clone()),
        })?;
        let read = |file: &Path| self.read(file);
        let versions =
            || php_programs::find().found.iter().map(|php| php.version.clone()).collect();
        let machine = Machine {
            user: self.user.clone(),
            read: &read,
            is_another: self.is_for_another_machine,
            marks: &self.marks,
            php_versions: &versions,
        };
        howdah_sites::compile(site, &machine)
    }

    fn has_ipv6(&self) -> bool {
        howdah_sites::has_ipv6()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_sites_are_no_tables_that_are_watched() {
        let with = |part: &str| serde_json::json!({"included": {part: "/etc/file"}}).to_string();
        for (part, is_table) in [
            ("/variables/backend/values", true),
            ("/variables/site/values/shop.example", false),
            ("/variables/backend", false),
            ("/routes/shop", false),
        ] {
            assert_eq!(may_have_tables(with(part).as_bytes()), is_table, "{part}");
        }
    }
}
