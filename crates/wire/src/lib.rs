//! Byte formats shared by Howdah's processes: request ring, frames, supervisor messages; no I/O.
#![deny(unsafe_code)]
