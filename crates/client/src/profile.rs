//! `howdah profile`: the time of a site's scripts by function, in the formats of the usual viewers.

mod folded;
mod pprof;
mod speedscope;
mod svg;
#[cfg(test)]
mod tests;
mod tree;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use howdah_questions::Profile;
use serde_json::json;

use self::tree::Tree;
use crate::args::profile::{Format, ProfileArgs};
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::output::printable;

/// Time that the server may take beyond the duration of the profile.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Makes a profile and writes it.
pub(super) fn run(client: Client, args: &ProfileArgs) -> Result<(), Failure> {
    let named = args.output.as_deref().and_then(Format::of_file);
    let format = args.format.or(named).unwrap_or(Format::Svg);
    let output = match &args.output {
        Some(path) => Some(path.clone()),
        None if std::io::stdout().is_terminal() => {
            let name = args.site.chars();
            let name: String = name
                .map(|c| if c.is_alphanumeric() || ".-".contains(c) { c } else { '_' })
                .collect();
            Some(format!("{}.{}", name.trim_start_matches('.'), format.ending()).into())
        }
        None => None,
    };
    // Before the server works for it.
    let mut file = output.map(OutputFile::open).transpose()?;
    let clock = if args.cpu { "processor" } else { "wall" };
    let url = args.url.as_deref().unwrap_or_default();
    let order = json!({"seconds": args.seconds, "url": url, "clock": clock});
    let target = format!("/control/applications/{}/profile", encode(&args.site));
    let duration = Duration::from_secs(args.seconds.into());
    let client = client.with_timeout(duration + ANSWER_TIME).without_progress();
    let answer = client.request("POST", &target, order.to_string().as_bytes())?;
    let profile: Profile = client.read(answer)?;
    let tree = Tree::new(&profile)
        .ok_or_else(|| Failure::Failed(format!("{}: the profile is damaged", client.address())))?;
    let bytes = match format {
        Format::Svg => svg::write(&profile, &tree.by_function()).into_bytes(),
        Format::Folded => folded::write(&tree.by_function()).into_bytes(),
        Format::Speedscope => speedscope::write(&profile, &tree.by_function()).into_bytes(),
        Format::Pprof => pprof::write(&profile, &tree)
            .map_err(|error| Failure::Failed(format!("the profile cannot be written: {error}")))?,
    };
    let place = match &mut file {
        Some(file) => {
            file.write(&bytes)?;
            format!("; written to {}", printable(&file.path.display().to_string()))
        }
        None => {
            let mut stdout = std::io::stdout().lock();
            match stdout.write_all(&bytes).and_then(|()| stdout.flush()) {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    return Err(Failure::Failed(format!("standard output: {error}")));
                }
                _ => String::new(),
            }
        }
    };
    eprintln!("howdah: {}{place}", summary(&profile));
    if profile.ticks == 0 { Err(Failure::Failed(nothing(&profile, args))) } else { Ok(()) }
}

/// The file for the profile. A former content stays until there is a new one; a new file is removed
/// if nothing was written.
struct OutputFile {
    file: File,
    path: PathBuf,
    is_empty: bool,
}

impl OutputFile {
    fn open(path: PathBuf) -> Result<Self, Failure> {
        let is_empty = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| failed(&path, &error))?;
        Ok(OutputFile { file, path, is_empty })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.is_empty = false;
        let emptied = self.file.metadata().and_then(|found| {
            // Not a pipe or a device.
            if found.is_file() { self.file.set_len(0) } else { Ok(()) }
        });
        let written = emptied.and_then(|()| self.file.write_all(bytes));
        written.map_err(|error| failed(&self.path, &error))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_empty {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

/// Returns a line about what was found.
fn summary(profile: &Profile) -> String {
    let Profile { ticks, requests, lost, period_us, .. } = profile;
    let seconds = *ticks as f64 * f64::from(*period_us) / 1e6;
    let clock = if profile.clock == "processor" { "processor time" } else { "time" };
    let lost = match lost {
        0 => String::new(),
        lost => format!(", {lost} of them without their whole stack, as there were too many"),
    };
    format!("{ticks} samples of {requests} requests, {seconds:.2} s of {clock}{lost}")
}

/// Returns why there are no samples.
fn nothing(profile: &Profile, args: &ProfileArgs) -> String {
    let site = printable(&args.site);
    match (profile.requests, &args.url) {
        (0, Some(url)) => format!(
            "no script of \"{site}\" has begun to run for {} or below it during these {} s",
            printable(url),
            args.seconds
        ),
        (0, None) => {
            format!("no script of \"{site}\" has begun to run during these {} s", args.seconds)
        }
        _ => format!(
            "the scripts were so short that none was found running; make more requests, or use a \
             longer time than {} s",
            args.seconds
        ),
    }
}
