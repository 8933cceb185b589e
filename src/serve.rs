//! `howdah serve`: runs the server.
//!
//! 1. [`StartupPlan`] chooses the document from the command line.
//! 2. The requirements of the document are checked: the user, the site's permissions, PHP,
//!    directories.
//! 3. The supervisor runs until the server ends.

mod browser;
mod cache;
mod control_access;
mod daemon;
mod free_port;
pub mod grants;
mod https;
mod last_good;
mod local_tls;
mod mail_page;
mod mail_to;
mod named_sites;
mod php_options;
mod php_version;
mod plan;
mod reload;
mod site_access;
mod unitd;
mod variables;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use howdah_config::Config;
use howdah_supervisor::{
    self as supervisor, Apart, Ending, InheritedSocket, Invocation, LogTarget, Options, Predecessor,
};
use howdah_sys::credentials::{self, Credentials};
use howdah_sys::plain::Plain;
use howdah_sys::service_manager::ServiceManager;
use howdah_wire::messages::Secret;

use crate::cli::Serve;
use crate::directories::{self, Temporary};
use crate::php_programs::{self, Programs};
use crate::request_lines::RequestLines;
use crate::{environment, server_user};
use browser::Browser;
use last_good::Chosen;
use local_tls::LocalCertificate;
use mail_page::MailPage;
use plan::StartupPlan;
use reload::{Reload, Watched};
use variables::Variables;

/// The reason why the server could not serve.
pub struct Failure {
    pub problem: String,
    /// Another attempt fails too until the command line, a file that it names or the configuration
    /// is changed, or the program that has the address of a listener is ended.
    pub is_permanent: bool,
}

impl From<String> for Failure {
    fn from(problem: String) -> Failure {
        Failure { problem, is_permanent: true }
    }
}

/// Returns a failure that may not come again.
fn temporary(problem: String) -> Failure {
    Failure { problem, is_permanent: false }
}

/// Runs the server until it ends.
pub fn run(arguments: Serve) -> Result<(), Failure> {
    let invocation = Invocation::of_this_process();
    let predecessor = Predecessor::inherited().map_err(temporary)?;
    let served = serve(arguments, invocation, predecessor.clone());
    if let (Some(predecessor), Err(failure)) = (predecessor, &served) {
        predecessor.fail(&failure.problem);
    }
    served
}

fn serve(
    mut arguments: Serve,
    invocation: Option<Invocation>,
    predecessor: Option<Predecessor>,
) -> Result<(), Failure> {
    // Before anything is opened: the variables name descriptors by their numbers.
    let service = ServiceManager::take();
    environment::apply(&mut arguments, |name| std::env::var_os(name))?;
    unitd::apply_defaults(&mut arguments);
    let variables = Variables::read(&arguments.env)?;
    if let (Some(name), Some(_)) = (variables.name(), &arguments.config) {
        let problem = format!(
            "--env {name}: the configuration chooses the variables that applications get; name it in \
             \"environment\" of an application, as {{ \"{name}\": {{ \"env\": true }} }}"
        );
        return Err(problem.into());
    }
    variables.keep_values();
    // One name for the document and its files, independent of the working directory: their stored
    // state is found by this name.
    if let Some(config) = &mut arguments.config {
        *config = std::path::absolute(&*config).map_err(|error| error.to_string())?;
    }
    let mut control_token = control_access::read_token(&arguments)?;
    let dashboard_token = control_access::read_dashboard_token(&arguments, control_token.as_ref())?;
    control_access::check_site_users(&arguments, credentials::is_root())?;
    let state_problem =
        directories::check_format(arguments.common.state.as_deref(), arguments.strict)?;
    let inherited = service.descriptors.into_iter();
    let inherited: Vec<_> =
        inherited.map(|(fd, name)| InheritedSocket::of_service_manager(fd, name)).collect();
    if arguments.listen.is_empty()
        && let Some(addresses) = https::passed_addresses(&arguments, &inherited)
    {
        arguments.listen = addresses;
    }
    if !arguments.daemon && !arguments.print_config {
        arguments.request_lines = RequestLines::of_output(arguments.dev);
    }
    let mut moved = None;
    if !arguments.print_config && predecessor.is_none() && inherited.is_empty() {
        let addresses = plan::listen_addresses(&arguments)?;
        if let Some((address, line)) = free_port::find(&arguments, &addresses) {
            arguments.listen = vec![address];
            moved = Some(line);
        }
    }
    let mut mail_page = None;
    if arguments.mail_to.as_deref() == Some(mail_page::OPTION) && !arguments.print_config {
        let former = predecessor.as_ref().map(|former| MailPage::of_document(former.document()));
        let page = match former.transpose()?.flatten() {
            Some(page) => page,
            None => MailPage::new(server_user::find(&arguments.common)?.as_ref())?,
        };
        arguments.mail_page = Some(page.directory().to_owned());
        mail_page = Some(page);
    }
    let mut reload = None;
    if arguments.watch && !arguments.print_config && predecessor.is_none() {
        let (bound, address) = Reload::bind()?;
        (reload, arguments.reload_events) = (Some(bound), Some(address));
    }
    if arguments.print_config {
        let plan = StartupPlan::new(&arguments, None)?;
        return Ok(plan.print_document(&arguments.common)?);
    }
    let Chosen { mut plan, config, refused } = match &predecessor {
        Some(predecessor) => {
            let plan = StartupPlan::inherited(&arguments, predecessor)?;
            let config = plan
                .valid_config(&arguments)
                .map_err(|problem| last_good::with_newer_writer(problem, &arguments))?;
            Chosen { plan, config: Some(config), refused: None }
        }
        None => last_good::choose(&arguments)?,
    };
    if let Some(local) = &plan.local {
        local.prepare(SystemTime::now())?;
        plan.explanation.extend(local.explain());
    }
    plan.explanation.extend(moved);
    let browser = arguments.open.then(|| Browser::prepare(credentials::is_root())).transpose()?;
    let user = server_user::find(&arguments.common)?;
    check_site(&plan, config.as_ref(), user.as_ref())?;
    // While packages are replaced, it may be gone for a moment.
    let php = find_php(config.as_ref()).map_err(temporary)?;
    let absolute = |path: &Option<PathBuf>| {
        path.as_ref().map(std::path::absolute).transpose().map_err(|error| error.to_string())
    };
    let tmp = Temporary::find(arguments.common.tmp.as_deref(), user.as_ref())?;
    let has_own = config.as_ref().is_some_and(|c| c.settings.http.body_temp_path.is_some());
    let certificates =
        directories::certificates(arguments.common.state.as_deref(), config.as_ref())?;
    let state_problem =
        state_problem.or(directories::check_format(certificates.as_deref(), arguments.strict)?);
    let state = certificates.as_deref().and_then(directories::state_problem);
    let mut warnings: Vec<_> = tmp.warning.filter(|_| !has_own).into_iter().chain(state).collect();
    warnings.extend(state_problem);
    if config.as_ref().is_some_and(|config| !config.applications.is_empty()) {
        // Another version answers requests to applications that name none.
        warnings.extend(php.unusable.iter().map(ToString::to_string));
    }
    let private_user = user.as_ref().and_then(|_| credentials::private_user());
    let user_of_site = user.clone();
    if let (Some(user), None) = (&user, private_user) {
        warnings.push(format!(
            "this namespace has no user id for the server alone, so scripts of applications that \
             run as \"{}\", as the router does, could end the router; give applications other \
             users, or make a user \"howdah\"",
            user.name
        ));
    }
    let mut default_controls = Vec::new();
    if arguments.control.is_none() && !arguments.no_control {
        match howdah_control::socket::prepare() {
            Ok((addresses, token)) => {
                default_controls = addresses;
                control_token = token.map(|token| Secret::new(token.expose().to_owned()));
            }
            Err(problem) => warnings.push(problem),
        }
    }
    if let Some(config) = config.as_ref().filter(|_| !plan.directories.is_empty()) {
        let own = Credentials::current();
        warnings
            .extend(site_access::unreadable_front(config, user_of_site.as_ref().unwrap_or(&own)));
    }
    warnings.extend(service.warnings);
    if let Some(config) = config.as_ref().filter(|_| predecessor.is_none()) {
        warnings.extend(unread(config, user_of_site.as_ref()));
    }
    let log = LogTarget::of(arguments.common.log.as_deref()).map_err(|error| error.to_string())?;
    if matches!(log, LogTarget::File(_)) {
        warnings.iter().for_each(|warning| eprintln!("howdah: {}", Plain(warning)));
    }
    let mut options = Options {
        warnings,
        private_user,
        user,
        grants: Some(if arguments.dir.is_some() || !plan.directories.is_empty() {
            Box::new(grants::derive_for_site)
        } else {
            Box::new(grants::derive)
        }),
        document: if config.is_some() { plan.document } else { b"{}".to_vec() },
        origin: plan.origin,
        reload_document: plan::reload_document(&arguments)?,
        compile_document: Some(plan::compile_document(&arguments)),
        table_files: plan::table_files(&arguments),
        state: absolute(&arguments.common.state)?.filter(|_| plan::keeps_document(&arguments)),
        last_document: absolute(&arguments.common.state)?
            .filter(|_| arguments.config.is_some() || plan::keeps_document(&arguments)),
        refused,
        certificates,
        upkeep: upkeep(plan.local),
        pid: absolute(&arguments.common.pid)?,
        log,
        log_level: arguments.common.log_level,
        tmp: tmp.path,
        control: arguments.control.clone(),
        default_controls,
        site_users: arguments.site_users.clone(),
        unit_defaults: arguments.unit,
        dashboard_token,
        control_token,
        mail_file: match &mail_page {
            Some(page) => Some(page.file()?),
            None => mail_to::file(arguments.mail_to.as_deref())?,
        },
        sandbox: !arguments.no_sandbox,
        // A directory is one site, and is served from a terminal.
        strict: arguments.strict || plan.directories.len() == 1,
        php: php.found,
        unusable_php: php.unusable,
        invocation,
        is_daemon: arguments.daemon,
        predecessor: predecessor.clone(),
        inherited,
        notifier: service.notifier,
        watchdog: service.watchdog,
        on_serving: None,
        on_status: None,
    };
    if predecessor.is_some() {
        // The old server has left the terminal and has printed the addresses that are served.
        if arguments.daemon {
            std::env::set_current_dir("/").map_err(cannot_detach)?;
            options.on_serving = Some(Box::new(|_| drop(daemon::leave_terminal())));
        }
    } else if arguments.daemon {
        let control = options.control.clone().or_else(|| options.default_controls.first().cloned());
        let token_file = arguments.control_token_file.clone();
        let tell = move || {
            if let Some(address) = control {
                howdah_client::print_parts_out(&address, token_file.as_deref());
            }
        };
        let serving = daemon::detach(tell).map_err(cannot_detach)?;
        options.on_serving = Some(Box::new(move |_| {
            let _ = daemon::leave_terminal();
            let _ = rustix::io::write(&serving, b"ok");
        }));
    } else {
        let lines = announcement(&plan.explanation, config.as_ref());
        // Standard output may be closed, which is not an error.
        options.on_serving = Some(Box::new(move |is_applied| {
            let text = if is_applied { lines.join("\n") } else { NOTHING_SERVED.to_owned() };
            let _ = writeln!(std::io::stdout(), "{text}");
            let url = lines.iter().find_map(|line| line.strip_prefix("Serving http"));
            let url = url.and_then(|rest| rest.split(' ').next()).filter(|_| is_applied);
            if let (Some(browser), Some(rest)) = (browser, url) {
                browser.open(&format!("http{rest}"));
            }
        }));
    }
    let start = |reload: Reload| {
        let controls = options.control.iter().chain(&options.default_controls).cloned();
        let (controls, server): (Vec<_>, _) = (controls.collect(), std::process::id());
        let restarting = { plan.directories.iter() }.filter(|_| arguments.worker);
        let directories: Result<_, _> = plan.directories.iter().map(std::path::absolute).collect();
        let watched = Watched {
            directories: directories.map_err(|error| error.to_string())?,
            restarting: restarting.flat_map(|directory| watch::paths(directory)).collect(),
            instance: Box::new(move || howdah_client::worker_instance(&controls, server, "site")),
        };
        reload.start(options.user.as_ref(), watched)
    };
    // It is held until the server has ended.
    let _reload = reload.map(start).transpose()?;
    // Its process lives as long as the server; the typed document is several times its text.
    drop(config);
    match supervisor::run(options).map_err(temporary)? {
        Ending::Stopped => Ok(()),
        Ending::Refused { reason, is_taken: true } => Err(reason.into()),
        Ending::Refused { reason, is_taken: false } => Err(temporary(reason)),
    }
}

fn cannot_detach(error: io::Error) -> Failure {
    temporary(format!("cannot detach: {error}"))
}

/// Checks that the server can read the sites of `howdah serve DIR...`.
fn check_site(
    plan: &StartupPlan,
    config: Option<&Config>,
    user: Option<&Credentials>,
) -> Result<(), String> {
    for directory in &plan.directories {
        if let Some(user) = user {
            site_access::check(directory, user)?;
        }
        config.map_or(Ok(()), |config| site_access::check_links(directory, config))?;
    }
    Ok(())
}

/// Returns warnings about `.htaccess` files that are not read.
fn unread(config: &Config, user: Option<&Credentials>) -> Vec<String> {
    let read = || Ok(howdah_review::unread(config, user).0.join("\n").into_bytes());
    match supervisor::read_apart(&read) {
        Ok(Apart::Done(Ok(text))) => {
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
        }
        Ok(Apart::Done(Err(problem))) => vec![format!(".htaccess files: {problem}")],
        Ok(Apart::Hangs { place, problem }) => vec![format!("{place}: {problem}")],
        Err(error) => vec![format!(".htaccess files: {error}")],
    }
}

/// Finds the programs that run PHP. Fails if an application needs one and there is none.
fn find_php(config: Option<&Config>) -> Result<Programs, String> {
    let php = php_programs::find().clone();
    let is_needed = config.is_some_and(|config| !config.applications.is_empty());
    php.missing().filter(|_| is_needed).map_or(Ok(php), Err)
}

/// Returns the function that renews the certificate for development.
fn upkeep(local: Option<LocalCertificate>) -> Option<Box<dyn FnMut()>> {
    let local = local?;
    Some(Box::new(move || {
        if let Err(problem) = local.prepare(SystemTime::now()) {
            eprintln!("howdah: {}", Plain(problem));
        }
    }))
}

/// Printed when the server waits for a configuration that can be applied.
const NOTHING_SERVED: &str =
    "Nothing is served until the configuration is corrected; the log has the reason";

/// Returns the lines that are printed when the server is ready.
fn announcement(explanation: &[String], config: Option<&Config>) -> Vec<String> {
    let mut lines = explanation.to_vec();
    let listeners = config.map(|config| config.listeners.as_slice()).unwrap_or_default();
    for listener in listeners {
        let name = &listener.name;
        let scheme = if listener.tls.is_some() { "https" } else { "http" };
        let has_url = listener.session.is_none() && listener.fastcgi.is_none();
        let url = match name.strip_prefix("*:") {
            _ if name.starts_with("unix:") || !has_url => name.clone(),
            Some(port) => format!("{scheme}://localhost:{port}/ (on all addresses)"),
            None => format!("{scheme}://{name}/"),
        };
        lines.push(format!("Serving {url}"));
    }
    if listeners.is_empty() {
        lines.push("Ready; nothing is served until the control API gets a configuration".into());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listeners_of_http_are_announced_as_urls() {
        let document = br#"{
            "listeners": {
                "*:80": {"pass": "routes"},
                "127.0.0.1:3306": {"protocol": "tcp", "pass": "upstreams/a"}
            },
            "routes": [], "upstreams": {"a": {"servers": {"127.0.0.1:3307": {}}}}
        }"#;
        let config = howdah_config::parse(document).unwrap();
        let expected =
            ["Serving http://localhost:80/ (on all addresses)", "Serving 127.0.0.1:3306"];
        assert_eq!(announcement(&[], Some(&config)), expected);
    }
}
