//! The manual pages, from the definitions of the command line: one for each command.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Writes `howdah.1`, `howdah-serve.1` and so on to a directory, which is created. The error names
/// the file that cannot be written.
pub fn write(directory: &Path, command: Command) -> Result<(), String> {
    // Options of the root that clap adds by itself appear on no page: every page would repeat them.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = pages(&command).map_err(|error| error.to_string())?;
    let failed = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(failed)?;
    for (name, page) in pages {
        let file = directory.join(name);
        fs::write(&file, page).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Returns file names and contents of the pages of a command and its subcommands.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = vec![page(command)?];
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        pages.extend(self::pages(subcommand)?);
    }
    Ok(pages)
}

fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let has_subcommands = command.has_subcommands();
    let is_root = command.get_name() == "howdah";
    let manual = Man::new(command.clone())
        .source(concat!("howdah ", env!("CARGO_PKG_VERSION")))
        .manual("Howdah");
    let mut text = Vec::new();
    manual.render_title(&mut text)?;
    manual.render_name_section(&mut text)?;
    manual.render_synopsis_section(&mut text)?;
    manual.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        manual.render_options_section(&mut text)?;
    }
    if has_subcommands {
        manual.render_subcommands_section(&mut text)?;
    }
    if let Some(notes) = command.get_after_help() {
        notes_section(&notes.to_string()).to_writer(&mut text)?;
    }
    if is_root {
        files_section().to_writer(&mut text)?;
    }
    see_also_section(is_root).to_writer(&mut text)?;
    Ok((manual.get_filename(), text))
}

/// Returns the notes after the help of a command. Indented lines are tables and keep their layout.
fn notes_section(notes: &str) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["NOTES"]);
    let mut is_table = false;
    for line in notes.lines() {
        if is_table != line.starts_with(' ') {
            is_table = !is_table;
            roff.control(if is_table { "nf" } else { "fi" }, []);
        }
        if line.is_empty() {
            roff.control("PP", [])
        } else {
            roff.text([roman(line)])
        };
    }
    if is_table {
        roff.control("fi", []);
    }
    roff
}

fn files_section() -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["FILES"]);
    for (file, meaning) in FILES {
        roff.control("TP", []).text([bold(file)]).text([roman(meaning)]);
    }
    roff
}

fn see_also_section(is_root: bool) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SEE ALSO"]);
    if is_root {
        roff.text([roman("The page of each command, as in "), bold("howdah-serve"), roman("(1).")])
    } else {
        roff.text([bold("howdah"), roman("(1)")])
    };
    roff.control("PP", []).text([
        roman("Documentation of the configuration, of PHP and of operations: "),
        roman(concat!(env!("CARGO_PKG_REPOSITORY"), "/tree/main/docs")),
    ]);
    roff
}

/// Files that the server and its packages use, with their meaning.
const FILES: [(&str, &str); 5] = [
    ("/etc/howdah/howdah.json", "The configuration of the packages' service."),
    ("/usr/lib/howdah", "The programs that run PHP, one for each version."),
    ("/var/lib/howdah", "Certificates and the stored configuration of a server that root starts."),
    ("/run/howdah/control.sock", "The control socket of a server that root starts."),
    (
        "~/.local/state/howdah",
        "Certificates and the control token of a server that another user starts.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn all() -> Vec<(String, String)> {
        let mut command = cli::definitions().disable_help_subcommand(true);
        command.build();
        let pages = pages(&command).unwrap();
        pages.into_iter().map(|(name, page)| (name, String::from_utf8(page).unwrap())).collect()
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = all();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["howdah.1", "howdah-serve.1", "howdah-config.1", "howdah-config-get.1"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        for (name, page) in &pages {
            assert!(page.contains(".TH ") && page.contains(".SH NAME\n"), "{name}");
            assert!(page.contains(".SH \"SEE ALSO\""), "{name}: {page}");
        }
    }

    #[test]
    fn tables_keep_their_layout() {
        let text = notes_section("Signals: QUIT\nends.\n\n  a   b\n  c   d\nEnd.").to_roff();
        assert!(text.contains("ends.\n.PP\n.nf\n  a   b\n  c   d\n.fi\nEnd."), "{text}");
    }
}
