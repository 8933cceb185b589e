//! Turns of the tasks of a thread, so that a task with much to do delays no other connection for
//! long.

use std::pin::pin;
use std::task::Context;

use tokio::task::yield_now;

/// Number of bytes of one body that a task receives, stores or sends in one turn.
pub const TURN_BYTES: usize = 256 << 10;

/// Ends the turn of the current task, which must then return pending: the task is woken once others
/// had theirs and the thread has looked for events. A task that woke itself would run up to 61
/// turns before the thread looks.
pub fn end(cx: &mut Context<'_>) {
    let _ = pin!(yield_now()).poll(cx);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// Each byte of the connection comes with an event; the tasks beside it always have more to do.
    #[tokio::test(flavor = "current_thread")]
    async fn busy_tasks_look_for_events_after_each_turn() {
        const ROUNDS: usize = 50;
        async fn echo(mut stream: TcpStream, rounds: usize) {
            for _ in 0..rounds {
                stream.write_u8(0).await.unwrap();
                stream.read_u8().await.unwrap();
            }
        }
        let turns = Rc::new(Cell::new(0));
        let test = async {
            for _ in 0..3 {
                let turns = Rc::clone(&turns);
                spawn_local(poll_fn(move |cx| {
                    turns.set(turns.get() + 1);
                    end(cx);
                    Poll::<()>::Pending
                }));
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            turns.set(0);
            tokio::join!(echo(client, ROUNDS), echo(server, ROUNDS));
        };
        LocalSet::new().run_until(test).await;
        assert!(turns.get() < ROUNDS * 3 * 8, "{} turns for {ROUNDS} events", turns.get());
    }
}
