//! Values that several tests share.

use howdah_wire::messages::{ApplicationSpec, Isolation};
use howdah_wire::region::Geometry;

/// Creates an application with default settings.
pub(crate) fn spec() -> ApplicationSpec {
    ApplicationSpec {
        name: "site".to_owned(),
        php_version: String::new(),
        roots: Vec::new(),
        user: None,
        group: None,
        working_directory: None,
        environment: Vec::new(),
        ini_file: None,
        ini_admin: Vec::new(),
        ini_user: Vec::new(),
        script_directories: Vec::new(),
        no_script_directories: Vec::new(),
        stdout: None,
        stderr: None,
        requests: 0,
        memory: 0,
        rlimits: Vec::new(),
        isolation: Isolation::default(),
        geometry: Geometry::for_pool(1, 1),
    }
}
