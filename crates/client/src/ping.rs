//! `howdah ping`: whether a server answers, for health checks of containers and service managers.

use std::time::Duration;

use howdah_questions::{self as questions, Status};
use serde_json::Value;

use crate::args::PingArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{one_line, write_out};

/// Asks the server for its status, which the router answers. Fails if there is no answer, or, with
/// `--ready`, if the server has no listener, is about to end, or has an application that cannot run.
pub(super) fn run(client: Client, args: &PingArgs) -> Result<(), Failure> {
    let client = client.with_timeout(Duration::from_secs_f64(args.timeout));
    let status: Status = client.get("/status")?;
    if args.ready {
        let config = client.compiled()?;
        if let Some(problem) = obstacle(&config, &status) {
            return Err(Failure::Failed(format!("not ready: {}", one_line(&problem))));
        }
    }
    if args.quiet {
        Ok(())
    } else {
        write_out(if args.ready { "ready\n" } else { "the server answers\n" })
    }
}

/// Returns the reason why visitors cannot be served, if there is one.
fn obstacle(config: &Value, status: &Status) -> Option<String> {
    let listeners = config.get("listeners").and_then(Value::as_object);
    let has_listener = listeners.is_some_and(|listeners| !listeners.is_empty());
    let problems = status
        .applications
        .iter()
        .filter_map(|(name, application)| Some((name.as_str(), application.problem.as_deref()?)));
    questions::obstacle(has_listener, status.is_leaving, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_is_ready_if_it_listens_and_its_applications_run() {
        let listening = json!({"listeners": {"*:80": {}}});
        let blog = |status: Value| {
            serde_json::from_value(json!({"applications": {"blog": status}})).unwrap()
        };
        assert_eq!(obstacle(&listening, &blog(json!({"processes": {}}))), None);
        assert_eq!(obstacle(&listening, &Status::default()), None);
        for config in [json!({}), json!({"listeners": {}}), json!({"listeners": 1})] {
            let problem = obstacle(&config, &Status::default()).unwrap();
            assert!(problem.contains("no listener"), "{problem}");
        }
        let leaving = serde_json::from_value(json!({"is_leaving": true})).unwrap();
        let problem = obstacle(&listening, &leaving).unwrap();
        assert_eq!(problem, "the server is about to end");
        let problem = obstacle(&listening, &blog(json!({"problem": "no PHP"}))).unwrap();
        assert_eq!(problem, "blog cannot run: no PHP");
    }
}
