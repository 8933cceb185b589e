//! Answers of the router to the control process, which serves the control API.

mod caches;
mod status;
mod tuning;

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use howdah_router::process::{Commands, PurgeOrder, Queries};
use howdah_sys::packets::{Packets, to_memory};
use howdah_wire::messages::{FromRouter, ToRouter};
use serde_json::Value;

/// Answers every control process that the supervisor starts.
pub fn start(queries: Queries) {
    let Queries { mut links, commands } = queries;
    tokio::task::spawn_local(async move {
        while let Some(link) = links.recv().await {
            tokio::task::spawn_local(serve(link, commands.clone()));
        }
    });
}

/// Answers one control process until it ends.
async fn serve(link: OwnedFd, commands: Commands) {
    let Ok(packets) = Packets::new(link).map(Rc::new) else { return };
    while let Ok(Some((packet, _))) = packets.receive().await {
        let Ok(question) = ToRouter::decode(&packet) else { return };
        let (packets, commands) = (Rc::clone(&packets), commands.clone());
        tokio::task::spawn_local(async move {
            let (number, answer) = answer(question, &commands).await;
            let memory = match &answer {
                Ok(Some(value)) => to_memory(value.to_string().as_bytes()).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(std::io::Error::other(error.clone())),
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

/// Returns the number of a question, and the answer.
async fn answer(question: ToRouter, commands: &Commands) -> (u32, Result<Option<Value>, String>) {
    match question {
        ToRouter::Status { number } => {
            let status = status::of(commands.report().await);
            (number, Ok(Some(status.to_value())))
        }
        ToRouter::Pools { number, name } => {
            let pools = commands.pools(name.as_deref());
            let pools = pools.iter().map(|pool| (pool.name.clone(), pool.to_value()));
            (number, Ok(Some(Value::Object(pools.collect()))))
        }
        ToRouter::Tuning { number, name } => {
            let found = commands.tune(name.clone()).await;
            (number, Ok(found.map(|found| tuning::to_value(&name, &found))))
        }
        ToRouter::PurgeCaches { number, cache, is_all, host, target, is_prefix, tags, is_soft } => {
            let order = PurgeOrder { is_all, host, target, is_prefix, tags, is_soft };
            let purged = commands.purge_caches(cache.as_deref(), order);
            (number, purged.map(|found| found.then_some(Value::Bool(true))))
        }
        ToRouter::TopCaches { number, cache } => {
            let found = commands.top_of_caches(cache.as_deref()).await;
            (number, Ok(found.as_deref().map(caches::top)))
        }
        ToRouter::InspectCaches { number, cache, host, target } => {
            let found = commands.inspect_caches(cache.as_deref(), &host, &target).await;
            (number, found.map(|found| found.map(|found| caches::url(&found))))
        }
        ToRouter::Restart { number, name } => (number, commands.restart(name).await.map(|()| None)),
    }
}
