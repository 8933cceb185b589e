//! The socket to the router: questions, any number at a time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use howdah_questions::Question;
use howdah_sys::packets::{Packets, from_memory};
use howdah_wire::messages::{FromRouter, MAX_MESSAGE, ToRouter};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::limits::{MAX_ANSWER, ROUTER_ENDED};

/// Time within which the router answers. Only a restart and a profile take longer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which a question is sent again to a router whose socket was full.
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// The text of an answer, if it has one. `Err` is the error of the router.
type RouterAnswer = Result<Option<OwnedFd>, String>;

/// The socket to the router.
#[derive(Debug)]
pub struct Router {
    packets: RefCell<Rc<Packets>>,
    /// Number of the last question.
    last: Cell<u32>,
    waiting: RefCell<Waiting>,
}

/// Where the answers to questions go, by their numbers.
type Waiting = HashMap<u32, oneshot::Sender<RouterAnswer>>;

/// A question. If this is dropped before the answer has come, the router is told to forget it.
struct Asked<'a> {
    waiting: &'a RefCell<Waiting>,
    packets: &'a Packets,
    number: u32,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.waiting.borrow_mut().remove(&self.number).is_some() {
            // A router that takes nothing has not begun with the question.
            let forget = ToRouter::Forget { number: self.number };
            let _ = self.packets.try_send(&forget.encode(), &[]);
        }
    }
}

impl Router {
    /// Takes over the socket.
    pub fn new(packets: Packets) -> Self {
        Router {
            packets: RefCell::new(Rc::new(packets)),
            last: Cell::default(),
            waiting: RefCell::default(),
        }
    }

    /// Takes the socket to another router. The former one still answers the questions that were
    /// sent to it.
    pub fn replace(&self, packets: Packets) {
        *self.packets.borrow_mut() = Rc::new(packets);
    }

    /// Receives answers until the router closes the socket. Returns false if another one has taken
    /// its place.
    pub async fn listen(self: Rc<Self>) -> bool {
        let packets = Rc::clone(&self.packets.borrow());
        while let Ok(Some((packet, descriptors))) = packets.receive().await {
            let Ok(FromRouter::Answer { number, error }) = FromRouter::decode(&packet) else {
                break;
            };
            if let Some(waiting) = self.waiting.borrow_mut().remove(&number) {
                let memory = descriptors.into_iter().next();
                let _ = waiting.send(if error.is_empty() { Ok(memory) } else { Err(error) });
            }
        }
        let is_current = Rc::ptr_eq(&packets, &self.packets.borrow());
        if is_current {
            self.waiting.borrow_mut().clear();
        }
        is_current
    }

    /// Waits until the router has answered a question without work. Error: it does not answer, so
    /// it hangs.
    pub async fn answers(&self) -> Result<(), String> {
        self.ask(&Question::Ping).await.map(drop)
    }

    /// Asks a question. Returns the text of the answer, which may be anything: the router may have
    /// been taken over. `None`: its subject does not exist. Error: the reason why there is no
    /// answer.
    pub async fn ask(&self, question: &Question) -> Result<Option<Vec<u8>>, String> {
        self.ask_within(question, ANSWER_TIMEOUT).await
    }

    /// As [`Router::ask`], for a question that the router answers within `limit`.
    pub async fn ask_within(
        &self,
        question: &Question,
        limit: Duration,
    ) -> Result<Option<Vec<u8>>, String> {
        let silent = |_| {
            format!(
                "the router has not answered for {} s; one that hangs is replaced, usually within \
                 20 s, and the log says so",
                limit.as_secs()
            )
        };
        timeout(limit, self.ask_without_limit(question)).await.map_err(silent)?
    }

    async fn ask_without_limit(&self, question: &Question) -> Result<Option<Vec<u8>>, String> {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let question = serde_json::to_string(question).map_err(|error| error.to_string())?;
        let packet = ToRouter::Ask { number, question }.encode();
        if packet.len() > MAX_MESSAGE {
            return Err("the question is too long; divide it into several".to_owned());
        }
        let (done, answer) = oneshot::channel();
        let packets = Rc::clone(&self.packets.borrow());
        self.waiting.borrow_mut().insert(number, done);
        let _asked = Asked { waiting: &self.waiting, packets: &packets, number };
        // A router that reads nothing, because it hangs or was taken over, must not stop this process.
        while let Err(error) = packets.try_send(&packet, &[]) {
            if error.kind() != ErrorKind::WouldBlock {
                return Err(error.to_string());
            }
            sleep(FULL_PAUSE).await;
        }
        let Some(memory) = answer.await.map_err(|_| ROUTER_ENDED.to_owned())?? else {
            return Ok(None);
        };
        let text = from_memory(Some(memory), MAX_ANSWER);
        text.map(Some).map_err(|error| format!("the router's answer cannot be read: {error}"))
    }

    /// Replaces all processes of an application. Error: the reason why the new processes do not
    /// start; the old processes then stay.
    pub async fn restart(&self, application: String) -> Result<(), String> {
        self.ask_without_limit(&Question::Restart { application }).await.map(drop)
    }
}
