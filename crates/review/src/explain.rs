//! `howdah htaccess explain`: the effects of a site's directives on a request, in their order.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use clap::Args;
use howdah_htaccess::base::Base;
use howdah_htaccess::config::DirConfig;
use howdah_htaccess::engine::Engine;
use howdah_htaccess::modules::php;
use howdah_htaccess::outcome::Action;
use howdah_htaccess::parse::review::{Line, Review};
use howdah_htaccess::parse::{self, review};
use howdah_htaccess::record::{Connection, FileInfo, FileKind, Record};
use howdah_htaccess::table::Table;
use howdah_htaccess::world::{Broken, Later, Level, Reading, World};

use super::effects::{Removed, effective, without};
use super::site_file;

/// Arguments of `howdah htaccess explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  howdah htaccess explain /var/www/blog /2026/05/a-post/
  howdah htaccess explain . '/index.php?page=2' --https --host example.org
  howdah htaccess explain . /admin/ --address 192.0.2.7 --header 'User-Agent: curl'

The files of the directory are read as they are now; no server is needed, and nothing is run.")]
pub struct Explain {
    /// The document root of the site
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Path of the request, with its query, as in a URL
    #[arg(value_name = "PATH")]
    pub target: String,
    /// Method of the request
    #[arg(short = 'X', long, default_value = "GET")]
    pub method: String,
    /// Header field of the request, as NAME: VALUE; may be given several times
    #[arg(short = 'H', long, value_name = "FIELD")]
    pub header: Vec<String>,
    /// Host of the request
    #[arg(long, default_value = "localhost")]
    pub host: String,
    /// Address of the client
    #[arg(long, default_value = "127.0.0.1")]
    pub address: String,
    /// The request came over https
    #[arg(long)]
    pub https: bool,
}

/// Largest `.htaccess` that is read, in bytes; that of the server.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Explains a request and prints the steps.
pub fn run(arguments: &Explain) -> Result<(), String> {
    let root = fs::canonicalize(&arguments.directory)
        .map_err(|error| format!("{}: {error}", arguments.directory.display()))?;
    if !arguments.target.starts_with('/') {
        return Err(format!(
            "\"{}\" is no path: write it as in a URL, such as /page?a=1",
            arguments.target
        ));
    }
    let base = Base {
        directory_index: vec![b"index.php".to_vec(), b"index.html".to_vec()],
        ..Base::default()
    };
    let engine = Engine::new(base).map_err(|broken| broken.message)?;
    let site = Site {
        root,
        engine: &engine,
        lines: RefCell::default(),
        removed: RefCell::default(),
        is_silent: Cell::new(false),
    };
    let asked = site.record(arguments)?;
    let (record, _) = site.answer(asked.clone()).ok_or(WAITS)?;
    site.print_files();
    println!("steps:");
    site.lines.borrow().iter().for_each(|line| println!("  {line}"));
    println!("response: {}", record.status);
    for (name, value) in record.headers_out.iter() {
        println!("  {}: {}", lossy(name), lossy(value));
    }
    if record.env.iter().next().is_some() {
        println!("variables:");
        for (name, value) in record.env.iter() {
            println!("  {}={}", lossy(name), lossy(value));
        }
    }
    site.print_effects(&asked);
    Ok(())
}

/// The request waits for something outside of the process.
const WAITS: &str = "the request waits for something that is not there";

/// Describes the answer.
fn describe(record: &Record, action: &Action) -> String {
    match action {
        Action::File => format!("the file {} is sent", lossy(&record.filename)),
        Action::Script(script) => format!(
            "PHP runs {}: SCRIPT_NAME {}, PATH_INFO \"{}\", QUERY_STRING \"{}\"",
            lossy(&script.filename),
            lossy(&script.name),
            lossy(&script.path_info),
            lossy(&script.query)
        ),
        Action::Page(_) => "a listing of the directory is sent".to_owned(),
        Action::Options => "the methods are listed".to_owned(),
        Action::Error(_) => format!("the answer is {}", record.status),
    }
}

/// Runs a future that never waits; `None` if it does.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn lossy(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The files of a site, and the steps of the request.
struct Site<'e> {
    root: PathBuf,
    engine: &'e Engine,
    lines: RefCell<Vec<String>>,
    /// Lines of files that do not count.
    removed: RefCell<Removed>,
    /// Steps are not recorded.
    is_silent: Cell<bool>,
}

impl Site<'_> {
    /// Takes a request through all phases; returns it with a description of the answer.
    fn answer(&self, record: Record) -> Option<(Record, String)> {
        now(async {
            let outcome = self.engine.handle(record, self).await;
            let mut record = outcome.record;
            let description = describe(&record, &outcome.action);
            self.say(&description);
            if matches!(outcome.action, Action::File) {
                record.length = Some(record.file.size);
            }
            self.engine.finish(&mut record, &outcome.action, self);
            (*record, description)
        })
    }

    /// Prints the directives without which the answer would be another one.
    fn print_effects(&self, asked: &Record) {
        self.is_silent.set(true);
        let files = self.files();
        let answer = |removed: &Removed| {
            self.removed.replace(removed.clone());
            let Some((record, description)) = self.answer(asked.clone()) else {
                return String::new();
            };
            // Durations and the like differ each time.
            let fields: Vec<_> = record
                .headers_out
                .iter()
                .map(|(name, value)| (lossy(name), lossy(value)))
                .filter(|(_, value)| !value.contains("D="))
                .collect();
            let variables: Vec<_> = record.env.iter().collect();
            let settings = record.config.of::<php::Config>();
            format!("{} {description} {fields:?} {variables:?} {settings:?}", record.status)
        };
        match effective(&files, answer) {
            Some(effective) => {
                println!("directives with an effect:");
                for (path, line) in effective {
                    println!("  {}:{}: {}", path.display(), line.number, line.text.trim_start());
                }
            }
            None => println!("there are too many directives to tell which had an effect"),
        }
    }

    fn say(&self, line: &str) {
        if self.is_silent.get() {
            return;
        }
        self.lines.borrow_mut().push(lossy(line.as_bytes()));
    }

    fn record(&self, arguments: &Explain) -> Result<Record, String> {
        let mut headers = Table::default();
        headers.set("Host", arguments.host.clone());
        for field in &arguments.header {
            let (name, value) = field
                .split_once(':')
                .ok_or_else(|| format!("--header \"{field}\": write NAME: VALUE"))?;
            headers.set(name.trim(), value.trim());
        }
        let address: IpAddr = arguments.address.parse().map_err(|_| {
            format!("--address \"{}\" is no address of a client", arguments.address)
        })?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let connection = Connection {
            remote_addr: address.to_string().into_bytes(),
            remote_port: 50_000,
            server_addr: b"127.0.0.1".to_vec(),
            server_port: if arguments.https { 443 } else { 80 },
            server_name: arguments.host.clone().into_bytes(),
            is_https: arguments.https,
            server_software: b"Howdah (Apache compatible)".to_vec(),
            document_root: self.root.as_os_str().as_bytes().to_vec(),
            time: (i64::try_from(since.as_secs()).unwrap_or_default(), 0),
            ..Connection::default()
        };
        let method = arguments.method.to_ascii_uppercase();
        Ok(Record {
            connection: Arc::new(connection),
            request_line: format!("{method} {} HTTP/1.1", arguments.target).into_bytes(),
            method: method.into_bytes(),
            protocol: b"HTTP/1.1".to_vec(),
            unparsed_uri: arguments.target.clone().into_bytes(),
            headers_in: headers,
            ..Record::default()
        })
    }

    /// Prints the directives of the files that the steps name.
    fn print_files(&self) {
        for directory in self.directories() {
            let path = Path::new(&directory).join(".htaccess");
            let Some(review) = self.review(&path) else { continue };
            println!("{}:", path.display());
            for line in review.directives {
                println!("  {:4}  {}", line.number, line.text);
            }
            for line in review.skipped {
                println!("  {:4}  {} (false: not read)", line.number, line.text);
            }
        }
    }

    /// Returns the files that the steps name, with their directives.
    fn files(&self) -> Vec<(PathBuf, Vec<Line>)> {
        let paths = self.directories().into_iter().map(|path| Path::new(&path).join(".htaccess"));
        paths.filter_map(|path| Some((path.clone(), self.review(&path)?.directives))).collect()
    }

    fn review(&self, path: &Path) -> Option<Review> {
        let bytes = self.bytes(path).ok()?;
        let directory = path.parent().map(|path| path.as_os_str().as_bytes()).unwrap_or_default();
        let directory = [directory, b"/"].concat();
        let exists = |path: &[u8]| self.stat(path).is_some();
        let file = path.as_os_str().as_bytes();
        Some(review::review(&bytes, file, &directory, self.engine.base(), &exists))
    }

    /// Returns the directories whose rules the steps name.
    fn directories(&self) -> Vec<String> {
        let lines = self.lines.borrow();
        let named =
            lines.iter().filter_map(|line| line.strip_prefix("rules of ")?.strip_suffix(" apply"));
        let mut directories: Vec<String> = named.map(str::to_owned).collect();
        directories.sort_unstable();
        directories.dedup();
        directories
    }

    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        site_file::read(&self.root, path, MAX_FILE_BYTES)
    }

    /// Returns a path below the root.
    fn path<'p>(&self, path: &'p [u8]) -> Option<&'p Path> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        path.starts_with(&self.root).then_some(path)
    }
}

fn info(metadata: &fs::Metadata) -> FileInfo {
    FileInfo {
        kind: match metadata.file_type() {
            kind if kind.is_file() => FileKind::File,
            kind if kind.is_dir() => FileKind::Directory,
            _ => FileKind::Other,
        },
        is_link: metadata.is_symlink(),
        size: metadata.size(),
        modified: metadata.mtime(),
        accessed: metadata.atime(),
        mode: metadata.mode(),
        user: metadata.uid(),
        group: metadata.gid(),
    }
}

impl World for Site<'_> {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        fs::symlink_metadata(self.path(path)?).ok().as_ref().map(info)
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        fs::metadata(self.path(path)?).ok().as_ref().map(info)
    }

    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        let Some(path) = self.path(directory).map(|path| path.join(".htaccess")) else {
            return Ok(None);
        };
        let bytes = match self.bytes(&path) {
            Ok(bytes) => bytes,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(Broken::unreadable(format!("{}: {error}", path.display()))),
        };
        let bytes = match self.removed.borrow().get(&path) {
            Some(numbers) => without(&bytes, numbers),
            None => bytes,
        };
        let exists = |path: &[u8]| self.stat(path).is_some();
        let file = path.as_os_str().as_bytes();
        parse::compile(&bytes, file, directory, self.engine.base(), &exists)
            .map(|found| Some(Arc::new(found)))
    }

    fn list<'a>(&'a self, directory: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>> {
        Box::pin(async move {
            let path = self.path(directory).ok_or(io::ErrorKind::NotFound)?;
            fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().into_vec())).collect()
        })
    }

    fn read<'a>(&'a self, path: &'a [u8], reading: Reading) -> Later<'a, io::Result<Arc<[u8]>>> {
        Box::pin(async move {
            let path = self.path(path).ok_or(io::ErrorKind::NotFound)?;
            let bytes = site_file::read(&self.root, path, reading.limit() as u64 + 1)?;
            Ok(reading.of(bytes.as_slice())?.into())
        })
    }

    fn verify<'a>(&'a self, _: &'a [u8], _: &'a [u8]) -> Later<'a, Option<bool>> {
        self.say("the password is taken to be right");
        Box::pin(async { Some(true) })
    }

    fn host_names<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        self.say("the name of the client is not looked up");
        Box::pin(async { Vec::new() })
    }

    fn explain(&self, step: &dyn Fn() -> String) {
        self.say(&step());
    }

    fn is_explaining(&self) -> bool {
        !self.is_silent.get()
    }

    fn log(&self, level: Level, message: &str) {
        let level = match level {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Notice | Level::Info => "note",
        };
        self.say(&format!("log, {level}: {message}"));
    }
}
