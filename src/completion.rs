//! The completion script of a shell, with the names of sites.
//!
//! The script that clap makes knows commands and options. Names of sites are those that
//! `howdah site list --names` prints at that moment.

use clap::Command;
use clap_complete::Shell;

/// Commands of `site` that take names of sites.
const OF_SITES: &str = "show expand edit enable disable remove logs check restart rename";

/// Returns the completion script of a shell.
pub fn script(shell: Shell, mut command: Command) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "howdah", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    match shell {
        Shell::Bash => text + &bash(),
        Shell::Fish => text + &fish(),
        Shell::Zsh => zsh(&text),
        _ => text,
    }
}

fn bash() -> String {
    let commands = OF_SITES.replace(' ', "|");
    format!(
        "
_howdah_with_sites() {{
    local word=\"${{COMP_WORDS[COMP_CWORD]}}\" before=\"${{COMP_WORDS[COMP_CWORD-1]}}\"
    if [[ ${{COMP_WORDS[1]}} = site && $COMP_CWORD -ge 3 && $word != -* && $before != --* ]]; then
        case ${{COMP_WORDS[2]}} in
        {commands})
            mapfile -t COMPREPLY < <(compgen -W \"$(howdah site list --names 2>/dev/null)\" -- \"$word\")
            return ;;
        esac
    elif [[ ${{COMP_WORDS[1]}} = php && $before = --site ]]; then
        mapfile -t COMPREPLY < <(compgen -W \"$(howdah site list --names 2>/dev/null)\" -- \"$word\")
        return
    fi
    _howdah \"$@\"
}}
complete -F _howdah_with_sites -o nosort -o bashdefault -o default howdah
"
    )
}

fn fish() -> String {
    format!(
        "
complete -c howdah -f -n '__fish_seen_subcommand_from site; and __fish_seen_subcommand_from {OF_SITES}' \
         -a '(howdah site list --names 2>/dev/null)'
complete -c howdah -x -n '__fish_seen_subcommand_from php' -l site -a '(howdah site list --names 2>/dev/null)'
"
    )
}

/// Replaces the completion of names of sites, which have no values that clap knows.
fn zsh(text: &str) -> String {
    const FUNCTION: &str = "_howdah_sites() {
    local -a names
    names=(${(f)\"$(howdah site list --names 2>/dev/null)\"})
    compadd -a names
}

";
    let lines: Vec<_> = text
        .lines()
        .map(|line| {
            let is_name = line.contains(" of the site") || line.contains("Names of sites");
            if is_name { line.replace(":_default", ":_howdah_sites") } else { line.to_owned() }
        })
        .collect();
    let text = lines.join("\n") + "\n";
    match text.find("_howdah() {") {
        Some(at) => {
            let (before, after) = text.split_at(at);
            format!("{before}{FUNCTION}{after}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites_are_completed() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let text = script(shell, crate::cli::definitions());
            assert!(text.contains("howdah site list --names"), "{shell}");
            assert!(text.contains("restart") && text.contains("control"), "{shell}");
        }
        let zsh = script(Shell::Zsh, crate::cli::definitions());
        assert!(zsh.matches(":_howdah_sites").count() >= 8, "{zsh}");
    }

    #[test]
    fn the_script_of_bash_is_valid() {
        let checked = std::process::Command::new("bash")
            .args(["-n", "-c", &script(Shell::Bash, crate::cli::definitions())])
            .output();
        let Ok(output) = checked else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
