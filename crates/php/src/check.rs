//! Whether an application could run, for `howdah check`: PHP is loaded as the prototype loads it, with
//! nothing of the site's own run. The preload script is looked at alone, and what PHP has to say goes
//! to no file.

use std::fs::File;
use std::io;
use std::path::Path;

use howdah_wire::messages::{ApplicationSpec, FromPrototype, Problem};

use crate::ffi::Php;
use crate::mail;
use crate::prototype::{Supervisor, check_roots, load};

/// Tells the supervisor what is not in order. Returns PHP's version, or why the application cannot
/// run.
pub fn run(supervisor: &Supervisor, spec: &ApplicationSpec, tmp: &str) -> Result<String, Problem> {
    check_roots(&spec.roots)?;
    Php::only_look();
    let mut spec = spec.clone();
    spec.ini_admin.push(("error_log".to_owned(), String::new()));
    let (php, notices) = load(&spec, tmp)?;
    for problem in notices {
        let _ = supervisor.tell(&FromPrototype::Noticed { problem, is_note: false });
    }
    if let Some(problem) = mail::problem(&spec, &php) {
        let _ = supervisor.tell(&FromPrototype::Noticed { problem, is_note: true });
    }
    if let Some(script) = php.preload() {
        check_preload(Path::new(&script)).map_err(|error| {
            let key = "opcache.preload";
            let key = match [("admin", &spec.ini_admin), ("user", &spec.ini_user)]
                .into_iter()
                .find(|(_, settings)| settings.iter().any(|(name, _)| name == key))
            {
                Some((part, _)) => format!("options/{part}/{key}"),
                None => spec.ini_file.as_ref().map_or_else(String::new, |_| "options/file".into()),
            };
            Problem::at(key, format_args!("the preload script {script} cannot be read: {error}"))
        })?;
    }
    Ok(php.version())
}

/// One that does not begin with a slash is looked for in `include_path`, when PHP runs it.
fn check_preload(script: &Path) -> io::Result<()> {
    if script.is_absolute() && !File::open(script)?.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok(())
}
