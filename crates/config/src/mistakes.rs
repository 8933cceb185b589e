//! Several mistakes of a document from one reading.
//!
//! Parts that do not depend on each other (a listener, a step of a route, an application) are read
//! with [`Mistakes::part`], which keeps the error of one and lets the others be read. References
//! are checked against the names in the document
//! ([`Definitions`](crate::definitions::Definitions)), so a part with a mistake makes no part wrong
//! that refers to it.

use std::cell::RefCell;
use std::fmt;

use crate::error::{Error, ErrorKind, is_too_much};

/// The errors of parts that were read, in the order of reading.
pub(crate) struct Mistakes<E>(RefCell<Vec<E>>);

impl<E> Default for Mistakes<E> {
    fn default() -> Self {
        Mistakes(RefCell::default())
    }
}

impl<E: fmt::Display> Mistakes<E> {
    /// Keeps an error, so that the reading continues. Error: the same one, as there are too many.
    pub fn keep(&self, error: E) -> Result<(), E> {
        let mut errors = self.0.borrow_mut();
        if is_too_much(errors.iter().chain([&error])) {
            return Err(error);
        }
        errors.push(error);
        Ok(())
    }

    /// Returns the result of the reading: a value, or all errors with that which has ended the
    /// reading.
    pub fn finish<T>(self, result: Result<T, E>) -> Result<T, Vec<E>> {
        let mut errors = self.0.into_inner();
        match result {
            Ok(value) if errors.is_empty() => Ok(value),
            Ok(_) => Err(errors),
            Err(last) => {
                errors.push(last);
                Err(errors)
            }
        }
    }
}

impl Mistakes<String> {
    /// Keeps an error like [`Mistakes::keep`], unless the same is kept.
    pub fn keep_once(&self, error: String) -> Result<(), String> {
        if self.0.borrow().contains(&error) {
            return Ok(());
        }
        self.keep(error)
    }
}

impl Mistakes<Error> {
    /// Returns the result of the reading like [`Mistakes::finish`], without an error that only
    /// follows from others.
    pub fn finish_document<T>(self, result: Result<T, Error>) -> Result<T, Vec<Error>> {
        match result {
            Err(error) if error.is_follow_on() && !self.0.borrow().is_empty() => {
                Err(self.0.into_inner())
            }
            result => self.finish(result),
        }
    }

    /// Returns the value of a part; `None` if it has a mistake, which is kept. Error: the reading
    /// ends, as there are too many mistakes.
    pub fn part<T>(&self, read: Result<T, Error>) -> Result<Option<T>, Error> {
        let error = match read {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        // An undefined name is reported once, however many parts refer to it.
        let is_known = |known: &Error| known.message() == error.message();
        if error.is_follow_on() && !self.0.borrow().is_empty() {
            return Ok(None);
        }
        if error.kind() == ErrorKind::UnknownTarget && self.0.borrow().iter().any(is_known) {
            return Ok(None);
        }
        self.keep(error).map(|()| None)
    }
}

#[cfg(test)]
mod tests;
