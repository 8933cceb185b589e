//! Messages on the pipes of a submission.

use std::io;

use howdah_sendmail::MAX_FRAME;
use howdah_wire::messages::ToSendmail;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

/// Reads a message. Error `UnexpectedEof` if the other end is closed.
pub(crate) async fn receive(pipe: &mut Receiver) -> io::Result<Vec<u8>> {
    let length = pipe.read_u32_le().await? as usize;
    if length > MAX_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // A length alone takes no memory.
    let mut message = Vec::new();
    let read = pipe.take(length as u64).read_to_end(&mut message).await?;
    if read == length { Ok(message) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes a message. The pipe has room for all of a submission.
pub(crate) async fn send(pipe: &mut Sender, message: &ToSendmail) -> io::Result<()> {
    let message = message.encode();
    let mut frame = (message.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&message);
    pipe.write_all(&frame).await
}
