//! Arguments of `howdah profile`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use howdah_questions::ProfileOrder;

use super::Server;

/// Arguments of `profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each running script of the site is looked at a hundred times a second, for as long as --seconds
says. The wider a function is in the picture, the more time it took with all that it has called.

  howdah profile blog --output blog.svg             open it in a browser: click to zoom, search
  howdah profile blog --url /wp-admin --seconds 60  only requests whose path begins so
  howdah profile blog --cpu --output blog.svg       who computes, without who waits
  howdah profile blog --output blog.json            for https://www.speedscope.app
  howdah profile blog --output blog.pb.gz           for go tool pprof -http=: blog.pb.gz
  howdah profile blog --format folded | grep query  a line for each stack

Requests that begin while the profile is made are in it; make some, if the site has no visitors.
Other sites are not touched. A function of PHP itself is named if the PHP is 8.4 or newer; with an
older one, its time counts for the script's function around it.

Exit status: 0 done, 1 refused or failed, or no script ran, 2 mistake in the command line, 3 no
server answers.")]
pub struct ProfileArgs {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Name of the site or of the application
    #[arg(value_name = "SITE")]
    pub site: String,
    /// Duration
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(ProfileOrder::MAX_SECONDS)))]
    pub seconds: u32,
    /// Only requests whose path begins so
    #[arg(long, value_name = "PATH", value_parser = path)]
    pub url: Option<String>,
    /// Count processor time: what waits for databases, files or sleep() is left out
    #[arg(long)]
    pub cpu: bool,
    /// Format [default: by the ending of --output: .svg, .folded, .json (speedscope), .pb.gz
    /// (pprof); otherwise svg]
    #[arg(long)]
    pub format: Option<Format>,
    /// File to write [default: standard output; SITE.svg if that is a terminal]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// The format of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A picture (flame graph) for a browser
    Svg,
    /// A line for each stack, as flamegraph.pl takes them
    Folded,
    /// JSON for speedscope
    Speedscope,
    /// For go tool pprof and others that read its format
    Pprof,
}

impl Format {
    /// Returns the format that the ending of a file's name stands for.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let endings = [
            (".svg", Format::Svg),
            (".folded", Format::Folded),
            (".txt", Format::Folded),
            (".json", Format::Speedscope),
            (".pb.gz", Format::Pprof),
            (".pprof", Format::Pprof),
        ];
        endings.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| format)
    }

    /// Returns the ending of the names of its files.
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Format::Svg => "svg",
            Format::Folded => "folded",
            Format::Speedscope => "json",
            Format::Pprof => "pb.gz",
        }
    }
}

fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err("must begin with a /".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_the_file_chooses_the_format() {
        let of = |name: &str| Format::of_file(Path::new(name));
        for format in Format::value_variants() {
            assert_eq!(of(&format!("/tmp/a.{}", format.ending())), Some(*format));
        }
        assert_eq!(of("a.pprof"), Some(Format::Pprof));
        assert_eq!(of("svg"), None);
        assert_eq!(of("/"), None);
    }
}
