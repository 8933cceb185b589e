//! Access to the control API: its address must be local, and some addresses need a token.

use std::net::SocketAddr;

use howdah_control::{needs_token, token_file};
use howdah_wire::messages::Secret;

use crate::cli::Serve;

/// Checks that other machines cannot reach the control API, whose clients can run programs.
fn check_control(address: &str) -> Result<(), String> {
    let advice = match (address.strip_prefix("unix:"), address.parse::<SocketAddr>()) {
        (Some(path), _) if !path.is_empty() && path != "@" => return Ok(()),
        (None, Ok(address)) if address.ip().is_loopback() => return Ok(()),
        (None, Ok(_)) => "other machines could reach it and run programs here",
        (None, Err(_)) if address.starts_with("*:") => {
            "other machines could reach it and run programs here"
        }
        _ => "it is not an address",
    };
    Err(format!(
        "--control {address}: {advice}; write unix:PATH, or a loopback address with a port, such \
         as 127.0.0.1:8000 or [::1]:8000"
    ))
}

/// Checks the address of the socket for users of sites, whom the kernel must know by different ids.
pub(super) fn check_site_users(arguments: &Serve, is_root: bool) -> Result<(), String> {
    let Some(address) = &arguments.site_users else { return Ok(()) };
    let advice = match address.strip_prefix("unix:") {
        Some(path) if !path.starts_with('/') => "write unix: and an absolute path",
        None => "write unix:PATH: the kernel tells the user of a connection only on unix sockets",
        Some(_) if arguments.control.as_ref() == Some(address) => {
            "it is the address of the control API; choose another one"
        }
        Some(_) if !is_root => {
            "only a server that root has started has sites of several users; leave it out"
        }
        Some(_) => return Ok(()),
    };
    Err(format!("--site-users {address}: {advice}"))
}

/// Checks the address of the control API and reads the token of `--control-token-file`.
pub(super) fn read_token(arguments: &Serve) -> Result<Option<Secret>, String> {
    const OPTION: &str = "--control-token-file";
    match (&arguments.control, &arguments.control_token_file) {
        (None, None) => Ok(None),
        (None, Some(path)) => {
            Err(format!("{OPTION} {}: it has no effect without --control", path.display()))
        }
        (Some(address), None) => {
            check_control(address)?;
            if needs_token(address) {
                Err(format!(
                    "--control {address}: every program of this machine could use the control API \
                     there, also scripts of the sites; add {OPTION} FILE with a file that has a \
                     secret and that only you can read, made with (umask 077; openssl rand -hex \
                     32 > FILE), or write unix:PATH, where the socket's permissions keep others out"
                ))
            } else {
                Ok(None)
            }
        }
        (Some(address), Some(path)) => {
            check_control(address)?;
            let token = token_file::read(OPTION, path)?;
            Ok(Some(Secret::new(token.expose().to_owned())))
        }
    }
}

/// Reads the token of `--dashboard-token-file`, which must not be that of the control API: the router
/// passes it on, and nothing that a router learns may be worth more than it has anyway.
pub(super) fn read_dashboard_token(
    arguments: &Serve,
    control_token: Option<&Secret>,
) -> Result<Option<Secret>, String> {
    const OPTION: &str = "--dashboard-token-file";
    let Some(path) = &arguments.dashboard_token_file else { return Ok(None) };
    let token = token_file::read(OPTION, path)?;
    if control_token.is_some_and(|control| control.expose() == token.expose()) {
        return Err(format!(
            "{OPTION} {}: it has the token of the control API; clients send the token of the page \
             through the router, so make another one with (umask 077; openssl rand -hex 32 > FILE)",
            path.display()
        ));
    }
    Ok(Some(Secret::new(token.expose().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_sites_have_a_socket_of_their_own() {
        let check = |address: &str, is_root| {
            let arguments = Serve {
                site_users: Some(address.to_owned()),
                control: Some("unix:/run/c.sock".to_owned()),
                ..Serve::default()
            };
            check_site_users(&arguments, is_root)
        };
        assert_eq!(check("unix:/run/sites.sock", true), Ok(()));
        for bad in ["unix:@x", "unix:run/x", "unix:", "/run/x", "127.0.0.1:8", "unix:/run/c.sock"] {
            assert!(check(bad, true).unwrap_err().contains("--site-users"), "{bad}");
        }
        assert!(check("unix:/run/sites.sock", false).unwrap_err().contains("root"));
        assert_eq!(check_site_users(&Serve::default(), false), Ok(()));
    }

    #[test]
    fn the_control_api_is_not_offered_to_other_machines() {
        for good in ["unix:/run/x.sock", "unix:@x", "127.0.0.1:8000", "127.9.9.9:1", "[::1]:8000"] {
            assert_eq!(check_control(good), Ok(()), "{good}");
        }
        for bad in ["0.0.0.0:8000", "*:8000", "[::]:8000", "192.0.2.1:80", "[::ffff:127.0.0.1]:80"]
        {
            let problem = check_control(bad).unwrap_err();
            assert!(problem.contains(bad) && problem.contains("other machines"), "{problem}");
        }
        for bad in ["", "unix:", "unix:@", "/run/x.sock", "localhost:8000", "127.0.0.1", ":8000"] {
            assert!(check_control(bad).unwrap_err().contains("not an address"), "{bad}");
        }
    }
}
