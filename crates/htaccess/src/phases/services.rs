//! The services of the server for modules and expressions.

use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};

use super::server::Server;
use crate::expr::{Context, Scope, merge_vary};
use crate::modules::pattern::{Condition, Text};
use crate::modules::services::Services;
use crate::record::Record;
use crate::regex::CAPTURES;
use crate::work;
use crate::world::{Later, Level, World};

impl Server<'_> {
    /// Evaluates a condition of a section; one that cannot be evaluated is false.
    pub(super) fn is_true(&self, record: &mut Record, condition: &Condition) -> bool {
        condition.expr().holds(record, self).unwrap_or_else(|error| {
            let text = format!("Failed to evaluate <If > condition: {error}");
            self.world.log(Level::Error, &text);
            false
        })
    }
}

impl Services for Server<'_> {
    fn addresses<'a>(&'a self, name: &'a [u8]) -> Later<'a, Vec<IpAddr>> {
        self.world.addresses(name)
    }

    fn holds(&self, record: &Record, condition: &Condition) -> Result<bool, String> {
        let mut context = Context::default();
        let result = condition.expr().evaluate(record, self, &mut context);
        remember_vary(record, &context);
        result.map_err(|error| error.to_string())
    }

    fn groups(
        &self,
        record: &Record,
        condition: &Condition,
    ) -> Result<Option<Vec<Vec<u8>>>, String> {
        let mut context = Context::default();
        let result = condition.expr().evaluate(record, self, &mut context);
        remember_vary(record, &context);
        if !result.map_err(|error| error.to_string())? {
            return Ok(None);
        }
        let groups = &context.groups;
        if groups.captures.get(0).is_none() {
            return Ok(Some(Vec::new()));
        }
        let text = |group| groups.captures.text(group, &groups.subject).to_vec();
        Ok(Some((0..CAPTURES).map(text).collect()))
    }

    fn text(&self, record: &Record, text: &Text) -> Result<Vec<u8>, String> {
        if let Some(constant) = text.expr().constant() {
            return Ok(constant.to_vec());
        }
        let mut context = Context::default();
        // As in Apache, texts do not add to `Vary`; conditions do.
        let result = text.expr().evaluate(record, self, &mut context);
        result.map(|text| text.into_owned()).map_err(|error| error.to_string())
    }
}

impl Scope for Server<'_> {
    fn world(&self) -> &dyn World {
        self.world
    }

    fn look_up_uri(&self, record: &Record, uri: &[u8]) -> Record {
        at_once(self.world, self.lookup_path(record, uri), record)
    }

    fn look_up_file(&self, record: &Record, path: &[u8]) -> Record {
        at_once(self.world, self.lookup_any_file(record, path), record)
    }

    fn main_uri<'r>(&'r self, record: &'r Record) -> Option<&'r [u8]> {
        record.main.as_ref().map(|main| main.uri.as_slice())
    }

    fn map(&self, name: &[u8], key: &[u8]) -> Option<Vec<u8>> {
        self.site.base.maps.get(std::str::from_utf8(name).ok()?)?.value(key)
    }
}

/// Keeps the header fields that an expression has looked at; see [`add_vary`].
fn remember_vary(record: &Record, context: &Context) {
    if !context.vary.is_empty() {
        let mut vary = record.vary.borrow_mut();
        if !vary.is_empty() {
            vary.extend_from_slice(b", ");
        }
        vary.extend_from_slice(&context.vary);
    }
}

/// Adds the header fields that expressions have looked at to the response's `Vary`.
pub(super) fn add_vary(record: &mut Record) {
    let names = std::mem::take(record.vary.get_mut());
    if !names.is_empty() {
        merge_vary(&mut record.headers_out, &names);
    }
}

/// Runs a sub-request that has to be ready at once. One that waits for a result counts as one
/// without a password; the world may have the request run again, once it has the result. One for
/// which there is no time left fails.
fn at_once(world: &dyn World, lookup: impl Future<Output = Record>, record: &Record) -> Record {
    let failed = |status| Record {
        connection: record.connection.clone(),
        status,
        is_sub_request: true,
        ..Record::default()
    };
    let mut task = TaskContext::from_waker(Waker::noop());
    let before = world.set_immediate(true);
    let polled = work::look_up(|| pin!(lookup).poll(&mut task));
    world.set_immediate(before);
    match polled {
        Some(Poll::Ready(sub)) => sub,
        Some(Poll::Pending) => failed(401),
        None => failed(500),
    }
}
