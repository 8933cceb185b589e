//! The program and the user of an application.

use std::fs::File;

use howdah_sys::directory;
use howdah_wire::messages::{ApplicationSpec, Problem};

use crate::identity::Identity;
use crate::options::Options;
use crate::rootfs;

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

/// Checks that an application could run, as far as that is known without starting it. Error: the reason
/// why it cannot.
pub(crate) fn preflight(options: &Options, spec: &ApplicationSpec) -> Result<(), Problem> {
    requirements(options, spec)?;
    if let Some(rootfs) = &spec.isolation.rootfs {
        return rootfs::check(rootfs, &spec.roots);
    }
    for (key, root) in &spec.roots {
        directory::check(root).map_err(|problem| Problem::at(key, problem))?;
    }
    Ok(())
}

/// Returns the reason why there is no PHP for an application; `None` if there is.
pub(crate) fn missing_php(options: &Options, spec: &ApplicationSpec) -> Option<String> {
    options.php_for(&spec.php_version).is_none().then(|| missing(options, spec))
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
