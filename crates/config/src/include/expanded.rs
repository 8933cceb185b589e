//! A document with the files that its parts come from.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::INCLUDED;
use super::left_out::LeftOut;
use super::sent::SENT;
use crate::error::{self, Error, ErrorKind, Position};
use crate::json;
use crate::node::{Shown, path, split_path};

/// A document whose parts come from several files.
#[derive(Debug, Default)]
pub struct Expanded {
    /// The document, with `included`.
    pub document: Value,
    pub(super) sources: Vec<Source>,
    pub(super) origins: Vec<Origin>,
    /// Parts that a site has in other places.
    pub(super) places: Vec<Origin>,
    /// Files that are left out because they cannot be used
    /// ([`expand_leaving_out`](super::expand_leaving_out)).
    pub left_out: Vec<LeftOut>,
    /// All mistakes of those files, with the file and the place.
    pub mistakes: Vec<String>,
    /// The patterns that name no file, what sites should know, and the sites without HTTPS, as
    /// lines with the file.
    pub notes: Vec<String>,
    /// Names of the sites that have HTTPS once there is an e-mail address for the authority.
    pub without_https: Vec<String>,
}

/// A file of a document.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) text: Vec<u8>,
    /// The index of the file that includes it; `None` for the document.
    pub(super) included_by: Option<usize>,
    /// The content is that of the former document.
    pub(super) is_former: bool,
}

/// The origin of a part of the document.
#[derive(Debug)]
pub(super) struct Origin {
    /// The path of the part in the document.
    pub(super) path: Vec<String>,
    /// The index of its file.
    pub(super) source: usize,
    /// Its path in the file.
    pub(super) inner: Vec<String>,
}

impl Expanded {
    /// Returns the files, the document's first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(|source| source.file.as_path())
    }

    /// Returns the mistakes of the document as lines, each with the file and the place in it. A
    /// mistake in a part that several sites share is one.
    pub fn explain(&self, error: &Error) -> String {
        let mut lines: Vec<String> = Vec::new();
        for line in [error].into_iter().chain(error.others()).map(|error| self.explain_one(error)) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        error::lines(&lines, String::clone)
    }

    /// Returns a problem of a part of the document, which its JSON path names, as a line with the
    /// file and the place.
    pub fn explain_problem(&self, path: &str, problem: &str) -> String {
        self.explain_one(&Error::new(ErrorKind::InvalidValue, path.to_owned(), problem))
    }

    /// Returns the parts of the document that a file has: the path of each, and its value.
    pub fn parts_of(&self, file: &Path) -> Vec<(Vec<String>, &Value)> {
        let is_of_file = |origin: &&Origin| {
            self.sources.get(origin.source).is_some_and(|source| source.file == file)
        };
        let parts = self.origins.iter().filter(is_of_file).filter_map(|origin| {
            let steps = origin.path.iter();
            let found = steps.clone().try_fold(&self.document, |value, step| match value {
                Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
                value => value.get(step),
            })?;
            Some((origin.path.clone(), found))
        });
        parts.collect()
    }

    /// Returns the part of the document that a file owns, and in which a place is.
    fn origin(&self, steps: &[String]) -> Option<&Origin> {
        let all = self.origins.iter().chain(&self.places);
        let around = all.filter(|origin| steps.starts_with(&origin.path));
        around.max_by_key(|origin| origin.path.len())
    }

    /// Returns the place of a mistake. That of an unknown key is the object that has it; the key
    /// may come from another file than the object.
    fn steps(&self, error: &Error) -> Vec<String> {
        let mut steps = split_path(error.path());
        let is_key = |key: &&String| {
            error.message().starts_with(&format!("unknown key \"{}\"", Shown(key.as_str())))
        };
        let of_files = self.origins.iter().filter(|origin| origin.source != 0);
        let members = of_files.filter_map(|origin| match origin.path.split_last()? {
            (key, above) if above == steps => Some(key),
            _ => None,
        });
        let key = members.filter(|_| error.kind() == ErrorKind::UnknownKey).find(is_key).cloned();
        steps.extend(key);
        steps
    }

    /// Returns the index of the file that has a mistake; 0 for the document itself.
    pub(super) fn source_of(&self, error: &Error) -> usize {
        self.origin(&self.steps(error)).map_or(0, |origin| origin.source)
    }

    /// Returns the file that the document itself includes, because of which a file was read.
    pub(super) fn outermost(&self, mut source: usize) -> usize {
        while let Some(above) = self.sources.get(source).and_then(|source| source.included_by)
            && above != 0
        {
            source = above;
        }
        source
    }

    pub(super) fn explain_one(&self, error: &Error) -> String {
        let steps = self.steps(error);
        let (source, inner) = match self.origin(&steps) {
            Some(origin) => {
                let below = steps.get(origin.path.len()..).unwrap_or_default();
                (origin.source, [origin.inner.as_slice(), below].concat())
            }
            None => (0, steps),
        };
        let is_of_site = self.places.iter().any(|place| place.source == source);
        match self.sources.get(source) {
            Some(source) if is_of_site => {
                // The steps below belong to what the key has become.
                let known = (0..=inner.len()).rev().find_map(|length| {
                    let known = inner.get(..length)?;
                    json::find(&source.text, known).map(|_| known)
                });
                let known = known.unwrap_or_default();
                let path = source.path(known);
                let colon = if path.is_empty() { "" } else { ": " };
                format!("{}{path}{colon}{}", source.place(known), error.text())
            }
            Some(source) => format!("{}{error}", source.place(&inner)),
            None => error.to_string(),
        }
    }
}

impl Source {
    /// Returns the source of the document itself.
    pub(super) fn of_document(file: &Path, text: &[u8]) -> Source {
        Source { file: file.to_owned(), text: text.to_vec(), included_by: None, is_former: false }
    }

    /// Returns the path in a document that was sent; `None` for a file.
    fn sent(&self) -> Option<&str> {
        self.file.to_str()?.strip_prefix(SENT)
    }

    /// Returns the file and the line of a value, or of the object that lacks it, as the beginning
    /// of a message; empty for a document that was sent.
    pub(super) fn place(&self, inner: &[String]) -> String {
        match self.sent() {
            Some(_) => String::new(),
            None => format!("{}: {}", self.file.display(), self.line(inner)),
        }
    }

    /// Returns the line of a value as [`Source::place`] does, without the file.
    pub(super) fn line(&self, inner: &[String]) -> String {
        if self.sent().is_some() {
            return String::new();
        }
        let Position { line, column, .. } = position(&self.text, inner);
        format!("line {line}, column {column}: ")
    }

    /// Returns the JSON path of a value in the file, or in the document that was sent.
    pub(super) fn path(&self, inner: &[String]) -> String {
        format!("{}{}", self.sent().unwrap_or_default(), path(inner))
    }

    /// Returns the name in messages about others.
    pub(super) fn name(&self) -> String {
        match self.sent() {
            Some("") => "the document".to_owned(),
            Some(path) => path.to_owned(),
            None => self.file.display().to_string(),
        }
    }

    /// Returns the file as the beginning of a message; empty for a document that was sent.
    pub(super) fn file(&self) -> String {
        match self.sent() {
            Some(_) => String::new(),
            None => format!("{}: ", self.file.display()),
        }
    }
}

/// Returns the mistakes of a document as lines, each with its file. If the text is that of the file,
/// without the content of others, they have the line, too.
pub fn explain(file: &str, text: &[u8], error: &Error) -> String {
    let is_of_file = json::find(text, &[INCLUDED.to_owned()]).is_none();
    error.lines(|error| match error.position() {
        None if is_of_file => {
            let Position { line, column, .. } = position(text, &split_path(error.path()));
            format!("{file}: line {line}, column {column}: {error}")
        }
        _ => format!("{file}: {error}"),
    })
}

/// Returns the position of a value in a text, or of the object that lacks the value.
fn position(text: &[u8], inner: &[String]) -> Position {
    let found = (0..=inner.len()).rev().find_map(|length| json::find(text, inner.get(..length)?));
    found.unwrap_or(Position { offset: 0, line: 1, column: 1 })
}
