//! The socket for users of sites: they ask about their own sites, and change nothing.
//!
//! Every process of the machine can connect, scripts of the sites included. The kernel says which
//! user has connected (`SO_PEERCRED`); [`OwnSites`] says what that user may ask. So that nobody holds
//! up administrators, other users or visitors,
//!
//! 1. a user has few connections, each for a short time ([`Slots`]), and none without a site: who may
//!    map user ids into a namespace has thousands of users;
//! 2. a user's questions are answered one after the other, and those of all users in turn, with a
//!    pause between them ([`PAUSE`]);
//! 3. the status is asked for once for all who ask at the same time;
//! 4. few profiles are made, and none while an administrator makes one ([`UserProfiles`]).

mod profiles;
mod slots;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, Handler, RequestRecord};
use howdah_http::h1;
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, Response};
use howdah_questions::{Question, Status};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

pub use self::profiles::UserProfiles;
use self::slots::{Slot, Slots};
use super::super::router::ANSWER_TIMEOUT;
use super::question::{ordered, unreadable};
use super::{Api, accepted, read, response};
use crate::own_sites::OwnSites;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::store::Store;

/// Time between the beginnings of two questions to the router.
const PAUSE: Duration = Duration::from_millis(20);

/// Time for which an answer about the status is used for further users.
const STATUS_AGE: Duration = Duration::from_millis(250);

/// Time after which the users that applications name are looked up again.
const OWNERS_AGE: Duration = Duration::from_secs(30);

/// Time from a failure to look them up to the next attempt.
const OWNERS_PAUSE: Duration = Duration::from_secs(2);

/// Maximum time for a head or a body to arrive, between two requests, and between two writes.
const WAITING_TIME: Duration = Duration::from_secs(2);

/// Maximum time of a connection: that of a profile, and more for its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(90);

/// Maximum length of a body in bytes: that of an order for a profile.
const MAX_BODY: u64 = 4096;

/// Number of connections that are accepted before other work has a turn. Those beyond the limit of a
/// user must leave the queue of the kernel faster than they come, as all users share it.
const ACCEPTED_AT_ONCE: u32 = 64;

/// Serves the socket for users of sites.
pub struct SiteUsers {
    api: Rc<Api>,
    slots: Slots,
    owners: Mutex<Option<Owners>>,
    /// The status, and when it was asked for.
    status: Mutex<Option<(Instant, Rc<Status>)>>,
    /// Time from which on the next question may be asked.
    next_question: Mutex<Option<Instant>>,
    /// The task that accepts connections.
    accepting: RefCell<Option<JoinHandle<()>>>,
    /// The connections end.
    stopped: Notify,
}

/// The sites of each user, as of a document.
struct Owners {
    store: Arc<Store>,
    /// Time of the next look.
    due: Instant,
    /// Error: the reason why they are not known.
    sites: Result<BTreeMap<u32, Rc<OwnSites>>, String>,
}

impl Owners {
    fn of(&self, user: u32) -> Result<Option<Rc<OwnSites>>, String> {
        self.sites.as_ref().map(|sites| sites.get(&user).cloned()).map_err(String::clone)
    }
}

impl SiteUsers {
    /// Prepares to serve.
    pub fn new(api: &Rc<Api>) -> Rc<SiteUsers> {
        Rc::new(SiteUsers {
            api: Rc::clone(api),
            slots: Slots::default(),
            owners: Mutex::default(),
            status: Mutex::default(),
            next_question: Mutex::default(),
            accepting: RefCell::default(),
            stopped: Notify::new(),
        })
    }

    /// Accepts connections from this socket, and no others.
    pub fn listen(self: &Rc<Self>, listener: OwnedFd) {
        let users = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = users.accept(listener).await {
                eprintln!("howdah: the socket for users of sites: {error}");
            }
        });
        if let Some(former) = self.accepting.replace(Some(task)) {
            former.abort();
        }
    }

    /// Accepts no more connections, and closes those that there are: another server or router
    /// answers.
    pub fn stop(&self) {
        if let Some(task) = self.accepting.take() {
            task.abort();
        }
        self.stopped.notify_waiters();
    }

    async fn accept(self: &Rc<Self>, listener: OwnedFd) -> std::io::Result<()> {
        let listener = UnixListener::from_std(listener.into())?;
        let mut count = 0_u32;
        loop {
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            let Ok(user) = stream.peer_cred().map(|peer| peer.uid()) else { continue };
            match self.slots.enter(user) {
                Some(slot) => self.serve(stream, slot),
                None => refuse(
                    stream,
                    Refusal::TooMuchAtOnce {
                        detail: "this user, or all users together, have too many connections to \
                                 this socket"
                            .to_owned(),
                    },
                ),
            }
            count = count.wrapping_add(1);
            if count.is_multiple_of(ACCEPTED_AT_ONCE) {
                tokio::task::yield_now().await;
            }
        }
    }

    fn serve(self: &Rc<Self>, stream: UnixStream, slot: Slot) {
        let (users, busy) = (Rc::clone(self), self.api.activity.begin());
        tokio::task::spawn_local(async move {
            let info = Arc::new(ConnectionInfo::default());
            let client = Client { users: &users, slot: &slot };
            let work = async {
                match users.own_sites(slot.user()).await {
                    Ok(None) => refuse(stream, Refusal::NoOwnSite),
                    Ok(Some(_)) | Err(_) => {
                        h1::serve(stream, info, &client, Drain::new().register()).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = users.stopped.notified() => {}
                _ = timeout(CONNECTION_TIME, work) => {}
            }
            drop(busy);
        });
    }

    async fn answer(&self, exchange: &mut Exchange<'_>, slot: &Slot) -> Reply {
        let own = match self.own_sites(slot.user()).await {
            Ok(Some(own)) => own,
            Ok(None) => return Refusal::NoOwnSite.into(),
            Err(detail) => return Refusal::NoAnswer { detail }.into(),
        };
        let body = match timeout(WAITING_TIME, read(exchange)).await {
            Ok(Ok(body)) => body,
            Ok(Err(refusal)) => return refusal.into(),
            Err(_) => return Refusal::Unreadable { status: 408 }.into(),
        };
        let request = &exchange.request;
        let (question, part) = match own.question(&request.method, &request.target, &body) {
            Ok(question) => question,
            Err(refusal) => return refusal.into(),
        };
        let one_at_a_time = slot.turn().await;
        self.wait_for_turn().await;
        if let Question::Profile(order) = &question {
            drop(one_at_a_time); // other questions are answered during a profile
            let time = Duration::from_secs(order.seconds.into());
            return self.answer_profile(exchange, slot.user(), &question, time).await;
        }
        let answer = match question {
            Question::Status => self.status().await.and_then(|status| {
                let status = own.status(&status, self.api.log.name());
                serde_json::to_vec(&status).map(Some).map_err(unreadable)
            }),
            Question::OrderJob { .. } => match self.api.router.ask(&question).await {
                Ok(Some(answer)) => return ordered(&answer),
                answer => answer,
            },
            question => self.api.router.ask(&question).await,
        };
        reply(answer, &part)
    }

    /// Makes a profile. It ends if the client leaves, or an administrator makes one.
    async fn answer_profile(
        &self,
        exchange: &Exchange<'_>,
        user: u32,
        question: &Question,
        time: Duration,
    ) -> Reply {
        let made = match self.api.user_profiles.begin(user, time) {
            Ok(made) => made,
            Err(refusal) => return refusal.into(),
        };
        let work = self.api.router.ask_within(question, time + ANSWER_TIMEOUT);
        let ended = |by: &str| Refusal::TooMuchAtOnce { detail: format!("{by}, so this one ends") };
        match exchange.unless_gone(made.unless_ended(work)).await {
            Some(Some(answer)) => reply(answer, &Path::default()),
            Some(None) => ended("an administrator makes a profile").into(),
            None => ended("the client has left").into(), // nobody reads it
        }
    }

    /// Returns the status of the server, which is asked for at most every [`STATUS_AGE`].
    async fn status(&self) -> Result<Rc<Status>, String> {
        let mut known = self.status.lock().await;
        if let Some((at, status)) = &*known
            && at.elapsed() < STATUS_AGE
        {
            return Ok(Rc::clone(status));
        }
        let answer = self.api.router.ask(&Question::Status).await?.unwrap_or_default();
        let status: Rc<Status> = Rc::new(serde_json::from_slice(&answer).map_err(unreadable)?);
        *known = Some((Instant::now(), Rc::clone(&status)));
        Ok(status)
    }

    /// Waits until the router has had a pause since the last question of any user. Those that wait
    /// go in the order in which they came.
    async fn wait_for_turn(&self) {
        let mut next = self.next_question.lock().await;
        if let Some(at) = *next {
            sleep_until(at).await;
        }
        *next = Some(Instant::now() + PAUSE);
    }

    /// Returns the sites of a user; `None` if there are none. Error: they are not known.
    async fn own_sites(&self, user: u32) -> Result<Option<Rc<OwnSites>>, String> {
        let mut owners = self.owners.lock().await;
        let store = Arc::clone(&self.api.store.borrow());
        if let Some(known) = &*owners
            && Arc::ptr_eq(&known.store, &store)
            && Instant::now() < known.due
        {
            return known.of(user);
        }
        let (sites, age) = match self.api.supervisor.find_users().await {
            Ok(found) => {
                let sites = OwnSites::by_user(store.document(), &found).into_iter();
                (Ok(sites.map(|(user, own)| (user, Rc::new(own))).collect()), OWNERS_AGE)
            }
            Err(problem) => {
                // They are as they were for a while.
                let known = owners.take().filter(|known| Arc::ptr_eq(&known.store, &store));
                let known = known.and_then(|known| known.sites.ok());
                let unknown = || format!("the users of the sites are not known: {problem}");
                (known.ok_or_else(unknown), OWNERS_PAUSE)
            }
        };
        owners.insert(Owners { store, due: Instant::now() + age, sites }).of(user)
    }
}

/// Returns a part of an answer of the router.
fn reply(answer: Result<Option<Vec<u8>>, String>, part: &Path) -> Reply {
    let found = answer.and_then(|answer| match answer {
        Some(answer) => Reply::part(&answer, part).map_err(unreadable),
        None => Ok(None),
    });
    match found {
        Ok(Some(reply)) => reply,
        Ok(None) => absent(),
        Err(detail) => Refusal::NoAnswer { detail }.into(),
    }
}

fn absent() -> Reply {
    Refusal::NoSuchValue.into()
}

/// Refuses a connection, whose request is not read.
fn refuse(stream: UnixStream, refusal: Refusal) {
    let reply = Reply::from(refusal);
    let status = reply.status();
    let text = reply.into_text();
    let answer = format!(
        "HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    );
    // The client may have left.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(answer.as_bytes());
    }
}

/// The client of one connection.
struct Client<'a> {
    users: &'a SiteUsers,
    slot: &'a Slot,
}

impl Handler for Client<'_> {
    fn limits(&self) -> Rc<Limits> {
        Rc::new(Limits {
            header_timeout: WAITING_TIME,
            body_timeout: WAITING_TIME,
            send_timeout: WAITING_TIME,
            idle_timeout: WAITING_TIME,
            max_body: MAX_BODY,
            max_head: 4096,
            max_line: 2048,
            ..Limits::default()
        })
    }

    fn next_id(&self) -> u64 {
        0 // these requests appear in no log
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        response(self.users.answer(exchange, self.slot).await)
    }

    fn error(&self, error: RequestError) -> Response {
        response(Refusal::Unreadable { status: error.status() }.into())
    }

    fn log_request(&self, _record: &RequestRecord<'_>) {}
}
