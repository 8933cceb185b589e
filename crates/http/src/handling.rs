//! Facts about how a request was handled, for variables: who ran it, in which steps, and the result
//! of the cache.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_template::Variable;
use howdah_template::geo_database::GeoDatabase;

use crate::trace_context::Tracing;

/// Facts that the handlers of a request record.
#[derive(Debug, Clone, Default)]
pub struct Handling {
    /// Number of the request on its connection, from 1.
    pub ordinal: u64,
    runner: RefCell<Option<Runner>>,
    steps: RefCell<Vec<Rc<dyn Facts>>>,
    cache_status: Cell<Option<&'static str>>,
    unread_database: RefCell<Option<Arc<GeoDatabase>>>,
    listener: RefCell<Option<Arc<str>>>,
    site: RefCell<Option<Arc<str>>>,
    is_client_unknown: Cell<bool>,
    answered_after: Cell<Option<Duration>>,
    tracing: Cell<Option<Tracing>>,
    looked_up: Cell<Option<(Duration, Duration)>>,
    messages: Option<Arc<ScriptMessages>>,
}

/// Messages of a script, for the web server that has sent its request over FastCGI.
#[derive(Debug, Default)]
pub struct ScriptMessages(Mutex<Messages>);

#[derive(Debug, Default)]
struct Messages {
    /// Bytes that were not taken yet.
    waiting: Vec<u8>,
    /// There was a message before.
    has_any: bool,
}

/// Maximum number of bytes of messages that wait for their web server; further messages are only in
/// the log.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

impl ScriptMessages {
    /// Adds a message. As in PHP-FPM, a semicolon and a space separate messages.
    pub fn push(&self, message: &[u8]) {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.waiting.len() + message.len() > MAX_MESSAGE_BYTES {
            return;
        }
        if std::mem::replace(&mut messages.has_any, true) {
            messages.waiting.extend_from_slice(b"; ");
        }
        messages.waiting.extend_from_slice(message);
    }

    fn take(&self) -> Vec<u8> {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut messages.waiting)
    }
}

/// The party that runs a request.
#[derive(Debug, Clone)]
struct Runner {
    name: Arc<str>,
    facts: Option<Arc<dyn Facts>>,
}

/// Facts of a handler about a request, for variables.
pub trait Facts: fmt::Debug {
    /// Returns the value of a variable; `None` if these facts have none, or not yet.
    fn value(&self, variable: &Variable) -> Option<Fact<'_>>;

    /// Returns the facts about a script, once it has ended.
    fn script(&self) -> Option<ScriptFacts> {
        None
    }

    /// Returns the process id of the worker that has run the script, once it has ended.
    fn process(&self) -> Option<u32> {
        None
    }

    /// Returns the reason why the program that handled the request has died, in a line.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// Returns the time at which the step began.
    fn began(&self) -> Option<Instant> {
        None
    }
}

/// Facts about a PHP script that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptFacts {
    /// Time at which the request was queued, in microseconds of the monotonic clock.
    pub queued_at_us: u64,
    /// Time before a process took the request, in microseconds.
    pub waited_us: u64,
    /// The request has waited for the start of PHP, and not only for a free process.
    pub has_started_php: bool,
    /// Run time in microseconds.
    pub ran_us: u64,
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// Peak memory in bytes.
    pub peak_memory: u64,
}

/// The value of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Number(u64),
    /// A time, which is written in seconds.
    Time(Duration),
}

impl Handling {
    /// Creates the facts about a request of this number on its connection.
    pub fn new(ordinal: u64) -> Self {
        Handling { ordinal, ..Handling::default() }
    }

    /// Collects the messages of the script for the client.
    pub fn collect_messages(&mut self) {
        self.messages = Some(Arc::default());
    }

    /// Returns the place for messages of the script; `None` if the client gets none.
    pub fn messages(&self) -> Option<Arc<ScriptMessages>> {
        self.messages.clone()
    }

    /// Takes the messages that the script has written since the last call.
    pub fn take_messages(&self) -> Vec<u8> {
        self.messages.as_ref().map(|messages| messages.take()).unwrap_or_default()
    }

    /// Records the party that runs the request, with its facts. Memory for the request and its
    /// response counts for the name.
    pub fn set_runner(&self, name: Arc<str>, facts: Option<Arc<dyn Facts>>) {
        self.runner.replace(Some(Runner { name, facts }));
    }

    /// Returns the name of the party that runs the request, if any.
    pub fn runner(&self) -> Option<Arc<str>> {
        self.runner.borrow().as_ref().map(|runner| Arc::clone(&runner.name))
    }

    /// Calls `read` with the value that the facts of the runner have for a variable, if any.
    pub fn fact_of_runner<T>(
        &self,
        variable: &Variable,
        read: impl FnOnce(Fact<'_>) -> T,
    ) -> Option<T> {
        self.runner.borrow().as_ref()?.facts.as_ref()?.value(variable).map(read)
    }

    /// Returns the facts about the script of the request, once it has ended.
    pub fn script_facts(&self) -> Option<ScriptFacts> {
        self.runner.borrow().as_ref()?.facts.as_ref()?.script()
    }

    /// Returns the process id of the worker that has run the script, once it has ended.
    pub fn process(&self) -> Option<u32> {
        self.runner.borrow().as_ref()?.facts.as_ref()?.process()
    }

    /// Records the time from the first byte of the request to the head of the response, if a script
    /// or a server has made that: of other responses it is not worth a look at the clock.
    pub fn set_answered(&self, started_at: Instant) {
        if self.runner.borrow().is_some() || !self.steps.borrow().is_empty() {
            self.answered_after.set(Some(started_at.elapsed()));
        }
    }

    /// Returns the time that [`Handling::set_answered`] has recorded.
    pub fn answered_after(&self) -> Option<Duration> {
        self.answered_after.get()
    }

    /// Returns the reason why the program that handled the request has died, in a line.
    pub fn failure(&self) -> Option<Box<str>> {
        self.runner.borrow().as_ref()?.facts.as_ref()?.failure().map(Box::from)
    }

    /// Records facts about one of the steps of the handling.
    pub fn add_step(&self, facts: Rc<dyn Facts>) {
        self.steps.borrow_mut().push(facts);
    }

    /// Returns the number of steps.
    pub fn steps(&self) -> usize {
        self.steps.borrow().len()
    }

    /// Calls `read` with the facts about each step, in order.
    pub fn for_each_step(&self, read: impl FnMut(&dyn Facts)) {
        self.steps.borrow().iter().map(|facts| &**facts).for_each(read);
    }

    /// Records the result of the cache, in nginx's words; `None` if the request did not use the
    /// cache.
    pub fn set_cache_status(&self, status: Option<&'static str>) {
        self.cache_status.set(status);
    }

    /// Returns nginx's word for the result of the cache.
    pub fn cache_status(&self) -> Option<&'static str> {
        self.cache_status.get()
    }

    /// Records that a variable has its default because its database could not be read yet; `None`
    /// to forget it.
    pub fn set_unread_database(&self, database: Option<Arc<GeoDatabase>>) {
        self.unread_database.replace(database);
    }

    /// Returns the database that could not be read for a variable of the request.
    pub fn unread_database(&self) -> Option<Arc<GeoDatabase>> {
        self.unread_database.borrow().clone()
    }

    /// Records the listener.
    pub fn set_listener(&self, listener: Arc<str>) {
        self.listener.replace(Some(listener));
    }

    /// Returns the name of the listener, if it is recorded.
    pub fn listener(&self) -> Option<Arc<str>> {
        self.listener.borrow().clone()
    }

    /// Records the site, application, share or upstream that the routes have chosen.
    pub fn set_site(&self, site: Arc<str>) {
        self.site.replace(Some(site));
    }

    /// Returns the site, application, share or upstream that the routes have chosen, else the
    /// listener.
    pub fn site(&self) -> Option<Arc<str>> {
        self.site.borrow().clone().or_else(|| self.listener())
    }

    /// Calls `read` with the site, or with `listener` if none is recorded.
    pub fn with_site_or<T>(&self, listener: &Arc<str>, read: impl FnOnce(&Arc<str>) -> T) -> T {
        read(self.site.borrow().as_ref().unwrap_or(listener))
    }

    /// Makes the request a part of a trace by these rules; `None` for no trace.
    pub fn set_tracing(&self, tracing: Option<Tracing>) {
        self.tracing.set(tracing);
    }

    /// Returns the rules of the request's trace; `None` without one.
    pub fn tracing(&self) -> Option<Tracing> {
        self.tracing.get()
    }

    /// Makes the request a part of the one that it was copied from, with no spans of its own.
    pub fn set_part(&self) {
        self.tracing.set(self.tracing().map(Tracing::of_part));
    }

    /// Returns the facts for a copy of the request that is handled beside it.
    pub fn of_copy(&self) -> Handling {
        let copy = Handling::default();
        copy.set_tracing(self.tracing());
        copy.set_part();
        copy
    }

    /// Records when the cache began and ended to look for a stored response, counted from the first
    /// byte of the request.
    pub fn set_looked_up(&self, began: Duration, ended: Duration) {
        self.looked_up.set(Some((began, ended)));
    }

    /// Returns the times that [`Handling::set_looked_up`] has recorded.
    pub fn looked_up(&self) -> Option<(Duration, Duration)> {
        self.looked_up.get()
    }

    /// Records that a trusted proxy has not told the client.
    pub fn set_client_unknown(&self) {
        self.is_client_unknown.set(true);
    }

    /// Returns true if a trusted proxy has not told the client.
    pub fn is_client_unknown(&self) -> bool {
        self.is_client_unknown.get()
    }
}
