//! `mirror` of an action: other actions get copies of a request, and their responses are dropped,
//! as in nginx.
//!
//! 1. A request that the server refuses itself, or that asks for a tunnel, is not copied.
//! 2. A copy without body is sent at once. One with a body is sent when the original has been
//!    answered, from the body that the original has read: the original never waits for a copy.
//! 3. A copy is a task of its own. Its result has no effect on the original. Copies beyond
//!    `concurrency`, and those that take longer than [`MAX_TIME`], are given up.
//! 4. A copy is never copied again: by this server because copies do not pass here, by another one
//!    because of the field [`MARK`], to which each server adds its own value, so that clients
//!    cannot prevent copies.

use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_http::copied_body::{CopiedBody, StoredBody};
use howdah_http::exchange::Exchange;
use howdah_http::message::{Fields, Request};
use howdah_routing::route::{Decision, Routed};
use howdah_routing::snapshot::Snapshot;
use howdah_routing::snapshot::action::Mirror;
use howdah_sys::log::Level;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::own_request::drain;
use super::respond::{Answer, produce};
use crate::context::Context;
use crate::thread::RouterThread;

/// Field of copies.
const MARK: &str = "X-Howdah-Mirror";

/// Maximum time of a copy.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Returns true if the request is to be copied.
pub fn is_wanted(decision: &Decision, routed: &Routed<'_>, request: &Request) -> bool {
    if routed.effects.mirror.is_empty() {
        return false;
    }
    let is_refused = match decision {
        Decision::Refuse(..) => true,
        Decision::Respond(response) => response.is_default_error_page,
        _ => false,
    };
    !is_refused
        && !is_copy_of(request, &OWN_MARK)
        && request.fields.get("upgrade").is_none()
        && &*request.method != b"CONNECT"
}

/// Value of [`MARK`] in copies of this process, which no client can guess.
static OWN_MARK: LazyLock<String> =
    LazyLock::new(|| format!("{:016x}", RandomState::new().hash_one("mirror")));

/// Maximum length of a value of [`MARK`] that is kept in a copy of a copy.
const MAX_MARK: usize = 256;

/// Returns true if a request is a copy that the process with this mark has made, or a copy of it.
fn is_copy_of(request: &Request, mark: &str) -> bool {
    let marks = request.fields.get_all(MARK).flat_map(|value| value.split(|byte| *byte == b','));
    marks.map(<[u8]>::trim_ascii).any(|found| found == mark.as_bytes())
}

/// Produces the response to a client, and copies its request.
pub async fn respond_and_copy<'s>(
    context: &Context<'s>,
    snapshot: &Arc<Snapshot>,
    decision: Decision,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Answer<'s> {
    let mirrors = routed.effects.mirror;
    let request = copy(&exchange.request);
    // A copy has its place before bytes of a body are kept for it, so that slow clients cannot fill
    // the memory.
    let places: Vec<_> =
        mirrors.iter().filter_map(|mirror| begin(context, mirror, &request)).collect();
    let longest = places.iter().map(|place| place.0.max_body_size).max().unwrap_or(0);
    let start_all = |body: &Bytes| {
        for place in places {
            if body.len() as u64 <= place.0.max_body_size {
                start(context, snapshot, place, request.clone(), body.clone());
            }
        }
    };
    if exchange.body_len() == Some(0) {
        start_all(&Bytes::new());
        return produce(context, decision, routed, exchange).await;
    }
    let copied = CopiedBody::new(exchange.carrier(), longest);
    let mut original = Exchange::new(exchange.request.clone(), exchange.started_at, &copied);
    let answered = produce(context, decision, routed, &mut original).await;
    exchange.request = original.request;
    if let Some(body) = copied.take() {
        start_all(&body);
    }
    answered
}

/// Returns the request that the other actions get.
fn copy(request: &Request) -> Request {
    // Marks of other servers stay: a copy that comes back through them is known.
    let others = request.fields.get(MARK).filter(|marks| marks.len() <= MAX_MARK);
    let marks = match others {
        Some(others) => [others, b", ", OWN_MARK.as_bytes()].concat(),
        None => OWN_MARK.as_bytes().to_vec(),
    };
    let mark = (MARK.as_bytes(), &*marks);
    let is_replaced = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"expect") || name.eq_ignore_ascii_case(MARK.as_bytes())
    };
    let kept = request.fields.iter().filter(|(name, _)| !is_replaced(name));
    let fields = Fields::from_pairs(kept.chain([mark]).collect::<Vec<_>>());
    Request { fields, handling: request.handling.of_copy(), ..request.clone() }
}

/// A copy in progress.
struct InProgress(Arc<Mirror>);

impl InProgress {
    fn begin(mirror: &Arc<Mirror>) -> Option<InProgress> {
        // In one step: a copy that is left out must not count for others, not even for a moment.
        let one_more = |count| (count < mirror.concurrency).then(|| count + 1);
        mirror.in_progress.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(InProgress(Arc::clone(mirror)))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Relaxed);
    }
}

/// Returns the place of a copy, unless too many are in progress.
fn begin(context: &Context<'_>, mirror: &Arc<Mirror>, request: &Request) -> Option<InProgress> {
    let begun = InProgress::begin(mirror);
    if begun.is_none() {
        let problem = format_args!(
            "it is not mirrored: {} copies are in progress (mirror/concurrency)",
            mirror.concurrency
        );
        context.log_client(Level::Info, request, problem);
    }
    begun
}

/// Sends a copy.
fn start(
    context: &Context<'_>,
    snapshot: &Arc<Snapshot>,
    begun: InProgress,
    request: Request,
    body: Bytes,
) {
    let (thread, snapshot) = (Rc::clone(context.thread), Arc::clone(snapshot));
    spawn_local(async move {
        let InProgress(mirror) = &begun;
        // The log of the action that gets the copy has its result.
        let _ = timeout(MAX_TIME, send(&thread, &snapshot, mirror, request, body)).await;
    });
}

/// Lets the action answer a copy, and drops the response.
async fn send(
    thread: &Rc<RouterThread>,
    snapshot: &Snapshot,
    mirror: &Mirror,
    mut request: Request,
    body: Bytes,
) {
    let started_at = Instant::now();
    let context = Context::new(thread, snapshot, started_at);
    let (mut routed, step) = context.routing.route_internally(&mirror.action, &mut request);
    if let Some(site) = routed.site(&step) {
        request.handling.set_site(site);
    }
    // The whole body is there.
    routed.effects.buffering.requests = Some(true);
    // A response that is dropped is not stored for others.
    routed.is_uncached = true;
    let carrier = StoredBody::new(body);
    let mut exchange = Exchange::new(request, started_at, &carrier);
    let decision = super::checks::check(&context, step, &mut routed, &mut exchange).await;
    let (response, _) = Box::pin(produce(&context, decision, &mut routed, &mut exchange)).await;
    drain(response.body).await;
}
