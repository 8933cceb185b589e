//! Safe wrappers of Linux calls that the standard library lacks; one file for each subject. Each
//! `unsafe` states the reason why it is sound.
//!
//! - [`shm`]: memory shared between processes; [`shared_copy`]: copies from and to it.
//! - [`futex`]: waiting on a word of shared memory.
//! - [`packet`]: messages with descriptors between processes.
//! - [`pipe`]: messages from untrusted processes.
//! - [`process`]: fork, exec, wait, and the rights of a new process.
//! - [`activity`]: the activity of the threads of a process.
//! - [`pidfd`]: descriptors of processes.
//! - [`process_usage`]: processes, their descendants, what they use, and limits of that;
//!   [`process_tree`]: ending the descendants of a process.
//! - [`directory`]: checking that a directory exists.
//! - [`regular_file`]: opening and reading files that other users can replace by something that
//!   blocks.
//! - [`links`]: symbolic links of sites, and the files that they may lead to; [`socket_handle`]: unix
//!   sockets behind such links.
//! - [`namespaces`]: processes in new namespaces.
//! - [`process_memory`]: reading the memory of another process.
//! - [`credentials`]: users and groups; [`permission`]: the obstacle that keeps a user from a file.
//! - [`sandbox`]: Landlock domains and filters of system calls.
//! - [`signals`]: signals as a readable descriptor.
//! - [`handlers`]: signals without effect.
//! - [`service_manager`]: descriptors and settings of systemd, and notifications to it.
//! - [`sockets`]: options of listening sockets.
//! - [`plain`]: error messages without numbers; [`full_disk`]: remedies for errors of writing.
//! - [`log`], [`clock`]: the server's log and its time stamps; [`log_rate`]: the rate at which an
//!   application may write to it.
//! - `event_loop`, `reactor`, `packets`: tokio's event loop, and descriptors and packet sockets in it
//!   (a feature, so that prototypes and workers do not link tokio).
//! - [`output`]: printing without a panic if the reader is gone.
//! - [`scheduling`]: the priority of a thread, and the length of its turn on a processor.
//! - [`spin`]: spinning briefly before sleeping.
//! - [`memory`]: releasing memory that is used only at the start, or free.
//! - [`title`]: the title of a process in `ps`.
#![deny(unsafe_code)]

pub mod activity;
#[allow(unsafe_code)]
pub mod clock;
pub mod credentials;
pub mod directory;
#[allow(unsafe_code)]
pub mod environment;
#[cfg(feature = "reactor")]
pub mod event_loop;
pub mod full_disk;
#[allow(unsafe_code)]
pub mod futex;
#[allow(unsafe_code)]
pub mod handlers;
pub mod links;
pub mod log;
pub mod log_rate;
pub mod machine;
#[allow(unsafe_code)]
pub mod memory;
#[allow(unsafe_code)]
pub mod namespaces;
pub mod output;
pub mod owned_links;
pub mod packet;
#[cfg(feature = "reactor")]
pub mod packets;
pub mod permission;
pub mod pidfd;
pub mod pipe;
pub mod plain;
#[allow(unsafe_code)]
pub mod process;
#[allow(unsafe_code)]
pub mod process_memory;
pub mod process_tree;
pub mod process_usage;
pub mod protected;
#[allow(unsafe_code)]
#[cfg(feature = "reactor")]
pub mod reactor;
#[allow(unsafe_code)]
pub mod record_lock;
pub mod regular_file;
pub mod sandbox;
#[allow(unsafe_code)]
pub mod scheduling;
pub mod service_manager;
#[allow(unsafe_code)]
pub mod shared_copy;
#[allow(unsafe_code)]
pub mod shm;
#[allow(unsafe_code)]
pub mod signals;
pub mod socket_handle;
#[allow(unsafe_code)]
pub mod sockets;
pub mod spin;
#[allow(unsafe_code)]
pub mod title;
#[allow(unsafe_code)]
mod users;
