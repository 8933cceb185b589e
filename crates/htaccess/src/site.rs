//! Facts about a site for the phases of its requests.

use std::sync::Arc;

use crate::base::Base;
use crate::config::DirConfig;
use crate::merge::Merges;
use crate::modules::core::NamePattern;
use crate::server_config::ServerConfig;

/// A site, as a thread sees it.
#[derive(Debug)]
pub(crate) struct Site {
    pub base: Arc<Base>,
    /// The base, compiled: [`server`](Site::server) with [`directory`](Site::directory).
    pub config: Arc<DirConfig>,
    /// Directives of the whole server.
    pub server: Arc<DirConfig>,
    /// Directives of the root's own section, as in `<Directory>`.
    pub directory: Arc<DirConfig>,
    /// Sections, aliases and rules of the server's configuration.
    pub own: Arc<ServerConfig>,
    /// Names of scripts of the base; `None` if it runs none.
    pub scripts: Option<NamePattern>,
    /// Directives of directories that have been merged.
    pub merges: Merges,
}
