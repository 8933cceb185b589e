//! The state of sites over time. No I/O, no clock: samples of the status come with their times.
//!
//! [`History`] makes a [`Row`] for each site of the samples of the last minute, with its rates and
//! with [`Notice`]s of what is unusual. [`Histories`] keeps the figures of rows for a day, in
//! bounded memory. [`format`](mod@format) writes numbers in a few characters.
#![forbid(unsafe_code)]

pub mod format;
mod rows;
mod series;

pub use rows::{History, Notice, Row};
pub use series::{Figures, Histories, MAX_SITES, Range};
