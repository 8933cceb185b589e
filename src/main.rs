//! The `howdah` command.
#![forbid(unsafe_code)]
fn main() {}
