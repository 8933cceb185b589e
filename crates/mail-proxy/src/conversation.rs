//! The I/O of conversations with servers: questions about logins, and the login behind.

use std::io;
use std::time::Duration;

use howdah_upstream::connections::connection::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::backend::{BackendLogin, Progress};
use crate::input::Input;
use crate::question::{Answer, MAX_ANSWER_BYTES, Question};

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

/// Sends a question and reads the head of the answer.
pub async fn exchange(
    connection: &mut Connection,
    question: &Question<'_>,
) -> Result<Answer, String> {
    let text = |error: io::Error| error.to_string();
    let request = question.request();
    connection.write_all(request.as_bytes()).await.map_err(text)?;
    connection.flush().await.map_err(text)?;
    let mut head = Zeroizing::new(Vec::with_capacity(1024));
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
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

/// Logs in at a server within `limit`. Returns the bytes for the client.
pub async fn log_in(
    connection: &mut Connection,
    login: &mut BackendLogin,
    limit: Duration,
) -> Result<Vec<u8>, NoLogin> {
    let logging_in = async {
        let (mut input, mut out) = (Input::default(), Zeroizing::new(Vec::with_capacity(512)));
        let (mut room, mut received) = ([0; READ_BYTES], 0);
        loop {
            let count = connection.read(&mut room).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            received += count;
            if received > MAX_REPLY_BYTES {
                return Ok(Err(NoLogin::Failed("it sends too much before the login".to_owned())));
            }
            input.push(room.get(..count).unwrap_or_default());
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
        }
    };
    match timeout(limit, logging_in).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => Err(NoLogin::Failed(format!("the login behind: {error}"))),
        Err(_) => Err(NoLogin::Failed("the login behind took too long".to_owned())),
    }
}
