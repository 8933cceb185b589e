//! Which file a request means, and which it must not get.

mod conversion;
mod htaccess;
mod links;
mod paths;
mod releases;
mod sendfile;
