//! Writes the metrics of the server for the requests that ask for them. One answer is written at a
//! time, on this thread: router threads go on serving.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsRawFd;

use bytes::Bytes;
use howdah_metrics::{Format, ProcessFacts, page};
use howdah_pipeline::metrics::MetricsRequest;
use howdah_questions::Status;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::packets::to_memory;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;

use super::command::Commands;

/// Answers requests until the process ends. All that wait when an answer is begun get this answer.
pub(super) fn start(mut requests: UnboundedReceiver<MetricsRequest>, commands: Commands) {
    spawn_local(async move {
        let mut waiting = Vec::new();
        while requests.recv_many(&mut waiting, usize::MAX).await > 0 {
            // Clients may have left while another answer was written.
            waiting.retain(|(_, done)| !done.is_closed());
            if !waiting.is_empty() {
                answer(std::mem::take(&mut waiting), &commands).await;
            }
        }
    });
}

async fn answer(waiting: Vec<MetricsRequest>, commands: &Commands) {
    let (status, process) = facts(commands).await;
    let totals = commands.usage.totals.borrow();
    let mut answers = HashMap::<Format, Bytes>::new();
    for (format, done) in waiting {
        let write = || page(&status, &totals, &process, format).into();
        let answer = answers.entry(format).or_insert_with(write);
        let _ = done.send(answer.clone());
    }
}

/// Takes the counts of all threads. Returns the other facts of metrics.
pub(super) async fn facts(commands: &Commands) -> (Status, ProcessFacts) {
    commands.usage.take().await;
    let status = commands.status().await;
    commands.usage.totals.borrow_mut().keep_names(&names(&commands.shared.snapshot.load()));
    (status, process_facts(commands))
}

fn process_facts(commands: &Commands) -> ProcessFacts {
    let limit = commands.shared.descriptors.get();
    // The kernel gives out the lowest descriptor that is free. Which ones are open, it tells nobody:
    // the process is not dumpable.
    let newest = to_memory(b"").ok().map(|file| file.as_raw_fd());
    ProcessFacts {
        descriptors: newest.and_then(|newest| u64::try_from(newest).ok()),
        max_descriptors: Some(limit).filter(|limit| *limit < u64::MAX),
        refused_since: Some(commands.refused_since.get()).filter(|since| *since > 0),
    }
}

/// Returns the names of a document that requests are counted for.
fn names(snapshot: &Snapshot) -> BTreeSet<&str> {
    let routes = snapshot.routes.keys();
    let listeners = snapshot.listeners.keys();
    let applications = snapshot.applications.keys().chain(snapshot.fastcgi.keys());
    let upstreams = snapshot.upstreams.keys();
    routes.chain(listeners).chain(applications).chain(upstreams).map(String::as_str).collect()
}
