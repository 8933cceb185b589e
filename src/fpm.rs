//! `howdah fpm`: php-fpm's place.
//!
//! The program is called as `howdah fpm`, or by a name such as `howdah-fpm8.2` or `php-fpm8.2`, so
//! that a service file needs only another program.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;

use howdah_fpm::command_line::{self, Action, Arguments, Information};
use howdah_fpm::conf::PREFIX;
use howdah_fpm::document::{Php, SCAN_VARIABLE};
use howdah_fpm::master::{self, Invocation, Manager, Numbers, Start};
use howdah_supervisor::{
    self as supervisor, Ending, InheritedSocket, LogTarget, Options, PhpProgram, ServerNumbers,
    SocketOwner,
};
use howdah_sys::credentials;
use howdah_sys::service_manager::ServiceManager;

use crate::directories::Temporary;
use crate::serve::grants;
use crate::{cli, php_programs, server_user};

/// Exit status after arguments that are not known (`EX_USAGE` of sysexits.h).
const USAGE: u8 = 64;

/// Names of the program, in front of a version of PHP.
const NAMES: [&str; 2] = ["howdah-fpm", "php-fpm"];

/// How the program was called.
pub struct Called {
    /// Its name in the help.
    name: String,
    /// The version of PHP that the name or `--php` chooses.
    version: Option<String>,
    /// The arguments of php-fpm.
    arguments: Vec<String>,
    /// All arguments, the name first.
    all: Vec<String>,
}

impl Called {
    /// Returns how this process was called; `None` if it is another command.
    pub fn of_this_process() -> Option<Called> {
        let all = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
        Called::of(all.collect())
    }

    fn of(all: Vec<String>) -> Option<Called> {
        let file = Path::new(all.first()?).file_name()?.to_string_lossy().into_owned();
        let of_name = NAMES.iter().find_map(|name| file.strip_prefix(name));
        if let Some(version) = of_name.filter(|version| version.is_empty() || is_version(version)) {
            let version = Some(version.to_owned()).filter(|version| !version.is_empty());
            let arguments = all.iter().skip(1).cloned().collect();
            return Some(Called { name: file, version, arguments, all });
        }
        let mut arguments = all.iter().skip(1).cloned();
        if arguments.next()? != "fpm" {
            return None;
        }
        let mut arguments: Vec<String> = arguments.collect();
        let mut version = None;
        if arguments.first().is_some_and(|first| first == "--php") && arguments.len() > 1 {
            version = Some(arguments.remove(1));
            arguments.remove(0);
        }
        Some(Called { name: format!("{file} fpm"), version, arguments, all })
    }
}

fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|one| one.is_ascii_digit());
    parts.len() <= 3 && parts.iter().all(is_number)
}

/// Runs it. Returns the exit status.
pub fn run(called: &Called) -> ExitCode {
    match command_line::parse(&called.arguments) {
        Action::Help => print_help(called, 0),
        Action::Usage => print_help(called, USAGE),
        Action::Version(arguments) => print_version(called, &arguments),
        Action::Run(arguments) => serve(called, &arguments),
    }
}

fn print_help(called: &Called, status: u8) -> ExitCode {
    print!("{}", command_line::help(&called.name, PREFIX));
    ExitCode::from(status)
}

fn print_version(called: &Called, arguments: &Arguments) -> ExitCode {
    match find_php(called.version.as_deref()) {
        Ok(program) => {
            // In the form that programs read; when PHP was built, it does not say.
            let own = env!("CARGO_PKG_VERSION");
            println!("PHP {} (fpm-fcgi) (built: Howdah {own})", program.version);
            println!("Copyright (c) The PHP Group");
            if let Some(rest) = program.version.strip_prefix("8.") {
                println!("Zend Engine v4.{rest}, Copyright (c) Zend Technologies");
            }
            if has_opcache(&program, arguments) {
                let version = &program.version;
                println!("    with Zend OPcache v{version}, Copyright (c), by Zend Technologies");
            }
            ExitCode::SUCCESS
        }
        Err(problem) => fail(&problem),
    }
}

/// Returns true if the settings of php-fpm load OPcache.
fn has_opcache(program: &PhpProgram, arguments: &Arguments) -> bool {
    let php = settings(&program.version, arguments);
    let output = information_command("modules", arguments, &php, program).output();
    let is_extension = |text: &str| {
        text.rsplit_once("[Zend Modules]").is_some_and(|(_, rest)| rest.contains("Zend OPcache"))
    };
    output.is_ok_and(|output| is_extension(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns the settings of a PHP with this version.
fn settings(version: &str, arguments: &Arguments) -> Php {
    let rc = std::env::var("PHPRC").ok().filter(|rc| !rc.is_empty());
    let scanned = std::env::var(SCAN_VARIABLE).ok();
    Php::find(Some(short(version)), arguments, rc.as_deref(), scanned)
}

/// Returns a version without its last part: `8.2`.
fn short(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn fail(problem: &str) -> ExitCode {
    crate::report(problem);
    ExitCode::from(master::BAD_CONFIGURATION)
}

/// Returns the newest PHP, or the newest of a version.
fn find_php(version: Option<&str>) -> Result<PhpProgram, String> {
    let programs = php_programs::find();
    if let Some(problem) = programs.missing() {
        return Err(problem);
    }
    let is_wanted = |program: &&PhpProgram| {
        let rest = version.map_or(Some("."), |wanted| program.version.strip_prefix(wanted));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let numbers = |program: &&PhpProgram| -> Vec<u32> {
        program.version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let found = programs.found.iter().filter(is_wanted).max_by_key(numbers);
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = programs.found.iter().map(|one| one.version.as_str()).collect();
        format!(
            "there is no PHP {}, only {}; install the package howdah-php of this version",
            version.unwrap_or_default(),
            known.join(", ")
        )
    })
}

fn serve(called: &Called, arguments: &Arguments) -> ExitCode {
    // Before anything is opened: the variables name descriptors by their numbers.
    let service = ServiceManager::take();
    let program = match find_php(called.version.as_deref()) {
        Ok(program) => program,
        Err(problem) => return fail(&problem),
    };
    let version = short(&program.version);
    let file = match &arguments.config {
        Some(file) => file.clone(),
        None => match &arguments.prefix {
            Some(prefix) => prefix.join("etc/php-fpm.conf"),
            None => PathBuf::from(format!("/etc/php/{version}/fpm/php-fpm.conf")),
        },
    };
    let php = settings(&program.version, arguments);
    if let Some(information) = arguments.information {
        return print_information(information, arguments, &php, &program);
    }
    let own = std::env::current_exe().unwrap_or_default();
    let invocation =
        Invocation { program: own.to_string_lossy().into_owned(), arguments: called.all.clone() };
    let supervise = |start: Start| supervise(start, &program);
    let ServiceManager { notifier, watchdog, .. } = service;
    let manager = Manager { notifier, watchdog };
    let status = master::run(arguments, &file, &php, &invocation, manager, &supervise);
    ExitCode::from(status)
}

/// Lets PHP print its information or its modules. The exit status is php-fpm's.
fn print_information(
    information: Information,
    arguments: &Arguments,
    php: &Php,
    program: &PhpProgram,
) -> ExitCode {
    let kind = match information {
        Information::All => "all",
        Information::Modules => "modules",
    };
    match information_command(kind, arguments, php, program).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => fail(&format!("{} cannot be started: {error}", program.path.display())),
    }
}

/// Returns the command that prints this kind of information about PHP.
fn information_command(
    kind: &str,
    arguments: &Arguments,
    php: &Php,
    program: &PhpProgram,
) -> Command {
    let mut command = Command::new(&program.path);
    command.args(["--information", kind]).arg(php.ini.as_deref().unwrap_or(Path::new("")));
    command.args(arguments.defines.iter().map(|(name, value)| format!("{name}={value}")));
    if let Some(scanned) = &php.scanned {
        command.env(SCAN_VARIABLE, scanned);
    }
    command
}

/// Supervises the pools in this process until the end. Error: why they are not served.
fn supervise(start: Start, program: &PhpProgram) -> Result<(), String> {
    let Start { document, sockets, reports } = start;
    let reports = Rc::new(std::fs::File::from(reports));
    let serving = Rc::clone(&reports);
    let common = cli::CommonOptions::default();
    let user = server_user::find(&common)?;
    let tmp = Temporary::find(None, user.as_ref())?;
    let private_user = user.as_ref().and_then(|_| credentials::private_user());
    // The master opens and removes them.
    let owner = SocketOwner::ServiceManager;
    let inherited =
        sockets.into_iter().map(|fd| InheritedSocket { fd, name: String::new(), owner });
    let options = Options {
        user,
        private_user,
        grants: Some(Box::new(grants::derive)),
        document,
        origin: "the pools".to_owned(),
        log: LogTarget::StandardError,
        tmp: tmp.path,
        sandbox: true,
        php: vec![program.clone()],
        inherited: inherited.collect(),
        on_serving: Some(Box::new(move |_| {
            let _ = (&*serving).write_all(master::report(None).as_bytes());
        })),
        on_status: Some(Box::new(move |numbers| {
            let ServerNumbers { active, requests, workers } = numbers;
            let numbers = Numbers { active, requests, workers };
            let _ = (&*reports).write_all(master::report(Some(numbers)).as_bytes());
        })),
        ..Options::default()
    };
    match supervisor::run(options)? {
        Ending::Stopped => Ok(()),
        Ending::Refused { reason, .. } => Err(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(line: &str) -> Option<(Option<String>, String)> {
        let called = Called::of(line.split(' ').map(str::to_owned).collect())?;
        Some((called.version, called.arguments.join(" ")))
    }

    #[test]
    fn the_name_of_the_program_or_its_first_argument_chooses_the_command_and_the_php() {
        let found = |version: &str, arguments: &str| {
            Some((Some(version.to_owned()).filter(|one| !one.is_empty()), arguments.to_owned()))
        };
        assert_eq!(called("/usr/bin/howdah fpm -F -y a"), found("", "-F -y a"));
        assert_eq!(called("howdah fpm --php 8.2 -t"), found("8.2", "-t"));
        assert_eq!(called("/usr/sbin/howdah-fpm8.2 fpm"), found("8.2", "fpm"));
        assert_eq!(called("/usr/sbin/php-fpm -t"), found("", "-t"));
        for other in ["howdah serve", "howdah", "php-fpm-exporter -t", "howdah-fpm8.x -t"] {
            assert_eq!(called(other), None, "{other}");
        }
    }
}
