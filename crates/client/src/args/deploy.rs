//! Arguments of `deploy`.

use std::path::PathBuf;

use clap::Args;

use super::Server;

/// Arguments of `deploy`.
#[derive(Debug, Args)]
#[command(after_help = "\
Replaces the symbolic link in the root of SITE so that it leads to DIRECTORY, restarts the
application and its jobs without interrupting a request, and asks for the URLs. If the application
does not start, or an answer has a status of 400 or more, or a check fails, the link leads to the
former release again, and the application is restarted from that. If it loads its code for each
request, a copy of the server answers the URLs with the new release first.

  howdah deploy shop /srv/shop/releases/8 --url http://shop.example/ --url https://shop.example/cart
  howdah deploy shop releases/8 --before 'php artisan migrate --force' \\
      --check 'curl -fsS https://shop.example/' --after 'php artisan cache:prune'

Commands are run by sh in DIRECTORY, with HOWDAH_SITE and HOWDAH_RELEASE in their environment; if
root runs this command, as the user of the site with its environment. If --before fails, nothing is
changed. A second deployment in the same directory is refused while one runs.

Exit status: 0 the new release serves, 1 the former one does (or --after has failed, which the
message says), 2 mistake in the command line, 3 no server answers.")]
pub struct DeployArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Name of the site or application
    pub site: String,
    /// Directory of the release
    pub directory: PathBuf,
    /// The link [default: the first symbolic link on the way to the root of the site]
    #[arg(long, value_name = "PATH")]
    pub link: Option<PathBuf>,
    /// A page to ask for, to warm it up and to check its status; repeat it for several
    #[arg(long, value_name = "URL")]
    pub url: Vec<String>,
    /// File with the authorities (PEM) that certificates of https may be from, as of `curl`, such as
    /// the one of `howdah serve --tls` [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Command before the link is replaced; if it fails, nothing is changed
    #[arg(long, value_name = "COMMAND")]
    pub before: Option<String>,
    /// Command that checks the new release once it serves; if it fails, the former one is back
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<String>,
    /// Command after all checks
    #[arg(long, value_name = "COMMAND")]
    pub after: Option<String>,
}
