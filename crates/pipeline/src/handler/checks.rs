//! Checks the limits, the passwords and the checks by other actions of the listener and the actions
//! on the way of a request.

use std::cell::LazyCell;
use std::time::{Duration, Instant};

use howdah_config::Match;
use howdah_dns::turns::Asker;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::{Request, Response};
use howdah_http::respond;
use howdah_http::target::Target;
use howdah_http::variables::VariableSource;
use howdah_limits::Nanos;
use howdah_limits::check::check as check_rules;
use howdah_limits::rules::{self, Admission, Paths, Refusal, Rule};
use howdah_limits::shared::Checked;
use howdah_routing::auth::BasicAuth;
use howdah_routing::route::matching::{self, Scratch};
use howdah_routing::route::{Check, Decision, Routed, Step};
use howdah_sys::clock;
use howdah_sys::log::Level;

use super::auth_request;
use crate::context::Context;
use crate::refusals;

/// Checks a request until it is refused or routing is complete.
pub async fn check<'s>(
    context: &Context<'s>,
    mut step: Step<'s>,
    routed: &mut Routed<'s>,
    exchange: &mut Exchange<'_>,
) -> Decision {
    loop {
        let check = match step {
            Step::Handle(decision) => return decision,
            Step::Check(check) => check,
        };
        let passed = match check {
            Check::Listener(_) | Check::Limits(_) => limit(context, check.limits(), exchange).await,
            Check::Password(_, auth) => check_password(context, auth, exchange).await,
            Check::Request(_, check) => auth_request::authorize(context, check, exchange).await,
        };
        step = match passed {
            Ok(()) => context.routing.resume(check, routed, &mut exchange.request),
            Err(response) => return Decision::Respond(response),
        };
    }
}

/// Checks name and password, if the request needs them. Error: the response of the refusal.
async fn check_password(
    context: &Context<'_>,
    auth: &BasicAuth,
    exchange: &mut Exchange<'_>,
) -> Result<(), Response> {
    let (now, log) = (context.routing.now.monotonic, context.routing.log.log());
    let source = VariableSource::of(&exchange.request, exchange.started_at);
    if !auth.is_needed(&source) {
        return Ok(());
    }
    match auth.check(&source, now, log).await {
        Ok(user) => {
            exchange.request.user = Some(user);
            Ok(())
        }
        Err(error) => {
            let refusal = refusals::refuse(context, exchange, error);
            Err(match error {
                RequestError::Unauthenticated => {
                    refusal.with("WWW-Authenticate", auth.challenge(&source))
                }
                _ => refusal,
            })
        }
    }
}

/// Checks limits, and waits where a rule delays the request. Error: the response of the refusal.
async fn limit(
    context: &Context<'_>,
    rules: &[Rule],
    exchange: &Exchange<'_>,
) -> Result<(), Response> {
    let (request, started_at) = (&exchange.request, exchange.started_at);
    let name = client_name(context, rules, exchange).await;
    let checked = {
        let scratch = &mut *context.routing.scratch.borrow_mut();
        let mut holds = holds(request, started_at, scratch);
        check_rules(rules, request, name.as_deref(), started_at, now(), &mut holds)
    };
    let checked = match checked {
        // Boxed: most servers are alone.
        Ok(checked) if checked.is_shared() => Box::pin(count_with_others(context, checked)).await,
        Ok(checked) => Ok(checked.admission),
        Err(refusal) => Err(refusal),
    };
    let admission = checked.map_err(|mut refusal| {
        log(context, exchange, &refusal);
        if let (Some(block), Some(counting)) =
            (refusal.shared_block.take(), context.thread.shared.cluster.counting())
        {
            counting.block(block);
        }
        refusal.response()
    })?;
    let delay = admission.delay;
    context.admission.borrow_mut().add(admission);
    if delay > 0 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_nanos(delay)) => {}
            _ = exchange.client_gone() => {
                return Err(respond::refuse(RequestError::ClientGone));
            }
        }
    }
    Ok(())
}

/// Counts a request that this server admits by the rates of all servers of the cluster.
async fn count_with_others(
    context: &Context<'_>,
    mut checked: Checked<'_>,
) -> Result<Admission, Box<Refusal>> {
    let Some(counting) = context.thread.shared.cluster.counting() else {
        return Ok(checked.admission);
    };
    let (shared, sent_at) = (checked.take_shared(), now());
    match counting.count(&shared).await {
        Some(answers) => checked.settle(shared, &answers, sent_at, now()),
        None => Ok(checked.admission),
    }
}

/// Returns the time of limits.
fn now() -> Nanos {
    clock::monotonic_us() * 1000
}

/// Returns the host name of the client that leads to its address again, if rules need it.
async fn client_name(
    context: &Context<'_>,
    rules: &[Rule],
    exchange: &Exchange<'_>,
) -> Option<String> {
    let needed = {
        let scratch = &mut *context.routing.scratch.borrow_mut();
        let request = &exchange.request;
        let mut holds = holds(request, exchange.started_at, scratch);
        rules::need_name(rules, request, &mut holds)
    };
    let address = exchange.request.connection.peer.filter(|_| needed)?.ip().to_canonical();
    let servers = &context.routing.snapshot.config.settings.resolver;
    // Boxed: few requests need it.
    let asker = Asker::Limit(exchange.request.handling.site());
    Box::pin(context.thread.shared.client_names.name(asker, address, servers)).await
}

/// Evaluates conditions of rules about a request.
fn holds<'r>(
    request: &'r Request,
    started_at: Instant,
    scratch: &'r mut Scratch,
) -> impl FnMut(&Match, Paths) -> bool + 'r {
    let sent = LazyCell::new(|| Target::parse(&request.target).ok());
    move |conditions, paths| {
        let routed = &*request.path;
        let sent = || sent.as_ref().map_or(routed, |sent| sent.path(&request.target));
        let compared: &[&[u8]] = match paths {
            Paths::Routed => &[routed],
            Paths::Sent => &[sent()],
            Paths::Either if sent() == routed => return false,
            Paths::Either => &[routed, sent()],
        };
        matching::holds_for(conditions, compared, request, started_at, scratch)
    }
}

/// Logs a refusal.
fn log(context: &Context<'_>, exchange: &Exchange<'_>, refusal: &Refusal) {
    let Refusal { status, zone, key, block, reason, .. } = refusal;
    let block = block.map(|block| format!(", for {} seconds from now on", block / 1_000_000_000));
    let block = block.unwrap_or_default();
    let problem = format_args!("limit {zone} refuses {key} ({status}){block}: {reason}");
    context.log_client(Level::Info, &exchange.request, problem);
}
