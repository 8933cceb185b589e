//! Arguments of `dashboard`.

use std::net::SocketAddr;

use clap::Args;
use howdah_dashboard::PageAddress;

use super::Server;

/// Arguments of `dashboard`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a link that works once; open it in a browser of this machine. The page has the sites with
their requests, errors, times, processors and memory of the last hour and day, names those of which
something is unusual, and shows the processes, slow scripts and last requests of each; further
upstreams, caches, limits, certificates and the state of the document. Its buttons restart
applications, purge caches, drain servers of upstreams and reload the document, with your rights.

From elsewhere, through ssh:
  ssh -L 9146:127.0.0.1:9146 server howdah dashboard

Through a listener of Howdah with TLS, as for a phone (docs/dashboard.md has the document):
  howdah dashboard --url https://status.example.org

The history begins with the command, so let it run: for example as a service, whose links are in the
journal. With --no-link, only the token of the control API logs in.

Exit status: 1 failed, 2 mistake in the command line, 3 no server answers.")]
pub struct DashboardArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Address of the page, of this machine alone; port 0 for a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9146")]
    pub listen: SocketAddr,
    /// Address of the page in browsers, if a proxy is in front of it
    #[arg(long, value_name = "URL", value_parser = PageAddress::parse)]
    pub url: Option<PageAddress>,
    /// Offer no buttons
    #[arg(long)]
    pub read_only: bool,
    /// Print no link: only the token of the control API logs in
    #[arg(long)]
    pub no_link: bool,
}
