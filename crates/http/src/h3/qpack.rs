//! Field compression (RFC 9204) with the static table and literals only.
//!
//! The server announces a dynamic table of no capacity, so that a field section needs nothing but
//! itself: no stream is blocked, and a client has no memory here. A [`Decoder`] reads the bytes of
//! one section as they arrive and keeps at most the permitted size; a section of the server is
//! written by [`put_status`] and [`put_field`]. What a client sends on its streams of instructions
//! is read by [`instructions`].

mod decoder;
mod encoder;
pub mod instructions;
mod integer;
pub mod table;

pub use self::decoder::{Decoder, Section, SectionError};
pub use self::encoder::{begin, put_field, put_status};
