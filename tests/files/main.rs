//! Which file a request means, and which it must not get.

mod browser_caches;
mod conditions;
mod htaccess;
mod htaccess_changes;
mod links;
mod listings;
mod often;
mod paths;
mod permissions;
mod releases;
mod sendfile;
mod uploads;
