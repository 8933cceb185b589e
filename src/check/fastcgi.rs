//! Sockets of FastCGI and HTTP servers on this machine.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use howdah_config::{Address, Config, Servers, path};

/// Returns the unix sockets of servers that are not there, each with the key that names it.
pub(super) fn missing_sockets(config: &Config) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for application in &config.fastcgi {
        if let Servers::One(Address::Unix(socket)) = &application.servers {
            let place = path(["applications", application.name.as_str(), "server"]);
            all.extend(problem(socket).map(|problem| (place, problem)));
        }
    }
    for upstream in &config.upstreams {
        for server in &upstream.servers {
            let Address::Unix(socket) = &server.address else { continue };
            let name = server.address.to_string();
            let place = path(["upstreams", upstream.name.as_str(), "servers", name.as_str()]);
            all.extend(problem(socket).map(|problem| (place, problem)));
        }
    }
    all
}

fn problem(socket: &Path) -> Option<String> {
    let shown = socket.display();
    match fs::metadata(socket) {
        Ok(found) if found.file_type().is_socket() => None,
        Ok(_) => Some(format!("{shown} is no socket, so requests get 502")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let others = neighbours(socket);
            let advice = match others.as_slice() {
                [] => "start the server that listens there, or correct the path".to_owned(),
                others => format!(
                    "start the server that listens there, or name one of the sockets beside it: {}",
                    others.join(", ")
                ),
            };
            Some(format!("there is no socket {shown}, so requests get 502; {advice}"))
        }
        Err(error) => Some(format!("{shown} cannot be looked at: {error}")),
    }
}

/// Returns the sockets in the same directory, a few.
fn neighbours(socket: &Path) -> Vec<String> {
    const MAX_SHOWN: usize = 5;
    let entries = socket.parent().and_then(|directory| fs::read_dir(directory).ok());
    let entries = entries.into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let mut names: Vec<_> = sockets.map(|entry| entry.path().display().to_string()).collect();
    names.sort();
    names.truncate(MAX_SHOWN);
    names
}
