//! `howdah --version`.

use std::fmt::Write;

use crate::php_programs;

/// Returns version, build, features, and the versions of PHP that were found.
pub fn text() -> String {
    let mut text = format!(
        "howdah {} ({}, {})\nfeatures: PHP, FastCGI, HTTP/1.1, HTTP/2, HTTP/3, TLS, ACME, reverse proxy, \
         mail, streams\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        if cfg!(debug_assertions) { "debug build" } else { "release build" },
    );
    let programs = php_programs::find();
    for program in &programs.found {
        let _ = writeln!(text, "PHP {} ({})", program.version, program.path.display());
    }
    for program in &programs.unusable {
        let _ = writeln!(text, "{program}");
    }
    if programs.found.is_empty() {
        let _ = writeln!(text, "no PHP: {}", php_programs::ADVICE);
    }
    text
}
