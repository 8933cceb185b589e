//! The inputs of expressions and rules beside the request itself.

use crate::record::Record;
use crate::table::Table;
use crate::world::World;

/// The surroundings of a request: file system, sub-requests, names.
pub trait Scope {
    /// Returns the file system and the log.
    fn world(&self) -> &dyn World;

    /// Looks a URL path up without serving it (Apache's `ap_sub_req_lookup_uri`): the result has
    /// the file, its type and the `status` that the request would have. A path without a leading
    /// slash is relative to the request's.
    fn look_up_uri(&self, record: &Record, uri: &[u8]) -> Record;

    /// As `look_up_uri`, with the path of a file, absolute or relative to the request's file.
    fn look_up_file(&self, record: &Record, path: &[u8]) -> Record;

    /// Returns the decoded path of the request that this sub-request belongs to. Sub-requests for
    /// the path of their own request would recurse.
    fn main_uri<'r>(&'r self, record: &'r Record) -> Option<&'r [u8]>;

    /// Returns the name of the client, or its address without one (`%{REMOTE_HOST}`).
    fn remote_host(&self, record: &Record) -> Vec<u8> {
        record.connection.remote_addr.clone()
    }

    /// Returns a variable of the server's own environment. By default, there is none: it is not the
    /// customer's.
    fn environment(&self, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Returns a variable of mod_ssl, such as `SSL_PROTOCOL`.
    fn ssl(&self, _record: &Record, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Returns the name of a user.
    fn user_name(&self, user: u32) -> Vec<u8> {
        user.to_string().into_bytes()
    }

    /// Returns the name of a group.
    fn group_name(&self, group: u32) -> Vec<u8> {
        group.to_string().into_bytes()
    }

    /// Seconds by which the server's local time is ahead of UTC at a time.
    fn local_offset(&self, _seconds: i64) -> i64 {
        0
    }

    /// Looks a key up in a `RewriteMap` of the server's configuration; `None` if the map or the key
    /// does not exist. A `.htaccess` defines none, but its rules see those of the server.
    fn map(&self, _name: &[u8], _key: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Adds names of header fields to the response's `Vary`.
pub fn merge_vary(headers: &mut Table, names: &[u8]) {
    if names.is_empty() {
        return;
    }
    // The names join the first of several fields.
    let mut all: Vec<Vec<u8>> = headers.all(b"Vary").map(<[u8]>::to_vec).collect();
    match all.first_mut() {
        Some(first) => first.extend_from_slice(&[b", ", names].concat()),
        None => all.push(names.to_vec()),
    }
    headers.unset(b"Vary");
    all.iter().for_each(|value| headers.add(b"Vary", value));
}
