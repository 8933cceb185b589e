//! Recognition of scripts that can stay in memory (worker mode).

use std::path::Path;

use super::error::DetectError;
use super::files::Directory;

/// A script of a site that can stay in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerScript {
    /// The script, relative to the document root.
    pub script: String,
    /// The file or text by which it was recognised.
    pub evidence: &'static str,
    /// Environment variables that it needs.
    pub environment: Vec<(&'static str, String)>,
}

/// The worker script of Laravel Octane, which `octane:install --server=frankenphp` creates.
const OCTANE: &str = "frankenphp-worker.php";

/// The runner for FrankenPHP in Symfony's runtime, from 7.4 on.
const SYMFONY_RUNNER: &str = "vendor/symfony/runtime/Runner/FrankenPhpWorkerRunner.php";

/// The package that does the same for older releases of Symfony.
const SYMFONY_PACKAGE: &str = "vendor/runtime/frankenphp-symfony/src/Runtime.php";

/// Recognises the worker script of a project with a public directory.
pub(super) fn worker_script(
    directory: &Directory,
    root: &Directory,
) -> Result<Option<WorkerScript>, DetectError> {
    // `detect` has refused paths that are not UTF-8.
    let text = |path: &Path| path.to_string_lossy().into_owned();
    if root.has_file(OCTANE)? {
        let environment = vec![
            ("APP_BASE_PATH", text(directory.path())),
            ("APP_PUBLIC_PATH", text(root.path())),
            ("LARAVEL_OCTANE", "1".to_owned()),
        ];
        return Ok(Some(WorkerScript { script: OCTANE.to_owned(), evidence: OCTANE, environment }));
    }
    let script = "index.php".to_owned();
    if directory.has_file(SYMFONY_RUNNER)? {
        let (evidence, environment) = (SYMFONY_RUNNER, Vec::new());
        return Ok(Some(WorkerScript { script, evidence, environment }));
    }
    if directory.has_file(SYMFONY_PACKAGE)? {
        let runtime = ("APP_RUNTIME", r"Runtime\FrankenPhpSymfony\Runtime".to_owned());
        let (evidence, environment) = (SYMFONY_PACKAGE, vec![runtime]);
        return Ok(Some(WorkerScript { script, evidence, environment }));
    }
    Ok(None)
}
