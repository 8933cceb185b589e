//! The event loop of the control thread, from the start to the shutdown.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_acme::{self as acme, AcmeReports, Renewer};
use howdah_dns as names;
use howdah_routing::snapshot::Snapshot;
use howdah_tls::challenge_answers::OnDemandRequest;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::spawn_local;

use super::answers::{self, Asker};
use super::appeared::AppearanceWatch;
use super::certificate_reload::CertificateWatch;
use super::command::Commands;
use super::control_thread::{ControlThread, sleep_until};
use super::metrics;
use super::metrics_export::{self, Interval};
use super::question;
use crate::geo_databases::GeoWatch;

/// Interval at which parts that are out are looked for while there are any.
const OUT_INTERVAL: Duration = Duration::from_secs(1);

/// Interval while there are none: certificates expire without an event.
const CALM_OUT_INTERVAL: Duration = Duration::from_secs(60);

/// The control thread and the sources of its events.
pub(super) struct EventLoop {
    control: ControlThread,
    commands: UnboundedReceiver<acme::Command>,
    /// Takes the sockets of new control processes and dashboard processes.
    control_processes: UnboundedSender<Asker>,
    certificate_watch: CertificateWatch,
    geo_watch: GeoWatch,
    appearance_watch: AppearanceWatch,
    renewer: Renewer,
    /// The interval at which metrics are sent.
    metrics_interval: watch::Sender<Interval>,
    /// Snapshot whose certificates the renewer keeps.
    renewed: Arc<Snapshot>,
}

impl EventLoop {
    /// Creates the event loop, and the senders for the answers to control processes. `php` has the
    /// versions of PHP with their programs, `on_demand` the certificates that connections want on
    /// demand. No certificate is ordered yet if `holds_renewals`.
    pub(super) fn new(
        mut control: ControlThread,
        php: Vec<(String, String)>,
        on_demand: Receiver<OnDemandRequest>,
        holds_renewals: bool,
    ) -> Self {
        let board = AcmeReports::default();
        let (handle, commands) = Commands::new(&control, php, board.clone());
        let mut renewer = Renewer::new(
            Arc::clone(&control.shared.challenges),
            handle.for_renewal(),
            Arc::clone(&control.shared.log),
            board,
            control.certificates.clone(),
            on_demand,
        );
        if holds_renewals {
            drop(renewer.hold());
        }
        let renewed = control.shared.snapshot.load_full();
        renewer.follow(&renewed.config);
        let (control_processes, askers) = unbounded_channel();
        if let Some(requests) = control.metrics_requests.take() {
            metrics::start(requests, handle.clone());
        }
        if let Some(probes) = control.readiness_requests.take() {
            question::forward(probes, handle.questions.clone());
        }
        let (metrics_interval, interval) = watch::channel(metrics_export::interval(&renewed));
        metrics_export::start(interval, control.metrics_socket.take(), handle.clone());
        answers::start(askers, handle);
        EventLoop {
            control,
            commands,
            control_processes,
            certificate_watch: CertificateWatch::new(),
            geo_watch: GeoWatch::default(),
            appearance_watch: AppearanceWatch::default(),
            renewer,
            metrics_interval,
            renewed,
        }
    }

    /// Handles events until the supervisor stops the router or has gone.
    pub(super) async fn run(mut self) -> io::Result<()> {
        let (mut files_due, mut out_due) = (Some(Instant::now()), None::<Instant>);
        loop {
            let due = self.control.pools.tick()?;
            let now = Instant::now();
            if files_due.is_none_or(|due| due <= now) {
                let logs_due = self.control.reconnect_logs(now)?;
                files_due = logs_due.into_iter().chain(self.control.reopen_caches(now)?).min();
            }
            let listeners_due = self.control.reopen_listeners(now)?;
            let watch = &mut self.appearance_watch;
            let appearance_due = self.control.look_for_appearances(watch, now).await?;
            if out_due.is_none_or(|due| due <= now) {
                self.control.update_out_parts();
                out_due = Some(now + OUT_INTERVAL);
            }
            // The short interval finds repaired parts; a part that breaks causes an event.
            let calm = self.control.out.is_empty().then_some(CALM_OUT_INTERVAL);
            let out_timer = out_due.map(|due| due + calm.unwrap_or_default());
            self.follow_configuration();
            let control = &mut self.control;
            control.advance_restarts()?;
            let due = due.into_iter().chain(control.pools.wanted_restart_due()).chain(files_due);
            let due = due.chain(listeners_due).chain(appearance_due).chain(out_timer).min();
            tokio::select! {
                message = control.link.receive() => {
                    let Some((message, descriptors)) = message? else { return Ok(()) };
                    if let FromSupervisor::Quit { graceful, is_replaced } = message {
                        control.pools.end_restarts()?;
                        // A successor sends metrics now, whose counters begin at 0: those of both
                        // would look like one server that starts again and again.
                        drop(self.metrics_interval);
                        if is_replaced {
                            self.control.http3.hand_over(descriptors.into_iter().next());
                        }
                        return self.control.shut_down(graceful, is_replaced).await;
                    }
                    self.on_message(message, descriptors).await?;
                }
                Some(request) = control.thread_requests.recv() => {
                    control.pools.on_thread_request(request)?;
                }
                Some(question) = control.questions.1.recv() => control.answer(question),
                Some(command) = self.commands.recv() => {
                    control.carry_out(command).await;
                }
                () = control.names.changed() => {
                    control.refresh_addresses().await;
                }
                () = self.certificate_watch.wait(&control.shared) => {
                    control.renew_from_files(&mut self.certificate_watch).await;
                }
                // `follow_configuration` has just taken over the current configuration.
                () = self.geo_watch.wait(&self.renewed.config) => {
                    self.geo_watch.look(&self.renewed.config, &control.shared.log).await;
                }
                () = names::files::FILES.requested() => {
                    control.link.send(&ToSupervisor::OpenNameFiles {})?;
                }
                () = sleep_until(due) => {}
            }
        }
    }

    /// Gives the renewer, and the sender of metrics, a configuration that has become the current one.
    fn follow_configuration(&mut self) {
        let current = self.control.shared.snapshot.load_full();
        if !Arc::ptr_eq(&current, &self.renewed) {
            self.renewer.follow(&current.config);
            let interval = metrics_export::interval(&current);
            self.metrics_interval
                .send_if_modified(|known| std::mem::replace(known, interval) != interval);
            self.renewed = current;
        }
    }

    async fn on_message(
        &mut self,
        message: FromSupervisor,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        let control = &mut self.control;
        match message {
            FromSupervisor::Ran { number, error } => control.programs.ended(number, error),
            FromSupervisor::Control { only_reads } => {
                let socket = descriptors.into_iter().next();
                socket.map(|socket| self.control_processes.send(Asker { socket, only_reads }));
            }
            FromSupervisor::Apply { generation, restart } => {
                let document = descriptors.into_iter().next();
                control.change(generation, restart, document).await?;
            }
            FromSupervisor::Certificate { name } => {
                control.on_certificate(name.clone(), descriptors.into_iter().next());
                control.renew_stored(&name).await;
            }
            FromSupervisor::HoldRenewals {} => {
                let (held, link) = (self.renewer.hold(), Rc::clone(&control.link));
                spawn_local(async move {
                    held.await;
                    let _ = link.send(&ToSupervisor::RenewalsHeld {});
                });
            }
            FromSupervisor::ReleaseRenewals {} => self.renewer.release(),
            FromSupervisor::CertificateDeleted { name } => control.certificates.remove(&name),
            message => control.on_message(message, descriptors)?,
        }
        Ok(())
    }
}
