//! What `howdah import` does, but for writing files.

use std::path::{Path, PathBuf};

use crate::{Error, Import, Options, Report, Source, Status, apache, nginx, php_fpm, unit};

/// The files of one server.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A main file of nginx, the output of `nginx -T`, or a file of `sites-available`.
    Nginx(&'a Path),
    /// A main file of Apache, or virtual hosts.
    Apache(&'a [PathBuf]),
    /// Files of PHP-FPM, or directories with them.
    PhpFpm(&'a [PathBuf]),
    /// A document of Unit.
    Unit(&'a Path),
}

impl Input<'_> {
    /// Reads the files, and makes a document of them.
    pub fn import(self, options: &Options) -> Result<Import, Error> {
        let mut source = Source::new(options.root.clone());
        match self {
            Self::Nginx(file) => nginx::import(file, options, &mut source),
            Self::Apache(files) => apache::import(files, options, &mut source),
            Self::PhpFpm(files) => php_fpm::import(files, options, &mut source),
            Self::Unit(file) => unit::import(file, options, &mut source),
        }
    }
}

impl Import {
    /// Returns the exit status of the command: 0, or 3 if a directive is not converted.
    pub fn exit_status(&self) -> u8 {
        match self.report.with_status(Status::NotConverted).next() {
            None => 0,
            Some(_) => 3,
        }
    }
}

/// Returns the lines for the terminal: each directive that is not converted, each that is changed,
/// and the numbers of all.
pub fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for status in [Status::NotConverted, Status::Changed] {
        for entry in report.with_status(status) {
            let reason = entry.reason().unwrap_or_default();
            let file = entry.file.display();
            let (line, directive) = (entry.line, &entry.directive);
            let status = if status == Status::Changed { "changed: " } else { "" };
            lines.push(format!("{file}:{line}: {directive}: {status}{reason}"));
        }
    }
    let number = |status: Status| report.with_status(status).count();
    let counts = [Status::Converted, Status::NotNeeded, Status::Changed, Status::NotConverted]
        .map(|status| format!("{} {status}", number(status)));
    let all = report.entries().len();
    let directives = if all == 1 { "directive" } else { "directives" };
    lines.push(format!("{all} {directives}: {}", counts.join(", ")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_name_what_differs_and_count_the_rest() {
        let mut report = Report::default();
        let file = Path::new("/etc/a.conf");
        let converted = report.add(file, 1, "user www");
        report.converted(converted);
        let changed = report.add(file, 2, "slowlog");
        report.mark(changed, Status::Changed, "another form");
        report.add(file, 3, "brotli on");
        assert_eq!(
            lines(&report),
            [
                "/etc/a.conf:3: brotli on: Howdah does not know this directive",
                "/etc/a.conf:2: slowlog: changed: another form",
                "3 directives: 1 converted, 0 not needed, 1 changed, 1 not converted",
            ]
        );
        assert_eq!(Import { document: Default::default(), report }.exit_status(), 3);
    }
}
