//! The configuration document: JSON to typed configuration, every problem with its JSON path.
#![forbid(unsafe_code)]
