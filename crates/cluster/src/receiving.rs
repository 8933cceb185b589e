//! The connection for purges of other servers.
//!
//! Purges are entries of a stream, of which Valkey keeps the last ones. A server reads them from
//! the last that it knows, so it misses none while it has no connection. If entries after that one
//! are gone, everything is purged of the applications that they were about.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use howdah_cache::purge::Purge;
use howdah_cache::store::Store;
use howdah_sys::clock::wall_seconds;
use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use crate::connect::{Connection, Connector, describe};
use crate::counting::{RETRY_DELAYS, last_purges_key, purges_key};
use crate::message::{MAX_BYTES, Message, Sender};
use crate::missed::{BEGINNING, LastEntries, Missed, Position, Received};
use crate::state::State;

/// Time for which the server waits for the next purge.
const BLOCK_MS: u64 = 2000;

/// Maximum time for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of purges of an answer.
const MAX_PURGES: usize = 16;

/// Maximum length of an answer: purges, and the protocol's bytes around them.
const MAX_ANSWER_BYTES: u64 = (MAX_PURGES * (MAX_BYTES + 1024)) as u64;

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

/// An entry of the stream.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    position: Position,
    /// Bytes of a purge; `None` if the entry is no purge.
    message: Option<Vec<u8>>,
    /// Position of the purge before it, if it names one.
    after: Option<Position>,
}

/// Position in the stream up to which messages were read.
#[derive(Debug)]
struct Reading {
    /// Position of the last entry that was read.
    at: Position,
    received: Received,
}

impl Receiving {
    /// Creates the receiver of a server with this random number.
    pub fn new(connector: Arc<Connector>, state: Arc<State>, own: Sender) -> Receiving {
        Receiving { connector, state, own, stores: ArcSwap::default() }
    }

    /// Connects again and again.
    pub async fn run(&self) {
        let mut delay = RETRY_DELAYS.0;
        let mut reading = Reading { at: BEGINNING, received: Received::default() };
        loop {
            let started_at = Instant::now();
            let Err(problem) = self.session(&mut reading).await;
            self.state.fails(&problem);
            if started_at.elapsed() > RETRY_DELAYS.1 {
                delay = RETRY_DELAYS.0;
            }
            sleep(delay).await;
            delay = (2 * delay).min(RETRY_DELAYS.1);
        }
    }

    async fn session(&self, reading: &mut Reading) -> Result<Infallible, String> {
        let connection = self.connector.connect().await?;
        let key = purges_key(&self.connector.settings().prefix);
        if self.newest(&connection).await? < reading.received.last() {
            self.catch_up(&connection, reading).await?;
        }
        // The stream had no entry after the last one, although there is a newer one.
        let mut is_suspicious = false;
        loop {
            let mut command = redis::cmd("XREAD");
            command.arg("COUNT").arg(MAX_PURGES).arg("BLOCK").arg(BLOCK_MS);
            command.arg("STREAMS").arg(&key).arg(reading.at.to_string());
            let answer = ask(&connection, &command).await?;
            let Some(entries) = read_streams(answer) else {
                self.state.invalid.fetch_add(1, Relaxed);
                return Err("it sends bytes that are no answer".to_owned());
            };
            // Between two questions an entry may have been added.
            let has_newer =
                entries.is_empty() && self.newest(&connection).await? != reading.received.last();
            if has_newer && is_suspicious {
                self.catch_up(&connection, reading).await?;
            }
            is_suspicious = has_newer && !is_suspicious;
            for entry in entries {
                if entry.after.is_some_and(|after| reading.received.is_gap(after)) {
                    self.catch_up(&connection, reading).await?;
                    reading.at = reading.at.max(entry.position);
                    // The entries that have come meanwhile were part of that comparison.
                    break;
                }
                reading.at = entry.position;
                self.take(&entry, &mut reading.received);
            }
        }
    }

    /// Returns the position of the newest purge.
    async fn newest(&self, connection: &Connection) -> Result<Position, String> {
        let mut command = redis::cmd("HGET");
        command.arg(last_purges_key(&self.connector.settings().prefix)).arg("last");
        match ask(connection, &command).await? {
            Value::BulkString(position) => Ok(Position::read(&position).unwrap_or(BEGINNING)),
            _ => Ok(BEGINNING),
        }
    }

    /// Purges everything of the applications whose purges were missed.
    async fn catch_up(&self, connection: &Connection, reading: &mut Reading) -> Result<(), String> {
        let mut command = redis::cmd("HGETALL");
        command.arg(last_purges_key(&self.connector.settings().prefix));
        let last = read_last(ask(connection, &command).await?);
        match reading.received.compare(last) {
            Missed::Of(subjects) => {
                self.state.misses(Some(subjects.len()));
                subjects.iter().for_each(|subject| self.apply(subject, &Purge::All, false));
            }
            Missed::Unknown => {
                self.state.misses(None);
                self.apply(&[], &Purge::All, false);
            }
        }
        reading.at = reading.received.last();
        Ok(())
    }

    /// Carries out a message, which any client of Valkey may have written.
    fn take(&self, entry: &Entry, received: &mut Received) {
        let Some(message) = entry.message.as_deref().and_then(Message::decode) else {
            self.state.invalid.fetch_add(1, Relaxed);
            return;
        };
        if entry.after.is_some() {
            received.receive(entry.position, &message.store);
        }
        if message.sender != self.own {
            self.state.received.fetch_add(1, Relaxed);
            self.apply(&message.store, &message.what, message.is_soft);
        }
    }

    /// Purges a store, or all if the name is empty; after a NUL in the name, the entries of an
    /// application only.
    fn apply(&self, name: &[u8], what: &Purge, is_soft: bool) {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let (name, owner) = name.split_at_checked(end).unwrap_or((name, &[]));
        let owner = owner.strip_prefix(b"\0");
        let now = wall_seconds();
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

/// Reads the hash with the last purges. An invalid field is left out.
fn read_last(answer: Value) -> LastEntries {
    let mut last = LastEntries::default();
    let mut add = |field: Value, value: Value| {
        let (Value::BulkString(field), Value::BulkString(value)) = (field, value) else { return };
        let Some(position) = Position::read(&value) else { return };
        match field.strip_prefix(b":") {
            Some(subject) => drop(last.of.insert(subject.to_vec(), position)),
            None if field == b"last" => last.last = Some(position),
            None => {}
        }
    };
    match answer {
        Value::Map(pairs) => pairs.into_iter().for_each(|(field, value)| add(field, value)),
        Value::Array(values) => {
            let mut values = values.into_iter();
            while let (Some(field), Some(value)) = (values.next(), values.next()) {
                add(field, value);
            }
        }
        _ => {}
    }
    last
}

/// Reads the answer of `XREAD` for one stream; empty if there is no entry.
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
    let position = Position::read(&position)?;
    // An entry of another program may have other fields, and a deleted one has none.
    let fields = match fields {
        Value::Array(fields) => fields.into_iter().map(|field| match field {
            Value::BulkString(text) => text,
            _ => Vec::new(),
        }),
        _ => return Some(Entry { position, message: None, after: None }),
    };
    let mut fields = fields.collect::<Vec<_>>().into_iter();
    let message = match (fields.next(), fields.next()) {
        (Some(name), Some(message)) if name == b"purge" => Some(message),
        _ => None,
    };
    let after = match (fields.next(), fields.next()) {
        (Some(name), Some(after)) if name == b"after" => Position::read(&after),
        _ => None,
    };
    let is_whole = fields.next().is_none();
    Some(Entry { position, message: message.filter(|_| is_whole), after })
}

#[cfg(test)]
mod tests {
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
            entry("5-1", &["purge", "a", "b", "c", "d", "e"]),
            entry("5-2", &["purge", "a", "after", "5-1"]),
            entry("6-0", &["x", "y"]),
            Value::Array(vec![text("7-0"), Value::Nil]),
        ]);
        let entry = |position: &str, message: Option<&str>, after: Option<&str>| Entry {
            position: Position::read(position.as_bytes()).unwrap(),
            message: message.map(|message| message.as_bytes().to_vec()),
            after: after.and_then(|after| Position::read(after.as_bytes())),
        };
        let expected = vec![
            entry("5-0", Some("a"), None),
            entry("5-1", None, None),
            entry("5-2", Some("a"), Some("5-1")),
            entry("6-0", None, None),
            entry("7-0", None, None),
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

    #[test]
    fn last_purges_are_read_and_other_fields_are_left_out() {
        let fields = ["last", "7-1", ":a", "7-1", ":b", "5-0", ":c", "x", "d", "5-0"];
        let last = read_last(Value::Array(fields.iter().map(|field| text(field)).collect()));
        let at = |position: &str| Position::read(position.as_bytes()).unwrap();
        assert_eq!(last.last, Some(at("7-1")));
        let expected = [(b"a".to_vec(), at("7-1")), (b"b".to_vec(), at("5-0"))];
        assert_eq!(last.of, expected.into());
        assert_eq!(read_last(Value::Nil), LastEntries::default());
    }
}
