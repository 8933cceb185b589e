//! Parsers and writers of single elements of a message. Pure functions of their input, except that
//! [`date`] reads the clock.

pub mod authority;
pub mod body_length;
pub mod chunked;
pub mod date;
pub mod encoding;
pub mod etag;
pub mod query;
pub mod range;
pub mod reason;
pub mod refusal;
pub mod target;
