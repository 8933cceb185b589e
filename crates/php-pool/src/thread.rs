//! PHP state of one router thread: its requests, and the instances that answer them.
//!
//! 1. [`requests`] has an entry for each request. [`handle`] registers a request; the connection
//!    that waits for the response holds the handle.
//! 2. [`instances`] attaches instances, and settles the requests of workers and instances that have
//!    ended.
//! 3. [`answers`] takes frames from the slots that workers have marked dirty; [`frame_events`]
//!    handles frames that are not part of the response.
//! 4. [`sleep`] tells workers when the thread waits for events. Only then do workers write its
//!    eventfd, so that under load a response needs no system call to be noticed.
//!    While there are many, [`tick`] lets a worker write it once for several responses. [`turns`]
//!    looks for responses while the thread has no time to wait.
//! 5. [`time_limits`] ends scripts that run too long; [`log_backlog`] delays the responses of
//!    applications that log too fast.

mod answer_spin;
mod answers;
mod attached;
mod control;
mod frame_events;
mod handle;
mod instances;
mod log_backlog;
mod php_thread;
mod requests;
mod sleep;
mod tick;
mod time_limit;
mod time_limits;
mod turns;

pub(super) use answer_spin::is_server_idle;
pub use control::ControlRequest;
pub use handle::RequestHandle;
pub use php_thread::PhpThread;
