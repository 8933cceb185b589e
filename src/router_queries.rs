//! Answers of the router to the control process, which serves the control API.

mod caches;
mod status;
mod tuning;

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use howdah_questions::Question;
use howdah_router::process::{Commands, Queries};
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
        let Ok(ToRouter::Ask { number, question }) = ToRouter::decode(&packet) else { return };
        let (packets, commands) = (Rc::clone(&packets), commands.clone());
        tokio::task::spawn_local(async move {
            let answer = match serde_json::from_str(&question) {
                Ok(question) => answer(question, &commands).await,
                Err(error) => Err(format!("the question cannot be read: {error}")),
            };
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

/// Returns the answer to a question; `None` if its subject does not exist.
async fn answer(question: Question, commands: &Commands) -> Result<Option<Value>, String> {
    Ok(match question {
        Question::Ping => Some(Value::Bool(true)),
        Question::Status => Some(status::of(commands.report().await).to_value()),
        Question::Pools { application } => {
            let pools = commands.pools(application.as_deref());
            let pools = pools.iter().map(|pool| (pool.name.clone(), pool.to_value()));
            Some(Value::Object(pools.collect()))
        }
        Question::Tuning { application } => {
            let found = commands.tune(application.clone()).await;
            found.map(|found| tuning::to_value(&application, &found))
        }
        Question::PurgeCaches { cache, purge, is_soft } => {
            let found = commands.purge_caches(cache.as_deref(), &purge, is_soft);
            found.then_some(Value::Bool(true))
        }
        Question::TopCaches { cache } => {
            commands.top_of_caches(cache.as_deref()).await.as_deref().map(caches::top)
        }
        Question::InspectCaches { cache, host, path, query } => {
            let found = commands.inspect_caches(cache.as_deref(), host, path, query).await;
            found.as_ref().map(caches::url)
        }
        Question::Restart { application } => {
            commands.restart(application).await?;
            Some(Value::Bool(true))
        }
    })
}
