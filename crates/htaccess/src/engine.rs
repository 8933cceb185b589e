//! The entrance for a server: an [`Engine`] for each site and thread.
//!
//! 1. [`Engine::handle`] takes a request through all phases and says what to answer.
//! 2. The server sends a file, runs a script, or sends the text that it got.
//! 3. [`Engine::finish`] applies `Header`, `Expires` and the like to the response.
//!
//! If the second step fails before a response has begun (the file is gone, no worker is free), [`Engine::fail`]
//! looks for an `ErrorDocument`.

use std::sync::{Arc, OnceLock};

use crate::allow::Allow;
use crate::config::DirConfig;
use crate::merge::Merges;
use crate::modules::core::{FilesSection, NamePattern, Options};
use crate::modules::filter::Compression;
use crate::modules::mime::Types;
use crate::modules::pattern::Text;
use crate::parse;
use crate::phases::Server;
use crate::record::Record;
use crate::world::{Broken, World};

/// Configuration of a site outside of its `.htaccess` files: Apache's as Debian ships it.
#[derive(Debug, Clone)]
pub struct Base {
    /// What a `.htaccess` may have.
    pub allow: Allow,
    /// Index files of a directory.
    pub directory_index: Vec<Vec<u8>>,
    /// Words of an `Options` directive.
    pub options: String,
    /// Names of PHP's scripts, as a regular expression; `None` runs none.
    pub php_pattern: Option<String>,
    /// Modules beside those of the engine that `<IfModule>` takes for present: `mod_deflate.c`.
    pub modules: Vec<String>,
    /// Names that `<IfDefine>` takes for defined.
    pub defines: Vec<String>,
    /// Version for `<IfVersion>`.
    pub version: [u32; 3],
    /// Further directives of the base, as in a `.htaccess`.
    pub extra: String,
    /// Media types by suffix.
    pub types: Arc<Types>,
}

impl Default for Base {
    fn default() -> Base {
        Base {
            allow: Allow::all(),
            directory_index: vec![b"index.html".to_vec(), b"index.php".to_vec()],
            options: "Indexes FollowSymLinks".to_owned(),
            php_pattern: Some(r".+\.ph(?:ar|p|tml)$".to_owned()),
            modules: DEBIAN_MODULES.split_ascii_whitespace().map(str::to_owned).collect(),
            defines: vec!["FOREGROUND".to_owned()],
            version: [2, 4, 71],
            extra: String::new(),
            types: built_in_types(),
        }
    }
}

impl Base {
    /// Compiles the base.
    fn config(&self) -> Result<DirConfig, Broken> {
        let base = Base { allow: Allow::all(), ..self.clone() };
        let text = format!(
            "{DEBIAN}
{SECTIONS}
Options {}
{}
",
            self.options, self.extra
        );
        let config = parse::compile(text.as_bytes(), b"base", b"/", &base, &|_| false)?;
        // Removals of suffixes take effect in a merge.
        let mut config = DirConfig::default().merged(&config);
        if config.dir.index_names.is_none() {
            config.dir.index_names = Some(self.directory_index.clone().into());
        }
        if let Some(pattern) = &self.php_pattern {
            let broken = |message: String| Broken::new(format!("base: {message}"));
            let pattern = NamePattern::regex(pattern.as_bytes()).map_err(broken)?;
            let mut scripts = DirConfig::default();
            scripts.core.handler = Some(Text::parse(PHP_HANDLER.as_bytes()).map_err(broken)?);
            let section = FilesSection { pattern, config: Arc::new(scripts) };
            config.core.files.push(Arc::new(section));
        }
        Ok(config)
    }
}

/// Further modules that Debian has built in or turns on.
const DEBIAN_MODULES: &str = "
    mod_log_config.c log_config_module mod_logio.c logio_module mod_unixd.c unixd_module
    mod_watchdog.c watchdog_module mod_reqtimeout.c reqtimeout_module mod_status.c status_module
    prefork.c mpm_prefork_module
";
/// Debian's configuration of modules.
const DEBIAN: &str = include_str!("modules/base/debian.conf");
/// Debian's sections of files that are refused.
const SECTIONS: &str = include_str!("base.conf");

/// Returns the built-in media types, read once.
fn built_in_types() -> Arc<Types> {
    static TYPES: OnceLock<Arc<Types>> = OnceLock::new();
    TYPES.get_or_init(|| Arc::new(Types::built_in())).clone()
}

/// Handler of PHP's scripts.
pub(crate) const PHP_HANDLER: &str = "application/x-httpd-php";

/// Runs the requests of a site. An engine belongs to a thread: what it keeps is not shared.
#[derive(Debug)]
pub struct Engine {
    pub(crate) base: Base,
    pub(crate) config: Arc<DirConfig>,
    pub(crate) merges: Merges,
    pub(crate) types: Arc<Types>,
}

/// What to answer to a request.
#[derive(Debug)]
pub struct Outcome {
    /// The request, after internal redirects and with what its phases have set: `status`, `headers_out`,
    /// `err_headers_out`, `env`, `content_type` and so on. To be handed to [`Engine::finish`].
    pub record: Box<Record>,
    /// What the server is to send.
    pub action: Action,
}

/// Kind of an answer.
#[derive(Debug)]
pub enum Action {
    /// The file at `record.filename`, of `record.file`; with `record.status`, which is not 200 for an error
    /// document. Conditional requests and ranges hold for 200 only.
    File,
    /// A script of PHP.
    Script(Script),
    /// A text that a module has written, of `record.content_type`: a listing.
    Page(Vec<u8>),
    /// An answer to `OPTIONS`: no content, `Allow` is set.
    Options,
    /// An error, or a redirect with `Location` in `record.headers_out`; its status is `record.status`.
    Error(ErrorPage),
}

/// Text of an error or a redirect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPage {
    /// Text of an `ErrorDocument`, to be sent as `text/html; charset=iso-8859-1`; without one, the server writes
    /// its own.
    pub text: Option<Vec<u8>>,
    /// Status of a further error that the error document itself had.
    pub also: Option<u16>,
}

/// A script to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Absolute path of the file.
    pub filename: Vec<u8>,
    /// `SCRIPT_NAME`.
    pub name: Vec<u8>,
    /// `PATH_INFO`; empty without one.
    pub path_info: Vec<u8>,
    /// `REQUEST_URI`.
    pub request_uri: Vec<u8>,
    /// Method that the script sees: `GET` in an error document.
    pub method: Vec<u8>,
    /// `QUERY_STRING`.
    pub query: Vec<u8>,
    /// Variables beside the usual ones: `SetEnv`, `[E=]`, `REDIRECT_*`, `REMOTE_USER`, `AUTH_TYPE`. The usual
    /// ones of CGI win over them.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Settings of `php_value` and `php_flag`.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// `HTTP_AUTHORIZATION` is among the variables of header fields (`CGIPassAuth On`).
    pub passes_auth: bool,
    /// True if the script shows its source in colours (`SetHandler application/x-httpd-php-source`).
    pub shows_source: bool,
}

/// Compiles a `.htaccess`, for [`World::directives`]. `exists` says whether there is something at a path
/// (`<IfFile>`); it should say no outside of the site.
///
/// # Errors
///
/// The first error; requests below the directory fail with 500.
pub fn compile(
    bytes: &[u8],
    path: &[u8],
    directory: &[u8],
    base: &Base,
    exists: &dyn Fn(&[u8]) -> bool,
) -> Result<DirConfig, Broken> {
    parse::compile(bytes, path, directory, base, exists)
}

impl Engine {
    /// Prepares an engine.
    ///
    /// # Errors
    ///
    /// An error in `options`, `php_pattern` or `extra`.
    pub fn new(base: Base) -> Result<Engine, Broken> {
        let config = Arc::new(base.config()?);
        let types = base.types.clone();
        Ok(Engine { base, config, merges: Merges::default(), types })
    }

    /// Returns the base, to compile files with.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Takes a request through all phases. The record needs its connection, `request_line`, `method`,
    /// `protocol`, `unparsed_uri` and `headers_in`.
    pub async fn handle(&self, record: Record, world: &dyn World) -> Outcome {
        Server { engine: self, world }.handle(record).await
    }

    /// Looks for the answer to an error that the server had with the outcome of a request. An error of a script
    /// that has answered is its own: Apache with mod_php has no error document for it.
    pub async fn fail(&self, record: Record, status: u16, world: &dyn World) -> Outcome {
        Server { engine: self, world }.fail(record, status).await
    }

    /// Applies directives to the head of a response: after this, `record.status` and `record.headers_out` are
    /// what to send. Before it, the server puts the status and the header fields of a file or script there, with
    /// the type in `content_type`.
    ///
    /// Returns whether the body is to be compressed; the server sets `Content-Encoding` if it does so.
    pub fn finish(&self, record: &mut Record, action: &Action, world: &dyn World) -> Compression {
        Server { engine: self, world }.finish(record, action)
    }

    /// Forgets merged directives. To be called after `.htaccess` files have changed.
    pub fn forget(&self) {
        self.merges.clear();
    }
}

/// Options of a setting, for those that read them from elsewhere.
pub fn options_of(config: &DirConfig) -> Options {
    config.core.options.get()
}
