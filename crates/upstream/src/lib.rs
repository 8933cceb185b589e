//! Other servers that answer requests: HTTP upstreams and FastCGI servers.
#![forbid(unsafe_code)]

pub mod connections;
pub mod fastcgi;
pub mod log_limit;
pub mod names;
pub mod proxy;
pub mod queue;
pub mod script_cache;
pub mod servers;
pub mod thread;
pub mod transfer;

pub use self::proxy::health_checks as health;
pub use self::servers::direct as single;
pub use self::servers::resolved as known;
pub use self::servers::upstream;
