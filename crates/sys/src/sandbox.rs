//! Restrictions of a process and of all that it starts.
//!
//! - [`landlock`]: domains, see landlock(7). A process in a domain cannot trace processes outside
//!   of it, and the domain can restrict files, signals and sockets as well.
//! - [`seccomp`]: filters of system calls, see seccomp(2).
//! - [`paths`]: resolving paths with their symbolic links.
//! - [`router_calls`]: the system calls of the router, each with its reason.
//! - [`unprivileged`]: the sandbox of the control, mail and telemetry processes.
//!
//! No restriction can be undone. A process without `CAP_SYS_ADMIN` must have set `no_new_privs`
//! before. Some kernels lack one of them; the callers handle that.

#[allow(unsafe_code)]
pub mod landlock;
pub mod paths;
pub mod router_calls;
#[allow(unsafe_code)]
pub mod seccomp;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
pub mod unprivileged;
