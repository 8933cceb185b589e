//! `howdah import`: the configuration of another server → a document and a report.

mod output;
mod replay;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use howdah_import::command::{Input, lines};
use howdah_import::sites::{Site, sites};
use howdah_import::{Import, Options, layout, shorten::shorten};
use howdah_sys::plain::Plain;

/// Exit status for a configuration that cannot be read.
const UNREADABLE: u8 = 2;

/// Exit status for responses that differ from those of the old server.
const DIFFERS: u8 = 4;

/// The servers whose configuration can be imported.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Import the configuration of nginx
    Nginx {
        /// The main file, the output of "nginx -T", or a file of sites-available
        file: PathBuf,
        #[command(flatten)]
        pools: Pools,
        #[command(flatten)]
        common: Common,
    },
    /// Import the configuration of Apache
    Apache {
        /// The main file, or files with virtual hosts
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        pools: Pools,
        #[command(flatten)]
        common: Common,
    },
    /// Import pools of PHP-FPM: an application of each
    #[command(name = "php-fpm")]
    PhpFpm {
        /// php-fpm.conf, files with pools, or directories with them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// Import a document of NGINX Unit: what "/config" of its control API answers, or conf.json
    Unit {
        /// The document
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
}

/// The pools of a web server.
#[derive(Debug, Args, Default)]
pub struct Pools {
    /// A file with pools of PHP-FPM, or a directory with such files; may be given several times. A
    /// pool to which requests are passed becomes an application
    #[arg(long, value_name = "FILE|DIR")]
    fpm: Vec<PathBuf>,
}

/// Options of all servers.
#[derive(Debug, Args, Default)]
pub struct Common {
    /// Directory below which absolute paths of the configuration are read, such as a copy of
    /// another machine; the document has them as they are
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// File that the document is written to, "-" for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// File that the report is written to: a list of {"file", "line", "directive", "status",
    /// "reason"} as JSON, "-" for standard output
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Directory for files of sites, as in /etc/howdah/sites: one of each host of the document
    /// that a site of a few lines can stand for. The others are named with the reason
    #[arg(long, value_name = "DIR")]
    sites: Option<PathBuf>,
    #[command(flatten)]
    replay: replay::Replay,
}

/// Imports, writes the files, and prints what differs.
pub fn run(command: &Command) -> ExitCode {
    let none = Pools::default();
    let (input, pools, common) = match command {
        Command::Nginx { file, pools, common } => (Input::Nginx(file), pools, common),
        Command::Apache { files, pools, common } => (Input::Apache(files), pools, common),
        Command::PhpFpm { files, common } => (Input::PhpFpm(files), &none, common),
        Command::Unit { file, common } => (Input::Unit(file), &none, common),
    };
    let options = Options { root: common.root.clone(), pools: pools.fpm.clone() };
    let mut import = match input.import(&options) {
        Ok(import) => import,
        Err(error) => {
            eprintln!("howdah: {}", Plain(error));
            return ExitCode::from(UNREADABLE);
        }
    };
    // A site is read from the form that has a route for each block of the original.
    let sites = common.sites.as_ref().map_or_else(Vec::new, |_| sites(&import.document));
    if matches!(input, Input::Nginx(_) | Input::Apache(_)) {
        shorten(&mut import.document);
    }
    if let Err(problem) = write(&import, sites, common) {
        eprintln!("howdah: {}", Plain(problem));
        return ExitCode::FAILURE;
    }
    for line in lines(&import.report) {
        eprintln!("howdah: {}", Plain(line));
    }
    if common.replay.is_wanted() {
        match common.replay.run(&import.document) {
            Ok(true) => {}
            Ok(false) => return ExitCode::from(DIFFERS),
            Err(problem) => {
                eprintln!("howdah: {}", Plain(problem));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::from(import.exit_status())
}

/// Writes the document and the report.
fn write(import: &Import, sites: Vec<Site>, common: &Common) -> Result<(), String> {
    let document = layout::text(&import.document);
    // The report first: a document stands for an import that is complete.
    if let Some(path) = &common.report {
        output::write(path, &format!("{:#}\n", import.report.to_json()))?;
    }
    output::write(&common.output, &document)?;
    common.sites.as_deref().map_or(Ok(()), |directory| write_sites(sites, directory))
}

/// Writes a file of each site.
fn write_sites(sites: Vec<Site>, directory: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut is_php = false;
    for Site { name, site } in sites {
        match site {
            Ok(site) => {
                is_php |= site.get("php").is_some() || site.get("user").is_some();
                let file = directory.join(format!("{name}.json"));
                output::write(&file, &layout::text(&site))?;
                eprintln!("howdah: {}: a site", Plain(file.display()));
            }
            Err(reason) => {
                eprintln!("howdah: no file of a site for {}: {}", Plain(name), Plain(reason))
            }
        }
    }
    if is_php {
        eprintln!(
            "howdah: PHP of these sites has the php.ini of Howdah's PHP, and does not obey \
             X-Accel-Redirect; the document has both as they were"
        );
    }
    Ok(())
}
