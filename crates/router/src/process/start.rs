//! Starts the router: receives the supervisor's first message, applies its document, starts threads
//! and then runs the event loop.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use arc_swap::ArcSwap;
use howdah_access_log::LogFiles;
use howdah_cluster::Cluster;
use howdah_config::{Address, Config};
use howdah_dns::Names;
use howdah_dns::clients::ClientNames;
use howdah_files::DenialLog;
use howdah_pipeline::descriptors::DescriptorLimit;
use howdah_pipeline::listings::Listings;
use howdah_pipeline::metrics::MetricsSource;
use howdah_pipeline::probes::Readiness;
use howdah_pipeline::thread::{Shared, SpanSocket};
use howdah_routing::request_log::RequestLog;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::credentials::Credentials;
use howdah_sys::log::{Level, Log};
use howdah_sys::{memory, scheduling};
use howdah_tls::challenge_answers::{ChallengeStore, OnDemandRequest};
use howdah_upstream::servers::addresses::ResolvedServers;
use howdah_wire::lost_spans::LostSpans;
use howdah_wire::messages::ToSupervisor;
use tokio::sync::mpsc::{Receiver, unbounded_channel};

use super::closed_listeners::ClosedListeners;
use super::control_thread::ControlThread;
use super::event_loop::EventLoop;
use super::hello::Hello;
use super::http3::Http3Process;
use super::jobs::JobQuestions;
use super::link::Link;
use super::out::OutParts;
use super::pools::Pools;
use super::programs::Programs;
use super::sandbox::RouterSandbox;
use super::site_logs::SiteLogFiles;
use super::threads::{Threads, thread_count};
use super::trigger::{StartPolicy, Trigger};
use super::usage::UsageReports;

/// Length of a router thread's turn on a processor while others want it. Most of its work takes
/// less.
const TURN: Duration = Duration::from_micros(100);

/// Runs the router on the supervisor's socket to its end.
pub(super) async fn serve(socket: OwnedFd) -> io::Result<()> {
    memory::return_large_blocks();
    let link = Rc::new(Link::new(socket)?);
    let mut hello = Hello::receive(&link).await?;
    let config = match howdah_config::parse_with(&hello.document, &hello.defaults) {
        Ok(config) => config,
        Err(error) => return refuse(&link, format!("{}: {error}", hello.origin)).await,
    };
    hello.document = Vec::new();
    let (origin, php) = (std::mem::take(&mut hello.origin), std::mem::take(&mut hello.php));
    let (has_control, has_served) = (hello.has_control, hello.has_served);
    let (holds_renewals, is_strict) = (hello.holds_renewals, hello.strict);
    let (mut control, on_demand) = control_thread(&link, hello, &config)?;
    let policy = StartPolicy { has_control, has_served, is_strict };
    match control.apply(config, Trigger::Start(policy)).await {
        // If it fails, the event loop handles the reason: the server is being stopped.
        Ok(()) => drop(control.wait_for_starts().await),
        // The supervisor starts another router, which tries again.
        Err(problem) if has_served => {
            return Err(io::Error::other(format!("{origin}: {problem}")));
        }
        // A user can correct it through the control API.
        Err(problem) if has_control => {
            let message = format_args!(
                "{origin}: {problem}; nothing is served until the configuration is corrected"
            );
            control.shared.log.write(Level::Alert, message);
        }
        Err(problem) => return refuse(&link, format!("{origin}: {problem}")).await,
    }
    control.pools.required.clear();
    link.send(&ToSupervisor::Serving {})?;
    control.sandbox.log_missing(&control.shared.log);
    let event_loop = EventLoop::new(control, php, on_demand, holds_renewals);
    memory::release_start_memory();
    memory::release_free_memory();
    event_loop.run().await
}

/// Enters the sandbox and starts the threads. Also returns the receiver of certificates that
/// connections want on demand.
fn control_thread(
    link: &Rc<Link>,
    hello: Hello,
    config: &Config,
) -> io::Result<(ControlThread, Receiver<OnDemandRequest>)> {
    let log = Arc::new(Log::passed(hello.log));
    let empty = Snapshot::compile(
        empty_config()?,
        LogFiles::new(),
        None,
        &ResolvedServers::default(),
        |_| unreachable!("no application"),
    );
    // A later configuration may ask for more than the first.
    let threads = thread_count(&empty.config).max(thread_count(config));
    let (challenges, on_demand) = ChallengeStore::new();
    let (metrics, metrics_requests) = MetricsSource::new();
    let (readiness, readiness_requests) = Readiness::new();
    let shared = Arc::new(Shared {
        snapshot: ArcSwap::from_pointee(empty),
        log: Arc::clone(&log),
        request_log: RequestLog::new(Arc::clone(&log)),
        denials: Arc::new(DenialLog::new(Arc::clone(&log), Credentials::of_files())),
        tmp: Path::new(&hello.tmp).into(),
        threads: AtomicUsize::new(0),
        descriptors: DescriptorLimit::of_process(),
        challenges,
        listings: Listings::default(),
        client_names: ClientNames::default(),
        cluster: Cluster::new(Arc::clone(&log)),
        metrics,
        readiness,
        spans: SpanSocket::new(hello.spans, LostSpans::new(hello.lost_spans)),
    });
    // Scripts that compute must not delay files and other sites. It is not vital: a container may
    // forbid it.
    let _ = scheduling::set_turn(TURN);
    let sandbox = Arc::new(RouterSandbox::enter(hello.sandbox, &hello.tmp, config));
    let (requests, thread_requests) = unbounded_channel();
    let threads = Threads::start(threads, &shared, &requests)?;
    let mut pools = Pools::new(Rc::clone(link), Arc::clone(&shared), threads.clone());
    pools.generation = hello.generation;
    pools.required = hello.required;
    let usage = UsageReports::new(Rc::clone(link), threads.clone());
    let jobs = JobQuestions::new(Rc::clone(link));
    let site_logs = SiteLogFiles::new(Rc::clone(link), Arc::clone(&log));
    let control = ControlThread {
        link: Rc::clone(link),
        shared,
        threads,
        sandbox,
        pools,
        certificates: hello.certificates,
        programs: Programs::default(),
        usage,
        jobs,
        metrics_requests: Some(metrics_requests),
        readiness_requests: Some(readiness_requests),
        metrics_socket: hello.metrics,
        applied_at: None,
        refused_since: Rc::default(),
        names: Names::new(log),
        thread_requests,
        questions: unbounded_channel(),
        defaults: hello.defaults,
        dashboard: Address::Abstract(hello.dashboard),
        is_hurried: false,
        is_leaving: false,
        is_strict: hello.strict,
        out: OutParts::default(),
        problems_of_supervisor: Vec::new(),
        stale_tls: Vec::new(),
        site_logs,
        closed: ClosedListeners::default(),
        http3: Http3Process::new(hello.http3_secret.expose(), hello.former)?,
        unread: BTreeMap::new(),
    };
    Ok((control, on_demand))
}

fn empty_config() -> io::Result<Config> {
    howdah_config::parse(b"{}").map_err(|error| io::Error::other(error.to_string()))
}

/// Reports that the first configuration is refused; the supervisor ends this process.
async fn refuse(link: &Link, message: String) -> io::Result<()> {
    link.send(&ToSupervisor::Refuse { message })?;
    link.send(&ToSupervisor::Finished {})?;
    while link.receive().await?.is_some() {}
    Ok(())
}
