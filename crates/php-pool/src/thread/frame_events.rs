//! Handles frames that are not part of the response: log records, descriptors, status, the end.

use std::borrow::Cow;
use std::os::fd::AsFd;
use std::sync::Arc;

use howdah_http::spool;
use howdah_sys::log::Level;
use howdah_wire::frame::Retirement;
use howdah_wire::messages::ToWorker;
use howdah_wire::queue::Claim;

use super::attached::AttachedInstance;
use super::control::ControlRequest;
use super::php_thread::PhpThread;
use crate::instance::NotSent;
use crate::pending::{Event, Failure};
use crate::request::RequestKey;
use crate::status_page::Pool;

/// Messages of the worker itself, which PHP-FPM sends to web servers without more.
const OWN_MESSAGES: [&[u8]; 4] = [
    b"Access to the script",
    b"Passing INI directive through FastCGI",
    b"Primary script unknown",
    b"Unable to open primary script",
];

/// Returns a message as PHP-FPM sends it to web servers.
fn for_server(message: &[u8]) -> Cow<'_, [u8]> {
    if OWN_MESSAGES.iter().any(|own| message.starts_with(own)) {
        return message.into();
    }
    [b"PHP message: ", message].concat().into()
}

impl PhpThread {
    /// Handles an event. Returns true if the slot has been taken from the request.
    pub(super) fn on_event(
        &self,
        attached: &AttachedInstance,
        slot: u32,
        key: RequestKey,
        event: Event,
    ) -> bool {
        match event {
            Event::None => {}
            Event::Log(severity, message) => {
                if let Some(context) = self.with_entry(key, |entry| entry.context.clone()) {
                    if let Some(messages) = &context.messages
                        && attached.queue.sends_messages()
                    {
                        messages.push(&for_server(&message));
                    }
                    let text = String::from_utf8_lossy(&message);
                    let level = Level::from_syslog(severity);
                    // As if the worker had written to the log itself.
                    let pid = match attached.instance.region.claim_of(slot) {
                        Claim::Taken(_, owner) => {
                            attached.instance.note_message(owner, key, &text);
                            attached.instance.pid(owner)
                        }
                        _ => None,
                    };
                    let pid = pid.unwrap_or(std::process::id());
                    let message = format_args!("{context}: {text}");
                    let source = format_args!("application \"{}\"", context.application);
                    let rate = &attached.queue.log_rate;
                    let about = self.log.about(&*context);
                    about.write_limited(rate, &source, pid, level, message);
                }
            }
            Event::Purge { is_all, is_soft, tags } => {
                let purger = self.with_entry(key, |entry| entry.context.purger.clone()).flatten();
                if let Some(purger) = purger {
                    purger.purge(is_all, is_soft, tags);
                }
            }
            Event::Samples(samples) => {
                // A worker that sends them without an order has no profile that could grow.
                let profile = self.with_entry(key, |entry| entry.context.profile.clone()).flatten();
                if let Some(profile) = profile {
                    profile.add(&samples);
                }
            }
            Event::SendDescriptors => self.send_descriptors(attached, slot, key),
            Event::SendStatus => self.send_status(attached, slot, key),
            Event::TakeOutput => self.take_output(attached, slot, key),
            Event::SpoolFailed(problem) => {
                if let Some(context) = self.with_entry(key, |entry| entry.context.clone()) {
                    let problem = format_args!("the response cannot be stored: {problem}");
                    context.log_error(&self.log, &attached.queue.request_lines, problem);
                }
            }
            Event::Done(done) => {
                self.tick.count_response();
                if let Some(reason) = done.retirement {
                    self.on_retirement(attached, slot, key, reason);
                }
                let context = self.with_entry(key, |entry| {
                    entry.is_settled = true;
                    entry.pending.wake();
                    Arc::clone(&entry.context)
                });
                if let Some(output) = attached.queue.finish(&attached.instance, slot, done) {
                    output.finish(key);
                }
                if let Some(context) = context
                    && let Some(times) = context.times.get()
                {
                    self.count_run_time(&context.site, *times);
                }
                return true;
            }
        }
        false
    }

    /// Logs why a worker ends after a request; that it has served its number of requests is no
    /// news.
    fn on_retirement(
        &self,
        attached: &AttachedInstance,
        slot: u32,
        key: RequestKey,
        reason: Retirement,
    ) {
        let instance = attached.instance.number;
        if reason == Retirement::Restart {
            self.send_to_control(ControlRequest::Restart { instance });
        }
        if reason == Retirement::Requests {
            return;
        }
        let Some(context) = self.with_entry(key, |entry| Arc::clone(&entry.context)) else {
            return;
        };
        let pid = match attached.instance.region.claim_of(slot) {
            Claim::Taken(_, owner) => attached.instance.pid(owner),
            _ => None,
        };
        let message = format_args!("{context}: its worker is replaced: {}", reason.name());
        let pid = pid.unwrap_or(std::process::id());
        let source = format_args!("application \"{}\"", context.application);
        let (rate, about) = (&attached.queue.log_rate, self.log.about(&*context));
        about.write_limited(rate, &source, pid, Level::Info, message);
    }

    fn send_descriptors(&self, attached: &AttachedInstance, slot: u32, key: RequestKey) {
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
                    entry.deferred = Some(Event::SendDescriptors);
                });
            }
            Err(NotSent::Failed(error)) => {
                self.reject_worker(
                    attached,
                    slot,
                    key,
                    format!("it does not read the descriptors that it asked for ({error})"),
                );
            }
        }
    }

    /// Sends a script the status of its application (`fpm_get_status`).
    fn send_status(&self, attached: &AttachedInstance, slot: u32, key: RequestKey) {
        let Claim::Taken(ticket, owner) = attached.instance.region.claim_of(slot) else { return };
        let Some(context) = self.with_entry(key, |entry| Arc::clone(&entry.context)) else {
            return;
        };
        let name = context.application.to_string();
        let pool = Pool { name, status: attached.queue.status(true) };
        // Scripts behind a web server expect PHP-FPM's array.
        let has_additions = context.messages.is_none();
        let json = pool.to_value(has_additions).to_string();
        let file = spool::sealed_memfd(json.as_bytes());
        let sent = file.map_err(|error| NotSent::Failed(error.to_string())).and_then(|file| {
            attached.instance.send(owner, &ToWorker::Status { ticket }, &[file.as_fd()])
        });
        self.note_sent(attached, slot, key, Event::SendStatus, sent);
    }

    /// Reads the rest of the output of an ended script; it belongs to that request.
    fn take_output(&self, attached: &AttachedInstance, slot: u32, key: RequestKey) {
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
        self.note_sent(attached, slot, key, Event::TakeOutput, sent);
    }

    /// Handles the result of sending to a worker: the worker would wait forever for a lost message.
    fn note_sent(
        &self,
        attached: &AttachedInstance,
        slot: u32,
        key: RequestKey,
        event: Event,
        sent: Result<(), NotSent>,
    ) {
        match sent {
            Ok(()) => {}
            Err(NotSent::Unknown) => {
                self.with_entry(key, |entry| entry.deferred = Some(event));
            }
            Err(NotSent::Failed(error)) => {
                self.reject_worker(
                    attached,
                    slot,
                    key,
                    format!("it does not read the router's messages ({error})"),
                );
            }
        }
    }

    /// Fails the request of a worker that wrote an invalid frame, and has the worker killed.
    pub(super) fn reject_worker(
        &self,
        attached: &AttachedInstance,
        slot: u32,
        key: RequestKey,
        problem: String,
    ) {
        let context = self.with_entry(key, |entry| {
            entry.is_rejected = true;
            entry.pending.fail(Failure::Broken(problem.clone()));
            entry.context.clone()
        });
        if let Some(context) = context {
            let problem =
                format_args!("protocol error of the worker: {problem}; the worker is killed");
            context.log_error(&self.log, &attached.queue.request_lines, problem);
        }
        if let Claim::Taken(_, worker) = attached.instance.region.claim_of(slot) {
            self.send_to_control(ControlRequest::Kill {
                instance: attached.instance.number,
                worker,
            });
        }
    }
}
