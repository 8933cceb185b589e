//! The event loop: waits for signals and for messages and output of the router, the control process
//! and the prototypes, and dispatches them.
//!
//! - `startup`: opens, locks and binds everything before the loop begins.
//! - `state`: the state of the loop; `wait`: its poll call; `id`: the identity of an application.
//! - `signals`: signals, and children that have ended.
//! - `router`: the router's process and its socket; `requests`: dispatches its messages;
//!   `resources`: addresses, files and programs for it; `applications`: prototypes and workers;
//!   `configuration`: the change of the configuration.
//! - `jobs`: processes of jobs.
//! - `job_reports`: questions about jobs, and orders to them.
//! - `site_logs`: logs of sites, for the records about jobs.
//! - `zygotes`: starts and ends them, and the applications that wait for them.
//! - `control`: the control process and its messages; `control_file`: the file of its socket.
//! - `mail`: messages of applications, and the mail process that sends them.
//! - `telemetry`: the telemetry process, which sends the spans and metrics of routers.
//! - `dashboard`: the dashboard process, which serves the page of the server.
//! - `upgrade`: the replacement of this server by a new start of its program; `succession`: its
//!   other side.
//! - `replacement`: another router takes the place of the current one.
//! - `failed_starts`: the output of failed starts of applications.
//! - `file_tasks`: passes on the files that other processes have opened and read.
//! - `application_checks`: whether applications could start, and have their document roots.
//! - `counting`: limits of all processes of an application that no control group keeps.
//! - `tables`: notices changes of files with tables.
//! - `site_usage`: what sites have used.
//! - `users`: whether the users of running applications are as they were.
//! - `service_manager`: notifications to systemd, and pings of the router; `watch`: processes that
//!   are stopped or hang.
//! - `shutdown`: the end of the server.

mod application_checks;
mod applications;
mod configuration;
mod control;
mod control_file;
mod counting;
mod dashboard;
mod failed_starts;
mod file_tasks;
#[cfg(test)]
mod hostile_router_tests;
mod id;
mod job_pauses;
mod job_reports;
mod jobs;
mod mail;
#[cfg(any(test, feature = "model"))]
pub mod model;
mod name_files;
mod refusals;
mod requests;
mod resources;
mod router;
mod router_replacement;
mod service_manager;
mod shared_runs;
mod shutdown;
mod signals;
mod site_logs;
mod site_usage;
mod startup;
mod state;
mod succession;
mod tables;
mod telemetry;
mod unwritable;
mod upgrade;
mod users;
mod wait;
mod watch;
mod zygotes;

use std::os::fd::OwnedFd;
use std::time::Instant;

use howdah_wire::messages::MAX_MESSAGE;

use self::startup::start;
use self::state::{Source, Tree, UPKEEP_INTERVAL};
use crate::options::Options;

pub use self::state::Ending;

/// Runs the server until it ends. Error: the reason why it could not start.
pub fn run(options: Options) -> Result<Ending, String> {
    let (mut tree, signals) = start(options)?;
    let ending = tree.run(&signals);
    tree.close_sockets();
    Ok(ending)
}

impl Tree {
    fn run(&mut self, signals: &OwnedFd) -> Ending {
        let mut buffer = vec![0; MAX_MESSAGE];
        self.prepare_zygotes();
        loop {
            let now = Instant::now();
            self.start_router_if_due(now);
            self.replace_router_if_due(now);
            self.start_control_if_due(now);
            self.stop_applications_if_due(now);
            self.flush_outbox(now);
            self.run_due_in_applications(now);
            self.end_late_zygotes(now);
            self.programs.end_if_due(now);
            self.check_upgrade(now);
            self.run_upkeep_if_due(now);
            self.check_tables_if_due(now);
            self.check_applications_if_due(now);
            self.count_if_due(now);
            self.check_users_if_due(now);
            self.advance_file_tasks(now);
            self.advance_mail(now);
            self.advance_telemetry(now);
            self.advance_dashboard(now);
            self.advance_usage(now);
            self.advance_jobs(now);
            self.ping_router_if_due(now);
            self.watch_processes(now);
            self.look_at_control_file(now);
            self.end_leaving(now);
            if self.is_over(now) {
                return self.finish();
            }
            for source in self.wait(signals, now) {
                match source {
                    Source::Signals => self.on_signals(signals),
                    Source::Router => self.on_router(&mut buffer),
                    Source::OtherRouter(pid) => self.on_other_router(pid, &mut buffer),
                    Source::Control => self.on_control(&mut buffer),
                    Source::ControlListener => self.control.is_wanted = true,
                    Source::Mail => self.on_mail_process(&mut buffer),
                    Source::Submission(id) => self.on_submission(id),
                    Source::Prototype(id) => self.on_prototype(id),
                    Source::Output(id) => self.on_output(id),
                    Source::JobOutput(pid) => self.on_job_output(pid),
                    Source::WorkerEnd(id, worker) => self.on_worker_end(id, worker),
                    Source::Successor => self.on_successor(),
                    Source::Predecessor => self.on_predecessor(),
                    Source::Unclaimed => self.sockets.refuse(),
                    Source::Zygote(pid) => self.on_zygote(pid),
                    Source::FileHelper(pid) => self.on_file_helper(pid),
                    Source::ZygoteOutput(pid) => self.on_zygote_output(pid),
                }
            }
        }
    }

    fn run_upkeep_if_due(&mut self, now: Instant) {
        if let Some(upkeep) = self.options.upkeep.as_mut().filter(|_| self.next_upkeep <= now) {
            upkeep();
            self.next_upkeep = now + UPKEEP_INTERVAL;
        }
    }
}
