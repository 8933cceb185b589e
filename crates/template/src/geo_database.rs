//! Databases of addresses in MaxMind's format (`.mmdb`), for variables with `database`.
//!
//! A document names the file; the server reads it and gives the content to [`GeoDatabase::set`].
//! All documents of a process share the database of a file, so a new content counts for all of them
//! at once.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, Visitor};

/// Maximum length of a database, in bytes.
pub const MAX_DATABASE: u64 = 1 << 30;

/// Attributes of a file that change with its content: inode, length, and time of the change.
pub type FileStamp = [i64; 4];

/// A database file. It has no values until its content is set.
pub struct GeoDatabase {
    /// The file.
    pub file: PathBuf,
    content: RwLock<Option<Arc<GeoContent>>>,
}

/// The content of a database file.
pub struct GeoContent {
    reader: Reader<Vec<u8>>,
    /// The file from which it was read.
    pub stamp: FileStamp,
}

/// A path to a value in the records of a database, such as `country.iso_code`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoPath(Vec<GeoStep>);

/// The text of a text, number or truth value of a record.
struct Scalar(String);

/// Reads a [`Scalar`].
struct ScalarVisitor;

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a truth value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Scalar, E> {
        Ok(Scalar(if truth { "1" } else { "0" }.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_f32<E>(self, number: f32) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GeoStep {
    Key(String),
    Index(usize),
}

/// The databases that documents name, by file.
static DATABASES: Mutex<Option<HashMap<PathBuf, Weak<GeoDatabase>>>> = Mutex::new(None);

impl GeoDatabase {
    /// Returns the database of a file, shared by all documents that name it. Does not read it.
    pub fn at(file: &Path) -> Arc<GeoDatabase> {
        let mut all = DATABASES.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.get_or_insert_default();
        if let Some(database) = all.get(file).and_then(Weak::upgrade) {
            return database;
        }
        all.retain(|_, database| database.strong_count() > 0);
        let database = Arc::new(GeoDatabase { file: file.to_owned(), content: RwLock::default() });
        all.insert(file.to_owned(), Arc::downgrade(&database));
        database
    }

    /// Returns the file of the content; `None` if there is no content yet.
    pub fn stamp(&self) -> Option<FileStamp> {
        self.content().map(|content| content.stamp)
    }

    /// Replaces the content.
    pub fn set(&self, content: GeoContent) {
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(content));
    }

    fn content(&self) -> Option<Arc<GeoContent>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the value of an address; `None` if there is none, or if it is no text, number or
    /// truth value.
    pub(crate) fn find(&self, address: IpAddr, path: &GeoPath) -> Option<String> {
        self.content()?.find(address, path)
    }
}

impl GeoContent {
    /// Checks the whole content of a file.
    ///
    /// # Errors
    ///
    /// The reason why it is no usable database.
    pub fn read(bytes: Vec<u8>, stamp: FileStamp) -> Result<GeoContent, String> {
        // The content is untrusted, and the reader is not ours: its panics must not reach the
        // caller.
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let reader = Reader::from_source(bytes)?;
            reader.verify().map(|()| reader)
        }));
        match checked {
            Ok(Ok(reader)) => Ok(GeoContent { reader, stamp }),
            Ok(Err(error)) => Err(format!("it is no valid MaxMind database: {error}")),
            Err(_) => Err("it is no valid MaxMind database".to_owned()),
        }
    }

    fn find(&self, address: IpAddr, path: &GeoPath) -> Option<String> {
        let found = self.reader.lookup(address.to_canonical()).ok()?;
        let steps = path.0.iter().map(|step| match step {
            GeoStep::Key(key) => PathElement::Key(key),
            GeoStep::Index(index) => PathElement::Index(*index),
        });
        let steps: Vec<_> = steps.collect();
        Some(found.decode_path::<Scalar>(&steps).ok()??.0)
    }
}

impl GeoPath {
    /// Reads a path, whose steps have dots between them; a number is a place in an array. Returns
    /// `None` if a step is empty.
    pub fn parse(text: &str) -> Option<GeoPath> {
        let step = |step: &str| match step.parse() {
            _ if step.is_empty() => None,
            Ok(index) if step.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(GeoStep::Index(index))
            }
            _ => Some(GeoStep::Key(step.to_owned())),
        };
        text.split('.').map(step).collect::<Option<_>>().map(GeoPath)
    }
}

impl fmt::Debug for GeoDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())
    }
}

impl fmt::Debug for GeoContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reader.metadata().database_type)
    }
}

#[cfg(test)]
mod tests;
