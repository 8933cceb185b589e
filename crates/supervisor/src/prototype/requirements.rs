//! The program and the user of an application.

use std::fs::File;
use std::sync::Arc;

use howdah_sys::directory;
use howdah_wire::messages::{ApplicationSpec, Problem, ProblemKind};

use crate::identity::Identity;
use crate::options::Options;
use crate::{resources, rootfs};

/// The program and the user that a prototype is started with.
pub(crate) struct Requirements {
    pub(crate) executable: Arc<File>,
    pub(crate) identity: Identity,
}

/// Looks up the program and the user of an application, and whether its control group can have
/// what it asks for.
pub(crate) fn requirements(
    options: &Options,
    spec: &ApplicationSpec,
) -> Result<Requirements, Problem> {
    let program = options.php_for(&spec.php_version);
    let program = program.ok_or_else(|| Problem {
        kind: ProblemKind::Other,
        ..Problem::at("type", missing(options, &spec.php_version))
    })?;
    if let Some((name, wanted)) = spec.missing_variables.first() {
        let message = format_args!(
            "the environment of the server has no variable {wanted}: set it where the server is \
             started, or name a \"default\""
        );
        return Err(Problem::at(format!("environment/{name}"), message));
    }
    let executable = program.file.clone();
    let identity = Identity::of(spec, options.user.as_ref(), options.private_user)?;
    resources::check(spec)?;
    Ok(Requirements { executable, identity })
}

/// Checks that an application could run, as far as that is known without starting it. Document
/// roots need not exist: deployments make them later. Error: the reason why it cannot.
pub(crate) fn preflight(options: &Options, spec: &ApplicationSpec) -> Result<(), Problem> {
    requirements(options, spec)?;
    match &spec.isolation.rootfs {
        Some(rootfs) => rootfs::check(rootfs, &[]),
        None => Ok(()),
    }
}

/// Checks that the document roots of an application exist: in its own view of the system, if
/// `prototype` is the process id of one that runs.
///
/// A root that this process may not see counts as existing. The application's user may have rights
/// that root lacks, as on a network drive.
pub(crate) fn check_roots(spec: &ApplicationSpec, prototype: Option<u32>) -> Result<(), Problem> {
    if let Some(rootfs) = &spec.isolation.rootfs {
        return match prototype {
            Some(pid) => rootfs::check_running(pid, &spec.roots),
            None => rootfs::check(rootfs, &spec.roots),
        };
    }
    for (key, root) in &spec.roots {
        match directory::check(root) {
            Err(problem) if !problem.is_denied => {
                return Err(Problem::no_root(key, problem.reason));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the reason why there is no PHP for an application; `None` if there is.
pub(crate) fn missing_php(options: &Options, spec: &ApplicationSpec) -> Option<String> {
    options.php_for(&spec.php_version).is_none().then(|| missing(options, &spec.php_version))
}

/// Returns the message with the missing version, the installed ones, and the remedy.
fn missing(options: &Options, wanted: &str) -> String {
    let mut text = match wanted {
        "" => "PHP is not available".to_owned(),
        version => format!("PHP {version} is not available"),
    };
    let have: Vec<_> = options.php.iter().map(|program| program.version.as_str()).collect();
    if !have.is_empty() {
        text = format!("{text}; there is PHP {}", have.join(", "));
    }
    // Of 8.4.21, one program is named after 8.4.
    let mut numbers = wanted.split('.');
    let minor = numbers.next().zip(numbers.next()).map(|(major, minor)| format!("{major}.{minor}"));
    let name = format!("howdah-php{}", minor.as_deref().unwrap_or_default());
    let unusable = options.unusable_php.iter().find(|program| program.path.ends_with(&name));
    if let Some(program) = unusable {
        return format!("{text}; {program}");
    }
    match minor {
        Some(minor) if options.php_for(&minor).is_some() => {
            format!("{text}; write \"php {minor}\" for any release of it")
        }
        Some(minor) => format!(
            "{text}; install the package {name}, or the program {name} beside howdah or in \
             /usr/lib/howdah and PHP's library (Debian: apt-get install libphp{minor}-embed)"
        ),
        None => format!(
            "{text}; install a package howdah-phpX.Y, such as howdah-php8.2, or the program beside \
             howdah or in /usr/lib/howdah and PHP's library (Debian: apt-get install libphp-embed)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{PhpProgram, UnusableProgram};

    #[test]
    fn a_missing_version_is_reported_with_those_that_there_are_and_what_to_do() {
        let program = |version: &str| PhpProgram::open(version.into(), "/dev/null".into()).unwrap();
        let mut options =
            Options { php: vec![program("8.2.36"), program("8.4.21")], ..Options::default() };
        assert_eq!(
            missing(&options, "8.3"),
            "PHP 8.3 is not available; there is PHP 8.2.36, 8.4.21; install the package \
             howdah-php8.3, or the program howdah-php8.3 beside howdah or in /usr/lib/howdah and \
             PHP's library (Debian: apt-get install libphp8.3-embed)"
        );
        assert!(missing(&options, "8.4.1").ends_with("; write \"php 8.4\" for any release of it"));
        assert!(missing(&options, "9").ends_with("apt-get install libphp-embed)"));
        let unusable =
            |name: &str, reason: &str| UnusableProgram { path: name.into(), reason: reason.into() };
        options.unusable_php = vec![
            unusable("/l/howdah-php8.5", "no library"),
            unusable("/l/howdah-php8.3", "not executable"),
        ];
        assert_eq!(
            missing(&options, "8.3.1"),
            "PHP 8.3.1 is not available; there is PHP 8.2.36, 8.4.21; /l/howdah-php8.3: not \
             executable"
        );
        options.php.clear();
        assert!(
            missing(&options, "").starts_with("PHP is not available; install a package howdah-php")
        );
    }
}
