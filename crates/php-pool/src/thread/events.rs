//! What the frames of an answer ask the thread to do beside passing the answer on.

use std::os::fd::AsFd;
use std::sync::Arc;

use howdah_http::spool;
use howdah_sys::log::Level;
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::Claim;

use super::{Ask, Attached, PhpThread};
use crate::pending::{Event, Failure};
use crate::queue::{Key, NotSent};
use crate::status_page::Pool;

impl PhpThread {
    /// `true` if the slot is no longer this request's.
    pub(super) fn on_event(&self, attached: &Attached, slot: u32, key: Key, event: Event) -> bool {
        match event {
            Event::None => {}
            Event::Log(severity, message) => {
                if let Some(context) = self.with_entry(key, |entry| entry.context.clone()) {
                    let text = String::from_utf8_lossy(&message);
                    let level = Level::from_syslog(severity);
                    // As if the worker had written it itself.
                    let pid = match attached.instance.region.claim_of(slot) {
                        Claim::Taken(_, owner) => attached.instance.pid(owner),
                        _ => None,
                    };
                    let pid = pid.unwrap_or(std::process::id());
                    let message = format_args!("{context}: {text}");
                    self.log.write_limited(&attached.queue.log_rate, pid, level, message);
                }
            }
            Event::SendDescriptors => self.send_descriptors(attached, slot, key),
            Event::SendStatus => self.send_status(attached, slot, key),
            Event::TakeOutput => self.take_output(attached, slot, key),
            Event::Unkept(problem) => {
                if let Some(context) = self.with_entry(key, |entry| entry.context.clone()) {
                    let problem = format_args!("{context}: the answer cannot be kept: {problem}");
                    self.log.write(Level::Error, problem);
                }
            }
            Event::Done(done) => {
                self.with_entry(key, |entry| {
                    entry.settled = true;
                    entry.pending.wake();
                });
                if let Some(output) = attached.queue.finish(&attached.instance, slot, done) {
                    output.over(key);
                }
                return true;
            }
        }
        false
    }

    fn send_descriptors(&self, attached: &Attached, slot: u32, key: Key) {
        let Claim::Taken(ticket, owner) = attached.instance.region.claim_of(slot) else { return };
        let descriptors =
            self.with_entry(key, |entry| std::mem::take(&mut entry.pending.descriptors));
        let descriptors = descriptors.unwrap_or_default();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        match attached.instance.send(owner, &ToWorker::Descriptors { ticket }, &borrowed) {
            Ok(()) => {}
            Err(NotSent::Unknown) => {
                self.with_entry(key, |entry| {
                    entry.pending.descriptors = descriptors;
                    entry.asks = Some(Event::SendDescriptors);
                });
            }
            Err(NotSent::Failed(error)) => {
                self.distrust(attached, slot, key, format!("that it takes no files ({error})"));
            }
        }
    }

    /// Answers a script that asks what its application does.
    fn send_status(&self, attached: &Attached, slot: u32, key: Key) {
        let Claim::Taken(ticket, owner) = attached.instance.region.claim_of(slot) else { return };
        let Some(name) = self.with_entry(key, |entry| Arc::clone(&entry.context.application))
        else {
            return;
        };
        let pool = Pool { name: name.to_string(), status: attached.queue.status(true) };
        let json = pool.to_value().to_string();
        let file = spool::sealed(json.as_bytes());
        let sent = file.map_err(|error| NotSent::Failed(error.to_string())).and_then(|file| {
            attached.instance.send(owner, &ToWorker::Status { ticket }, &[file.as_fd()])
        });
        self.answered(attached, slot, key, Event::SendStatus, sent);
    }

    /// A script is over: what it has left in the worker's output is its own.
    fn take_output(&self, attached: &Attached, slot: u32, key: Key) {
        let Claim::Taken(ticket, owner) = attached.instance.region.claim_of(slot) else { return };
        let Some(context) = self.with_entry(key, |entry| Arc::clone(&entry.context)) else {
            return;
        };
        let sent = attached.instance.output(owner).and_then(|output| {
            if let Some(output) = output {
                output.take(key, context);
            }
            attached.instance.send(owner, &ToWorker::OutputTaken { ticket }, &[])
        });
        self.answered(attached, slot, key, Event::TakeOutput, sent);
    }

    /// A worker that asks and does not get, or does not take, the answer waits for ever otherwise.
    fn answered(
        &self,
        attached: &Attached,
        slot: u32,
        key: Key,
        asked: Event,
        sent: Result<(), NotSent>,
    ) {
        match sent {
            Ok(()) => {}
            Err(NotSent::Unknown) => {
                self.with_entry(key, |entry| entry.asks = Some(asked));
            }
            Err(NotSent::Failed(error)) => {
                self.distrust(attached, slot, key, format!("that it takes no answer ({error})"));
            }
        }
    }

    /// A worker has written what no worker writes: its request fails and it is killed.
    pub(super) fn distrust(&self, attached: &Attached, slot: u32, key: Key, nonsense: String) {
        let context = self.with_entry(key, |entry| {
            entry.distrusted = true;
            entry.pending.fail(Failure::Broken(nonsense.clone()));
            entry.context.clone()
        });
        if let Some(context) = context {
            self.log.write(
                Level::Error,
                format_args!("{context}: the worker wrote {nonsense}; it is ended"),
            );
        }
        if let Claim::Taken(_, worker) = attached.instance.region.claim_of(slot) {
            self.ask(Ask::Kill { instance: attached.instance.number, worker });
        }
    }
}
