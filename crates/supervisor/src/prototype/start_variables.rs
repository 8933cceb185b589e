//! Variables of the server for `${NAME}` in `php.ini`.

use std::path::Path;

use howdah_sys::environment;
use howdah_sys::protected::protected;
use howdah_wire::messages::ApplicationSpec;

/// Variables of an application that lead PHP to other settings.
const PLACES: [&str; 2] = ["PHPRC", "PHP_INI_SCAN_DIR"];

/// Returns the variables of the server that the settings of an application may name: none if other
/// users than root and the server's could write these settings. They would learn what is meant for
/// other applications.
pub(crate) fn start_variables(spec: &ApplicationSpec) -> Vec<(String, String)> {
    let mut names = spec.environment.iter().chain(&spec.environment_files).map(|(name, _)| name);
    let is_elsewhere = names.any(|name| PLACES.contains(&name.as_str()));
    let is_protected = spec.ini_file.as_ref().is_none_or(|file| protected(Path::new(file)).is_ok());
    if is_elsewhere || !is_protected || spec.isolation.rootfs.is_some() {
        Vec::new()
    } else {
        environment::for_settings()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn settings_that_others_can_write_have_no_variables_of_the_server() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("php.ini");
        fs::write(&file, "").unwrap();
        let variables = |change: &dyn Fn(&mut ApplicationSpec)| {
            let mut spec = ApplicationSpec::new("a");
            change(&mut spec);
            start_variables(&spec)
        };
        let all = environment::for_settings();
        assert!(!all.is_empty());
        let own_file = |spec: &mut ApplicationSpec| {
            spec.ini_file = Some(file.display().to_string());
        };
        assert_eq!(variables(&|_| ()), all);
        assert_eq!(variables(&own_file), all);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(variables(&own_file), []);
        for name in PLACES {
            let elsewhere = |spec: &mut ApplicationSpec| {
                spec.environment = vec![(name.to_owned(), "/srv/site".to_owned())];
            };
            assert_eq!(variables(&elsewhere), [], "{name}");
        }
        let other_root = |spec: &mut ApplicationSpec| {
            spec.isolation.rootfs = Some("/srv/root".to_owned());
        };
        assert_eq!(variables(&other_root), []);
    }
}
