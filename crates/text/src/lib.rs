//! Encodings of text, and patterns of names, that several crates need, each written once.
//!
//! Pure functions of their arguments: no I/O, no clock, and no input makes them fail other than by
//! their result.
#![forbid(unsafe_code)]

pub mod base64;
pub mod date;
pub mod fnv;
pub mod hex;
pub mod html;
pub mod json;
pub mod network;
pub mod percent;
pub mod token;
pub mod wildcard;
