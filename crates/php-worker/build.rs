//! Compiles the C side against the headers of one version of PHP and links it to that version's
//! library.
//!
//! The program must load `libphp8.2.so`, say, as Debian names it, and not `libphp.so`: that is the
//! name in Debian's library itself, and leads to any PHP where several are installed. A linker
//! records the name in the library that it reads, so it reads a stub made here, with the wanted
//! name and the same symbols, and no content. A PHP with a prefix of its own has only `libphp.so`
//! in it; then the program records the directory as well.
//!
//! For another architecture, `PHP_SYSROOT` names the directory that stands for the root of its
//! system. `PHP_CONFIG` and PHP itself name paths in it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs};

const SOURCES: [&str; 26] = [
    "shim/apache.c",
    "shim/crash.c",
    "shim/transaction_state.c",
    "shim/directory.c",
    "shim/request_settings.c",
    "shim/sapi.c",
    "shim/request.c",
    "shim/variables.c",
    "shim/user_ini.c",
    "shim/functions.c",
    "shim/information.c",
    "shim/layout.c",
    "shim/mail.c",
    "shim/memory.c",
    "shim/messages.c",
    "shim/module_state.c",
    "shim/opcache.c",
    "shim/process_state.c",
    "shim/profile.c",
    "shim/resident.c",
    "shim/resident_session.c",
    "shim/resident_state.c",
    "shim/stream_state.c",
    "shim/time_limit.c",
    "shim/upload_limits.c",
    "shim/zygote.c",
];

/// Functions that all libraries in the process must call instead of PHP's or the C library's.
const REPLACED: [&str; 6] =
    ["chdir", "fchdir", "pclose", "popen", "zend_set_timeout", "zend_unset_timeout"];

/// Directories in which the system looks for libraries by default.
const SYSTEM: [&str; 3] = ["/usr/lib", "/usr/local/lib", "/usr/lib64"];

fn main() {
    println!("cargo:rerun-if-env-changed=PHP_CONFIG");
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=build.rs");
    let php = Php::find();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| fail("OUT_DIR is not set")));
    let mut build = cc::Build::new();
    build.files(SOURCES).flags(&php.includes).std("gnu11").pic(true);
    build.flag("-fvisibility=hidden").warnings(true).extra_warnings(true);
    // Zend's headers define functions that do not use all parameters.
    build.flag("-Wno-unused-parameter").flag("-Wno-sign-compare");
    let objects = build.compile_intermediates();
    build.clone().compile("howdah_shim");

    let library = php.library();
    let inside = php.sysroot.as_ref().and_then(|root| library.strip_prefix(root).ok());
    let installed = inside.map_or_else(|| library.clone(), |path| Path::new("/").join(path));
    let stub = make_stub(&library, &out.join("stub"), &objects);
    println!("cargo:rustc-link-arg={}", stub.display());
    if let Some(directory) = installed.parent().filter(|one| !SYSTEM.iter().any(|s| one == s)) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", directory.display());
    }
    for name in REPLACED {
        println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
    println!("cargo:rustc-link-arg=-Wl,-z,relro,-z,now");
}

fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    exit(1)
}

struct Php {
    version: String,
    prefix: PathBuf,
    includes: Vec<String>,
    sysroot: Option<PathBuf>,
}

impl Php {
    fn find() -> Self {
        let chosen = env::var("PHP_CONFIG").ok().filter(|config| !config.is_empty());
        let config = chosen.unwrap_or_else(|| "php-config".to_owned());
        if let Some(path) = resolve(&config) {
            // The file is missing once this version of PHP is removed.
            println!("cargo:rerun-if-changed={}", path.display());
        }
        let ask = |option: &str| match Command::new(&config).arg(option).output() {
            Ok(output) if output.status.success() => {
                String::from_utf8_lossy(&output.stdout).trim().to_owned()
            }
            _ => fail(&format!(
                "`{config} {option}` does not work: install PHP's headers \
                 (on Debian: apt install php-dev libphp-embed; on Fedora and Alma: dnf install \
                 php-devel php-embedded), or set PHP_CONFIG to a php-config"
            )),
        };
        let full = ask("--version");
        let mut parts = full.split('.');
        let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
            fail(&format!("`{config} --version` says \"{full}\", which is no version of PHP"));
        };
        println!("cargo:rerun-if-env-changed=PHP_SYSROOT");
        let sysroot = env::var_os("PHP_SYSROOT").map(PathBuf::from);
        let include = |word: &str| match (&sysroot, word.strip_prefix("-I/")) {
            (Some(root), Some(path)) => format!("-I{}", root.join(path).display()),
            _ => word.to_owned(),
        };
        let includes = ask("--includes").split_whitespace().map(include).collect();
        Php {
            version: format!("{major}.{minor}"),
            prefix: ask("--prefix").into(),
            includes,
            sysroot,
        }
    }

    /// Returns the path of the library itself, whose symbols are needed.
    fn library(&self) -> PathBuf {
        // The name in Debian's packages, and that in Fedora's, Alma's and Remi's.
        let names = [format!("libphp{}.so", self.version), format!("libphp-{}.so", self.version)];
        let given = env::var_os("PHP_LIBRARY").map(PathBuf::from);
        let own = ["lib", "lib64"].map(|directory| self.prefix.join(directory));
        let named = |directory: &Path| names.each_ref().map(|name| directory.join(name));
        // In the system's directories it may belong to any version of PHP.
        let is_system = self.prefix == Path::new("/usr");
        let unversioned = own.iter().filter(|_| !is_system).map(|one| one.join("libphp.so"));
        let places = own.iter().flat_map(|one| named(one)).chain(unversioned);
        let system = SYSTEM.iter().flat_map(|one| named(Path::new(one)));
        let mut places =
            given.into_iter().chain(places).chain(system).map(|path| match &self.sysroot {
                Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)),
                None => path,
            });
        println!("cargo:rerun-if-env-changed=PHP_LIBRARY");
        places.find(|path| path.exists()).unwrap_or_else(|| {
            fail(&format!(
                "{} was not found: install PHP's embed library (on Debian: apt install \
                 libphp{}-embed; on Fedora and Alma: dnf install php-embedded), build PHP with \
                 --enable-embed, or set PHP_LIBRARY",
                names.join(" or "),
                self.version
            ))
        })
    }
}

/// Returns the path of a program, without symbolic links; Debian's `php-config` leads to that of a
/// version.
fn resolve(program: &str) -> Option<PathBuf> {
    let places = env::var_os("PATH").unwrap_or_default();
    let mut paths = env::split_paths(&places).map(|directory| directory.join(program));
    if program.contains('/') {
        fs::canonicalize(program).ok()
    } else {
        paths.find_map(|path| fs::canonicalize(path).ok())
    }
}

fn symbols(arguments: &[&str], file: &Path) -> Vec<(char, String)> {
    let output = Command::new("nm").args(arguments).arg(file).output();
    let Ok(output) = output.as_ref().map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    else {
        fail("`nm` does not work: install binutils");
    };
    let parse = |line: &str| {
        let mut words = line.split_whitespace().rev();
        let name = words.next()?.to_owned();
        Some((words.next()?.chars().next()?, name))
    };
    output.lines().filter_map(parse).collect()
}

/// Creates a library of the same name with the symbols that the objects take from PHP's.
fn make_stub(php: &Path, directory: &Path, objects: &[PathBuf]) -> PathBuf {
    let wanted: BTreeSet<String> = objects
        .iter()
        .flat_map(|object| symbols(&["--undefined-only"], object))
        .map(|(_, name)| name)
        .collect();
    let mut source = String::new();
    for (kind, name) in symbols(&["--dynamic", "--defined-only"], php) {
        if wanted.contains(&name) {
            let _ = match kind {
                'T' | 'W' | 'i' => writeln!(source, "void {name}(void) {{}}"),
                // Accessed through the global offset table, so the size does not matter.
                _ => writeln!(source, "char {name}[64];"),
            };
        }
    }
    let name = php.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let (c, library) = (directory.join("stub.c"), directory.join(&*name));
    if fs::create_dir_all(directory).and_then(|()| fs::write(&c, source)).is_err() {
        fail(&format!("cannot write {}", c.display()));
    }
    let status = cc::Build::new()
        .get_compiler()
        .to_command()
        .args(["-shared", "-nostdlib", "-fPIC", "-w", "-fno-builtin"])
        .arg(format!("-Wl,-soname,{name}"))
        .arg("-o")
        .args([&library, &c])
        .status();
    if !status.is_ok_and(|status| status.success()) {
        fail("the C compiler cannot make a shared library");
    }
    library
}
