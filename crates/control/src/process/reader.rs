//! Questions of the dashboard process: requests to the control API that only read, answered by the
//! router alone. There is no control process, no document and no secret behind them.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use howdah_sys::packets::Packets;
use serde_json::Value;

use super::router::Router;
use crate::command::Command;
use crate::translate::translate;

/// Asks the router.
#[derive(Debug)]
pub struct Reader(Rc<Router>);

impl Reader {
    /// Takes over the socket to the router.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn new(socket: OwnedFd) -> io::Result<Reader> {
        let reader = Reader(Rc::new(Router::new(Packets::new(socket)?)));
        reader.listen();
        Ok(reader)
    }

    /// Takes the socket to another router.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn replace(&self, socket: OwnedFd) -> io::Result<()> {
        self.0.replace(Packets::new(socket)?);
        self.listen();
        Ok(())
    }

    fn listen(&self) {
        let router = Rc::clone(&self.0);
        tokio::task::spawn_local(async move { router.listen().await });
    }

    /// Answers a GET request for this target. Error: it is not a question to the router that only
    /// reads, or has no answer; the reason.
    pub async fn get(&self, target: &[u8]) -> Result<Value, String> {
        let (question, part) = match translate(b"GET", target, b"") {
            Ok(Command::Ask { question, part }) if question.only_reads() => (question, part),
            _ => return Err("this is not a question that the page may ask".to_owned()),
        };
        let answer = self.0.ask(&question).await?.ok_or("there is no such part")?;
        let whole: Value = serde_json::from_slice(&answer)
            .map_err(|error| format!("the router's answer cannot be read: {error}"))?;
        part.find(&whole).cloned().ok_or_else(|| "there is no such part".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use howdah_sys::packet;
    use howdah_wire::messages::ToRouter;
    use tokio::task::LocalSet;

    use super::*;

    /// The router is told of nothing that is not a question about its state.
    #[test]
    fn no_order_and_no_question_to_others_is_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (ours, theirs) = packet::pair().unwrap();
            let (reader, router) = (Reader::new(ours).unwrap(), Packets::new(theirs).unwrap());
            for target in [
                "/control/applications/a/restart",
                "/control/applications/a/profile",
                "/control/caches/%2A/purge",
                "/control/reload",
                "/control/upgrade",
                "/config",
                "/config/settings",
                "/certificates",
                "/control/compiled",
                "/",
                "x",
            ] {
                let refused = reader.get(target.as_bytes()).await.unwrap_err();
                assert!(refused.contains("not a question"), "{target}: {refused}");
            }
            let asked = tokio::task::spawn_local(async move { reader.get(b"/status").await });
            let (packet, _) = router.receive().await.unwrap().unwrap();
            let Ok(ToRouter::Ask { question, .. }) = ToRouter::decode(&packet) else { panic!() };
            assert_eq!(question, r#""Status""#);
            drop(router);
            assert!(asked.await.unwrap().is_err());
        });
    }
}
