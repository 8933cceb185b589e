//! The entrance for a server: an [`Engine`] for each site and thread.
//!
//! 1. [`Engine::handle`] takes a request through all phases and returns the answer.
//! 2. The server sends a file, runs a script, or sends the text that it got.
//! 3. [`Engine::finish`] applies `Header`, `Expires` and the like to the response.
//!
//! If the second step fails before a response has begun (the file is gone, no worker is free),
//! [`Engine::fail`] looks for an `ErrorDocument`.

use std::sync::{Arc, OnceLock};

pub use crate::base::Base;
use crate::config::{DirConfig, ModuleConfig};
use crate::merge::Merges;
use crate::modules::core;
use crate::modules::core::{FilesSection, NamePattern};
use crate::modules::dir;
use crate::modules::filter;
use crate::modules::filter::Compression;
use crate::modules::headers;
use crate::modules::mime;
use crate::modules::pattern::Text;
use crate::outcome::PHP_HANDLER;
pub use crate::outcome::{Action, ErrorPage, Outcome, Script};
pub use crate::parse::compile;
use crate::phases::Server;
use crate::record::Record;
use crate::server_config::{ServerConfig, compile_base};
use crate::site::Site;
use crate::work;
use crate::world::{Broken, World};

/// Debian's configuration of modules.
const DEBIAN: &str = include_str!("modules/base/debian.conf");
/// Debian's sections of files that are refused.
const SECTIONS: &str = include_str!("base.conf");

/// Runs the requests of a site. An engine belongs to a thread: its state is not shared.
#[derive(Debug)]
pub struct Engine {
    pub(crate) site: Site,
}

impl Engine {
    /// Prepares an engine.
    ///
    /// # Errors
    ///
    /// An error in `options`, `php_pattern` or `extra`.
    pub fn new(base: impl Into<Arc<Base>>) -> Result<Engine, Broken> {
        let base = base.into();
        let mut server = compile_server(&base)?;
        let own = Arc::new(ServerConfig::new(&base, &mut server)?);
        let server = Arc::new(server);
        let options = format!("Require all granted\nOptions {}\n", base.options);
        let directory = Arc::new(compile_base(&options, b"/", &base)?);
        let config = Arc::new(server.merged(&directory));
        let merges = Merges::default();
        let scripts = scripts(&base)?;
        Ok(Engine { site: Site { base, config, server, directory, own, scripts, merges } })
    }

    /// Prepares an engine of another site of this thread, if its base has the same directives: they
    /// are compiled once. Most sites of a server have the same.
    pub fn of_like(&self, base: &Arc<Base>) -> Option<Engine> {
        self.site.base.has_same_directives(base).then(|| {
            let Site { base: _, config, server, directory, own, scripts, merges: _ } = &self.site;
            let (config, server, directory) = (config.clone(), server.clone(), directory.clone());
            let (base, scripts, merges) = (base.clone(), scripts.clone(), Merges::default());
            let own = own.clone();
            Engine { site: Site { base, config, server, directory, own, scripts, merges } }
        })
    }

    /// Returns the base, to compile files with.
    pub fn base(&self) -> &Base {
        &self.site.base
    }

    /// Takes a request through all phases. The record needs its connection, `request_line`,
    /// `method`, `protocol`, `unparsed_uri` and `headers_in`.
    pub async fn handle(&self, record: Record, world: &dyn World) -> Outcome {
        self.limited(Server { site: &self.site, world }.handle(record)).await
    }

    /// Looks for the answer to an error that the server had with the outcome of a request. An error
    /// of a script that has answered is its own: Apache with mod_php has no error document for it.
    pub async fn fail(&self, record: Record, status: u16, world: &dyn World) -> Outcome {
        self.limited(Server { site: &self.site, world }.fail(record, status)).await
    }

    async fn limited(&self, phases: impl Future<Output = Outcome>) -> Outcome {
        let (mut outcome, is_unprepared) = work::limited(phases).await;
        outcome.is_unprepared = is_unprepared;
        outcome
    }

    /// Applies directives to the head of a response: after this, `record.status` and
    /// `record.headers_out` are the head to send. Before it, the server puts the status and the
    /// header fields of a file or script there, with the type in `content_type`.
    ///
    /// Returns whether the body is to be compressed; the server sets `Content-Encoding` if it does
    /// so.
    pub fn finish(&self, record: &mut Record, action: &Action, world: &dyn World) -> Compression {
        Server { site: &self.site, world }.finish(record, action)
    }

    /// Returns true if a condition for the head of a response may take a sub-request: the results
    /// that it needs are known only after [`Engine::finish`], which is then to be run again with
    /// the same record.
    pub fn finish_looks_up(record: &Record) -> bool {
        record.config.of::<headers::Config>().looks_up()
            || record.config.of::<filter::Config>().looks_up()
    }

    /// Forgets merged directives. To be called after `.htaccess` files have changed.
    pub fn forget(&self) {
        self.site.merges.clear();
    }
}

/// Returns the directives of modules that the base has: those of Debian's files.
pub fn debian_directives() -> &'static str {
    DEBIAN
}

/// Compiles the part of the base that is not about a directory.
fn compile_server(base: &Base) -> Result<DirConfig, Broken> {
    let mut config = compile_base(&format!("{DEBIAN}\n{SECTIONS}\n{}\n", base.extra), b"/", base)?;
    // Removals of suffixes take effect in a merge.
    let mime = mime::Config::default().merged(config.of::<mime::Config>());
    config.set(mime);
    if config.of::<dir::Config>().index_names.is_none() {
        config.of_mut::<dir::Config>().index_names = Some(base.directory_index.clone().into());
    }
    if let Some(pattern) = scripts(base)? {
        let broken = |message: String| Broken::new(format!("base: {message}"));
        let mut scripts = DirConfig::default();
        scripts.of_mut::<core::Config>().handler =
            Some(Text::parse(PHP_HANDLER.as_bytes()).map_err(broken)?);
        let section = FilesSection { pattern, config: Arc::new(scripts) };
        // Debian's file of mod_php precedes the virtual hosts, whose sections may take a handler away.
        let files = &mut config.of_mut::<core::Config>().files;
        files.insert(sections_of_base().min(files.len()), Arc::new(section));
    }
    Ok(config)
}

/// Returns the number of sections of files that the base has in front of those of a site.
fn sections_of_base() -> usize {
    static NUMBER: OnceLock<usize> = OnceLock::new();
    *NUMBER.get_or_init(|| {
        let compiled = compile_base(&format!("{DEBIAN}\n{SECTIONS}\n"), b"/", &Base::default());
        compiled.map_or(0, |config| config.of::<core::Config>().files.len())
    })
}

/// Returns the names of scripts of the base; `None` if it runs none.
fn scripts(base: &Base) -> Result<Option<NamePattern>, Broken> {
    let compile = |pattern: &String| NamePattern::regex(pattern.as_bytes());
    let compiled = base.php_pattern.as_ref().map(compile).transpose();
    compiled.map_err(|message| Broken::new(format!("base: {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allow::Allow;
    use crate::memory::SiteMemory;

    #[test]
    fn sites_with_the_same_directives_have_them_compiled_once() {
        let first = Engine::new(Base::default()).unwrap();
        let memory = Some(Arc::<SiteMemory>::default());
        let like = Arc::new(Base { allow: Allow::none(), memory, ..Base::default() });
        let second = first.of_like(&like).unwrap();
        assert!(Arc::ptr_eq(&first.site.config, &second.site.config));
        assert!(Arc::ptr_eq(
            second.site.base.memory.as_ref().unwrap(),
            like.memory.as_ref().unwrap()
        ));
        assert!(second.base().allow.is_none(), "each has its own rules for files");
        let other = Base { options: "Indexes".to_owned(), ..Base::default() };
        assert!(first.of_like(&Arc::new(other)).is_none());
        let other = Base { php_pattern: None, ..Base::default() };
        assert!(first.of_like(&Arc::new(other)).is_none());
    }
}
