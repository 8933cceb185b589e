//! The I/O of conversations with servers: questions about logins, and the login behind.

use std::io;
use std::time::Duration;

use howdah_dns::either::Either;
use howdah_tls::{ClientProtocol, TlsClient};
use howdah_upstream::connections::connection::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::backend::{BackendLogin, Progress, StartTls};
use crate::input::Input;
use crate::login::Protocol;
use crate::question::{Answer, MAX_ANSWER_BYTES};

/// Maximum number of bytes of a read.
const READ_BYTES: usize = 2048;

/// Maximum length of all that a server sends before the end of the login, in bytes.
const MAX_REPLY_BYTES: usize = 32 * 1024;

/// Why a client could not be logged in behind.
pub enum NoLogin {
    /// The server has refused, with these bytes for the client.
    Refused(Vec<u8>),
    /// It cannot be used, for this reason.
    Failed(String),
}

/// Sends a question, which is this request, and reads the head of the answer.
pub async fn exchange(connection: &mut Connection, request: &str) -> Result<Answer, String> {
    let text = |error: io::Error| error.to_string();
    connection.write_all(request.as_bytes()).await.map_err(text)?;
    connection.flush().await.map_err(text)?;
    let mut head = Zeroizing::new(Vec::with_capacity(1024));
    loop {
        if let Some(end) = head_end(&head) {
            return Answer::read(head.get(..end).unwrap_or_default());
        }
        if head.len() > MAX_ANSWER_BYTES {
            return Err("the head of its answer is too long".to_owned());
        }
        let mut room = Zeroizing::new([0; READ_BYTES]);
        let count = connection.read(&mut room[..]).await.map_err(text)?;
        if count == 0 {
            return Err("it closed the connection before the end of the head".to_owned());
        }
        head.extend_from_slice(room.get(..count).unwrap_or_default());
    }
}

/// Returns where the head of an answer ends, at an empty line. As in nginx, lines may end with LF
/// alone: simple authentication servers send no CR.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    ends.into_iter().find(|at| {
        let rest = bytes.get(at + 1..).unwrap_or_default();
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

/// Begins encryption with a server by a command, within `limit`. `own_name` is the name of this
/// server, `name` that of the certificate.
pub async fn start_tls(
    mut connection: Connection,
    protocol: Protocol,
    own_name: &str,
    (tls, name): (&TlsClient, &str),
    limit: Duration,
) -> Result<Connection, NoLogin> {
    let mut command = BackendLogin::StartTls(StartTls::new(protocol, own_name));
    if !log_in(&mut connection, &mut command, &[], limit).await?.is_empty() {
        return Err(NoLogin::Failed("it has sent more behind its answer to STARTTLS".to_owned()));
    }
    let Either::A(plain) = connection else {
        return Err(NoLogin::Failed("the connection is encrypted already".to_owned()));
    };
    match timeout(limit, tls.connect(plain, name, ClientProtocol::Other)).await {
        Ok(Ok(secure)) => Ok(Either::B(Box::new(secure))),
        Ok(Err(problem)) => Err(NoLogin::Failed(problem)),
        Err(_) => Err(NoLogin::Failed("the TLS handshake took too long".to_owned())),
    }
}

/// Logs in at a server within `limit`. `greeting` are bytes that stand in front of those of the
/// server. Returns the bytes for the client.
pub async fn log_in(
    connection: &mut Connection,
    login: &mut BackendLogin,
    greeting: &[u8],
    limit: Duration,
) -> Result<Vec<u8>, NoLogin> {
    let logging_in = async {
        let (mut input, mut out) = (Input::default(), Zeroizing::new(Vec::with_capacity(512)));
        let (mut room, mut received) = ([0; READ_BYTES], 0);
        input.push(greeting);
        loop {
            let progress = login.step(&mut input, &mut out);
            if !out.is_empty() {
                connection.write_all(&out).await?;
                connection.flush().await?;
                out = Zeroizing::new(Vec::with_capacity(512));
            }
            match progress {
                Progress::Waiting => {}
                Progress::Done(mut reply) => {
                    reply.extend(input.rest());
                    return io::Result::Ok(Ok(reply));
                }
                Progress::Refused(reply) => return Ok(Err(NoLogin::Refused(reply))),
                Progress::Failed(problem) => return Ok(Err(NoLogin::Failed(problem))),
            }
            let count = connection.read(&mut room).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received += count;
            if received > MAX_REPLY_BYTES {
                return Ok(Err(NoLogin::Failed("it sends too much before the login".to_owned())));
            }
            input.push(room.get(..count).unwrap_or_default());
        }
    };
    match timeout(limit, logging_in).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => Err(NoLogin::Failed(format!("the login behind: {error}"))),
        Err(_) => Err(NoLogin::Failed("the login behind took too long".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_ends_at_an_empty_line_with_or_without_cr() {
        assert_eq!(head_end(b"HTTP/1.0 200\r\nA: b\r\n\r\nc"), Some(19));
        assert_eq!(head_end(b"HTTP/1.0 200\nA: b\n\nc"), Some(17));
        assert_eq!(head_end(b"HTTP/1.0 200\nA: b\n\r\n"), Some(17));
        assert_eq!(head_end(b"HTTP/1.0 200\r\nA: b\r\n\r"), None);
        assert_eq!(head_end(b""), None);
    }
}
