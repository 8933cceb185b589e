//! The end of the router, on request.
//!
//! A fast one drops everything. A graceful one goes in two steps, and either ends at once when a
//! fast one is asked for:
//!
//! 1. No connection is accepted any more, and those that are open end with the request in hand.
//!    Applications run on as ever meanwhile: what waits in their queues is served, workers that
//!    die are replaced, scripts beyond their time are ended.
//! 2. Workers leave. A script may go on after its answer is complete; it is waited for. A worker
//!    that does not leave although it has no request is not.

use std::sync::Arc;
use std::time::Instant;

use howdah_php_pool::thread::Ask;
use howdah_sys::log::Level;
use howdah_wire::messages::{FromSupervisor, ToSupervisor};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::link::Link;
use super::pools::Pools;
use super::{hear, sleep_until};
use crate::thread;
use crate::thread::{Order, Shared};

/// What ends.
pub(super) struct Ending<'a> {
    pub(super) link: &'a Link,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) shards: &'a [thread::Handle],
}

/// Whether to go on being graceful.
#[derive(PartialEq, Eq)]
enum Turn {
    GoOn,
    AtOnce,
}

impl Ending<'_> {
    /// Ends, and waits for the supervisor to end this process.
    pub(super) async fn run(
        &self,
        pools: &mut Pools,
        asked: &mut UnboundedReceiver<Ask>,
        graceful: bool,
    ) -> std::io::Result<()> {
        if self.finish_connections(pools, asked, graceful).await? == Turn::GoOn && graceful {
            self.finish_scripts(pools, asked).await?;
        }
        pools.log(Level::Notice, "exiting");
        self.link.send(&ToSupervisor::Finished {})?;
        while self.link.receive().await?.is_some() {}
        Ok(())
    }

    async fn finish_connections(
        &self,
        pools: &mut Pools,
        asked: &mut UnboundedReceiver<Ask>,
        graceful: bool,
    ) -> std::io::Result<Turn> {
        let order = |shard: &thread::Handle| {
            let (finished, wait) = oneshot::channel();
            shard.order(Order::Quit { graceful, finished });
            wait
        };
        let waits: Vec<_> = self.shards.iter().map(order).collect();
        let finished = async {
            for wait in waits {
                let _ = wait.await;
            }
        };
        tokio::pin!(finished);
        loop {
            let due = pools.tick(self.link)?;
            tokio::select! {
                () = &mut finished => return Ok(Turn::GoOn),
                turn = self.turn(pools, asked, due) => {
                    if turn? == Turn::AtOnce {
                        return Ok(Turn::AtOnce);
                    }
                }
            }
        }
    }

    async fn finish_scripts(
        &self,
        pools: &mut Pools,
        asked: &mut UnboundedReceiver<Ask>,
    ) -> std::io::Result<()> {
        pools.close();
        let mut idle_since = None;
        while pools.has_workers(&mut idle_since) {
            if self.turn(pools, asked, Some(Pools::next_look())).await? == Turn::AtOnce {
                break;
            }
        }
        Ok(())
    }

    /// Waits for one thing to happen. Safe to cancel.
    async fn turn(
        &self,
        pools: &mut Pools,
        asked: &mut UnboundedReceiver<Ask>,
        due: Option<Instant>,
    ) -> std::io::Result<Turn> {
        tokio::select! {
            message = self.link.receive() => match message? {
                None | Some((FromSupervisor::Quit { graceful: false }, _)) => {
                    return Ok(Turn::AtOnce);
                }
                Some((message, descriptors)) => {
                    hear(self.link, self.shared, pools, message, descriptors)?;
                }
            },
            Some(ask) = asked.recv() => pools.on_ask(self.link, ask)?,
            () = sleep_until(due) => {}
        }
        Ok(Turn::GoOn)
    }
}
