//! Listings of directories: made on helper threads, few at once, and kept for a short time.
//!
//! Concurrent requests for one listing wait for the same helper. A listing that took long is kept
//! longer, so that the listing of a large directory never costs more than a small part of a
//! processor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_config::ListingFormat;
use howdah_files::NotServedReason;
use howdah_files::listing::{Listing, Order, Rendered};
use howdah_http::body::Body;
use howdah_http::message::{Request, Response};
use howdah_http::respond;
use tokio::sync::{OnceCell, Semaphore};

/// Maximum number of listings that are made at once; other helper threads stay free for files.
const MAX_JOBS: usize = 2;

/// Maximum number of listings that are kept.
const MAX_KEPT: usize = 64;

/// Maximum memory of the listings that are kept, in bytes.
const MAX_KEPT_BYTES: usize = 32 << 20;

/// Shortest time for which a listing is kept.
const MIN_AGE: Duration = Duration::from_secs(1);

/// Longest time for which a listing is kept.
const MAX_AGE: Duration = Duration::from_secs(10);

/// A listing is kept for this multiple of the time that it took.
const AGE_FACTOR: u32 = 10;

/// The listings of all threads.
#[derive(Debug)]
pub struct Listings {
    kept: Mutex<HashMap<Key, Slot>>,
    jobs: Arc<Semaphore>,
}

/// The inputs of a listing, besides the disk.
type Key = (Listing, Bytes, Order);

/// The result of a helper.
type Made = Result<Rendered, NotServedReason>;

/// A listing that is being made, or was made.
#[derive(Debug, Clone)]
struct Slot {
    cell: Arc<OnceCell<(Made, Instant)>>,
    started_at: Instant,
}

impl Default for Listings {
    fn default() -> Self {
        Listings { kept: Mutex::default(), jobs: Arc::new(Semaphore::new(MAX_JOBS)) }
    }
}

impl Listings {
    /// Responds with a listing.
    pub async fn respond(&self, listing: Listing, request: &Request) -> Response {
        let (path, order) = (request.path.clone(), Order::of_query(&request.query));
        let is_page = listing.format() == ListingFormat::Html;
        match self.get((listing, path, order)).await {
            Ok(Rendered { content_type, body }) => {
                let response =
                    Response::new(200, Body::from(body)).with("Content-Type", content_type);
                // The browser runs no script, even if a name contains one.
                let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'";
                if is_page { response.with("Content-Security-Policy", policy) } else { response }
            }
            Err(reason) => respond::refuse(reason),
        }
    }

    async fn get(&self, key: Key) -> Made {
        let slot = self.slot(&key);
        let jobs = Arc::clone(&self.jobs);
        let make = || async move {
            // Not closed, so there is always a permit in the end.
            let permit = jobs.acquire_owned().await;
            let made = tokio::task::spawn_blocking(move || {
                // The helper continues if the client is gone.
                let _permit = permit;
                let (listing, path, order) = key;
                listing.render(&path, order)
            });
            let failed = NotServedReason::Failed(rustix::io::Errno::IO);
            (made.await.unwrap_or(Err(failed)), Instant::now())
        };
        let (made, _) = slot.cell.get_or_init(make).await;
        made.clone()
    }

    /// Returns the slot of a listing that is still good, or a new one.
    fn slot(&self, key: &Key) -> Slot {
        let now = Instant::now();
        // A panic of another thread leaves the table complete.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, slot| slot.is_fresh(now));
        if let Some(slot) = kept.get(key) {
            return slot.clone();
        }
        let mut bytes: usize = kept.values().map(Slot::bytes).sum();
        while kept.len() >= MAX_KEPT || bytes > MAX_KEPT_BYTES {
            // At most 64 entries are compared.
            let oldest = kept.iter().min_by_key(|(_, slot)| slot.started_at);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            bytes -= kept.remove(&oldest).map_or(0, |slot| slot.bytes());
        }
        let slot = Slot { cell: Arc::default(), started_at: now };
        kept.insert(key.clone(), slot.clone());
        slot
    }
}

impl Slot {
    /// Returns true if the listing is being made, or was made a short time ago.
    fn is_fresh(&self, now: Instant) -> bool {
        let Some((_, made_at)) = self.cell.get() else {
            // A job without a waiting request stops; another request begins anew.
            return Arc::strong_count(&self.cell) > 1;
        };
        let cost = made_at.saturating_duration_since(self.started_at);
        let age = (cost * AGE_FACTOR).clamp(MIN_AGE, MAX_AGE);
        now.saturating_duration_since(*made_at) < age
    }

    fn bytes(&self) -> usize {
        match self.cell.get() {
            Some((Ok(rendered), _)) => rendered.body.len(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_files::{Files, Limits, Options, RequestTime, ServeOutcome, Share};
    use howdah_http::fixture::request;

    use super::*;

    fn listing(share: &Share) -> Listing {
        let files = Files::new(Limits::default());
        let now = RequestTime { monotonic: Instant::now(), wall: std::time::SystemTime::now() };
        match files.look_up(share, share.place(b"/"), &request("/", &[]), now) {
            ServeOutcome::Listing(listing) => *listing,
            other => panic!("{other:?}"),
        }
    }

    fn share(directory: &tempfile::TempDir) -> Share {
        let options = Options { listing: Some(ListingFormat::Json), ..Options::default() };
        Share::new(directory.path(), options)
    }

    #[tokio::test]
    async fn a_listing_is_made_once_for_a_short_time() {
        let directory = tempfile::tempdir().unwrap();
        let (listings, share) = (Listings::default(), share(&directory));
        let body = || async {
            let response = listings.respond(listing(&share), &request("/", &[])).await;
            assert_eq!(response.status, 200);
            response.body.len().unwrap()
        };
        let empty = body().await;
        std::fs::write(directory.path().join("a"), "").unwrap();
        assert_eq!(body().await, empty);
        tokio::time::sleep(MIN_AGE + Duration::from_millis(50)).await;
        assert!(body().await > empty);
        assert_eq!(listings.kept.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn few_listings_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (listings, share) = (Listings::default(), share(&directory));
        for number in 0..100 {
            let listing = listing(&share);
            let path = Bytes::from(format!("/{number}/"));
            let order = Order::of_query(b"");
            listings.get((listing, path, order)).await.unwrap();
        }
        assert_eq!(listings.kept.lock().unwrap().len(), MAX_KEPT);
        assert_eq!(listings.jobs.available_permits(), MAX_JOBS);
    }
}
