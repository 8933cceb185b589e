//! Facts about a site for the phases of its requests.

use std::sync::Arc;

use crate::base::Base;
use crate::config::DirConfig;
use crate::merge::Merges;
use crate::modules::core::NamePattern;

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
    /// Names of scripts of the base; `None` if it runs none.
    pub scripts: Option<NamePattern>,
    /// Directives of directories that have been merged.
    pub merges: Merges,
}
