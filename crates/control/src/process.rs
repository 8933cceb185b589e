//! The control process: serves the control API.
//!
//! The process is separate from the router, which parses untrusted input, so that the router cannot
//! change the configuration: the supervisor accepts documents only from this process. The process
//! has no privileges, opens no files and ends after an idle time; the supervisor starts another on
//! the next connection.
//!
//! 1. The supervisor's first message has the document, the certificates, the control socket, and a
//!    socket to the router.
//! 2. [`api`] serves requests. Changes go to the supervisor, questions to the router.
//! 3. On a message of the supervisor, the configuration is read again.

mod activity;
mod api;
pub mod connections;
mod limits;
pub mod reader;
mod router;
mod supervisor;

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_config::Defaults;
use howdah_sys::log::Log;
use howdah_sys::packets::{Packets, from_memory};
use howdah_sys::sandbox::unprivileged;
use howdah_sys::{event_loop, process};
use howdah_tls::stored::Certificates;
use howdah_wire::messages::{FromControl, ToControl};
use tokio::sync::Notify;

use activity::Activity;
use api::{ApiOptions, SiteUsers};
use limits::MAX_TEXT;
use router::Router;
use supervisor::{Supervisor, Upgraded};

/// Idle time after which the process ends.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// Idle time without a control socket: the process was started to read the configuration again.
const IDLE_TIME_WITHOUT_SOCKET: Duration = Duration::from_secs(1);

/// Runs the control process on the socket that the supervisor has passed. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    event_loop::run("control process", serve(socket))
}

async fn serve(socket: OwnedFd) -> std::io::Result<()> {
    let supervisor = Rc::new(Supervisor::new(Packets::new(socket)?));
    let (hello, descriptors) = supervisor.receive().await?;
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next();
    let ToControl::Hello {
        address,
        origin,
        is_undone_by_reload,
        unit_defaults,
        token,
        sandbox,
        refused,
        has_site_users,
    } = hello
    else {
        return Err(std::io::Error::other(
            "the supervisor's first message is not Hello; are all processes of the same version?",
        ));
    };
    let Some(log) = next() else {
        return Err(std::io::Error::other(
            "the supervisor's first message is not Hello; are all processes of the same version?",
        ));
    };
    if sandbox {
        unprivileged::enter(&[]);
    }
    let log = Arc::new(Log::passed(log));
    let document = from_memory(next(), MAX_TEXT)?;
    let certificates = Certificates::parse(&from_memory(next(), u64::MAX)?)
        .map_err(|_| std::io::Error::other("the supervisor sent malformed certificates"))?;
    let router = next().ok_or_else(|| std::io::Error::other("there is no socket to the router"))?;
    let router = Rc::new(Router::new(Packets::new(router)?));
    let router_gone = Rc::new(Notify::new());
    let listen = || {
        let (router, router_gone) = (Rc::clone(&router), Rc::clone(&router_gone));
        tokio::task::spawn_local(async move {
            if router.listen().await {
                router_gone.notify_one();
            }
        });
    };
    listen();
    let for_site_users = if has_site_users { next() } else { None };
    let listener = next();
    let has_socket = listener.is_some() || for_site_users.is_some();
    let mut idle_time = if has_socket { IDLE_TIME } else { IDLE_TIME_WITHOUT_SOCKET };
    let activity = Rc::new(Activity::default());
    let options = ApiOptions {
        listener,
        address,
        token,
        document,
        defaults: Defaults::of(unit_defaults),
        certificates,
        supervisor: Rc::clone(&supervisor),
        router: Rc::clone(&router),
        activity: Rc::clone(&activity),
        origin,
        is_undone_by_reload,
        refused,
        log: Arc::clone(&log),
    };
    let api = api::start(options);
    let site_users = SiteUsers::new(&api);
    if let Some(socket) = for_site_users {
        site_users.listen(socket);
    }
    let (reload, reload_tables) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
    {
        let (api, reload) = (Rc::clone(&api), Rc::clone(&reload_tables));
        let (supervisor, activity) = (Rc::clone(&supervisor), Rc::clone(&activity));
        tokio::task::spawn_local(async move {
            loop {
                reload.notified().await;
                let _busy = activity.begin();
                api.reload_tables_and_log().await;
                let _ = supervisor.tell(&FromControl::Reloaded { tables: true });
            }
        });
    }
    {
        let (api, reload) = (Rc::clone(&api), Rc::clone(&reload));
        let (supervisor, activity) = (Rc::clone(&supervisor), Rc::clone(&activity));
        tokio::task::spawn_local(async move {
            loop {
                reload.notified().await;
                let _busy = activity.begin();
                api.reload_and_log().await;
                let _ = supervisor.tell(&FromControl::Reloaded { tables: false });
            }
        });
    }
    loop {
        tokio::select! {
            message = supervisor.receive() => match message? {
                (ToControl::Reload { tables: false }, _) => reload.notify_one(),
                (ToControl::Reload { tables: true }, _) => reload_tables.notify_one(),
                (ToControl::Renewed { name }, descriptors) => {
                    api.show_certificate(name, from_memory(descriptors.into_iter().next(), MAX_TEXT)?);
                }
                (ToControl::Reopened {}, descriptors) => {
                    if let Some(file) = descriptors.into_iter().next() {
                        process::set_output_streams(file.as_fd(), file.as_fd())?;
                        log.reopen(file);
                    }
                }
                (ToControl::RouterReplaced {}, descriptors) => {
                    if let Some(socket) = descriptors.into_iter().next() {
                        router.replace(Packets::new(socket)?);
                        listen();
                    }
                }
                (ToControl::Listening { is_for_site_users }, descriptors) => {
                    match descriptors.into_iter().next() {
                        Some(listener) if is_for_site_users => site_users.listen(listener),
                        Some(listener) => api.listen(listener),
                        None => {}
                    }
                }
                (ToControl::UsersFound { error }, descriptors) => {
                    supervisor.users_found(error, descriptors);
                }
                (ToControl::Ping { number }, _) => supervisor.tell(&FromControl::Pong { number })?,
                (ToControl::Replaced { at, reason }, _) => api.process_replaced(at, reason),
                (ToControl::UpgradeBegun {}, _) => supervisor.upgrade_begun(),
                (ToControl::UpgradeEnded { error, pid, version }, _) => {
                    let is_replaced = error.is_empty();
                    let upgraded = Upgraded { pid, version };
                    supervisor.upgrade_ended(&if is_replaced { Ok(upgraded) } else { Err(error) });
                    if is_replaced {
                        site_users.stop();
                        api.stop_accepting();
                        idle_time = Duration::ZERO;
                    }
                }
                (answer, descriptors) => supervisor.answered(answer, descriptors),
            },
            // Another process answers with the next router. The supervisor lets this one live only
            // for a client that waits for the end of an upgrade.
            () = router_gone.notified() => {
                site_users.stop();
                api.stop_accepting();
                idle_time = Duration::ZERO;
            }
            () = activity.idle(idle_time) => return Ok(()),
        }
    }
}
