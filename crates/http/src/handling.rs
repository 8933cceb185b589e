//! Facts about how a request was handled, for variables: its application or servers, the times, and
//! the result of the cache.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_template::geo_database::GeoDatabase;

/// Facts that the handlers of a request record.
#[derive(Debug, Clone, Default)]
pub struct Handling {
    /// Number of the request on its connection, from 1.
    pub ordinal: u64,
    script: RefCell<Option<Arc<dyn Script>>>,
    attempts: RefCell<Vec<Rc<ServerAttempt>>>,
    cache_status: Cell<Option<&'static str>>,
    unread_database: RefCell<Option<Arc<GeoDatabase>>>,
    listener: RefCell<Option<Arc<str>>>,
    site: RefCell<Option<Arc<str>>>,
    is_client_unknown: Cell<bool>,
}

/// A request that an application runs.
pub trait Script: fmt::Debug {
    /// Returns the name of the application.
    fn application(&self) -> &str;

    /// Returns the time in the queue and the run time; `None` if they are not known, or not yet.
    fn times(&self) -> Option<(Duration, Duration)>;
}

/// A request that was passed to a server.
#[derive(Debug)]
pub struct ServerAttempt {
    /// Address of the server, as in the configuration.
    pub address: String,
    started_at: Instant,
    status: Cell<Option<u16>>,
    connected: Cell<Option<Duration>>,
    head: Cell<Option<Duration>>,
    ended: Cell<Option<Duration>>,
}

impl Handling {
    /// Creates the facts about a request of this number on its connection.
    pub fn new(ordinal: u64) -> Self {
        Handling { ordinal, ..Handling::default() }
    }

    /// Records the application that gets the request.
    pub fn set_script(&self, script: Arc<dyn Script>) {
        self.script.replace(Some(script));
    }

    /// Records a server that gets the request.
    pub fn add_attempt(&self, attempt: Rc<ServerAttempt>) {
        self.attempts.borrow_mut().push(attempt);
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

    /// Records the application, share or upstream that the routes have chosen.
    pub fn set_site(&self, site: Arc<str>) {
        self.site.replace(Some(site));
    }

    /// Returns the application, share or upstream that the routes have chosen, else the listener.
    pub fn site(&self) -> Option<Arc<str>> {
        self.site.borrow().clone().or_else(|| self.listener())
    }

    /// Records that a trusted proxy has not told the client.
    pub fn set_client_unknown(&self) {
        self.is_client_unknown.set(true);
    }

    /// Returns true if a trusted proxy has not told the client.
    pub fn is_client_unknown(&self) -> bool {
        self.is_client_unknown.get()
    }

    /// Calls `read` with the application that got the request, if any.
    pub fn script<T>(&self, read: impl FnOnce(&dyn Script) -> T) -> Option<T> {
        self.script.borrow().as_deref().map(read)
    }

    /// Calls `read` with each server that got the request, in order.
    pub fn for_each_attempt(&self, read: impl FnMut(&ServerAttempt)) {
        self.attempts.borrow().iter().map(|attempt| &**attempt).for_each(read);
    }
}

impl ServerAttempt {
    /// Starts an attempt.
    pub fn new(address: String) -> Self {
        ServerAttempt {
            address,
            started_at: Instant::now(),
            status: Cell::default(),
            connected: Cell::default(),
            head: Cell::default(),
            ended: Cell::default(),
        }
    }

    /// Notes that there is a connection, new or idle.
    pub fn set_connected(&self) {
        self.connected.set(Some(self.started_at.elapsed()));
    }

    /// Notes that the head of the response is complete.
    pub fn set_head(&self) {
        self.head.set(Some(self.started_at.elapsed()));
    }

    /// Sets the status of the response, or the one that stands for the failure.
    pub fn set_status(&self, status: u16) {
        self.status.set(Some(status));
    }

    /// Notes that the response is complete, or that the attempt has failed. The last call counts.
    pub fn set_ended(&self) {
        self.ended.set(Some(self.started_at.elapsed()));
    }

    /// Returns the status of the response, or the one that stands for the failure.
    pub fn status(&self) -> Option<u16> {
        self.status.get()
    }

    /// Returns the time until there was a connection.
    pub fn connect_time(&self) -> Option<Duration> {
        self.connected.get()
    }

    /// Returns the time until the head of the response was complete.
    pub fn head_time(&self) -> Option<Duration> {
        self.head.get()
    }

    /// Returns the time until the response was complete or the attempt failed.
    pub fn response_time(&self) -> Option<Duration> {
        self.ended.get()
    }
}
