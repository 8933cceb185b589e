//! Translates method, path and body to a command.

use howdah_config::json;
use howdah_questions::{JobOrder, ProfileOrder, Question};
use serde_json::Value;

use crate::MAX_BODY;
use crate::bundle::Bundle;
use crate::caches::{read_inspection, read_purge};
use crate::certificate::CertificateName;
use crate::change::Change;
use crate::command::Command;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::requests;

/// Translates a request. `target` is the request target as received; the body must be complete.
pub fn translate(method: &[u8], target: &[u8], body: &[u8]) -> Result<Command, Refusal> {
    if body.len() > MAX_BODY {
        return Err(Refusal::BodyTooLarge);
    }
    let path = Path::read(target)?;
    match path.steps() {
        [] if method == b"GET" => Ok(Command::GetEverything),
        [] => Err(Refusal::InvalidMethod { allow: "GET" }),
        [first, rest @ ..] => match first.as_str() {
            "certificates" => certificates(method, rest, body),
            "config" => config(method, rest.into(), body),
            "control" => control(method, rest, body),
            "pools" if method == b"GET" => {
                let question = Question::Pools { application: rest.first().cloned() };
                Ok(Command::Ask { question, part: rest.into() })
            }
            "status" if method == b"GET" => {
                Ok(Command::Ask { question: Question::Status, part: rest.into() })
            }
            "usage" if method == b"GET" => {
                let question = Question::Usage { month: rest.first().cloned() };
                Ok(Command::Ask { question, part: rest.get(1..).unwrap_or_default().into() })
            }
            "jobs" => jobs(method, rest),
            "requests" if method == b"GET" => {
                Ok(Command::Ask { question: requests::read(target)?, part: rest.into() })
            }
            "slow" if method == b"GET" && rest.len() <= 1 => {
                Ok(ask(Question::SlowScripts { name: rest.first().cloned(), applications: None }))
            }
            "pools" | "requests" | "slow" | "status" | "usage" => {
                Err(Refusal::InvalidMethod { allow: "GET" })
            }
            _ => Err(Refusal::NoSuchValue),
        },
    }
}

fn jobs(method: &[u8], steps: &[String]) -> Result<Command, Refusal> {
    match (method, steps) {
        (b"GET", [application, job, log]) if log == "log" => {
            let (application, job) = (application.clone(), job.clone());
            Ok(ask(Question::JobLog { application, job }))
        }
        (b"GET", _) => {
            let applications = steps.first().map(|name| vec![name.clone()]);
            Ok(Command::Ask { question: Question::Jobs { applications }, part: steps.into() })
        }
        _ => Err(Refusal::InvalidMethod { allow: "GET" }),
    }
}

fn config(method: &[u8], path: Path, body: &[u8]) -> Result<Command, Refusal> {
    let change = match method {
        b"GET" => return Ok(Command::GetConfig(path)),
        b"PUT" => Change::Put { path, value: value(body)? },
        b"POST" if !path.is_empty() => Change::Append { path, value: value(body)? },
        b"DELETE" => Change::Delete { path },
        _ if path.is_empty() => {
            return Err(Refusal::MethodNotAllowed { allow: "GET, PUT, DELETE" });
        }
        _ => return Err(Refusal::MethodNotAllowed { allow: "GET, PUT, POST, DELETE" }),
    };
    Ok(Command::Change(change))
}

fn value(body: &[u8]) -> Result<Value, Refusal> {
    // Unit counts positions from behind a byte order mark.
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    json::parse(text).map_err(Refusal::InvalidJson)
}

fn certificates(method: &[u8], steps: &[String], body: &[u8]) -> Result<Command, Refusal> {
    if method == b"GET" {
        return Ok(Command::GetCertificates(steps.into()));
    }
    let [name] = steps else { return Err(Refusal::InvalidCertificateName) };
    let name = CertificateName::new(name)?;
    match method {
        b"PUT" => Ok(Command::PutCertificate { name, bundle: Bundle::read(body.to_vec())? }),
        b"DELETE" => Ok(Command::DeleteCertificate(name)),
        _ => Err(Refusal::InvalidMethod { allow: "GET, PUT, DELETE" }),
    }
}

fn control(method: &[u8], steps: &[String], body: &[u8]) -> Result<Command, Refusal> {
    if let [caches, rest @ ..] = steps
        && caches == "caches"
    {
        return of_caches(method, rest, body);
    }
    if let [applications, name, profile] = steps
        && applications == "applications"
        && profile == "profile"
    {
        return match method {
            b"POST" => read_profile(name, body),
            _ => Err(Refusal::MethodNotAllowed { allow: "POST" }),
        };
    }
    if let [applications, application, jobs, job, order] = steps
        && applications == "applications"
        && jobs == "jobs"
    {
        let order = match order.as_str() {
            "run" => JobOrder::Run,
            "pause" => JobOrder::Pause,
            "resume" => JobOrder::Resume,
            _ => return Err(Refusal::NoSuchValue),
        };
        let (application, job) = (application.clone(), job.clone());
        return match method {
            b"POST" => Ok(ask(Question::OrderJob { application, job, order })),
            _ => Err(Refusal::MethodNotAllowed { allow: "POST" }),
        };
    }
    // GET is how Unit restarts an application; a method without effects should not.
    let command = match steps {
        [applications, name, restart] if applications == "applications" && restart == "restart" => {
            ask(Question::Restart { application: name.clone() })
        }
        [applications, name, tune] if applications == "applications" && tune == "tune" => {
            ask(Question::Tuning { application: name.clone() })
        }
        [reload] if reload == "reload" => Command::Reload { restart: false },
        [upgrade] if upgrade == "upgrade" => Command::Upgrade,
        [compiled] if compiled == "compiled" => Command::GetCompiled,
        _ if method == b"GET" || method == b"POST" => return Err(Refusal::NoSuchValue),
        _ => return Err(Refusal::MethodNotAllowed { allow: "GET, POST" }),
    };
    match (method, &command) {
        (b"GET", Command::Ask { .. } | Command::GetCompiled) => Ok(command),
        (_, Command::Ask { question: Question::Tuning { .. }, .. } | Command::GetCompiled) => {
            Err(Refusal::MethodNotAllowed { allow: "GET" })
        }
        (b"POST", Command::Reload { .. }) => read_reload(body),
        (b"POST", _) => Ok(command),
        (_, Command::Reload { .. } | Command::Upgrade) => {
            Err(Refusal::MethodNotAllowed { allow: "POST" })
        }
        _ => Err(Refusal::MethodNotAllowed { allow: "GET, POST" }),
    }
}

/// Asks for a whole answer.
fn ask(question: Question) -> Command {
    Command::Ask { question, part: Path::default() }
}

/// Reads the body of an order for a profile, which may be empty.
fn read_profile(site: &str, body: &[u8]) -> Result<Command, Refusal> {
    let mut order = ProfileOrder {
        site: site.to_owned(),
        seconds: 30,
        url: String::new(),
        is_processor_time: false,
    };
    let value = match body.trim_ascii() {
        b"" => Value::Null,
        body => json::parse(body).map_err(Refusal::InvalidJson)?,
    };
    for (name, value) in value.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("seconds", Value::Number(number)) => {
                let seconds = number.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
                let seconds = seconds.filter(|it| (1..=ProfileOrder::MAX_SECONDS).contains(it));
                order.seconds = seconds.ok_or(Refusal::InvalidProfile)?;
            }
            ("url", Value::String(url)) if url.starts_with('/') || url.is_empty() => {
                order.url = url.clone();
            }
            ("clock", Value::String(clock)) if clock == "wall" || clock == "processor" => {
                order.is_processor_time = clock == "processor";
            }
            _ => return Err(Refusal::InvalidProfile),
        }
    }
    if value.is_null() || value.is_object() {
        Ok(ask(Question::Profile(order)))
    } else {
        Err(Refusal::InvalidProfile)
    }
}

/// Reads the body of a reload, which may be empty.
fn read_reload(body: &[u8]) -> Result<Command, Refusal> {
    if body.trim_ascii().is_empty() {
        return Ok(Command::Reload { restart: false });
    }
    let value = json::parse(body).map_err(Refusal::InvalidJson)?;
    let members = value.as_object().ok_or(Refusal::InvalidReload)?;
    let mut restart = false;
    for (name, value) in members {
        match (name.as_str(), value) {
            ("restart", Value::Bool(value)) => restart = *value,
            _ => return Err(Refusal::InvalidReload),
        }
    }
    Ok(Command::Reload { restart })
}

/// Translates a request below `/control/caches`: `NAME/purge` and others. `NAME` may be `*` for all
/// caches, which no cache can be called.
fn of_caches(method: &[u8], steps: &[String], body: &[u8]) -> Result<Command, Refusal> {
    let (name, action) = match steps {
        [name, action] => (name, (action.as_str(), None)),
        [name, action, url] => (name, (action.as_str(), Some(url))),
        _ if method == b"GET" || method == b"POST" => return Err(Refusal::NoSuchValue),
        _ => return Err(Refusal::MethodNotAllowed { allow: "GET, POST" }),
    };
    let cache = (name != "*").then(|| name.clone());
    match action {
        ("purge", None) if method == b"POST" => Ok(ask(read_purge(cache, body)?)),
        ("purge", None) => Err(Refusal::MethodNotAllowed { allow: "POST" }),
        ("top", None) if method == b"GET" => Ok(ask(Question::TopCaches { cache })),
        ("inspect", Some(url)) if method == b"GET" => Ok(ask(read_inspection(cache, url)?)),
        ("top", None) | ("inspect", Some(_)) => Err(Refusal::MethodNotAllowed { allow: "GET" }),
        _ => Err(Refusal::NoSuchValue),
    }
}

#[cfg(test)]
mod tests {
    use howdah_questions::Purge;

    use super::*;

    #[test]
    fn a_reload_restarts_all_if_its_body_says_so() {
        let reload = |body: &str| control(b"POST", &["reload".to_owned()], body.as_bytes());
        for (body, restart) in
            [("", false), ("\n", false), ("{}", false), (r#"{"restart": true}"#, true)]
        {
            assert_eq!(reload(body), Ok(Command::Reload { restart }), "{body}");
        }
        assert!(matches!(reload("{"), Err(Refusal::InvalidJson(_))));
        for body in ["1", r#"{"restart": 1}"#, r#"{"all": true}"#] {
            assert_eq!(reload(body), Err(Refusal::InvalidReload), "{body}");
        }
        let get = control(b"GET", &["reload".to_owned()], b"");
        assert_eq!(get, Err(Refusal::MethodNotAllowed { allow: "POST" }));
    }

    #[test]
    fn an_order_for_a_profile_is_read_strictly() {
        let steps: Vec<_> = ["applications", "blog", "profile"].map(str::to_owned).into();
        let order = |body: &str| control(b"POST", &steps, body.as_bytes());
        let expected = |seconds, url: &str, is_processor_time| {
            let (site, url) = ("blog".to_owned(), url.to_owned());
            Ok(ask(Question::Profile(ProfileOrder { site, seconds, url, is_processor_time })))
        };
        assert_eq!(order(""), expected(30, "", false));
        assert_eq!(
            order(r#"{"seconds": 5, "url": "/a", "clock": "processor"}"#),
            expected(5, "/a", true)
        );
        for body in [
            "[]",
            r#"{"seconds": 0}"#,
            r#"{"seconds": 301}"#,
            r#"{"seconds": 4294967297}"#,
            r#"{"seconds": -1}"#,
            r#"{"url": "a"}"#,
            r#"{"clock": "cpu"}"#,
            r#"{"else": 1}"#,
        ] {
            assert_eq!(order(body), Err(Refusal::InvalidProfile), "{body}");
        }
        let get = control(b"GET", &steps, b"");
        assert_eq!(get, Err(Refusal::MethodNotAllowed { allow: "POST" }));
    }

    #[test]
    fn each_command_has_its_method() {
        let command = |method: &str, path: &str| {
            let steps: Vec<_> = path.split(' ').map(str::to_owned).collect();
            of_caches(method.as_bytes(), &steps, br#"{"all": true}"#)
        };
        let all = ask(Question::TopCaches { cache: None });
        assert_eq!(command("GET", "* top"), Ok(all));
        let one = ask(Question::TopCaches { cache: Some("a".into()) });
        assert_eq!(command("GET", "a top"), Ok(one));
        let purge = Question::PurgeCaches { cache: None, purge: Purge::All, is_soft: false };
        assert_eq!(command("POST", "* purge"), Ok(ask(purge)));
        let (host, path) = (b"a.org".to_vec(), b"/".to_vec());
        let inspect = Question::InspectCaches { cache: None, host, path, query: Vec::new() };
        assert_eq!(command("GET", "* inspect a.org/"), Ok(ask(inspect)));
        for (method, path) in
            [("GET", "* purge"), ("POST", "* top"), ("PUT", "*"), ("POST", "a inspect b")]
        {
            let refused = command(method, path);
            assert!(matches!(refused, Err(Refusal::MethodNotAllowed { .. })), "{method} {path}");
        }
        assert_eq!(command("GET", "* nothing"), Err(Refusal::NoSuchValue));
    }
}
