//! Delivers messages: keeps a connection, and gives the pauses between attempts.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::connection::{Connection, Failure, Refused};
use crate::target::Target;

/// Maximum time of an attempt after the connection.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// First pause before another attempt; each further one is twice as long.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// Maximum pause that the server has not asked for.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A connection that is kept, with the server that it leads to.
#[derive(Default)]
pub(crate) struct Delivery(Option<(Rc<Target>, Connection)>);

impl Delivery {
    /// Sends a message once. If the server has closed a kept connection meanwhile, another one
    /// follows at once; an answer of the server does not make the message be sent again.
    pub(crate) async fn attempt(
        &mut self,
        target: &Rc<Target>,
        message: Bytes,
    ) -> Result<Refused, Failure> {
        let kept = self.0.take().filter(|(known, _)| Rc::ptr_eq(known, target));
        if let Some((_, connection)) = kept {
            match self.export(connection, target, message.clone()).await {
                Err(Failure::NoAnswer(_)) => {}
                result => return result,
            }
        }
        let connection = Connection::open(target).await?;
        self.export(connection, target, message).await
    }

    /// Sends a message over a connection, which is kept if the server takes the message.
    async fn export(
        &mut self,
        mut connection: Connection,
        target: &Rc<Target>,
        message: Bytes,
    ) -> Result<Refused, Failure> {
        let exported = timeout(EXPORT_TIMEOUT, connection.export(target, message)).await;
        let seconds = EXPORT_TIMEOUT.as_secs();
        let late = || Failure::Temporary(format!("no answer within {seconds} s"), None);
        let refused = exported.unwrap_or_else(|_| Err(late()))?;
        self.0 = Some((Rc::clone(target), connection));
        Ok(refused)
    }
}

/// Pauses between attempts.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(MIN_PAUSE)
    }
}

impl Pauses {
    /// Returns the pause after a failure; `None` if no other attempt is permitted.
    pub(crate) fn after(&mut self, failure: &Failure) -> Option<Duration> {
        let wanted = match failure {
            Failure::Permanent(_) => return None,
            Failure::NoAnswer(_) => None,
            Failure::Temporary(_, wanted) => *wanted,
        };
        let pause = wanted.unwrap_or(self.0);
        self.0 = (2 * self.0).min(MAX_PAUSE);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use howdah_wire::messages::{OtlpServer, TelemetryRoute};

    use super::*;

    /// Sends two messages to a server. Returns the result of the second one.
    fn send_two(listener: &TcpListener) -> Result<Refused, Failure> {
        let port = listener.local_addr().unwrap().port();
        let server = OtlpServer { host: "127.0.0.1".into(), port, is_tls: false, path: "/".into() };
        let route = TelemetryRoute {
            server,
            metrics: None,
            is_grpc: false,
            headers: Vec::new(),
            authorities: None,
            resolver: Vec::new(),
            attributes: Vec::new(),
            batch_size: 1,
        };
        let target = Rc::new(Target::of(route, None).0);
        let mut delivery = Delivery::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let first = delivery.attempt(&target, Bytes::from_static(b"x")).await;
            assert_eq!(first, Ok(None));
            delivery.attempt(&target, Bytes::from_static(b"x")).await
        })
    }

    /// Answers a message.
    fn answer(stream: &mut TcpStream, status: &str) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\nx") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
    }

    #[test]
    fn a_message_that_a_kept_connection_answers_is_not_sent_again_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                answer(&mut stream, "200 OK");
                answer(&mut stream, "503 Busy");
            });
            send_two(&listener)
        });
        assert_eq!(result, Err(Failure::Temporary("status 503".to_owned(), None)));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "there is no second connection");
    }

    #[test]
    fn a_kept_connection_that_the_server_has_closed_costs_no_message() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    answer(&mut listener.accept().unwrap().0, "200 OK");
                }
            });
            send_two(&listener)
        });
        assert_eq!(result, Ok(None));
    }

    #[test]
    fn pauses_grow_unless_the_server_asks_for_others() {
        let mut pauses = Pauses::default();
        let busy = |wanted| Failure::Temporary("busy".to_owned(), wanted);
        let mut after = |failure| pauses.after(&failure).map(|pause| pause.as_secs());
        assert_eq!(after(Failure::NoAnswer("gone".to_owned())), Some(1));
        assert_eq!(after(busy(Some(Duration::from_secs(300)))), Some(300));
        assert_eq!(after(busy(None)), Some(4));
        assert_eq!(after(Failure::Permanent("no".to_owned())), None);
        let last = (0..10).map(|_| after(busy(None))).last().flatten();
        assert_eq!(last, Some(30));
    }
}
