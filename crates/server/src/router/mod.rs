//! The router process: router threads that serve, and this control thread that starts and stops
//! things for them.
//!
//! 1. The supervisor says hello: log, document, directories.
//! 2. The document is applied (`apply`): sockets and applications are made ready, then one swap.
//! 3. From then on the control thread keeps each application at the number of workers that it
//!    needs (`pools`), applies the configurations that the supervisor passes, and answers what the
//!    control process asks.

mod apply;
pub mod certificates;
mod command;
mod ending;
mod link;
mod machine;
mod pools;
mod programs;
mod read;
pub(crate) mod sandbox;
mod sizing;
mod spec;
mod tls;
mod traces;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use arc_swap::ArcSwap;
use howdah_acme::{Board, Keeper};
use howdah_config::{Config, Defaults};
use howdah_sys::log::{Level, Log};
use howdah_sys::{memory, process};
use howdah_tls::challenges::ChallengeStore;
use howdah_tls::stored::Certificates;
use howdah_upstream::known::Known;
use howdah_upstream::names::{self, Names};
use howdah_wire::messages::{FromSupervisor, ToSupervisor};
use tokio::sync::mpsc::unbounded_channel;

use self::apply::{Occasion, Parts, Start};
pub use self::command::{ApplicationReport, Commands, Queries, Report, TlsReport, Tuning};
use self::ending::Ending;
use self::link::Link;
use self::pools::Pools;
use self::programs::Programs;
pub use self::sandbox::{Protected, Protection};
pub use self::spec::{spec, tls_sources};
use self::tls::Watch;
use crate::packets::from_memory;
use crate::room::Capacity;
use crate::snapshot::Snapshot;
use crate::thread;
use crate::thread::Shared;
pub use howdah_upstream::upstream::ServerReport;

/// Runs the router on the socket that the supervisor has passed. `front` starts what answers the
/// control process, on the runtime of the control thread. Returns the exit status.
pub fn run(socket: OwnedFd, front: impl FnOnce(Queries)) -> u8 {
    howdah_sys::signals::ignore_pipe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("howdah: cannot start the router: {error}");
            return 1;
        }
    };
    match runtime.block_on(serve(socket, front)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("howdah: router: {error}");
            1
        }
    }
}

/// The first message.
struct Hello {
    origin: String,
    generation: u32,
    tmp: String,
    php: Vec<(String, String)>,
    has_control: bool,
    has_served: bool,
    sandbox: bool,
    log: OwnedFd,
    document: Vec<u8>,
    defaults: Defaults,
    certificates: Certificates,
}

async fn serve(socket: OwnedFd, front: impl FnOnce(Queries)) -> std::io::Result<()> {
    let link = Link::new(socket)?;
    let mut hello = greet(&link).await?;
    let mut certificates = std::mem::take(&mut hello.certificates);
    let log = Arc::new(Log::new(hello.log));
    let config = match howdah_config::parse_with(&hello.document, &hello.defaults) {
        Ok(config) => config,
        Err(error) => {
            link.send(&ToSupervisor::Refuse { message: format!("{}: {error}", hello.origin) })?;
            return wait_for_end(&link).await;
        }
    };
    let empty = Snapshot::compile(empty_config()?, None, None, &Known::default(), |_| {
        unreachable!("no application")
    });
    // A later configuration may ask for more than the first.
    let threads = thread::wanted(&empty.config).max(thread::wanted(&config));
    let (door, wanted) = ChallengeStore::new();
    let shared = Arc::new(Shared {
        capacity: Capacity::of_process(),
        snapshot: ArcSwap::from_pointee(empty),
        bounds: sandbox::router(hello.sandbox, &hello.tmp, &config),
        log: Arc::clone(&log),
        tmp: Path::new(&hello.tmp).into(),
        threads: AtomicUsize::new(0),
        door,
    });
    let (ask, mut asked) = unbounded_channel();
    let shards = thread::start(threads as u32, &shared, &ask)?;
    let mut pools = Pools::new(Arc::clone(&shared), Arc::clone(&shards));
    let programs = Programs::default();
    let mut names = Names::new(Arc::clone(&log));
    pools.generation = hello.generation;
    // What takes part in a change, lent anew for each.
    macro_rules! parts {
        () => {
            Parts {
                link: &link,
                shared: &shared,
                shards: &shards,
                pools: &mut pools,
                certificates: &mut certificates,
                programs: &programs,
                names: &mut names,
                asked: &mut asked,
                defaults: hello.defaults,
            }
        };
    }
    let start = Start { all_ready: !hello.has_control, has_served: hello.has_served };
    match parts!().apply(config, Occasion::Start(start)).await {
        Ok(()) => {}
        // The supervisor starts another router, which tries again.
        Err(problem) if hello.has_served => {
            return Err(std::io::Error::other(format!("{}: {problem}", hello.origin)));
        }
        // Somebody can correct it through the control API, if that is there.
        Err(problem) if hello.has_control => {
            let origin = &hello.origin;
            log.write(Level::Alert, format_args!("{origin}: {problem}; nothing is served"));
        }
        Err(problem) => {
            link.send(&ToSupervisor::Refuse { message: format!("{}: {problem}", hello.origin) })?;
            return wait_for_end(&link).await;
        }
    }
    link.send(&ToSupervisor::Serving {})?;
    shared.bounds.tell(&log);
    let board = Board::default();
    let (commands, mut jobs) =
        command::channel(Arc::clone(&shared), Arc::clone(&shards), hello.php, board.clone());
    let mut keeper = Keeper::new(
        Arc::clone(&shared.door),
        commands.for_renewal(),
        Arc::clone(&log),
        board,
        certificates.clone(),
        wanted,
    );
    let mut followed = shared.snapshot.load_full();
    keeper.follow(&followed.config);
    let (asking, links) = unbounded_channel();
    front(Queries { links, commands });
    let mut watch = Watch::new();
    memory::forget_start();
    loop {
        let due = pools.tick(&link)?;
        let current = shared.snapshot.load_full();
        if !Arc::ptr_eq(&current, &followed) {
            keeper.follow(&current.config);
            followed = current;
        }
        tokio::select! {
            message = link.receive() => {
                let Some((message, descriptors)) = message? else { return Ok(()) };
                if let FromSupervisor::Quit { graceful } = message {
                    let ending = Ending { link: &link, shared: &shared, shards: &shards };
                    return ending.run(&mut pools, &mut asked, graceful).await;
                }
                match message {
                    FromSupervisor::Ran { number, error } => programs.ended(number, error),
                    FromSupervisor::Control {} => {
                        descriptors.into_iter().next().map(|fd| asking.send(fd));
                    }
                    FromSupervisor::Apply { generation, restart } => {
                        let document = descriptors.into_iter().next();
                        parts!().change(generation, restart, document).await?;
                    }
                    FromSupervisor::Certificate { name } => {
                        certificates::receive(&mut certificates, name, descriptors.into_iter().next());
                    }
                    FromSupervisor::CertificateDeleted { name } => certificates.remove(&name),
                    message => hear(&link, &shared, &mut pools, message, descriptors)?,
                }
            }
            Some(ask) = asked.recv() => pools.on_ask(&link, ask)?,
            Some(job) = jobs.recv() => job.run(parts!()).await,
            () = names.changed() => parts!().rename().await,
            () = watch.wait(&shared) => parts!().renew_tls(&mut watch).await,
            () = names::files::FILES.wanted() => link.send(&ToSupervisor::OpenNameFiles {})?,
            () = sleep_until(due) => {}
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Takes a message that is neither the first one nor the last one.
fn hear(
    link: &Link,
    shared: &Shared,
    pools: &mut Pools,
    message: FromSupervisor,
    descriptors: Vec<OwnedFd>,
) -> std::io::Result<()> {
    match message {
        FromSupervisor::Reopened {} => {
            if let Some(file) = descriptors.into_iter().next() {
                log_reopened(&shared.log, file);
            }
            pools.traces.reopen();
            reopen_access_log(link, shared)
        }
        FromSupervisor::LogOpened { path, error } if pools.traces.awaits(&path) => {
            pools.traces.on_log_opened(&path, &error, descriptors.into_iter().next());
            Ok(())
        }
        FromSupervisor::LogOpened { path, error } => {
            access_log_opened(shared, &path, &error, descriptors);
            Ok(())
        }
        FromSupervisor::NameFiles {} => {
            names::files::FILES.take(descriptors);
            Ok(())
        }
        message => pools.on_message(link, message, descriptors),
    }
}

/// The log goes on in a new file, and so do standard output and errors, which would hold the old
/// one for ever.
fn log_reopened(log: &Log, file: OwnedFd) {
    if let Err(error) = process::standard_streams(file.as_fd(), file.as_fd()) {
        log.write(Level::Error, format_args!("standard error stays with the old log: {error}"));
    }
    log.reopen(file);
}

/// The access log goes on in a new file, as the server's own log does, once that is open.
fn reopen_access_log(link: &Link, shared: &Shared) -> std::io::Result<()> {
    match &shared.snapshot.load().access_log {
        Some(log) => link.send(&ToSupervisor::OpenLog { path: log.file().path().to_owned() }),
        None => Ok(()),
    }
}

fn access_log_opened(shared: &Shared, path: &str, error: &str, descriptors: Vec<OwnedFd>) {
    let snapshot = shared.snapshot.load();
    let log = snapshot.access_log.as_ref().filter(|log| log.file().path() == path);
    match (log, descriptors.into_iter().next()) {
        (Some(log), Some(file)) => log.file().reopen(file),
        (Some(_), None) => shared.log.write(
            Level::Error,
            format_args!(
                "access log {path} cannot be opened again, so it goes on as it was: {error}"
            ),
        ),
        (None, _) => {} // it is no longer configured
    }
}

fn empty_config() -> std::io::Result<Config> {
    howdah_config::parse(b"{}").map_err(|error| std::io::Error::other(error.to_string()))
}

async fn greet(link: &Link) -> std::io::Result<Hello> {
    let (message, descriptors) =
        link.receive().await?.ok_or_else(|| std::io::Error::other("the supervisor has gone"))?;
    let mut descriptors = descriptors.into_iter();
    match (message, descriptors.next(), descriptors.next()) {
        (
            FromSupervisor::Hello {
                php,
                origin,
                generation,
                tmp,
                has_control,
                unit_defaults,
                sandbox,
                has_served,
            },
            Some(log),
            document,
        ) => {
            let document = from_memory(document, u64::MAX)?;
            let certificates = certificates::read(descriptors.next())?;
            let defaults = Defaults::of(unit_defaults);
            Ok(Hello {
                origin,
                generation,
                tmp,
                php,
                has_control,
                has_served,
                sandbox,
                log,
                document,
                defaults,
                certificates,
            })
        }
        _ => Err(std::io::Error::other("the supervisor's first message is no greeting")),
    }
}

/// A refused configuration has been reported; the supervisor ends this process.
async fn wait_for_end(link: &Link) -> std::io::Result<()> {
    link.send(&ToSupervisor::Finished {})?;
    while link.receive().await?.is_some() {}
    Ok(())
}
