//! Entries for tests, and threads that store them.

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use bytes::Bytes;
use howdah_config::Cache;
use howdah_http::fixture;
use howdah_http::message::FieldBlock;

use crate::entry::Entry;
use crate::flight::{Landing, Role};
use crate::store::Store;
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

/// Lets a request that was sent before an invalidation store its response at the moment of that,
/// again and again, with and without others that wait for it. Returns how often the response was
/// there afterwards.
pub fn stored_beside_invalidations(store: &Arc<Store>, is_there: impl Fn() -> bool) -> usize {
    let (owner, together) = (store.owner(b"app"), Barrier::new(2));
    let inquiries = Mutex::new(None);
    let rounds = 10_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..rounds {
                let response = entry("/a", &[], "old");
                together.wait();
                let inquiry = inquiries.lock().unwrap().take().expect("an inquiry");
                // At another moment of the invalidation in each round.
                (0..number % 400).for_each(|_| std::hint::spin_loop());
                let (_, is_stored) = store.insert_current(b"/a", &owner, response, &inquiry);
                inquiry.land(if is_stored { Landing::Stored } else { Landing::NotShared });
                together.wait();
            }
        });
        let round = |number: usize| {
            let leader = match store.flights.join(b"/a") {
                Role::Leader(leader) if number.is_multiple_of(2) => Some(leader),
                _ => None,
            };
            *inquiries.lock().unwrap() = Some(store.ask(b"/a", leader));
            together.wait();
            store.invalidate(b"/a");
            together.wait();
            is_there()
        };
        (0..rounds).filter(|number| round(*number)).count()
    })
}
