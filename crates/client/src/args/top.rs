//! Arguments of `top`.

use clap::{Args, ValueEnum};

use super::{Server, interval};

/// Arguments of `top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Sites come first of which something is unusual: processes crash, memory grows, scripts start
programs, flood the log, use a processor, are slow or fail, or requests wait.

  Enter or a click   the site's processes with their scripts, its last errors and slow requests
  Esc                back to the sites
  t c m r e l n      order: trouble, processor, memory, requests, errors, latency, name;
                     or a click on a heading
  /                  only sites with this in their names
  a                  idle sites, too
  Up Down PgUp PgDn  scroll; the wheel, too
  Space h q          ask the server now, help, quit; Ctrl-Z suspends

CPU% is 100 for a processor; MEM the private memory of all processes of the site; 5XX its errors
in the last minute; TIME the time of a request, or of one that runs longer; WAIT requests without a
process. Without a terminal, and with --once or --json, top prints the sites once. NO_COLOR turns
colours off.

  howdah top --sort memory
  howdah top --once --all | grep shop
  howdah top --json

Exit status: 0 shown, 1 failed, 2 mistake in the command line, 3 no server answers.")]
pub struct TopArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The order of the sites
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
    /// Only sites with this in their names
    #[arg(long, value_name = "TEXT")]
    pub site: Option<String>,
    /// Show idle sites, too
    #[arg(long, short)]
    pub all: bool,
    /// Print the sites once
    #[arg(long)]
    pub once: bool,
    /// Print the sites once, as JSON
    #[arg(long)]
    pub json: bool,
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,
}

/// The order of sites.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Those first of which something is unusual
    #[default]
    Trouble,
    /// By processor time
    Processor,
    /// By memory
    Memory,
    /// By requests
    Requests,
    /// By errors
    Errors,
    /// By the time of a request
    Latency,
    /// By name
    Name,
}
