//! Choice of the server: the given address, the server of the service for which systemd runs the
//! command (`$MAINPID`), or the only server of this user.

use std::io::ErrorKind;
use std::path::Path;

use crate::args::{DEFAULT_CONTROL, Server};
use crate::client::Client;
use crate::failure::Failure;
use howdah_control::socket;
use howdah_sys::credentials;

/// Returns a client of the given server, or of the only server of this user.
pub(super) fn connect(server: &Server) -> Result<Client, Failure> {
    let token_file = server.control_token_file.as_deref();
    match &server.control {
        Some(address) => Client::new(address, token_file),
        None => only(token_file),
    }
}

/// Returns a client for a question that users of sites may ask about their own sites, too: of the
/// server's control socket if this user may use it, otherwise of the socket for users of sites.
pub(super) fn connect_as_site_user(server: &Server) -> Result<Client, Failure> {
    let found = connect(server);
    let is_usable = match &found {
        Ok(client) => client.probe().is_ok(),
        // More than one server.
        Err(Failure::Failed(_)) => true,
        Err(_) => false,
    };
    if is_usable || server.control.is_some() || credentials::is_root() {
        return found;
    }
    let client = Client::new(&socket::site_users(), None)?;
    if client.probe().is_ok() {
        return Ok(client);
    }
    Err(Failure::Unreachable(format!(
        "no server of this user answers, and none at {} for users of sites: ask as the user who has \
         started the server (a service: with sudo), or start it with --site-users",
        client.address()
    )))
}

/// Returns a client of the server of this user, if there is exactly one.
fn only(token_file: Option<&Path>) -> Result<Client, Failure> {
    let unitd = (!socket::is_named()).then(|| DEFAULT_CONTROL.to_owned());
    let (mut servers, mut denied) = (Vec::new(), None);
    for address in unitd.into_iter().chain(socket::sockets()) {
        let client = Client::new(&address, token_file)?;
        match client.probe() {
            Ok(pid) => servers.push((client, pid)),
            // The socket of another user; the first request reports that.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => denied = Some(client),
            Err(_) => {}
        }
    }
    if let Some(wanted) = service() {
        servers.retain(|(_, pid)| *pid == Some(wanted));
        if servers.is_empty() {
            return Err(Failure::Unreachable(format!(
                "no control socket is that of the service's process {wanted} ($MAINPID); name it \
                 with --control ADDRESS"
            )));
        }
    }
    let mut servers: Vec<_> = servers.into_iter().map(|(client, _)| client).collect();
    if servers.len() > 1 {
        return Err(Failure::Failed(choice(&servers)));
    }
    servers.pop().or(denied).ok_or_else(|| {
        let places = socket::directory()
            .map_or(String::new(), |directory| format!(" in {}", directory.display()));
        Failure::Unreachable(format!(
            "no server of this user answers{places}; ask as the user who has started it (a \
             service: with sudo), or name its control socket with --control ADDRESS"
        ))
    })
}

/// Returns the process id of the service for which systemd runs this command.
fn service() -> Option<u32> {
    std::env::var("MAINPID").ok()?.parse().ok()
}

/// Lists the servers, each on a line.
fn choice(servers: &[Client]) -> String {
    let mut text = "several servers run; name one with --control:".to_owned();
    for server in servers {
        let listeners = server.request("GET", "/config/listeners", b"").ok();
        let listeners = listeners.as_ref().and_then(|listeners| listeners.as_object());
        let names: Vec<_> = listeners.into_iter().flat_map(|all| all.keys().cloned()).collect();
        let address = server.address();
        text.push_str(&if names.is_empty() {
            format!("\n  {address}")
        } else {
            format!("\n  {address} serves {}", names.join(", "))
        });
    }
    text
}
