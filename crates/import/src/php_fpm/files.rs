//! The files of PHP-FPM: sections and includes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::ini::{Statement, Value, read_line};
use crate::source::is_pattern;
use crate::{Error, Id, Report, Source, Status};

/// Maximum number of files that include each other (PHP-FPM: 5).
const MAX_DEPTH: usize = 5;

/// Directories that relative paths begin at: those of Debian's PHP and of PHP's own images.
const PREFIXES: [&str; 2] = ["/usr", "/usr/local"];

/// A directive in a section.
#[derive(Debug, Clone)]
pub(super) struct Directive {
    pub(super) id: Id,
    pub(super) name: String,
    /// The text between the brackets; `None` without brackets.
    pub(super) key: Option<String>,
    /// `None` without `=`.
    pub(super) value: Option<Value>,
}

/// A section `[name]`. The same name continues a section, whatever its case.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    /// The file in which the section begins.
    pub(super) file: PathBuf,
    /// The line of its name, from 1.
    pub(super) line: u32,
    pub(super) directives: Vec<Directive>,
}

/// All sections.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) global: Vec<Directive>,
    pub(super) pools: Vec<Section>,
}

/// Reads files and, of directories, the files `*.conf` in them. A directory without such files may
/// be one such as `/etc/php`, with a directory for each version.
pub(super) fn read_files(
    paths: &[PathBuf],
    source: &mut Source,
    report: &mut Report,
) -> Result<Sections, Error> {
    let mut reader = Reader {
        source,
        report,
        sections: Sections::default(),
        current: None,
        known: BTreeSet::new(),
        open: Vec::new(),
    };
    for path in paths {
        for file in files_of(path, reader.source)? {
            reader.current = None;
            reader.read(&file)?;
        }
    }
    Ok(reader.sections)
}

fn files_of(path: &Path, source: &Source) -> Result<Vec<PathBuf>, Error> {
    if !source.is_directory(path) {
        return Ok(vec![path.to_owned()]);
    }
    let is_conf = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        name.ends_with(b".conf") && name[0] != b'.' && !source.is_directory(file)
    };
    let files = |directory: &Path| -> Vec<PathBuf> {
        source.list(directory).into_iter().filter(is_conf).collect()
    };
    let mut found = files(path);
    if found.is_empty() {
        let further = ["pool.d", "fpm", "fpm/pool.d"].map(|name| path.join(name));
        let versions = source.list(path).into_iter().map(|version| version.join("fpm"));
        found = further.into_iter().chain(versions).flat_map(|one| files(&one)).collect();
    }
    if found.is_empty() {
        return Err(Error::file(path, "the directory has no file *.conf of PHP-FPM"));
    }
    Ok(found)
}

struct Reader<'a> {
    source: &'a mut Source,
    report: &'a mut Report,
    sections: Sections,
    /// The pool whose section is open; `None` for `[global]`. An included file may change it.
    current: Option<usize>,
    /// Files that were read.
    known: BTreeSet<PathBuf>,
    /// Files that include each other, the first one first.
    open: Vec<PathBuf>,
}

impl Reader<'_> {
    fn read(&mut self, file: &Path) -> Result<(), Error> {
        if !self.known.insert(file.to_owned()) {
            return Ok(());
        }
        let text = self.source.read(file)?;
        self.open.push(file.to_owned());
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for (number, line) in (1..).zip(text.split('\n')) {
            self.read_line(file, number, line)?;
        }
        self.open.pop();
        Ok(())
    }

    fn read_line(&mut self, file: &Path, number: u32, line: &str) -> Result<(), Error> {
        let statements = read_line(line).map_err(|message| Error::at(file, number, message))?;
        for statement in statements {
            match statement {
                Statement::Section(name) => self.open_section(&name, file, number),
                Statement::Entry { name, key, value } => {
                    let id = self.report.add(file, number, told(&name, key.as_deref()));
                    if name == "include" && key.is_none() {
                        self.include(id, value, file, number)?;
                    } else {
                        let directive = Directive { id, name, key, value };
                        match self.current {
                            None => self.sections.global.push(directive),
                            Some(pool) => self.sections.pools[pool].directives.push(directive),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn open_section(&mut self, name: &str, file: &Path, line: u32) {
        let pools = &mut self.sections.pools;
        self.current = if name.eq_ignore_ascii_case("global") {
            None
        } else {
            let known = pools.iter().position(|pool| pool.name.eq_ignore_ascii_case(name));
            Some(known.unwrap_or_else(|| {
                let (name, file) = (name.to_owned(), file.to_owned());
                pools.push(Section { name, file, line, directives: Vec::new() });
                pools.len() - 1
            }))
        };
    }

    fn include(
        &mut self,
        id: Id,
        value: Option<Value>,
        file: &Path,
        line: u32,
    ) -> Result<(), Error> {
        let value = value.unwrap_or_default();
        if value.text.is_empty() || value.has_variable {
            let message = "\"include\" needs the name of a file, without a variable";
            return Err(Error::at(file, line, message));
        }
        let mut found = self.matches(&value.text, file);
        found.retain(|path| !self.source.is_directory(path));
        if found.is_empty() && !is_pattern(&value.text) {
            let message = format!("the included file {} does not exist", value.text);
            return Err(Error::at(file, line, message));
        }
        if found.is_empty() && !self.has_directory(&value.text) {
            let message = format!("the directory of {} does not exist", value.text);
            return Err(Error::at(file, line, message));
        }
        for path in found {
            if self.open.contains(&path) {
                let message = format!("{} includes itself", path.display());
                return Err(Error::at(file, line, message));
            }
            if self.open.len() >= MAX_DEPTH {
                let message = format!("files include each other more than {MAX_DEPTH} deep");
                return Err(Error::at(file, line, message));
            }
            self.read(&path)?;
        }
        self.report.mark(id, Status::Converted, "");
        Ok(())
    }

    /// Returns true if the directory in front of the first wildcard exists, or is not known.
    fn has_directory(&self, pattern: &str) -> bool {
        let fixed = pattern.find(['*', '?', '[']).map_or(pattern, |at| &pattern[..at]);
        let directory = Path::new(&fixed[..fixed.rfind('/').map_or(0, |slash| slash + 1)]);
        directory.is_relative()
            || self.source.is_directory(&self.source.locate(directory, Path::new("/")))
    }

    /// Returns the files of an include. A relative path begins at the prefix with which PHP was
    /// built, which is not known here: also tried are the directories above the file.
    fn matches(&self, pattern: &str, file: &Path) -> Vec<PathBuf> {
        if pattern.starts_with('/') {
            return self.source.glob(pattern, Path::new("/"));
        }
        let prefixes = PREFIXES.iter().map(|prefix| format!("{prefix}/{pattern}"));
        let below_prefixes = prefixes.map(|whole| self.source.glob(&whole, Path::new("/")));
        let above = file.ancestors().skip(1).map(|directory| self.source.glob(pattern, directory));
        below_prefixes.chain(above).find(|found| !found.is_empty()).unwrap_or_default()
    }
}

/// The name of a directive in the report.
fn told(name: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("{name}[{key}]"),
        None => name.to_owned(),
    }
}
