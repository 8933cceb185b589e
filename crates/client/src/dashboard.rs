//! `howdah dashboard`: the page asks the control API as the other commands do.

use std::time::Duration;

use howdah_dashboard::{Control, Options, Problem};
use serde_json::Value;

use crate::STATUS_TIMEOUT;
use crate::args::dashboard::DashboardArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::find::connect;

/// Serves the page until the process ends.
pub(super) fn run(args: DashboardArgs) -> Result<(), Failure> {
    let client = connect(&args.server)?.without_progress();
    // Without a server, this fails before the page opens.
    client.clone().with_timeout(STATUS_TIMEOUT).request("GET", "/status", b"")?;
    let options = Options {
        listen: args.listen,
        page: args.url,
        is_read_only: args.read_only,
        prints_links: !args.no_link,
    };
    howdah_dashboard::run(options, client).map_err(Failure::Failed)
}

impl Control for Client {
    fn address(&self) -> &str {
        Client::address(self)
    }

    fn request(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Value, Problem> {
        let client = self.clone().with_timeout(timeout);
        Client::request(&client, method, target, body).map_err(|failure| match failure {
            Failure::Unreachable(text) => Problem::Unreachable(text),
            Failure::Failed(text) => Problem::Refused(text),
            Failure::PartsOut(status) => Problem::Refused(format!("exit status {status}")),
        })
    }

    fn token(&self) -> Option<&str> {
        Client::token(self).map(|token| token.expose())
    }
}
