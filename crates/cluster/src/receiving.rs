//! The connection for purges of other servers.
//!
//! Purges are entries of a stream, of which Valkey keeps the last ones. A server reads them from the
//! last that it knows, so it misses none while it has no connection. If that one is gone, purges may
//! have been missed, and everything is purged.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use howdah_cache::freshness::seconds_since_1970;
use howdah_cache::purge::Purge;
use howdah_cache::store::Store;
use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use crate::connect::{Connection, Connector, describe};
use crate::counting::{KEPT_PURGES, RETRY_DELAYS, purges_key};
use crate::message::{MAX_BYTES, Message, Sender};
use crate::state::State;

/// Time for which the server waits for the next purge.
const BLOCK_MS: u64 = 2000;

/// Maximum time for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of purges of an answer.
const MAX_PURGES: usize = 16;

/// Maximum length of an answer: purges, and what is around them.
const MAX_ANSWER_BYTES: u64 = (MAX_PURGES * (MAX_BYTES + 1024)) as u64;

/// Position before the first entry.
const BEGINNING: &str = "0-0";

/// Maximum length of a position: two numbers of 64 bits.
const MAX_POSITION_BYTES: usize = 41;

/// Stores by their names. The configuration owns them.
pub type Stores = HashMap<String, Weak<Store>>;

/// Receives purges.
#[derive(Debug)]
pub struct Receiving {
    connector: Arc<Connector>,
    state: Arc<State>,
    own: Sender,
    /// Stores of the current configuration.
    pub stores: ArcSwap<Stores>,
}

/// An entry of the stream: its position, and its message if it has one.
type Entry = (String, Option<Vec<u8>>);

impl Receiving {
    /// Creates the receiver of a server with this random number.
    pub fn new(connector: Arc<Connector>, state: Arc<State>, own: Sender) -> Receiving {
        Receiving { connector, state, own, stores: ArcSwap::default() }
    }

    /// Connects again and again.
    pub async fn run(&self) {
        let (mut delay, mut position) = (RETRY_DELAYS.0, None);
        loop {
            let started_at = Instant::now();
            let Err(problem) = self.session(&mut position).await;
            self.state.fails(&problem);
            if started_at.elapsed() > RETRY_DELAYS.1 {
                delay = RETRY_DELAYS.0;
            }
            sleep(delay).await;
            delay = (2 * delay).min(RETRY_DELAYS.1);
        }
    }

    async fn session(&self, position: &mut Option<String>) -> Result<Infallible, String> {
        let connection = self.connector.connect().await?;
        let key = purges_key(&self.connector.settings().prefix);
        if self.has_missed(&connection, &key, position.as_deref()).await? {
            // Purges that come from now on are read again.
            *position = Some(newest(&connection, &key).await?);
            self.state.misses();
            self.apply(&[], &Purge::All, false);
        }
        let mut last = position.take().unwrap_or_else(|| BEGINNING.to_owned());
        loop {
            *position = Some(last.clone());
            let mut command = redis::cmd("XREAD");
            command.arg("COUNT").arg(MAX_PURGES).arg("BLOCK").arg(BLOCK_MS);
            command.arg("STREAMS").arg(&key).arg(&last);
            let answer = ask(&connection, &command).await?;
            let Some(entries) = read_streams(answer) else {
                self.state.invalid.fetch_add(1, Relaxed);
                return Err("it sends what is no answer".to_owned());
            };
            for (position, message) in entries {
                last = position;
                self.take(message.as_deref());
            }
        }
    }

    /// Returns true if the stream does no longer have all purges since the last one that was
    /// received.
    async fn has_missed(
        &self,
        connection: &Connection,
        key: &str,
        position: Option<&str>,
    ) -> Result<bool, String> {
        if let Some(position) = position.filter(|position| *position != BEGINNING) {
            let mut command = redis::cmd("XRANGE");
            command.arg(key).arg(position).arg(position).arg("COUNT").arg(1);
            return Ok(ask(connection, &command).await? == Value::Array(Vec::new()));
        }
        // Nothing was received yet. The cache of an earlier run may be older than what is kept.
        let mut command = redis::cmd("XLEN");
        command.arg(key);
        Ok(
            matches!(ask(connection, &command).await?, Value::Int(count) if count >= KEPT_PURGES as i64),
        )
    }

    /// Carries out a message, which anybody may have written.
    fn take(&self, message: Option<&[u8]>) {
        match message.and_then(Message::decode) {
            None => drop(self.state.invalid.fetch_add(1, Relaxed)),
            Some(message) if message.sender == self.own => {}
            Some(message) => {
                self.state.received.fetch_add(1, Relaxed);
                self.apply(&message.store, &message.what, message.is_soft);
            }
        }
    }

    /// Purges a store, or all if the name is empty; after a NUL in the name, the entries of an
    /// application only.
    fn apply(&self, name: &[u8], what: &Purge, is_soft: bool) {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let (name, owner) = name.split_at_checked(end).unwrap_or((name, &[]));
        let owner = owner.strip_prefix(b"\0");
        let now = seconds_since_1970(SystemTime::now());
        let stores = self.stores.load();
        let named = stores.iter().filter(|(known, _)| name.is_empty() || known.as_bytes() == name);
        let named = named.filter_map(|(_, store)| store.upgrade());
        named.for_each(|store| match owner {
            Some(owner) => store.apply_purge_of(owner, what, is_soft, now),
            None => store.apply_purge(what, is_soft, now),
        });
    }
}

async fn ask(connection: &Connection, command: &Cmd) -> Result<Value, String> {
    connection.allowance.set(MAX_ANSWER_BYTES);
    let mut commands = connection.commands.clone();
    match timeout(ANSWER_TIMEOUT, command.query_async::<Value>(&mut commands)).await {
        Ok(answered) => answered.map_err(|error| describe(&error)),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Returns the position of the newest entry.
async fn newest(connection: &Connection, key: &str) -> Result<String, String> {
    let mut command = redis::cmd("XREVRANGE");
    command.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let entries = read_entries(ask(connection, &command).await?);
    let entries = entries.ok_or_else(|| "it sends what is no answer".to_owned())?;
    Ok(entries.into_iter().next().map_or_else(|| BEGINNING.to_owned(), |(position, _)| position))
}

/// Reads the answer of `XREAD` for one stream; nothing if there is no entry.
fn read_streams(answer: Value) -> Option<Vec<Entry>> {
    let streams = match answer {
        Value::Nil => return Some(Vec::new()),
        Value::Array(streams) => streams,
        _ => return None,
    };
    let [stream] = <[Value; 1]>::try_from(streams).ok()?;
    let Value::Array(stream) = stream else { return None };
    let [_, entries] = <[Value; 2]>::try_from(stream).ok()?;
    read_entries(entries)
}

fn read_entries(entries: Value) -> Option<Vec<Entry>> {
    let Value::Array(entries) = entries else { return None };
    entries.into_iter().map(read_entry).collect()
}

fn read_entry(entry: Value) -> Option<Entry> {
    let Value::Array(entry) = entry else { return None };
    let [position, fields] = <[Value; 2]>::try_from(entry).ok()?;
    let Value::BulkString(position) = position else { return None };
    let position = String::from_utf8(position).ok().filter(|position| is_position(position))?;
    // An entry of somebody else may have other fields, and a deleted one has none.
    let message = match fields {
        Value::Array(fields) => match <[Value; 2]>::try_from(fields) {
            Ok([Value::BulkString(name), Value::BulkString(message)]) if name == b"purge" => {
                Some(message)
            }
            _ => None,
        },
        _ => None,
    };
    Some((position, message))
}

fn is_position(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= MAX_POSITION_BYTES
        && text.split_once('-').is_some_and(|(time, number)| is_number(time) && is_number(number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn entry(position: &str, fields: &[&str]) -> Value {
        Value::Array(vec![text(position), Value::Array(fields.iter().map(|f| text(f)).collect())])
    }

    fn stream(entries: Vec<Value>) -> Value {
        Value::Array(vec![Value::Array(vec![text("howdah:purges"), Value::Array(entries)])])
    }

    #[test]
    fn entries_are_read_and_those_of_others_have_no_message() {
        let answer = stream(vec![
            entry("5-0", &["purge", "a"]),
            entry("5-1", &["purge", "a", "b", "c"]),
            entry("6-0", &["x", "y"]),
            Value::Array(vec![text("7-0"), Value::Nil]),
        ]);
        let expected: Vec<Entry> = vec![
            ("5-0".into(), Some(b"a".to_vec())),
            ("5-1".into(), None),
            ("6-0".into(), None),
            ("7-0".into(), None),
        ];
        assert_eq!(read_streams(answer), Some(expected));
        assert_eq!(read_streams(Value::Nil), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for answer in [
            Value::Okay,
            Value::Int(5),
            Value::Array(vec![]),
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![Value::Nil, Value::Nil]),
            stream(vec![Value::Nil]),
            stream(vec![entry("", &[])]),
            stream(vec![entry("+", &[])]),
            stream(vec![entry("5", &[])]),
            stream(vec![entry("5-0 x", &[])]),
            stream(vec![entry(&"5".repeat(50), &[])]),
        ] {
            assert_eq!(read_streams(answer.clone()), None, "{answer:?}");
        }
    }

    proptest! {
        #[test]
        fn a_position_is_two_numbers(text in "[0-9-]{0,45}") {
            let expected = text.len() <= 41
                && text.split('-').count() == 2
                && text.split('-').all(|part| !part.is_empty());
            prop_assert_eq!(is_position(&text), expected);
        }
    }
}
