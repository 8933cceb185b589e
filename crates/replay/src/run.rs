//! The order of a comparison.

use std::collections::{BTreeSet, VecDeque};

use crate::client::{Answer, Server};
use crate::compare::{self, Difference};
use crate::{Request, links};

/// What is asked, and of which servers.
pub struct Plan {
    /// The server that is to be replaced.
    pub old: Server,
    /// The server with the imported document.
    pub new: Server,
    /// `http` or `https`, for both.
    pub scheme: &'static str,
    /// The host of requests whose own host is not known.
    pub host: String,
    /// The requests, in their order.
    pub requests: Vec<Request>,
    /// The maximum number of requests with those of links on pages that the old server sends;
    /// `None` without a crawl.
    pub crawl: Option<usize>,
}

/// What has come of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of requests.
    pub asked: usize,
    /// Requests whose responses differ.
    pub differences: Vec<Difference>,
    /// Number of responses whose body differs between two responses of the old server, too, so that
    /// it was not compared.
    pub varying: usize,
}

/// Asks both servers, one request after the other.
pub fn run(plan: Plan) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(ask_all(plan))
}

async fn ask_all(plan: Plan) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut waiting: VecDeque<Request> = plan.requests.iter().cloned().collect();
    let mut known: BTreeSet<Request> = plan.requests.iter().cloned().collect();
    while let Some(request) = waiting.pop_front() {
        let host = request.host.as_deref().unwrap_or(&plan.host).to_owned();
        let old = plan.old.ask(&request, &host).await?;
        let new = plan.new.ask(&request, &host).await?;
        outcome.asked += 1;
        let mut parts = compare::heads(&old, &new, &host, plan.scheme);
        if compare::is_other_body(&old, &new) {
            let again = plan.old.ask(&request, &host).await?;
            if again.body == old.body {
                parts.push(format!("body of {} bytes (old: {})", new.body.len(), old.body.len()));
            } else {
                outcome.varying += 1;
            }
        }
        if let Some(max) = plan.crawl {
            for target in found(&old, &request, &host) {
                let linked = Request { is_head: false, host: request.host.clone(), target };
                if known.len() < max && known.insert(linked.clone()) {
                    waiting.push_back(linked);
                }
            }
        }
        if !parts.is_empty() {
            outcome.differences.push(Difference { request, host, parts });
        }
    }
    Ok(outcome)
}

/// Returns the targets that a response leads to.
fn found(answer: &Answer, request: &Request, host: &str) -> Vec<String> {
    let field = |name: &str| {
        let found = answer.fields.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let mut page = String::new();
    if field("content-type").to_ascii_lowercase().starts_with("text/html") {
        page = String::from_utf8_lossy(&answer.body).into_owned();
    }
    let location = field("location");
    if !location.is_empty() {
        page += &format!(" href=\"{location}\"");
    }
    links::links(&page, &request.target, host)
}
