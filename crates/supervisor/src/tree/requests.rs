//! Dispatches the messages of the router.
//!
//! The router gets only the resources that the running configuration names, or the one that is
//! being applied ([`Grants`]): an attacker in control of it can reach no file, address, user or
//! program that it did not have before. Any other request is refused and reported. The router can
//! still end and start the processes of applications, run and pause their jobs, send any response to clients, and read the
//! files that the sites' user can read.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use howdah_wire::messages::ToSupervisor;

use super::state::Tree;
use crate::grants::Grants;
use crate::programs::Run;
use crate::service_manager::RouterNumbers;

impl Tree {
    /// Carries out a message of the router.
    pub(super) fn on_router_message(&mut self, message: ToSupervisor, descriptors: Vec<OwnedFd>) {
        use ToSupervisor as Message;
        match message {
            Message::Bind { address, backlog } => self.bind(address, backlog),
            Message::Unbind { address } => self.unbind(address),
            Message::OpenLog { path } => self.open_access_log(path),
            Message::OpenCache { path } => self.open_cache(path),
            Message::ReadFile { path } => self.read_tls_file(path),
            Message::OpenNameFiles {} => self.open_name_files(),
            Message::StoreCertificate { name } => self.store_managed(name, descriptors),
            Message::Run { number, program, arguments, environment, timeout_ms } => {
                let timeout = Duration::from_millis(timeout_ms);
                self.run_program(number, &Run { program, arguments, environment, timeout });
            }

            Message::Start { application, name, generation, geometry } => {
                self.start_named(application, &name, generation, geometry, descriptors);
            }
            Message::Spawn { application } => self.spawn_worker(application),
            Message::Kill { application, worker, signal } => {
                self.kill_worker(application, worker, signal);
            }
            Message::Trace { application, worker, number } => {
                self.trace_worker(application, worker, number);
            }
            Message::CheckFiles { application } => self.check_files(application),
            Message::Measure { application } => self.measure_workers(application),
            Message::Stop { application, grace_ms } => {
                self.stop_application(application, Duration::from_millis(grace_ms));
            }
            Message::Unload { application } => self.unload_application(application),

            Message::Renew { reason } => self.want_replacement(&reason),
            Message::RenewalsHeld {} => self.renewals_held(),
            Message::Serving {} => self.router_serves(),
            Message::Pong { number, active, idle, requests, out } => {
                self.router_answered(number, RouterNumbers { active, idle, requests }, &out);
            }
            Message::Used { sites } => self.sites_used(sites),
            Message::ReadUsage { number, month } => self.read_usage(number, month),
            Message::ReadJobs { number, applications } => {
                self.read_jobs(number, applications.as_deref());
            }
            Message::ReadJobLog { number, application, job } => {
                self.read_job_log(number, &application, &job);
            }
            Message::OrderJob { number, application, job, order } => {
                self.order_job(number, &application, &job, order);
            }
            Message::RestartJobs { application } => self.jobs.restart_named(&application),
            Message::RunClaimed { application, job, time, token } => {
                self.run_claimed(&application, &job, time, token);
            }
            Message::Refuse { message } => self.refuse_first_configuration(message),
            Message::Finished {} => self.router_finished(),
            Message::Prepared { generation } => self.commit(generation),
            Message::Applied { generation, outcome } => self.applied(generation, outcome),
        }
    }

    /// Reports that the router requested `subject`, which the configuration does not name. Returns
    /// the error message for the router.
    pub(super) fn refuse(&mut self, subject: impl Display) -> String {
        self.refusals.report(subject, &self.log, Instant::now())
    }

    /// Returns true if the running configuration, or the one that is being applied, names a
    /// resource.
    pub(super) fn allows(&self, names: impl Fn(&Grants) -> bool) -> bool {
        self.changes.allow(names)
    }
}
