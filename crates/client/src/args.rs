//! Arguments of the commands that use the control API.

pub(crate) mod dashboard;
pub mod deploy;
pub mod jobs;
pub(crate) mod profile;
pub mod requests;
pub(crate) mod sites;
pub(crate) mod top;
pub mod usage;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::dashboard::DashboardArgs;
use self::deploy::DeployArgs;
use self::jobs::JobsArgs;
use self::profile::ProfileArgs;
use self::requests::RequestsArgs;
use self::sites::{PhpArgs, SiteArgs};
use self::top::TopArgs;

/// The server and its token.
#[derive(Debug, Args)]
pub struct Server {
    /// Address of the control API, as in unix:/run/howdah/control.sock or 127.0.0.1:8000 [default:
    /// the one server of this user that runs]
    #[arg(long, value_name = "ADDRESS", global = true)]
    pub control: Option<String>,
    /// File with the token of the control API, which it asks for over TCP and on abstract sockets
    /// [default: the file that HOWDAH_CONTROL_TOKEN_FILE names]
    #[arg(long, value_name = "FILE", global = true)]
    pub control_token_file: Option<PathBuf>,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(after_help = "\
PATH leads to a part of the configuration: routes/0/action, listeners/*:80, applications/blog/user.
A / inside a name is written %2F.

  howdah config get                                 the whole configuration
  howdah config get applications/blog
  howdah config set applications/blog/processes 8
  howdah config set applications/blog/user '\"blog\"'
  howdah config set / @site.json                    the whole configuration, from a file
  howdah config append routes '{\"action\": {\"return\": 404}}'
  howdah config delete listeners/*:8080
  howdah config edit routes                         in $VISUAL or $EDITOR

Exit status: 0 done, 1 refused or failed (the configuration is as it was), 2 mistake in the command
line, 3 no server answers.")]
pub struct ConfigArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// Subcommands of `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show the configuration or a part of it
    Get {
        /// The part; the whole configuration if it is not given
        path: Option<String>,
    },
    /// Replace a value, or add one
    Set {
        /// Path of the value; / for the whole configuration
        path: String,
        /// The value as JSON, @FILE, or - for standard input
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
    },
    /// Add an element at the end of an array
    Append {
        /// Path of the array
        path: String,
        /// The element as JSON, @FILE, or - for standard input
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
    },
    /// Remove a value
    Delete {
        /// Path of the value; / for the whole configuration
        path: String,
    },
    /// Change the configuration or a part of it in an editor; it is checked before it is sent
    Edit {
        /// The part; the whole configuration if it is not given
        path: Option<String>,
    },
}

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = "\
The tables begin with the problems that need attention, if there are any: a document that is
refused, the parts of the configuration that are out, and warnings.

Exit status: 0 shown, 1 with --problems if there are any, or the server refuses the request,
2 mistake in the command line, 3 no server answers.")]
pub struct StatusArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Name of an application: show its processes
    pub application: Option<String>,
    /// Print only the problems that need attention, and exit with 1 if there are any
    #[arg(long, conflicts_with = "application")]
    pub problems: bool,
    /// Print the response of the API as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub struct LimitsArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub command: LimitsCommand,
}

/// Subcommands of `limits`.
#[derive(Debug, Subcommand)]
pub enum LimitsCommand {
    /// Show the limits, and the clients that they have refused most
    Top {
        /// Print the response of the API as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `cache`.
#[derive(Debug, Args)]
#[command(after_help = "\
Try it:
  howdah cache stat                                  hits, misses and size of each cache
  howdah cache top                                   the pages that are asked for most
  howdah cache inspect https://example.org/page      why a page is stored, or is not
  howdah cache purge https://example.org/page        one page, with exactly this query
  howdah cache purge --prefix https://example.org/blog/
  howdah cache purge --tag post-17 --tag home        pages that the application has tagged so
  howdah cache purge --host example.org --soft       stale from now on, and refreshed when asked for
  howdah cache purge --all

A purge takes effect at once, also on pages that are being computed. A document without the key
\"cache\" stores no pages.

Exit status: 0 done, 1 refused or failed, 2 mistake in the command line, 3 no server answers.")]
pub struct CacheArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Name of the cache (\"name\" in the configuration) [default: all caches]
    #[arg(long, value_name = "NAME", global = true)]
    pub name: Option<String>,
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// Subcommands of `cache`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Purge stored pages
    Purge(PurgeArgs),
    /// Show how often each cache has answered, and its size
    Stat {
        /// Print the response of the API as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the stored pages that are asked for most
    Top {
        /// Number of pages of each cache, up to 100
        #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20)]
        number: usize,
        /// Print the response of the API as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the stored responses of a URL, and why its last response was not stored
    #[command(after_help = "\
The last request that was not answered from the cache is remembered with the field or the key of
the configuration that decided. If nothing is known, request the page first:

  curl -sI https://example.org/page; howdah cache inspect https://example.org/page

Values of cookies are not shown.")]
    Inspect {
        /// The URL, as visitors request it; http and https are the same
        url: String,
        /// Print the response of the API as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Arguments of `cache purge`.
#[derive(Debug, Args)]
pub struct PurgeArgs {
    /// URLs, each with its query
    #[arg(value_name = "URL", required_unless_present_any = ["prefix", "host", "tag", "all"])]
    pub urls: Vec<String>,
    /// All pages whose host and path begin so; repeat it for several
    #[arg(long, value_name = "URL")]
    pub prefix: Vec<String>,
    /// All pages of a host; with --tag, only those with the tag
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// All pages with this tag; repeat it for several
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// All pages
    #[arg(long, conflicts_with_all = ["urls", "prefix", "host", "tag"])]
    pub all: bool,
    /// Keep the pages, but as stale ones: each is refreshed when it is asked for
    #[arg(long)]
    pub soft: bool,
}

/// Arguments of `ping`.
#[derive(Debug, Args)]
#[command(after_help = "\
The request goes through the control socket to the process that serves visitors, and needs neither
a listener nor a site. Exit status: 0 if the server answers, 1 if it does not or is not ready, 2
for mistakes in the command line, 3 if no server runs.

  howdah ping          to decide whether to restart it (Docker's HEALTHCHECK, liveness probes)
  howdah ping --ready  to decide whether to send visitors (readiness probes)")]
pub struct PingArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Fail also if there is no listener, or an application cannot run
    #[arg(long)]
    pub ready: bool,
    /// Seconds to wait for the server
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = interval)]
    pub timeout: f64,
    /// Print nothing if the server answers
    #[arg(long, short)]
    pub quiet: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("must be from 0.1 to 3600".to_owned())
    }
}

/// Arguments of `tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Name of the application
    pub application: String,
    /// Print the response of the API as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `restart`.
#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Names of applications, unless --all is given
    #[arg(value_name = "APPLICATION", required_unless_present = "all")]
    pub applications: Vec<String>,
    /// Restart all applications of the configuration
    #[arg(long, conflicts_with = "applications")]
    pub all: bool,
}

/// Arguments of `reload`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads the configuration again from its source, and takes over what can be used. Each part that is
out after that (an application, a certificate, an included file and so on) has a line on standard
error.

Exit status: 0 everything is in use, 1 the document is refused, or an application could not be
restarted, 2 mistake in the command line, 3 no server answers, 4 the document is in use and parts
of it are out (0 with --tolerant).")]
pub struct ReloadArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Restart all applications, too; otherwise only those with a changed part of the
    /// configuration, php.ini, preload script or worker script
    #[arg(long)]
    pub restart: bool,
    /// Succeed also if parts of the configuration are out, as in the unit of systemd
    #[arg(long)]
    pub tolerant: bool,
}

/// Arguments of `upgrade`.
#[derive(Debug, Args)]
#[command(after_help = "\
The server starts its program file again, with the same command line, and hands its listening
sockets over. When the new process serves, the old one finishes its requests and ends; no
connection is refused. Install the new version over the old one first.

If the new process cannot serve (it refuses the configuration, or PHP does not start), it ends, the
old one continues, and the reason is printed and logged. The signal USR2 does the same. An
application that alone cannot run is out. Each part that is out in the new process has a line on
standard error.

Exit status: 0 the new process serves, 1 the old one continues, 2 mistake in the command line, 3 no
server answers, 4 the new process serves and parts of the configuration are out (0 with
--tolerant).")]
pub struct UpgradeArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Succeed also if parts of the configuration are out, as the Debian package does
    #[arg(long)]
    pub tolerant: bool,
}

/// Arguments of `worker-check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Asks the running server for its configuration, and starts two copies of it for itself, on free
ports of 127.0.0.1: one that runs the application in the classic mode, one in worker mode. Then it
visits the page and those that it links to in both, as a visitor who has not logged in, and
compares status, header and content. What changes by itself from one classic answer to the next is
left out. Run it as the user who has started the server. Links are requested, so do not use it
where a link changes data.

  howdah worker-check http://localhost:8080/
  howdah worker-check https://shop.example/ --application shop --script frankenphp-worker.php

Exit status: 0 all pages are the same, 1 some differ or a mode does not start, 2 mistake in the
command line, 3 no server answers.")]
pub struct WorkerCheckArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The page of the running site to begin with
    pub url: String,
    /// Name of the application [default: the only one in worker mode, or the only one]
    #[arg(long, value_name = "NAME")]
    pub application: Option<String>,
    /// Worker script, relative to the root [default: that of the configuration, or the
    /// application's script]
    #[arg(long)]
    pub script: Option<String>,
    /// Maximum number of pages
    #[arg(long, default_value_t = 100)]
    pub pages: usize,
}

/// Default address of the control API of a server that is started like unitd.
pub const DEFAULT_CONTROL: &str = "unix:/run/control.howdah.sock";

/// A command with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show and change the configuration of a running server
    Config(ConfigArgs),
    /// Show the status of a running server or of an application
    Status(StatusArgs),
    /// Show which site hurts, and why: processor, memory, requests, errors, like top(1)
    Top(TopArgs),
    /// Serve a page for a browser: which site hurts, and why, now and in the last day
    Dashboard(DashboardArgs),
    /// Show the last requests of a running server, with the parts of their times
    Requests(RequestsArgs),
    /// Show where the scripts of a site spend their time: a flame graph, while visitors come
    Profile(ProfileArgs),
    /// Show the limits of a running server, and the clients that they refuse
    Limits(LimitsArgs),
    /// Show and purge the stored pages of a running server
    Cache(CacheArgs),
    /// Show, run and pause the jobs of sites, and show their last lines
    Jobs(JobsArgs),
    /// Add, show, check and change sites, each of which is a file of a few lines
    Site(SiteArgs),
    /// Check that a running server answers, for health checks
    Ping(PingArgs),
    /// Explain the number of processes of an application, with the equivalent settings of PHP-FPM
    Tune(TuneArgs),
    /// Replace all processes of applications, without interrupting a request
    Restart(RestartArgs),
    /// Replace the release of a site without failing a request, and go back if it does not work
    Deploy(DeployArgs),
    /// Read the configuration again and restart applications of which something has changed,
    /// without interrupting a request
    Reload(ReloadArgs),
    /// Replace the running server by the program file as it is now, without refusing a connection
    Upgrade(UpgradeArgs),
    /// Run a script with the PHP, the settings, the environment and the user of a site
    Php(PhpArgs),
    /// Compare the pages of a running site in worker mode with those of the classic mode
    WorkerCheck(WorkerCheckArgs),
}
