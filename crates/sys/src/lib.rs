//! Safe Linux calls that the standard library lacks; one file per family, each `unsafe` in it
//! with the reason why it is sound.
//!
//! - [`shm`]: memory shared between processes.
//! - [`futex`]: waiting on a word of such memory.
//! - [`packet`]: messages with descriptors between processes.
//! - [`pipe`]: messages from processes that are not trusted.
//! - [`process`]: fork, exec, wait, and what a new process must be before it runs anything.
//! - [`pidfd`]: a process by a descriptor.
//! - [`family`]: processes that descend from others.
//! - [`namespaces`]: what a process sees of the machine.
//! - [`peek`]: the memory of another process of one's own.
//! - [`credentials`]: users and groups.
//! - [`sandbox`]: Landlock domains and filters of system calls.
//! - [`signals`]: signals as a readable descriptor.
//! - [`handlers`]: signals that shall do nothing.
//! - [`sockets`]: what listening sockets are asked for.
//! - [`log`], [`clock`]: the server's log and its time stamps; [`log_rate`]: how fast an application may
//!   write to it.
//! - `reactor`: descriptors in tokio's reactor, for the router alone (a feature, so that the
//!   other processes do not carry tokio).
//! - [`look`]: a moment of waiting without sleep.
//! - [`title`]: what `ps` shows.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod clock;
pub mod credentials;
pub mod family;
#[allow(unsafe_code)]
pub mod futex;
#[allow(unsafe_code)]
pub mod handlers;
pub mod log;
pub mod log_rate;
pub mod look;
#[allow(unsafe_code)]
pub mod memory;
#[allow(unsafe_code)]
pub mod namespaces;
pub mod packet;
#[allow(unsafe_code)]
pub mod peek;
pub mod pidfd;
pub mod pipe;
#[allow(unsafe_code)]
pub mod process;
#[allow(unsafe_code)]
#[cfg(feature = "reactor")]
pub mod reactor;
pub mod sandbox;
#[allow(unsafe_code)]
pub mod shm;
#[allow(unsafe_code)]
pub mod signals;
#[allow(unsafe_code)]
pub mod sockets;
#[allow(unsafe_code)]
pub mod title;
#[allow(unsafe_code)]
mod users;
