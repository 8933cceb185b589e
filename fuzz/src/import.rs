//! Configurations of other servers.

use std::path::{Path, PathBuf};

use howdah_config::Config;
use howdah_import::{Error, Import, Options, Source, Status, apache, nginx, php_fpm, unit};

/// The file that the input is.
const FILE: &str = "/input.conf";

/// A root directory without files.
const ROOT: &str = "/nonexistent";

/// Apache's virtual hosts: any text becomes a document, or has an error.
pub fn apache(input: &[u8]) {
    check(input, |source| apache::import(&[FILE.into()], &Options::default(), source));
}

/// PHP-FPM's pools: any text becomes a document, or has an error.
pub fn php_fpm(input: &[u8]) {
    check(input, |source| php_fpm::import(&[FILE.into()], &Options::default(), source));
}

/// nginx's configurations: a whole one, and the content of a server.
pub fn nginx(input: &[u8]) {
    check(input, |source| nginx::import(Path::new(FILE), &Options::default(), source));
}

/// Unit's documents.
pub fn unit(input: &[u8]) {
    check(input, |source| unit::import(Path::new(FILE), &Options::default(), source));
}

/// What holds for all importers: the document is valid, each directive has a line of the file, and
/// a reason unless it is converted.
fn check(input: &[u8], import: impl FnOnce(&mut Source) -> Result<Import, Error>) {
    let root = Some(PathBuf::from(ROOT));
    let mut source = Source::new(root).with_file(FILE.into(), input.to_vec());
    let Ok(import) = import(&mut source) else { return };
    if let Err(error) = Config::from_value(import.document) {
        panic!("{error}");
    }
    let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
    for entry in import.report.entries() {
        assert!((1..=lines).contains(&(entry.line as usize)), "{entry:?}");
        let has_reason = entry.reason().is_some_and(|reason| !reason.is_empty());
        assert_eq!(has_reason, entry.status() != Status::Converted, "{entry:?}");
    }
}
