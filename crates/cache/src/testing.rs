//! Entries for tests.

use bytes::Bytes;
use howdah_config::Cache;
use howdah_http::fixture;
use howdah_http::message::FieldBlock;

use crate::entry::Entry;
use crate::storing::{Times, judge};

/// Arrival of all responses, in seconds since 1970.
pub const NOW: u64 = 1_700_000_000;

/// Returns the stored response to `GET` of a target.
pub fn entry(target: &str, fields: &[(&str, &str)], body: &str) -> Entry {
    entry_for(target, &[], fields, body, 0)
}

/// Returns the stored response to a request, which came after `epoch` purges.
pub fn entry_for(
    target: &str,
    request: &[(&str, &str)],
    fields: &[(&str, &str)],
    body: &str,
    epoch: u64,
) -> Entry {
    let mut block = FieldBlock::default();
    fields.iter().for_each(|(name, value)| block.push(name, value));
    let request = fixture::request(target, request);
    let times = Times { asked: NOW, received: NOW, epoch };
    let settings = Cache { ttl: [(200, 60)].into(), ..Cache::default() };
    let judged = judge(&settings, &request, 200, None, &block, times);
    judged.expect("storable").with_body(Bytes::copy_from_slice(body.as_bytes()))
}
