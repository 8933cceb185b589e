//! Refreshes a stored response without a client waiting for it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use howdah_cache::entry::Entry;
use howdah_cache::flight::Leader;
use howdah_cache::status::Forward;
use howdah_http::copied_body::StoredBody;
use howdah_http::exchange::Exchange;
use howdah_http::message::Request;
use howdah_routing::snapshot::effects::Handling;
use tokio::task::spawn_local;

use super::fetch::{Fetch, Stale, Step};
use crate::context::Context;

/// Starts a task that refreshes an entry.
pub fn start(step: &Step<'_, '_>, entry: Arc<Entry>, leader: Leader, request: Request) {
    let thread = Rc::clone(step.context.thread);
    let (cache, origin) = (step.cache.clone(), step.origin.clone());
    let Handling { buffering, is_authorized, .. } = step.handling;
    let servers = step.handling.servers.clone();
    let (key, owner) = (step.key.clone(), Arc::clone(&step.owner));
    request.handling.set_part();
    let snapshot = thread.shared.snapshot.load_full();
    spawn_local(async move {
        let started_at = Instant::now();
        let context = Context::new(&thread, &snapshot, started_at);
        let handling =
            Handling { buffering, servers, cache: None, is_authorized, restores_tags: false };
        let step = Step { context: &context, cache: &cache, origin: &origin, handling, key, owner };
        let stale = Some(Stale { entry, on_error: false });
        let fetch = Fetch { reason: Forward::Stale, why: None, stale, leader: Some(leader) };
        // Of a HEAD request, too, the whole response is stored.
        let request = Request { method: Bytes::from_static(b"GET"), ..request };
        let carrier = StoredBody::new(Bytes::new());
        let mut exchange = Exchange::new(request, started_at, &carrier);
        // The response is stored without a reader.
        drop(Box::pin(step.fetch(fetch, &mut exchange)).await);
    });
}
