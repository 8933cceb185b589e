//! The process: takes submissions from the supervisor, and ends when there are none.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use howdah_sys::event_loop;
use howdah_sys::sandbox::unprivileged;
use howdah_wire::messages::{FromMail, ToMail};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc::unbounded_channel;

use crate::delivery::{Shared, Submission, carry_out};
use crate::socket::Socket;

/// Time without submissions after which the process ends.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Runs the process on the socket that the supervisor has passed. Returns the exit status.
pub fn run(socket: OwnedFd) -> u8 {
    event_loop::run("mail process", serve(socket, IDLE_TIME))
}

async fn serve(socket: OwnedFd, idle_time: Duration) -> io::Result<()> {
    let socket = Rc::new(Socket::new(socket)?);
    let first = socket.receive().await?;
    let Some((ToMail::Hello { sandbox, host }, _)) = first else {
        return Err(io::Error::other("the supervisor's first message is not Hello"));
    };
    if sandbox {
        unprivileged::enter(unprivileged::FILES_OF_CLIENTS);
    }
    let supervisor = Some(Rc::clone(&socket));
    let shared = Rc::new(Shared { host, supervisor, ..Shared::default() });
    let (done, mut finished) = unbounded_channel();
    let mut in_progress = 0u32;
    loop {
        let is_idle = in_progress == 0;
        tokio::select! {
            message = socket.receive() => match message? {
                Some((ToMail::Deliver {
                    number, application, user, route, is_to_file, has_file, has_authorities,
                    counted,
                }, files)) => {
                    in_progress += 1;
                    shared.usage.borrow_mut().continue_from(&application, counted);
                    let (shared, done) = (Rc::clone(&shared), done.clone());
                    tokio::task::spawn_local(async move {
                        let mut recipients = 0;
                        let mut files = files.into_iter();
                        if let (Some(requests), Some(answers)) = (files.next(), files.next())
                            && let (Ok(requests), Ok(answers)) =
                                (Receiver::from_owned_fd(requests), sender(answers))
                        {
                            let file = if has_file { files.next() } else { None };
                            let authorities = files.next().filter(|_| has_authorities);
                            let submission = Submission {
                                application, user, route, requests, answers, file, authorities,
                                is_to_file,
                                may_be_taken: false,
                            };
                            recipients = carry_out(submission, &shared).await;
                        }
                        let _ = done.send((number, recipients));
                    });
                }
                Some((ToMail::Add { usage }, _)) => shared.usage.borrow_mut().add(usage),
                Some(_) => return Err(io::Error::other("the supervisor repeats Hello")),
                None => return Ok(()),
            },
            Some((number, recipients)) = finished.recv() => {
                in_progress = in_progress.saturating_sub(1);
                socket.send(&FromMail::Done { number, recipients })?;
            }
            () = tokio::time::sleep(idle_time), if is_idle => {
                socket.send(&FromMail::Idle {})?;
            }
        }
    }
}

fn sender(end: OwnedFd) -> io::Result<Sender> {
    let flags = rustix::fs::fcntl_getfl(&end)?;
    rustix::fs::fcntl_setfl(&end, flags | rustix::fs::OFlags::NONBLOCK)?;
    Sender::from_owned_fd(end)
}

#[cfg(test)]
mod tests;
