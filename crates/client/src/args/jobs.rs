//! Arguments of `jobs`.

use clap::{Args, Subcommand};

use super::Server;

/// Arguments of `jobs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Jobs are commands of the configuration that run beside the pages of a site, all the time or at
times (\"jobs\" of a site or of an application). The user of a site may use this command for that
site.

  howdah jobs list                      all jobs
  howdah jobs list shop
  howdah jobs run shop backup           now, whatever its times are
  howdah jobs pause shop queue          ends its processes, and starts none; a timer's run goes on
  howdah jobs resume shop queue
  howdah jobs logs shop backup          its last lines, and its ends

A pause lasts until it is resumed or the server is started again.

Exit status: 0 done, 1 refused or failed, 2 mistake in the command line, 3 no server answers.")]
pub struct JobsArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub command: JobsCommand,
}

/// Subcommands of `jobs`.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// Show jobs with their states, runs and next times
    List {
        /// Name of a site or application [default: all]
        application: Option<String>,
        /// Print the response of the API as JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a job now
    Run(JobName),
    /// Start no process of a job any more, and end those that run all the time
    Pause(JobName),
    /// End a pause
    Resume(JobName),
    /// Show the last lines of a job
    Logs(JobName),
}

/// A job.
#[derive(Debug, Args)]
pub struct JobName {
    /// Name of the site or application
    pub application: String,
    /// Name of the job
    pub job: String,
}
