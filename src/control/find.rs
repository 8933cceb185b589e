//! Finding the server that is meant if no address was given.

use std::io::ErrorKind;
use std::path::Path;

use super::Failure;
use super::args::DEFAULT_CONTROL;
use super::client::Client;
use crate::control_socket;

/// Whether an address is that of a socket in the directory where servers have theirs by default.
pub(super) fn is_own(address: &str) -> bool {
    let path = address.strip_prefix("unix:").map(Path::new);
    let directory = path.and_then(Path::parent);
    directory.is_some() && directory == control_socket::directory().as_deref()
}

/// The server of this user, if there is exactly one.
pub(super) fn only(token_file: Option<&Path>) -> Result<Client, Failure> {
    let unitd = (!control_socket::is_named()).then(|| DEFAULT_CONTROL.to_owned());
    let (mut servers, mut denied) = (Vec::new(), None);
    for address in unitd.into_iter().chain(control_socket::sockets()) {
        let client = Client::at(&address, token_file)?;
        match client.probe() {
            Ok(()) => servers.push(client),
            // Another user's, which this one hardly means; the first request says so.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(client),
            Err(_) => {}
        }
    }
    if servers.len() > 1 {
        return Err(Failure::Failed(choice(&servers)));
    }
    servers.pop().or(denied).ok_or_else(|| {
        let places = match control_socket::directory() {
            Some(directory) => format!("in {}", directory.display()),
            None => format!("at {DEFAULT_CONTROL}"),
        };
        Failure::Unreachable(format!(
            "no server of this user answers {places}; ask as the user who has started it, or name its \
             control socket with --control ADDRESS"
        ))
    })
}

/// Says which servers there are: a line for each.
fn choice(servers: &[Client]) -> String {
    let mut text = "several servers run; name one with --control:".to_owned();
    for server in servers {
        let listeners = server.request("GET", "/config/listeners", b"").ok();
        let listeners = listeners.as_ref().and_then(|listeners| listeners.as_object());
        let names: Vec<_> = listeners.into_iter().flat_map(|all| all.keys().cloned()).collect();
        let address = server.address();
        text.push_str(&match names.is_empty() {
            true => format!("\n  {address}"),
            false => format!("\n  {address} serves {}", names.join(", ")),
        });
    }
    text
}
