//! The command line of php-fpm, read as PHP's own `php_getopt` does.
//!
//! Options end at `--`, at `-` and at the first argument that is none; php-fpm takes nothing behind
//! them. A value may follow an option directly, behind `=`, or as the next argument.

use std::path::PathBuf;

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `-h`: the help; exit status 0.
    Help,
    /// Arguments that php-fpm does not know: the help; exit status 64.
    Usage,
    /// `-v`, with the arguments in front of it.
    Version(Box<Arguments>),
    /// Serve, or check the configuration.
    Run(Box<Arguments>),
}

/// The arguments of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// `-y`: the configuration file.
    pub config: Option<PathBuf>,
    /// `-p`: the directory that relative paths begin at.
    pub prefix: Option<PathBuf>,
    /// `-g`: the file with the process id; takes the place of `pid`.
    pub pid: Option<PathBuf>,
    /// `-c`: `php.ini`, or its directory.
    pub ini: Option<PathBuf>,
    /// `-n`: no `php.ini` is read.
    pub without_ini: bool,
    /// `-d`: settings of PHP, in their order.
    pub defines: Vec<(String, String)>,
    /// `-t`: how often the option is there; 0 serves.
    pub tests: u32,
    /// `-D` or `-F`: true to go to the background; takes the place of `daemonize`.
    pub daemonize: Option<bool>,
    /// `-O`: the log goes to standard error although that is no terminal.
    pub force_stderr: bool,
    /// `-R`: pools may run as root.
    pub allow_root: bool,
    /// `-i` or `-m`: PHP's information or modules are asked for.
    pub information: Option<Information>,
}

/// What is printed instead of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Information {
    /// `-i`
    All,
    /// `-m`
    Modules,
}

/// Options: the letter, the long name, and whether a value follows.
const OPTIONS: &[(char, &str, bool)] = &[
    ('c', "php-ini", true),
    ('d', "define", true),
    ('e', "profile-info", false),
    ('h', "help", false),
    ('i', "info", false),
    ('m', "modules", false),
    ('n', "no-php-ini", false),
    ('?', "usage", false),
    ('v', "version", false),
    ('y', "fpm-config", true),
    ('t', "test", false),
    ('p', "prefix", true),
    ('g', "pid", true),
    ('R', "allow-to-run-as-root", false),
    ('D', "daemonize", false),
    ('F', "nodaemonize", false),
    ('O', "force-stderr", false),
];

/// Reads the arguments behind the name of the program.
pub fn parse(arguments: &[String]) -> Action {
    let mut read = Arguments::default();
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let Some(rest) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            return Action::Usage;
        };
        if rest == "-" {
            return if left.next().is_none() { run(read) } else { Action::Usage };
        }
        if let Some(long) = rest.strip_prefix('-') {
            let (name, joined) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let found = OPTIONS.iter().find(|(_, known, _)| *known == name);
            let Some((letter, _, has_value)) = found else { return Action::Usage };
            let value = match (has_value, joined) {
                (false, _) => None,
                (true, Some(joined)) => Some(joined.to_owned()),
                (true, None) => match left.next() {
                    Some(next) => Some(next.clone()),
                    None => return Action::Usage,
                },
            };
            if let Some(action) = read.take(*letter, value.unwrap_or_default()) {
                return action;
            }
            continue;
        }
        let mut cluster = rest;
        while let Some(letter) = cluster.chars().next() {
            cluster = &cluster[letter.len_utf8()..];
            let Some((_, _, has_value)) = OPTIONS.iter().find(|(known, ..)| *known == letter)
            else {
                return Action::Usage;
            };
            let value = match (has_value, cluster) {
                (false, _) => String::new(),
                (true, "") => match left.next() {
                    Some(next) => next.clone(),
                    None => return Action::Usage,
                },
                (true, joined) => joined.strip_prefix('=').unwrap_or(joined).to_owned(),
            };
            if *has_value {
                cluster = "";
            }
            if let Some(action) = read.take(letter, value) {
                return action;
            }
        }
    }
    run(read)
}

fn run(read: Arguments) -> Action {
    Action::Run(Box::new(read))
}

impl Arguments {
    /// Takes an option; returns the action if it ends the command line.
    fn take(&mut self, letter: char, value: String) -> Option<Action> {
        match letter {
            'c' => self.ini = Some(value.into()),
            'd' => {
                let (name, value) = value.split_once('=').unwrap_or((&value, "1"));
                self.defines.push((name.to_owned(), unquoted(value).to_owned()));
            }
            'g' => self.pid = Some(value.into()),
            'p' => self.prefix = Some(value.into()),
            'y' => self.config = Some(value.into()),
            'n' => self.without_ini = true,
            't' => self.tests += 1,
            'R' => self.allow_root = true,
            'D' => self.daemonize = Some(true),
            'F' => self.daemonize = Some(false),
            'O' => self.force_stderr = true,
            'i' => self.information = Some(Information::All),
            'm' => {
                self.information = Some(Information::Modules);
                return Some(run(std::mem::take(self)));
            }
            'v' => return Some(Action::Version(Box::new(std::mem::take(self)))),
            'h' | '?' => return Some(Action::Help),
            // Steps of a debugger: PHP's compiler makes them for all scripts of a worker.
            _ => {}
        }
        None
    }
}

/// Returns a value of `-d` without the quotation marks around it.
fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// Returns the help. `program` is the name with which it was started, `prefix` the directory that
/// relative paths begin at.
pub fn help(program: &str, prefix: &str) -> String {
    format!(
        "Usage: {program} [-n] [-e] [-h] [-i] [-m] [-v] [-t] [-p <prefix>] [-g <pid>] [-c <file>] \
         [-d foo[=bar]] [-y <file>] [-D] [-F [-O]]
  -c <path>|<file>            php.ini, or the directory that it is in
  -n                          read no php.ini
  -d foo[=bar]                set an ini setting
  -e                          accepted; PHP's extended information is not used
  -h                          this help
  -i                          print PHP's information
  -m                          print the modules of PHP
  -v                          print the version
  -p, --prefix <dir>          directory that relative paths begin at (default: {prefix})
  -g, --pid <file>            file for the process id
  -y, --fpm-config <file>     configuration file
  -t, --test                  check the configuration; twice: print it, too
  -D, --daemonize             go to the background, whatever the configuration says
  -F, --nodaemonize           stay in the foreground, whatever the configuration says
  -O, --force-stderr          log to standard error although it is no terminal
  -R, --allow-to-run-as-root  let pools run as root
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Action {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn arguments(line: &str) -> Arguments {
        match read(line) {
            Action::Run(arguments) => *arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn values_follow_directly_behind_an_equals_sign_or_as_the_next_argument() {
        for line in
            ["-y a.conf", "-ya.conf", "-y=a.conf", "--fpm-config a.conf", "--fpm-config=a.conf"]
        {
            assert_eq!(arguments(line).config, Some("a.conf".into()), "{line}");
        }
        let all = arguments("-ntt -FO -R -p /p -g /g -c /c -d a=b -dc --define d=\"e\"");
        assert_eq!((all.without_ini, all.tests, all.daemonize), (true, 2, Some(false)));
        assert!(all.force_stderr && all.allow_root);
        let defines = [("a", "b"), ("c", "1"), ("d", "e")];
        assert_eq!(all.defines, defines.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(arguments("-F -D").daemonize, Some(true), "the last one counts");
        assert_eq!(arguments("-F --").daemonize, Some(false));
    }

    #[test]
    fn what_is_not_known_gets_the_help_and_status_64() {
        for line in ["-Z", "--nothing", "-y", "--pid", "-F file", "-F - x", "-- x", "x", "-"] {
            assert_eq!(read(line), Action::Usage, "{line}");
        }
        assert_eq!(read("-t -h"), Action::Help);
        assert_eq!(read("-?"), Action::Help);
        assert_eq!(read("--version"), Action::Version(Box::default()));
        let Action::Version(before) = read("-n -v -Z") else { panic!("a version") };
        assert!(before.without_ini);
        assert_eq!(arguments("-m -Z").information, Some(Information::Modules));
    }
}
