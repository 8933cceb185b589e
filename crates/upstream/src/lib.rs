//! Other servers that answer requests: HTTP upstreams and FastCGI servers.
#![forbid(unsafe_code)]

pub mod backlog;
pub mod balance;
pub mod budget;
pub mod buffered;
pub mod choose;
pub mod connection;
pub mod either;
pub mod fastcgi;
pub mod health;
pub mod kept;
pub mod known;
pub mod log_limit;
pub mod marks;
pub mod names;
pub mod proxy;
pub mod queue;
pub mod scripts;
pub mod single;
pub mod talk;
pub mod thread;
pub mod transport;
pub mod upload;
pub mod upstream;
