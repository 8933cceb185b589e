//! The privileged process tree: binds sockets, starts, reaps and respawns.
#![forbid(unsafe_code)]
