//! Facts about an attempt to pass a request to a server, for variables.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_config::{UpstreamVariable, Variable};
use howdah_http::handling::{Fact, Facts, Handling};

/// Facts about an attempt. The end of the last copy is the end of the attempt.
#[derive(Debug, Clone)]
pub struct AttemptFacts(Rc<Recorded>);

#[derive(Debug)]
struct Recorded {
    address: String,
    started_at: Instant,
    status: Cell<Option<u16>>,
    connected: Cell<Option<Duration>>,
    head: Cell<Option<Duration>>,
    ended: Cell<Option<Duration>>,
}

impl AttemptFacts {
    /// Starts an attempt at the server with this address, for the variables of a request.
    pub fn start(address: String, handling: &Handling) -> Self {
        let recorded = Rc::new(Recorded {
            address,
            started_at: Instant::now(),
            status: Cell::default(),
            connected: Cell::default(),
            head: Cell::default(),
            ended: Cell::default(),
        });
        handling.add_step(Rc::<Recorded>::clone(&recorded));
        AttemptFacts(recorded)
    }

    /// Notes that there is a connection, new or idle.
    pub fn set_connected(&self) {
        self.0.connected.set(Some(self.0.started_at.elapsed()));
    }

    /// Notes that the head of the response is complete.
    pub fn set_head(&self) {
        self.0.head.set(Some(self.0.started_at.elapsed()));
    }

    /// Sets the status of the response, or the one that stands for the failure.
    pub fn set_status(&self, status: u16) {
        self.0.status.set(Some(status));
    }
}

impl Drop for AttemptFacts {
    /// Notes that the response is complete, or that the attempt has failed. The last call counts.
    fn drop(&mut self) {
        self.0.ended.set(Some(self.0.started_at.elapsed()));
    }
}

impl Facts for Recorded {
    fn began(&self) -> Option<Instant> {
        Some(self.started_at)
    }

    fn value(&self, variable: &Variable) -> Option<Fact<'_>> {
        let Variable::Upstream(variable) = variable else { return None };
        match variable {
            UpstreamVariable::Address => Some(Fact::Text(&self.address)),
            UpstreamVariable::ConnectTime => self.connected.get().map(Fact::Time),
            UpstreamVariable::HeaderTime => self.head.get().map(Fact::Time),
            UpstreamVariable::ResponseTime => self.ended.get().map(Fact::Time),
            UpstreamVariable::Status => self.status.get().map(|status| Fact::Number(status.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::Template;
    use howdah_http::fixture::request;
    use howdah_http::variables::VariableSource;

    use super::*;

    #[test]
    fn each_server_that_got_a_request_has_its_place_in_a_list() {
        let request = request("/", &[]);
        let first = AttemptFacts::start("10.0.0.1:80".to_owned(), &request.handling);
        first.set_status(502);
        first.set_connected();
        drop(first);
        let last = AttemptFacts::start("unix:/run/a".to_owned(), &request.handling);
        let source = VariableSource::of(&request, Instant::now());
        let value = |template: &str| {
            String::from_utf8(source.expand(&Template::parse(template).unwrap())).unwrap()
        };
        assert_eq!(value("$upstream_addr"), "10.0.0.1:80, unix:/run/a");
        assert_eq!(value("$upstream_status"), "502, -");
        for name in ["$upstream_response_time", "$upstream_connect_time"] {
            let times = value(name);
            assert!(times.len() >= 8 && times.ends_with(", -"), "{name}: {times}");
        }
        assert_eq!(value("$upstream_header_time$application"), "-, -");
        last.set_head();
        assert!(value("$upstream_header_time").starts_with("-, 0."));
    }
}
