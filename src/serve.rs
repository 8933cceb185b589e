//! `howdah serve`: from what the user typed to a running server.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use howdah_config::{Address, Config, Defaults, detect};
use howdah_control::needs_token;
use howdah_supervisor::{self as supervisor, Ending, Options, ReadAgain};
use howdah_sys::credentials::{self, Credentials};
use howdah_wire::messages::Secret;

use crate::cli::{Places, Serve};
use crate::control::DEFAULT_CONTROL;
use crate::local_tls::Local;
use crate::places::{self, Temporary};
use crate::{
    check, control_socket, control_token, daemon, grants, https, php_programs, site_access,
    site_sandbox,
};

/// Users that are tried if root names none: those that distributions serve sites as.
const DEFAULT_USERS: [&str; 4] = ["www-data", "apache", "http", "nobody"];

/// Where a server that is started like unitd keeps its things.
const UNITD_STATE: &str = "/var/lib/howdah";
const UNITD_LOG: &str = "/var/log/howdah.log";
const UNITD_PID: &str = "/run/howdah.pid";

/// What is served, and what there is to tell about it.
struct Plan {
    document: Vec<u8>,
    origin: String,
    explanation: Vec<String>,
    site: Option<PathBuf>,
    /// Certificates of this machine's own.
    local: Option<Local>,
}

/// Runs the server until it ends.
pub fn run(mut arguments: Serve) -> Result<(), String> {
    like_unitd(&mut arguments);
    let mut control_token = read_control_token(&arguments)?;
    let mut plan = plan(&arguments)?;
    if let Some(local) = &plan.local {
        local.prepare(SystemTime::now())?;
        plan.explanation.extend(local.explain());
    }
    if arguments.print_config {
        return print_config(&plan);
    }
    let config = match howdah_config::parse_with(&plan.document, &Defaults::of(arguments.unit)) {
        Ok(config) => Some(config),
        // What was stored came through the control API; if it is not understood any more (after
        // a downgrade), an empty server that says so is better than none.
        Err(error) if keeps_document(&arguments) => {
            eprintln!("howdah: {}: {error}", plan.origin);
            None
        }
        Err(error) => return Err(format!("{}: {error}", plan.origin)),
    };
    let user = user(&arguments.places)?;
    if let (Some(site), Some(user)) = (&plan.site, &user) {
        site_access::check(site, user)?;
    }
    if let (Some(site), Some(config)) = (&plan.site, &config) {
        site_access::check_links(site, config)?;
    }
    let php = php_programs::find();
    if php.found.is_empty() && config.as_ref().is_some_and(|c| !c.applications.is_empty()) {
        let reason = php.problems.first().map_or(php_programs::ADVICE, String::as_str);
        return Err(format!("PHP cannot be run: {reason}"));
    }
    let absolute = |path: &Option<PathBuf>| {
        path.as_ref().map(std::path::absolute).transpose().map_err(|error| error.to_string())
    };
    let tmp = Temporary::find(arguments.places.tmp.as_deref(), user.as_ref())?;
    let has_own = config.as_ref().is_some_and(|c| c.settings.http.body_temp_path.is_some());
    let certificates = certificates(arguments.places.state.as_deref(), config.as_ref())?;
    let state = certificates.as_deref().and_then(places::state);
    let mut warnings: Vec<_> = tmp.warning.filter(|_| !has_own).into_iter().chain(state).collect();
    let private_user = user.as_ref().and_then(|_| credentials::private_user());
    if let (Some(user), None) = (&user, private_user) {
        warnings.push(format!(
            "this namespace has no user id for the server alone, so scripts of applications that run \
             as \"{}\", as the router does, could end the router; give applications other users, or \
             make a user \"howdah\"",
            user.name
        ));
    }
    let mut own_controls = Vec::new();
    if arguments.control.is_none() && !arguments.no_control {
        match control_socket::prepare() {
            Ok((addresses, token)) => {
                own_controls = addresses;
                control_token = token.map(|token| Secret::new(token.expose().to_owned()));
            }
            Err(problem) => warnings.push(problem),
        }
    }
    if arguments.places.log.is_some() {
        warnings.iter().for_each(|warning| eprintln!("howdah: {warning}"));
    }
    let mut options = Options {
        warnings,
        private_user,
        user,
        grants: Some(Box::new(grants::derive)),
        document: if config.is_some() { plan.document } else { b"{}".to_vec() },
        origin: plan.origin,
        read_again: read_again(&arguments)?,
        state: absolute(&arguments.places.state)?.filter(|_| keeps_document(&arguments)),
        certificates,
        upkeep: upkeep(plan.local),
        pid: absolute(&arguments.places.pid)?,
        log: absolute(&arguments.places.log)?,
        tmp: tmp.path,
        control: arguments.control.clone(),
        own_controls,
        unit_defaults: arguments.unit,
        control_token,
        sandbox: !arguments.no_sandbox,
        php: php.found,
        on_serving: None,
    };
    if arguments.daemon {
        let serving = daemon::detach().map_err(|error| format!("cannot detach: {error}"))?;
        options.on_serving = Some(Box::new(move || {
            let _ = daemon::leave_terminal();
            let _ = rustix::io::write(&serving, b"ok");
        }));
    } else {
        let lines = announcement(&plan.explanation, config.as_ref());
        // Whoever has closed standard output does not want to know.
        options.on_serving = Some(Box::new(move || {
            let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
        }));
    }
    match supervisor::run(options)? {
        Ending::Stopped => Ok(()),
        Ending::Refused(problem) => Err(problem),
    }
}

/// Prints the document on standard output; the error says what is wrong with it.
fn print_config(plan: &Plan) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", plan.origin);
    howdah_config::parse(&plan.document).map_err(|error| wrong(&error))?;
    let document = howdah_config::json::parse(&plan.document).map_err(|error| wrong(&error))?;
    writeln!(std::io::stdout(), "{document:#}").map_err(|error| format!("standard output: {error}"))
}

/// Whether the configuration is the one that is kept, which the control API changes.
fn keeps_document(arguments: &Serve) -> bool {
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let is_given = arguments.dir.is_some() || arguments.config.is_some() || is_https;
    arguments.places.state.is_some() && !is_given
}

/// The directory for certificates, if there is one or there will be something to keep.
pub fn certificates(
    state: Option<&Path>,
    config: Option<&Config>,
) -> Result<Option<PathBuf>, String> {
    let listeners = config.map(|config| config.listeners.as_slice()).unwrap_or_default();
    let mut all = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    match state.is_some() || all.any(|tls| !tls.acme.is_empty()) {
        true => https::state(state, credentials::is_root()).map(Some),
        false => Ok(None),
    }
}

/// Makes a certificate of this machine's own anew in time.
fn upkeep(local: Option<Local>) -> Option<Box<dyn FnMut()>> {
    let local = local?;
    Some(Box::new(move || {
        if let Err(problem) = local.prepare(SystemTime::now()) {
            eprintln!("howdah: {problem}");
        }
    }))
}

/// Options alone mean what they mean to unitd: its defaults, and the background.
fn like_unitd(arguments: &mut Serve) {
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let has_site = arguments.dir.is_some() || arguments.config.is_some() || is_https;
    if !arguments.like_unitd || has_site || !arguments.listen.is_empty() {
        return;
    }
    arguments.unit = true;
    arguments.places.state.get_or_insert_with(|| UNITD_STATE.into());
    if !arguments.no_control {
        arguments.control.get_or_insert_with(|| DEFAULT_CONTROL.to_owned());
    }
    arguments.places.pid.get_or_insert_with(|| UNITD_PID.into());
    arguments.places.log.get_or_insert_with(|| UNITD_LOG.into());
    arguments.daemon = !arguments.no_daemon;
}

/// Whoever reaches the control API can run programs here, so other machines must not.
fn check_control(address: &str) -> Result<(), String> {
    let advice = match (address.strip_prefix("unix:"), address.parse::<SocketAddr>()) {
        (Some(path), _) if !path.is_empty() && path != "@" => return Ok(()),
        (None, Ok(address)) if address.ip().is_loopback() => return Ok(()),
        (None, Ok(_)) => "other machines could reach it and run programs here",
        (None, Err(_)) if address.starts_with("*:") => {
            "other machines could reach it and run programs here"
        }
        _ => "this is no address",
    };
    Err(format!(
        "--control {address}: {advice}; write unix:PATH, or a loopback address with a port, such as \
         127.0.0.1:8000 or [::1]:8000"
    ))
}

/// Checks the address of the control API, and reads its token.
fn read_control_token(arguments: &Serve) -> Result<Option<Secret>, String> {
    const OPTION: &str = "--control-token-file";
    match (&arguments.control, &arguments.control_token_file) {
        (None, None) => Ok(None),
        (None, Some(path)) => {
            Err(format!("{OPTION} {}: there is no --control that it is for", path.display()))
        }
        (Some(address), None) => {
            check_control(address)?;
            match needs_token(address) {
                true => Err(format!(
                    "--control {address}: every program of this machine could use the control API \
                     there, also scripts of the sites; add {OPTION} FILE with a file that has a secret \
                     and that only you can read, made with (umask 077; openssl rand -hex 32 > FILE), or \
                     write unix:PATH, where the socket's permissions keep others out"
                )),
                false => Ok(None),
            }
        }
        (Some(address), Some(path)) => {
            check_control(address)?;
            let token = control_token::read(OPTION, path)?;
            Ok(Some(Secret::new(token.expose().to_owned())))
        }
    }
}

/// What is to be served.
fn plan(arguments: &Serve) -> Result<Plan, String> {
    if let Some(path) = &arguments.config {
        let origin = path.display().to_string();
        let (document, explanation) = (check::read(path)?, Vec::new());
        return Ok(Plan { document, origin, explanation, site: None, local: None });
    }
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let is_told = arguments.places.state.is_some() || arguments.control.is_some();
    if arguments.dir.is_none() && is_told && !is_https {
        return stored(arguments.places.state.as_deref());
    }
    let directory = arguments.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let site = detect::detect(&directory).map_err(|error| error.to_string())?;
    for address in &arguments.listen {
        Address::parse(address).map_err(|error| match Address::listen_advice(address) {
            Some(advice) => {
                format!("--listen: \"{address}\" is no address to listen on; {advice}")
            }
            None => format!("--listen: \"{address}\" {error}"),
        })?;
    }
    let listen = match arguments.listen.as_slice() {
        [] => https::addresses(arguments),
        listen => listen.to_vec(),
    };
    let mut document = site.document(&listen, arguments.workers);
    let local = match arguments.tls {
        true => {
            let state = https::state(arguments.places.state.as_deref(), credentials::is_root())?;
            Some(Local::new(&state, &arguments.domain))
        }
        false => None,
    };
    https::secure(&mut document, arguments, local.as_ref());
    let mut explanation = site.explain();
    if !arguments.no_sandbox {
        let user = user(&arguments.places)?;
        explanation.extend(site_sandbox::add(&mut document, &site, user.as_ref()));
    }
    Ok(Plan {
        document: document.to_string().into_bytes(),
        origin: directory.display().to_string(),
        explanation,
        site: Some(directory),
        local,
    })
}

/// What the supervisor calls when the configuration is to be read again.
fn read_again(arguments: &Serve) -> Result<Option<ReadAgain>, String> {
    let only_told = arguments.control.is_some() && arguments.places.state.is_none();
    if only_told && arguments.dir.is_none() && arguments.config.is_none() {
        return Ok(None); // what the control API was told is nowhere else
    }
    // The server may have left the directory by then.
    let absolute = |path: &Option<PathBuf>| {
        path.as_ref().map(std::path::absolute).transpose().map_err(|error| error.to_string())
    };
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let dir = match (&arguments.config, &arguments.places.state, &arguments.dir) {
        (None, state, None) if state.is_none() || is_https => Some(PathBuf::from(".")),
        (_, _, dir) => dir.clone(),
    };
    let arguments = Serve {
        dir: absolute(&dir)?,
        config: absolute(&arguments.config)?,
        places: Places {
            state: absolute(&arguments.places.state)?,
            user: arguments.places.user.clone(),
            group: arguments.places.group.clone(),
            ..Places::default()
        },
        listen: arguments.listen.clone(),
        workers: arguments.workers,
        tls: arguments.tls,
        domain: arguments.domain.clone(),
        email: arguments.email.clone(),
        acme: arguments.acme.clone(),
        no_sandbox: arguments.no_sandbox,
        ..Serve::default()
    };
    Ok(Some(Box::new(move || {
        let plan = plan(&arguments)?;
        plan.local.as_ref().map_or(Ok(()), |local| local.prepare(SystemTime::now()))?;
        Ok(plan.document)
    })))
}

fn stored(state: Option<&Path>) -> Result<Plan, String> {
    let document = match state {
        Some(state) => supervisor::load_document(state)
            .map_err(|error| format!("cannot read the state in {}: {error}", state.display()))?,
        None => None,
    };
    Ok(Plan {
        document: document
            .unwrap_or_else(|| br#"{"listeners":{},"routes":[],"applications":{}}"#.to_vec()),
        origin: "the stored configuration".to_owned(),
        explanation: Vec::new(),
        site: None,
        local: None,
    })
}

/// The user to serve as; `None` if that is who has started the server.
pub fn user(places: &Places) -> Result<Option<Credentials>, String> {
    let look_up = |name: &str| {
        Credentials::look_up(name, places.group.as_deref()).map_err(|error| error.to_string())
    };
    match &places.user {
        Some(name) if credentials::is_root() => look_up(name).map(Some),
        Some(name) => {
            let user = look_up(name)?;
            if user.uid == Credentials::current().uid {
                Ok(None)
            } else {
                Err(format!("--user {name}: only root can serve as another user"))
            }
        }
        None if credentials::is_root() => {
            let found = DEFAULT_USERS.iter().find_map(|name| Credentials::look_up(name, None).ok());
            found.map(Some).ok_or_else(|| {
                "root must not serve sites, and there is no user www-data, apache, http or \
                 nobody; name one with --user"
                    .to_owned()
            })
        }
        None => Ok(None),
    }
}

/// What is printed once the site is served.
fn announcement(explanation: &[String], config: Option<&Config>) -> Vec<String> {
    let mut lines = explanation.to_vec();
    let listeners = config.map(|config| config.listeners.as_slice()).unwrap_or_default();
    for listener in listeners {
        let name = &listener.name;
        let scheme = if listener.tls.is_some() { "https" } else { "http" };
        let url = match name.strip_prefix("*:") {
            _ if name.starts_with("unix:") => name.clone(),
            Some(port) => format!("{scheme}://localhost:{port}/ (on all addresses)"),
            None => format!("{scheme}://{name}/"),
        };
        lines.push(format!("Serving {url}"));
    }
    if listeners.is_empty() {
        lines.push("Ready; nothing is served until the control API is told what".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(check_control(bad).unwrap_err().contains("no address"), "{bad}");
        }
    }
}
