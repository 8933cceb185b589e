//! What the supervisor and the prototype must know of an application.

use std::path::PathBuf;

use howdah_config as config;
use howdah_wire::messages::ApplicationSpec;
use howdah_wire::region::Geometry;

/// Bytes of an application's name that appear in process titles and the log.
const NAME: usize = 200;

/// Describes an application.
pub(super) fn spec(config: &config::Application, geometry: Geometry) -> ApplicationSpec {
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let mut roots: Vec<_> = config.targets.iter().map(|target| path(&target.root)).collect();
    roots.dedup();
    ApplicationSpec {
        name: config.name[..config.name.floor_char_boundary(NAME)].to_owned(),
        php_version: config.version.to_string(),
        roots,
        user: config.user.clone(),
        group: config.group.clone(),
        working_directory: config.working_directory.as_ref().map(path),
        environment: config.environment.clone(),
        ini_file: config.options.file.as_ref().map(path),
        ini_admin: config.options.admin.clone(),
        ini_user: config.options.user.clone(),
        stdout: config.stdout.as_ref().map(path),
        stderr: config.stderr.as_ref().map(path),
        requests: config.limits.requests.map_or(0, u64::from),
        geometry,
    }
}
