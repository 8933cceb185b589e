//! The control API: HTTP over a unix socket, one enum of commands.
#![forbid(unsafe_code)]
