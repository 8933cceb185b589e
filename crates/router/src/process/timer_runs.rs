//! Runs of timers that several servers have: the supervisor asks, the store of the cluster answers.

use std::rc::Rc;

use howdah_cluster::{Cluster, Run};
use howdah_wire::messages::{FromSupervisor, RUN_INTERVAL, ToSupervisor};
use tokio::task::spawn_local;

use super::link::Link;

/// Milliseconds after which a run is over that nobody says to go on.
const LEASE: u64 = 3 * RUN_INTERVAL.as_millis() as u64;

/// Asks or tells the store about a run. The supervisor asks again where there is no answer.
pub(super) fn on_message(message: FromSupervisor, cluster: &Cluster, link: &Rc<Link>) {
    let Some(store) = cluster.counting() else { return };
    let link = Rc::clone(link);
    spawn_local(async move {
        match message {
            FromSupervisor::ClaimRun { application, job, time, keep, is_exclusive } => {
                let lease = is_exclusive.then_some(LEASE);
                let run = Run { application, job, time, keep, lease };
                if let Ok(token) = store.claim_run(&run).await {
                    let Run { application, job, time, .. } = run;
                    let _ = link.send(&ToSupervisor::RunClaimed { application, job, time, token });
                }
            }
            FromSupervisor::HoldRun { application, job, token } => {
                store.hold_run(&application, &job, &token, LEASE).await;
            }
            FromSupervisor::EndRun { application, job, token } => {
                store.end_run(&application, &job, &token).await;
            }
            _ => {}
        }
    });
}
