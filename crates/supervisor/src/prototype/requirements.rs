//! The program and the user of an application.

use std::fs::{self, File};

use howdah_wire::messages::{ApplicationSpec, Problem};

use crate::identity::Identity;
use crate::options::Options;

/// The program and the user that a prototype is started with.
pub(crate) struct Requirements {
    pub(crate) executable: File,
    pub(crate) identity: Identity,
}

/// Looks up the program and the user of an application.
pub(crate) fn requirements(
    options: &Options,
    spec: &ApplicationSpec,
) -> Result<Requirements, Problem> {
    let program = options.php_for(&spec.php_version);
    let program = program.ok_or_else(|| Problem::at("type", missing(options, spec)))?;
    let executable = File::open(&program.path).map_err(|error| {
        Problem::of(format_args!("cannot open {}: {error}", program.path.display()))
    })?;
    let identity = Identity::of(spec, options.user.as_ref(), options.private_user)?;
    Ok(Requirements { executable, identity })
}

/// Returns the reason why an application cannot run, as far as that is known without starting it.
pub(crate) fn preflight(options: &Options, spec: &ApplicationSpec) -> Option<Problem> {
    if let Err(problem) = requirements(options, spec) {
        return Some(problem);
    }
    // Within another root directory, the paths name other directories.
    let roots = spec.roots.iter().filter(|_| spec.isolation.rootfs.is_none());
    roots.into_iter().find_map(|(key, root)| match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => None,
        Ok(_) => Some(Problem::at(key, format_args!("{root} is not a directory"))),
        Err(error) => Some(Problem::at(key, format_args!("{root} cannot be used: {error}"))),
    })
}

fn missing(options: &Options, spec: &ApplicationSpec) -> String {
    let wanted = match spec.php_version.as_str() {
        "" => "PHP".to_owned(),
        version => format!("PHP {version}"),
    };
    let have: Vec<_> = options.php.iter().map(|program| program.version.as_str()).collect();
    if have.is_empty() {
        format!(
            "{wanted} is not available: no howdah-php program could be run beside howdah; \
             install the package libphp8.2-embed"
        )
    } else {
        format!("{wanted} is not available; there is PHP {}", have.join(", "))
    }
}
