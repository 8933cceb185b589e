//! Answers to the questions of control processes, which serve the control API, and of dashboard
//! processes, which may only ask.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use howdah_questions::{Named, Question};
use howdah_sys::packets::{Packets, to_memory};
use howdah_wire::messages::{FromRouter, ToRouter};
use serde::Serialize;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::command::Commands;

/// A process that asks.
#[derive(Debug)]
pub(super) struct Asker {
    /// The router's end of the socket to it.
    pub(super) socket: OwnedFd,
    /// It may give no order.
    pub(super) only_reads: bool,
}

/// Answers every process of `askers`.
pub(super) fn start(mut askers: UnboundedReceiver<Asker>, commands: Commands) {
    tokio::task::spawn_local(async move {
        while let Some(asker) = askers.recv().await {
            tokio::task::spawn_local(serve(asker, commands.clone()));
        }
    });
}

/// Answers one process until it ends. Work for answers that it no longer wants ends early.
async fn serve(asker: Asker, commands: Commands) {
    let Asker { socket, only_reads } = asker;
    let Ok(packets) = Packets::new(socket).map(Rc::new) else { return };
    // Dropping a sender ends the work for the answer.
    let mut asked = HashMap::<u32, oneshot::Sender<()>>::new();
    while let Ok(Some((packet, _))) = packets.receive().await {
        let (number, question) = match ToRouter::decode(&packet) {
            Ok(ToRouter::Ask { number, question }) => (number, question),
            Ok(ToRouter::Forget { number }) => {
                asked.remove(&number);
                continue;
            }
            Err(_) => return,
        };
        let (wanted, forgotten) = oneshot::channel();
        asked.retain(|_, wanted| !wanted.is_closed());
        asked.insert(number, wanted);
        let (packets, commands) = (Rc::clone(&packets), commands.clone());
        tokio::task::spawn_local(async move {
            let work = async {
                match serde_json::from_str::<Question>(&question) {
                    Ok(question) if only_reads && !question.only_reads() => {
                        Err("this process may only ask".to_owned())
                    }
                    Ok(question) => answer(question, &commands).await,
                    Err(error) => Err(format!("the question cannot be read: {error}")),
                }
            };
            let answer = tokio::select! {
                biased; // an order is carried out although its sender has left
                answer = work => answer,
                _ = forgotten => return,
            };
            let memory = match answer {
                Ok(Some(text)) => to_memory(&text).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(std::io::Error::other(error)),
            };
            let error = memory.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
            let answer = FromRouter::Answer { number, error }.encode();
            let memory = memory.ok().flatten();
            let descriptors: Vec<_> = memory.iter().map(|memory| memory.as_fd()).collect();
            // The control process may have ended.
            let _ = packets.try_send(&answer, &descriptors);
        });
    }
}

/// Returns the answer to a question as JSON; `None` if its subject does not exist.
async fn answer(question: Question, commands: &Commands) -> Result<Option<Vec<u8>>, String> {
    match question {
        Question::Ping => some(true),
        Question::Status => some(commands.status().await),
        Question::Usage { month } => commands.usage.of_month(month).await.map(Some),
        Question::LastRequests(filter) => some(commands.last_requests(filter).await),
        Question::SlowScripts { name, applications } => {
            some(commands.slow_scripts(name, applications).await)
        }
        Question::Pools { application } => {
            let pools = commands.pools(application.as_deref());
            let pools = pools.iter().map(|pool| (pool.name.clone(), pool.to_value(true)));
            some(pools.collect::<Named<_>>())
        }
        Question::Tuning { application } => json(commands.tune(application).await),
        Question::Restart { application } => some(commands.restart(application).await?),
        Question::Jobs { applications } => commands.jobs.all(applications).await,
        Question::JobLog { application, job } => commands.jobs.log(application, job).await,
        Question::OrderJob { application, job, order } => {
            commands.jobs.order(application, job, order).await
        }
        Question::Profile(order) => json(commands.profile(&order).await?),
        Question::PurgeCaches { cache, purge, is_soft } => {
            let found = commands.purge_caches(cache.as_deref(), &purge, is_soft);
            json(found.then_some(true))
        }
        Question::TopCaches { cache } => json(commands.top_of_caches(cache.as_deref()).await),
        Question::InspectCaches { cache, host, path, query } => {
            json(commands.inspect_caches(cache.as_deref(), host, path, query).await)
        }
    }
}

/// Returns an answer as JSON.
fn some(answer: impl Serialize) -> Result<Option<Vec<u8>>, String> {
    json(Some(answer))
}

/// Returns an answer as JSON, if there is one.
fn json(answer: Option<impl Serialize>) -> Result<Option<Vec<u8>>, String> {
    answer.map(|answer| serde_json::to_vec(&answer)).transpose().map_err(|error| error.to_string())
}
