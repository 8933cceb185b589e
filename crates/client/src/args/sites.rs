//! Arguments of `site` and `php`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Server;
use super::usage::UsageArgs;

/// Arguments of `site`.
#[derive(Debug, Args)]
#[command(after_help = "\
A site is a file of a few lines in /etc/howdah/sites. These commands write, check and remove such
files and reload the running server; an editor and howdah reload do the same.

  howdah site add shop.example --root /srv/shop --user shop --create-user
  howdah site list
  howdah site edit shop.example                 in $VISUAL or $EDITOR; checked before it counts
  howdah site disable shop.example              a page for maintenance, and no PHP
  howdah site check                             all sites; a line for each mistake
  howdah site remove shop.example               the files in its directory stay

The document with \"sites\" is that of the running server, otherwise /etc/howdah/howdah.json.

Exit status: 0 done, 1 refused or failed, or a mistake was found, 2 mistake in the command line,
3 no server answers (restart), 4 done, but the site does not answer yet.")]
pub struct SiteArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The document with "sites" [default: that of the running server, otherwise
    /// /etc/howdah/howdah.json]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: SiteCommand,
}

/// Subcommands of `site`.
#[derive(Debug, Subcommand)]
pub enum SiteCommand {
    /// Add a site: write its file, reload the server, wait until the site answers
    Add(AddArgs),
    /// Show all sites: state, hosts, PHP, processes, memory, requests, certificate
    List {
        /// Print JSON: an array of objects, in which unknown facts are missing
        #[arg(long)]
        json: bool,
        /// Print only the names, one a line
        #[arg(long, conflicts_with = "json")]
        names: bool,
    },
    /// Show a site: its file, what is found in its directory, what it becomes, its state
    Show {
        /// Name of the site
        #[arg(value_name = "SITE")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the parts of a document that a site becomes, in the grammar of NGINX Unit
    Expand {
        /// Name of the site
        #[arg(value_name = "SITE")]
        name: String,
    },
    /// Change the file of a site in an editor; it is checked before it replaces the file
    Edit {
        /// Name of the site
        #[arg(value_name = "SITE")]
        name: String,
    },
    /// Serve a site that is disabled
    Enable {
        /// Names of sites
        #[arg(value_name = "SITE", required = true)]
        names: Vec<String>,
    },
    /// Answer requests for a site with a page for maintenance (503, Retry-After); no PHP runs
    Disable {
        /// Names of sites
        #[arg(value_name = "SITE", required = true)]
        names: Vec<String>,
    },
    /// Remove the file of a site; its directory and its user stay
    Remove {
        /// Name of the site
        #[arg(value_name = "SITE")]
        name: String,
    },
    /// Show the lines of the server's log that name a site
    Logs {
        /// Name of the site
        #[arg(value_name = "SITE")]
        name: String,
        /// Show new lines as they are written
        #[arg(short, long)]
        follow: bool,
        /// Number of the last lines
        #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
        lines: usize,
    },
    /// Check sites: their files, and the users, directories and programs that they name
    #[command(after_help = "\
Each mistake is a line: FILE: line L, column C: KEY: what is wrong, and what to do. With --json it
is an object with \"file\", \"line\", \"column\", \"path\", \"severity\" (error, warning or note)
and \"message\"; the array is empty if there is none.

  howdah site check --file new.json --json      before new.json is moved to its place

Exit status: 0 no errors (warnings and notes do not count), 1 errors, 2 mistake in the command
line.")]
    Check {
        /// Names of sites [default: all]
        #[arg(value_name = "SITE", conflicts_with = "file")]
        names: Vec<String>,
        /// Check this file, which need not be at its place yet; its name is that of the site
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Check only the grammar, not users, directories and programs
        #[arg(long)]
        syntax: bool,
        /// Print the findings as JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace all PHP processes of sites, without interrupting a request
    Restart {
        /// Names of sites
        #[arg(value_name = "SITE", required = true)]
        names: Vec<String>,
    },
    /// Give a site another name: that of its file, its log lines and its PHP processes
    Rename {
        /// Name of the site
        #[arg(value_name = "SITE")]
        old: String,
        /// New name
        #[arg(value_parser = name)]
        new: String,
    },
    /// Show what sites have used in a month: requests, bytes, PHP's seconds, mails
    Usage(UsageArgs),
}

/// Arguments of `site add`.
#[derive(Debug, Args)]
#[command(after_help = "\
  howdah site add shop.example --root /srv/shop
  howdah site add shop.example --alias www.shop.example --root /srv/shop --user shop \\
      --create-user --php 8.4 --preset wordpress --email admin@shop.example

PHP runs as USER, and only this user can change the files of a directory that the command makes
(mode 2750); the server reads them through its group. A directory that exists keeps its owner and
its modes: what is missing is printed with the command that mends it. --create-user makes a system
user without a password, a home and a shell:

  useradd --system --user-group --no-create-home --shell /usr/sbin/nologin USER

With an e-mail address for the authority, all sites that do not say otherwise get certificates of
Let's Encrypt, to whose terms you agree. It is written into \"defaults\" of the document. Without it
a site has HTTP only.

Exit status: 0 the site answers, or no server runs, 1 refused or failed (nothing is left behind),
2 mistake in the command line, 4 the site does not answer yet.")]
pub struct AddArgs {
    /// Host name of the site
    #[arg(value_parser = host)]
    pub host: String,
    /// Directory of the site; it is made if there is none
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Name of the site, and of its file [default: the host]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Another host name of the site; may be given several times
    #[arg(long, value_name = "HOST", value_parser = host)]
    pub alias: Vec<String>,
    /// User that PHP runs as [default: the server's own]
    #[arg(long, value_name = "NAME", value_parser = user)]
    pub user: Option<String>,
    /// Make the user
    #[arg(long, requires = "user")]
    pub create_user: bool,
    /// Version of PHP, such as 8.4 [default: what composer.json asks for, or the newest]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub php: Option<String>,
    /// Cache responses as this application needs it
    #[arg(long, value_parser = ["drupal", "laravel", "mediawiki", "symfony", "wordpress"])]
    pub preset: Option<String>,
    /// E-mail address for the certificate authority, for this site and those without their own
    #[arg(long, value_name = "ADDRESS", value_parser = email)]
    pub email: Option<String>,
}

/// Arguments of `php`.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs the command phpX.Y of the distribution (package phpX.Y-cli) with the version, the settings, the
environment and the user of a site, such as for cron, migrations and wp-cli. Options of PHP stand in
front of the script.

  howdah php --site shop.example artisan migrate
  howdah php --site shop.example /usr/local/bin/wp plugin list
  howdah php --site shop.example -r 'phpinfo();'

Exit status: that of PHP; 1 if it cannot be started.")]
pub struct PhpArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The document with "sites" [default: as of howdah site]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name of the site
    #[arg(long, value_name = "SITE")]
    pub site: String,
    /// Script and its arguments, which PHP gets as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT")]
    pub arguments: Vec<std::ffi::OsString>,
}

/// Names that no site can have.
const RESERVED: [&str; 2] = ["sites", "default"];

/// Reads the name of a site, which becomes the name of a file.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > 200 || !text.bytes().all(is_name) || text.starts_with('.') {
        return Err("a name has letters, digits, \"-\", \"_\" and \".\", and does not begin with \
                    \".\""
            .to_owned());
    }
    if RESERVED.contains(&text) {
        return Err(format!("no site can be called \"{text}\""));
    }
    Ok(text.to_owned())
}

/// Reads a host name, which may begin with `*.`.
fn host(text: &str) -> Result<String, String> {
    let host = text.to_ascii_lowercase();
    let labels = host.strip_prefix("*.").unwrap_or(&host);
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_inner)
    };
    if host == "*" || host.len() <= 253 && labels.split('.').all(is_label) {
        return Ok(host);
    }
    Err("a host name is such as shop.example or *.shop.example, without a scheme, port or path; an \
         international name is written in its ASCII form (xn--...)"
        .to_owned())
}

/// Reads the name of a user, as `useradd` accepts it.
fn user(text: &str) -> Result<String, String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && text.len() <= 32 && text.bytes().all(is_inner) {
        return Ok(text.to_owned());
    }
    Err("the name of a user has up to 32 letters, digits, \"-\", \"_\" and \".\", and begins with \
         a letter"
        .to_owned())
}

/// Reads a version of PHP.
fn version(text: &str) -> Result<String, String> {
    let known = howdah_config::PhpVersion::parse(text);
    known.map(|_| text.to_owned()).ok_or_else(|| "must be a version such as 8.4".to_owned())
}

/// Reads an e-mail address.
fn email(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"\\<>(),;:".contains(c);
    match text.split_once('@') {
        Some((local, domain))
            if !local.is_empty() && domain.contains('.') && text.chars().all(is_plain) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("must be an address such as admin@shop.example".to_owned()),
    }
}

/// Reads an e-mail address that was typed.
pub(crate) fn read_email(text: &str) -> Result<String, String> {
    email(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_become_files_are_plain() {
        for good in ["shop.example", "a", "A-b_c.9"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", ".", "..", ".a", "a/b", "../a", "a b", "ä", "a\0", "sites", "default"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
        assert!(name(&"a".repeat(201)).is_err());
    }

    #[test]
    fn hosts_users_and_addresses_are_checked() {
        for good in ["shop.example", "*.shop.example", "*", "xn--bcher-kva.example"] {
            assert!(host(good).is_ok(), "{good}");
        }
        assert_eq!(host("Shop.Example").as_deref(), Ok("shop.example"));
        for bad in ["", "http://a", "a:80", "a/b", "a..b", ".a", "a.", "b\u{fc}cher.example", "a b"]
        {
            assert!(host(bad).is_err(), "{bad:?}");
        }
        assert!(user("shop").is_ok() && user("_a.b-1").is_ok());
        for bad in ["", "-r", "1a", "a b", "a:b", "a/b", &"a".repeat(33)] {
            assert!(user(bad).is_err(), "{bad:?}");
        }
        assert!(email("a@b.example").is_ok());
        for bad in ["", "a", "@b.c", "a@b", "a\"@b.c", "a b@c.d", "a@b.c\n"] {
            assert!(email(bad).is_err(), "{bad:?}");
        }
        assert!(version("8.4").is_ok() && version("x").is_err());
    }
}
