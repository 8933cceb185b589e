//! Questions of pages to the control API. Several pages that ask the same at about the same time
//! cost one question.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{Control, Problem};

/// Time for which an answer counts as new.
const FRESH: Duration = Duration::from_millis(800);

/// Maximum number of answers that are kept.
const MAX_KEPT: usize = 64;

/// Maximum time for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer, which may still be awaited.
type Answer = OnceCell<Result<Arc<Value>, Problem>>;

/// Asks the control API.
pub(crate) struct Answers {
    control: Arc<dyn Control>,
    kept: RefCell<HashMap<String, (Instant, Rc<Answer>)>>,
}

impl Answers {
    /// Starts without answers.
    pub(crate) fn new(control: Arc<dyn Control>) -> Answers {
        Answers { control, kept: RefCell::default() }
    }

    /// Returns the answer to a GET request.
    pub(crate) async fn get(&self, target: String) -> Result<Arc<Value>, Problem> {
        let answer = {
            let mut kept = self.kept.borrow_mut();
            let now = Instant::now();
            if kept.len() >= MAX_KEPT {
                kept.retain(|_, (asked, _)| now.duration_since(*asked) < FRESH);
            }
            match kept.get(&target) {
                Some((asked, answer)) if now.duration_since(*asked) < FRESH => Rc::clone(answer),
                _ => {
                    let answer = Rc::<Answer>::default();
                    if kept.len() < MAX_KEPT {
                        kept.insert(target.clone(), (now, Rc::clone(&answer)));
                    }
                    answer
                }
            }
        };
        let ask = || async { self.send("GET", target, Vec::new(), TIMEOUT).await.map(Arc::new) };
        answer.get_or_init(ask).await.clone()
    }

    /// Sends a request, and waits for its answer.
    pub(crate) async fn send(
        &self,
        method: &'static str,
        target: String,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Value, Problem> {
        let control = Arc::clone(&self.control);
        // The number of these threads is limited; further questions wait.
        let asked =
            tokio::task::spawn_blocking(move || control.request(method, &target, &body, timeout));
        asked.await.unwrap_or_else(|_| Err(Problem::Unreachable("the question failed".to_owned())))
    }
}
