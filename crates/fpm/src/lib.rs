//! What php-fpm is to those who start, configure and watch it: its command line, its configuration,
//! its log and its signals. The pools themselves are applications of Howdah's supervisor.
//!
//! 1. [`command_line`] reads the arguments.
//! 2. [`conf`] reads and checks the configuration, with php-fpm's messages.
//! 3. [`sockets`] opens the sockets of the pools, or takes those of the server before a reload.
//! 4. [`document`] makes a document of the pools.
//! 5. [`master`] runs a supervisor with it, handles signals, and writes the log; [`records`]
//!    turns the supervisor's records into php-fpm's lines.
#![forbid(unsafe_code)]

pub mod command_line;
pub mod conf;
pub mod document;
pub mod log;
pub mod master;
mod records;
pub mod sockets;
