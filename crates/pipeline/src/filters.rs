//! Changes of responses by the options of actions.

pub mod bandwidth;
pub mod browser_caching;
pub mod charset;
pub mod cors;
pub mod header_changes;
pub mod kernel_copy;
pub mod own_tags;
pub mod security_headers;
