//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use howdah_config::units;
use howdah_sys::log::Level;

use crate::import;
use crate::request_lines::RequestLines;

/// One lean server for PHP sites.
#[derive(Debug, Parser)]
#[command(
    name = "howdah",
    disable_version_flag = true,
    arg_required_else_help = true,
    after_help = "\
Try it:
  howdah serve                      serve the site in the current directory
  howdah serve /var/www/blog        WordPress, Laravel, Symfony or static files are recognised
  howdah serve --listen 0.0.0.0:80  on another address
  howdah serve --domain example.org over https, with a certificate of Let's Encrypt
  howdah serve --tls                over https, for development
  howdah serve --host a.example /srv/a --host b.example /srv/b   several sites, each with its host
  howdah serve --config site.json   a configuration in NGINX Unit's grammar
  howdah check site.json            check a configuration
  howdah import nginx /etc/nginx/nginx.conf --output site.json   a configuration made of nginx's
  howdah status                     show the status of the running server
  howdah site add shop.example --root /srv/shop   add a site to the running server

With options alone (howdah --no-daemon --state DIR --control unix:SOCKET) it starts as unitd
does: a service file of NGINX Unit needs only the name of the program changed."
)]
struct Cli {
    /// Show the version, the features and the versions of PHP found
    #[arg(short = 'V', long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// A command with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a site, a configuration file, or the configuration stored by the control API
    Serve(Box<Serve>),
    /// Check a configuration and the files, users and programs that it names
    Check(Check),
    /// Serve the pools of a php-fpm.conf to a web server in front, as php-fpm does
    #[command(disable_help_flag = true)]
    Fpm(Fpm),
    /// Explain the effects of .htaccess files on a request
    #[command(subcommand)]
    Htaccess(Htaccess),
    /// Make a document of the configuration of nginx, Apache, PHP-FPM or NGINX Unit
    #[command(subcommand, after_help = IMPORT_HELP)]
    Import(Box<import::Command>),
    /// Talk to a running server
    #[command(flatten)]
    Control(howdah_client::Command),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the JSON Schema of configurations, for editors
    Schema,
    /// Write the manual pages to a directory
    Man {
        /// The directory; it must exist
        directory: PathBuf,
    },
    /// Show the version, the features and the versions of PHP found
    Version,
}

/// Arguments of `fpm`, which are read as php-fpm reads its own.
#[derive(Debug, Args)]
#[command(after_help = "\
The arguments are those of php-fpm: howdah fpm -h lists them. The newest PHP that is installed runs
the scripts; \"howdah fpm --php 8.2 ARGUMENTS\", or the program name howdah-fpm8.2, chooses another.")]
pub struct Fpm {
    /// Arguments of php-fpm
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// What follows the help of `import`.
const IMPORT_HELP: &str = "\
Nothing is executed, and nothing but the files of --output and --report is written. The report says
of each directive what became of it: converted, not needed, changed or not converted. What the
other server refuses is refused by the document, too, even where a directive is not converted.

The exit status is 0 if all directives are converted, not needed or changed; 3 if the document is
written and some are not converted; 2 if the configuration cannot be read. With --replay, --urls or
--crawl it is 4 if a response differs from that of the old server.";

/// Arguments of `check`.
#[derive(Debug, Args, Default)]
#[command(after_help = "\
The document is checked, and its references with the rights of the user that would use them:
certificates, users and groups, document roots, settings of PHP, directories of logs and
sockets. Nothing is created, changed, bound or run. Give the same options as to the server.

The exit status is 1 if the server would not start or an application would not run. Warnings
and notes do not change it. A warning is about settings that are legal and nearly always a
mistake, a note about facts that may be intended, such as a port that is in use.")]
pub struct Check {
    /// The configuration file; standard input if it is not given or "-". A directory: its .htaccess
    /// files are checked
    pub file: Option<PathBuf>,
    /// Check only the document with the files that it includes, not the directories, users and
    /// programs that it names
    #[arg(long)]
    pub syntax: bool,
    /// Read the document with the defaults of NGINX Unit, as `serve --unit` does
    #[arg(long)]
    pub unit: bool,
    #[command(flatten)]
    pub common: CommonOptions,
}

/// Commands about `.htaccess` files.
#[derive(Debug, Subcommand)]
pub enum Htaccess {
    /// Print the effects of directives on a request, in order, with their files and lines
    Explain(howdah_review::Explain),
}

/// Options of `serve` and `check`: user, group, directories and files.
#[derive(Debug, Args, Default, Clone)]
pub struct CommonOptions {
    /// Directory where certificates are kept between runs, and the configuration, unless it comes
    /// from DIR or --config [default for certificates: /var/lib/howdah or ~/.local/state/howdah]
    #[arg(long, value_name = "DIR", alias = "statedir")]
    pub state: Option<PathBuf>,
    /// File that holds the process id while the server runs
    #[arg(long, value_name = "FILE")]
    pub pid: Option<PathBuf>,
    /// Log file, or "journald" for the journal of systemd [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The least severe records of the log: alert, error, warn, notice or info [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    pub log_level: Option<Level>,
    /// Directory for temporary files, such as uploads [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", alias = "tmpdir")]
    pub tmp: Option<PathBuf>,
    /// User of the server, and of PHP unless an application names one [default as root: www-data]
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Group of the server [default: the user's]
    #[arg(long, value_name = "GROUP", requires = "user")]
    pub group: Option<String>,
}

/// Arguments of `serve`.
#[derive(Debug, Args, Default)]
#[command(after_help = "\
Signals: QUIT ends the server when all requests are answered, TERM and INT end it at once,
USR1 reopens the log files (after rotation), HUP reads the configuration again, USR2 replaces
the server by the program file as it is now (howdah upgrade).

Under systemd (Type=notify) the server reports its state (NOTIFY_SOCKET, WATCHDOG_USEC),
and its listeners take the sockets that have their addresses or names (LISTEN_FDS).

Without DIR and without --config, --state and --control, the site is the current directory.

Several directories are several sites, each with the name of its host, in the same order:
  howdah serve --host shop.example /srv/shop --host '*.blog.example' /srv/blogs
Requests with another host get 404; --host '*' is the site for them. In development, names that
end in .localhost lead to this machine: http://shop.localhost:8080/. --workers counts for each
site. For sites with users, HTTPS and limits of their own: howdah site add --help.

Environment, for containers; an option of the command line takes precedence:
  HOWDAH_CONFIG   as --config, unless DIR or an option of it (--listen, --tls, ...) is given
  HOWDAH_ROOT     as DIR; this and those below are without effect with a configuration
  HOWDAH_LISTEN   as --listen, several separated by spaces
  HOWDAH_WORKERS  as --workers
  HOWDAH_CACHE    as --cache
  HOWDAH_ENV      as --env, several separated by spaces
  HOWDAH_PHP_INI_NAME  as -d NAME=VALUE, but scripts may change it; HOWDAH_PHP_INI_memory_limit
  HOWDAH_LOG_FORMAT  json: the log as lines of JSON
  HOWDAH_LOG_LEVEL   as --log-level")]
pub struct Serve {
    /// The site's directory; the kind of site is recognised
    pub dir: Option<PathBuf>,
    /// Directories of further sites; each site has its --host
    #[arg(value_name = "DIR")]
    pub others: Vec<PathBuf>,
    /// Host name of the site of a DIR, such as shop.example, or *.shop.example for all names below
    /// it, or * for all others; given once for each DIR, in the same order
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "tls", "domain", "worker"])]
    pub host: Vec<String>,
    /// Serve this configuration (JSON in NGINX Unit's grammar) and not a directory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "listen", "workers"])]
    pub config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080, *:80, [::1]:80 or unix:/run/site.sock; may
    /// be given several times [default: 127.0.0.1:8080; with --tls 127.0.0.1:8443, or the next
    /// free port; with --domain ports 80 and 443 of all addresses]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<String>,
    /// Number of PHP workers [default: chosen from processors and memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub workers: Option<u32>,
    /// Store responses of PHP in memory of this size, such as 64M, by the rules of the application if
    /// it is known (WordPress, Laravel, Symfony, Drupal); 0: not
    #[arg(long, value_name = "SIZE", conflicts_with = "config", value_parser = cache_size)]
    pub cache: Option<u64>,
    /// Environment variable for PHP and the programs that it starts: NAME or PREFIX* as in the
    /// environment of this command (* for all), NAME=VALUE, or @FILE with one in each line; may be
    /// given several times. With --config: NAME=VALUE or @FILE, for variables that it names
    #[arg(long, value_name = "NAME[=VALUE]|@FILE")]
    pub env: Vec<String>,
    /// php.ini setting, such as -d memory_limit=256M; may be given several times
    #[arg(short = 'd', value_name = "NAME[=VALUE]", conflicts_with = "config")]
    pub setting: Vec<String>,
    /// For development: PHP shows errors in the browser, saved files count at once, and each request
    /// is a line on standard output, as at a terminal
    #[arg(long, conflicts_with = "config")]
    pub dev: bool,
    /// Show the site in a browser ($BROWSER, or the one of xdg-open)
    #[arg(long, conflicts_with_all = ["config", "daemon"])]
    pub open: bool,
    /// Version of PHP, such as 8.2 [default: that of .php-version in DIR, else the newest that its
    /// composer.json permits]
    #[arg(long, value_name = "VERSION", conflicts_with = "config", value_parser = php_version)]
    pub php: Option<String>,
    /// Keep the application in memory between requests, if DIR has a script for that: Laravel
    /// Octane's, or Symfony's runtime
    #[arg(long, conflicts_with = "config")]
    pub worker: bool,
    /// For development: reload pages in the browsers of this machine when files of DIR change; with
    /// --worker, start the application again when its code does: src, app, config, templates and the
    /// like in DIR
    #[arg(long, conflicts_with = "config")]
    pub watch: bool,
    /// Do not read the .htaccess files of DIR [default: read as Apache does, if there are any]
    #[arg(long, conflicts_with = "config")]
    pub no_htaccess: bool,
    /// Address of the control API, such as unix:/run/howdah/control.sock [default: a socket in
    /// /run/howdah or $XDG_RUNTIME_DIR/howdah, where the commands look for it]
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,
    /// Do not start a control API
    #[arg(long, conflicts_with_all = ["control", "control_token_file"])]
    pub no_control: bool,
    /// File with the token that requests to the control API must carry; required over TCP and on
    /// abstract sockets (unix:@NAME), which every program of the machine can reach
    #[arg(long, value_name = "FILE")]
    pub control_token_file: Option<PathBuf>,
    /// File with the token that logs in to the page of the action "dashboard"; not that of the
    /// control API, as it passes the router
    #[arg(long, value_name = "FILE")]
    pub dashboard_token_file: Option<PathBuf>,
    /// Socket on which users of sites may ask about their own sites (howdah top, requests, profile),
    /// such as unix:/run/howdah/sites.sock, where the commands look for it [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub site_users: Option<String>,
    /// Serve over https for development, with a certificate of a local authority
    #[arg(long, conflicts_with = "config")]
    pub tls: bool,
    /// Serve this name over https with a certificate of Let's Encrypt, whose terms you agree to;
    /// may be given several times. With --tls, a name in the local certificate
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub domain: Vec<String>,
    /// Contact address for the authority
    #[arg(long, value_name = "ADDRESS", requires = "domain")]
    pub email: Option<String>,
    /// Directory of another authority than Let's Encrypt (ACME)
    #[arg(long, value_name = "URL", requires = "domain")]
    pub acme: Option<String>,
    /// For development: show the messages of mail() on a page of this machine (page), append them to
    /// this file, or send them to this server, such as smtp://localhost:1025 [default: localhost:25]
    #[arg(long, value_name = "page|FILE|URL", conflicts_with = "config")]
    pub mail_to: Option<String>,
    #[command(flatten)]
    pub common: CommonOptions,
    /// Do not restrict the files and system calls of the router, and the files of the PHP of DIR
    #[arg(long)]
    pub no_sandbox: bool,
    /// Start only if the whole configuration can be used, and refuse changes that cannot be used as
    /// a whole [default: serve the rest, or the configuration that was good last]
    #[arg(long)]
    pub strict: bool,
    /// Print the configuration that would be served, for --config, without serving it
    #[arg(long, conflicts_with = "daemon")]
    pub print_config: bool,
    /// Run in the background; return when the server is ready
    #[arg(long, overrides_with = "no_daemon")]
    pub daemon: bool,
    /// Run in the foreground [default]
    #[arg(long, overrides_with = "daemon")]
    pub no_daemon: bool,
    /// Read requests as leniently as NGINX Unit, unless the configuration says otherwise: without
    /// Host, or with spaces in the target [default: refuse requests that HTTP/1.1 forbids]
    #[arg(long)]
    pub unit: bool,
    /// NGINX Unit's directory of modules; accepted for its service files, and not used
    #[arg(long, value_name = "DIR", alias = "modulesdir", hide = true)]
    pub modules: Option<PathBuf>,
    /// True if the command line had only options, as that of unitd.
    #[arg(skip)]
    pub like_unitd: bool,
    /// How requests are shown; not of the command line.
    #[arg(skip)]
    pub request_lines: RequestLines,
    /// Directory of the page of messages; not of the command line.
    #[arg(skip)]
    pub mail_page: Option<PathBuf>,
    /// Address of the process that tells browsers of changes; not of the command line.
    #[arg(skip)]
    pub reload_events: Option<SocketAddr>,
}

/// Reads a version of PHP: one to three numbers.
pub fn php_version(text: &str) -> Result<String, String> {
    let is_number = |part: &str| {
        !part.is_empty() && part.len() < 4 && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if (1..=3).contains(&text.split('.').count()) && text.split('.').all(is_number) {
        Ok(text.to_owned())
    } else {
        Err("must be a version such as 8.2".to_owned())
    }
}

/// Reads the value of `--cache`: a size in bytes, with a unit.
pub fn cache_size(text: &str) -> Result<u64, String> {
    let size = units::bytes(text).filter(|size| *size == 0 || CACHE_SIZES.contains(size));
    size.ok_or_else(|| format!("\"{text}\" is not a size from 1M to 1T such as 64M, or 0"))
}

/// Sizes of a cache in bytes: a smaller one would have no page.
const CACHE_SIZES: RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Reads the value of `--log-level`.
pub fn log_level(name: &str) -> Result<Level, String> {
    let problem = || format!("\"{name}\" is not alert, error, warn, notice, info or debug");
    Level::named(name).ok_or_else(problem)
}

/// Parses the command line; ends the process on `--help` and on mistakes.
pub fn parse() -> Command {
    let (arguments, like_unitd) = as_serve(std::env::args_os().collect());
    let cli = Cli::try_parse_from(arguments).unwrap_or_else(|mut error| {
        advise(&mut error);
        error.exit()
    });
    if cli.version {
        return Command::Version;
    }
    let mut command = cli.command.unwrap_or(Command::Version);
    match &mut command {
        Command::Serve(serve) => serve.like_unitd = like_unitd,
        Command::Check(check) => {
            check.file = check.file.take().filter(|file| file.as_os_str() != "-")
        }
        _ => {}
    }
    command
}

/// Adds the right command for a directory or file without a command, of a command that does not
/// exist, or of an option of another server.
fn advise(error: &mut clap::Error) {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
        && let Some(tip) = foreign_option(option)
    {
        // The nearest option by its letters would be misleading beside it.
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return;
    }
    let missing = error.get(ContextKind::InvalidArg);
    if let Some(ContextValue::Strings(names)) = missing
        && error.kind() == ErrorKind::MissingRequiredArgument
        && names.iter().any(|name| name == "<APPLICATION>...")
    {
        let tip = "to restart all applications: howdah restart --all".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let path = Path::new(word);
    let tip = match word.as_str() {
        _ if path.is_dir() => format!("to serve this directory: howdah serve {word}"),
        _ if path.is_file() => format!("to serve this configuration: howdah serve --config {word}"),
        "start" | "run" | "server" => "to start a server: howdah serve".to_owned(),
        "stop" | "quit" | "shutdown" | "kill" => {
            "to stop a server, send QUIT to its process (kill -QUIT PID), or stop the service \
             (systemctl stop howdah)"
                .to_owned()
        }
        "test" | "configtest" | "validate" => {
            "to check a configuration: howdah check FILE".to_owned()
        }
        _ => return,
    };
    // The nearest command by its letters would be misleading beside it.
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
}

/// Returns the equivalent of an option of `php -S`, nginx, Caddy or PHP-FPM.
fn foreign_option(option: &str) -> Option<&'static str> {
    Some(match option {
        "--port" | "-p" | "--bind" | "--address" | "--addr" | "-S" | "-l" => {
            "an address with its port is given as --listen 127.0.0.1:8080, or --listen '*:80' for \
             all addresses"
        }
        "--root" | "--docroot" | "--document-root" | "-r" | "-t" => {
            "the site's directory stands alone: howdah serve DIR; to check a configuration: \
             howdah check FILE"
        }
        "--conf" | "-c" => "a configuration is given as --config FILE",
        "--cert" | "--key" | "--certificate" => {
            "--domain NAME gets a certificate, --tls makes one for development; files of your own \
             are named in a configuration: \"tls\": {\"certificate\": \
             {\"chain\": FILE, \"key\": FILE}}"
        }
        "--processes" | "--max-children" | "--threads" => {
            "the number of PHP's processes is given as --workers N"
        }
        "--daemonize" | "--background" => "to run in the background: --daemon",
        _ => return None,
    })
}

/// Returns the definitions of the command line, for the manual pages.
pub fn definitions() -> clap::Command {
    Cli::command()
}

/// Inserts `serve` if the command line has only options, like that of unitd; returns true in this
/// case. Moves `--control ADDRESS` and `--control-token-file FILE` behind the command that they
/// precede.
fn as_serve(mut arguments: Vec<OsString>) -> (Vec<OsString>, bool) {
    let mut after = 1;
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    loop {
        after += match word(after).split_once('=').map_or(word(after), |(name, _)| name) {
            "--control" | "--control-token-file" if word(after).contains('=') => 1,
            "--control" | "--control-token-file" => 2,
            _ => break,
        };
    }
    if after > 1 && howdah_client::Command::has_subcommand(word(after)) {
        let command = arguments.remove(after);
        arguments.insert(1, command);
        return (arguments, false);
    }
    let like_unitd = arguments.get(1).and_then(|first| first.to_str()).is_some_and(|first| {
        first.starts_with("--") && !matches!(first, "--help" | "--version" | "--")
    });
    if like_unitd {
        arguments.insert(1, "serve".into());
    }
    (arguments, like_unitd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Serve {
        let (arguments, like_unitd) = as_serve(line.split(' ').map(OsString::from).collect());
        match Cli::try_parse_from(arguments).unwrap().command {
            Some(Command::Serve(mut serve)) => {
                serve.like_unitd = like_unitd;
                *serve
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_line_of_unitd_is_one_of_serve() {
        let serve = serve(
            "howdah --control unix:/run/control.sock --pid /run/p --log /l --modulesdir /m \
             --statedir /s --tmpdir /t --user u --group g --no-daemon",
        );
        assert!(serve.like_unitd && serve.no_daemon);
        assert_eq!(serve.common.state, Some("/s".into()));
        assert_eq!(serve.common.tmp, Some("/t".into()));
    }

    #[test]
    fn the_address_of_the_control_api_may_come_first() {
        for line in [
            "howdah --control unix:/s status",
            "howdah --control=unix:/s status --json",
            "howdah --control-token-file f --control unix:/s status",
            "howdah --control unix:/s --control-token-file=f status",
        ] {
            let (arguments, _) = as_serve(line.split(' ').map(OsString::from).collect());
            let command = Cli::try_parse_from(arguments).unwrap().command;
            assert!(matches!(command, Some(Command::Control(_))), "{line}");
            assert!(format!("{command:?}").contains("\"unix:/s\""), "{line}");
        }
        assert!(serve("howdah --control unix:/s --user status").like_unitd);
        assert!(serve("howdah --control unix:/s --control-token-file status").like_unitd);
        // Checks every command with the option, including later ones.
        for command in Cli::command().get_subcommands() {
            let has_option = command.get_arguments().any(|a| a.get_long() == Some("control"));
            let talks = has_option && command.get_name() != "serve";
            let is_known = howdah_client::Command::has_subcommand(command.get_name());
            assert_eq!(is_known, talks, "{command}");
        }
    }

    #[test]
    fn an_option_of_another_server_is_answered_with_the_option_here() {
        for (line, expected) in [
            ("howdah serve --port 8080", "--listen 127.0.0.1:8080"),
            ("howdah serve --port=8080", "--listen 127.0.0.1:8080"),
            ("howdah serve -p 8080", "--listen 127.0.0.1:8080"),
            ("howdah serve -S localhost:8000", "--listen 127.0.0.1:8080"),
            ("howdah serve -t public", "howdah serve DIR"),
            ("howdah serve --docroot public", "howdah serve DIR"),
            ("howdah serve -c site.json", "--config FILE"),
            ("howdah serve --cert a.pem", "\"chain\""),
        ] {
            let mut error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            advise(&mut error);
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("--pid"), "{line}: {text}");
        }
    }

    #[test]
    fn a_word_that_is_no_command_is_answered_with_the_command_for_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = file.path().to_str().unwrap();
        for (line, expected) in [
            ("howdah start", "howdah serve"),
            ("howdah stop", "kill -QUIT"),
            ("howdah configtest", "howdah check FILE"),
            ("howdah restart", "howdah restart --all"),
            (&format!("howdah {file}"), "howdah serve --config"),
        ] {
            let mut error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            advise(&mut error);
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("similar"), "{line}: {text}");
        }
    }

    #[test]
    fn listen_may_be_given_several_times() {
        let serve = serve("howdah serve --listen *:80 --listen [::]:80 site");
        assert_eq!(serve.listen, ["*:80", "[::]:80"]);
        assert!(!serve.like_unitd);
    }
}
