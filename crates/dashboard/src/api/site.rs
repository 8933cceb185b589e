//! One site: its processes, its last requests, its slow scripts.

use howdah_http::message::Request;
use serde_json::{Value, json};

use super::{Api, Reply, argument};
use crate::actions::{Action, encode};

/// Number of requests in each list.
const REQUESTS: usize = 20;

impl Api {
    /// Answers a question about a site.
    pub(super) async fn site(&self, request: &Request) -> Reply {
        let Some(name) = argument(request, "name").filter(|name| !name.is_empty()) else {
            return Err((400, "name is needed".to_owned()));
        };
        let (application, php, out) = self.state.of_status(|status| {
            let out = status.out.iter().find(|part| part.name == name).cloned();
            (status.applications.get(&name).cloned(), status.php.get(&name).cloned(), out)
        });
        let encoded = encode(&name);
        let last =
            |filter: &str| self.ask(format!("/requests?site={encoded}&limit={REQUESTS}{filter}"));
        let pool = async {
            application.as_ref()?;
            self.ask(format!("/pools/{encoded}")).await.ok()
        };
        // A server of another version does not keep slow scripts.
        let stacks = async {
            let answer = self.ask(format!("/slow/{encoded}")).await.ok()?;
            answer.get("scripts").cloned()
        };
        let (pool, errors, slow, all, stacks) =
            tokio::join!(pool, last("&status=5xx"), last("&slow=1"), last(""), stacks);
        let requests = |answer: Result<std::sync::Arc<Value>, _>| {
            let answer = answer.ok();
            answer.and_then(|answer| answer.get("requests").cloned()).unwrap_or_else(|| json!([]))
        };
        let mut buttons = Vec::new();
        if application.is_some() {
            let action = Action::Restart { application: name.clone() };
            buttons.push(("restart".to_owned(), action));
        }
        Ok(json!({
            "name": name,
            "application": application,
            "php": php,
            "out": out,
            "pool": pool.as_deref(),
            "stacks": stacks,
            "errors": requests(errors),
            "slow": requests(slow),
            "requests": requests(all),
            "buttons": self.buttons(request, &buttons),
        }))
    }
}
