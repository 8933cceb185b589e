//! The environment variables of an application.

use std::path::Path;

use howdah_sys::credentials::Credentials;
use howdah_sys::environment::{self, DEFAULT_PATH};
use howdah_wire::messages::{ApplicationSpec, Problem};

/// Reads the variables whose values are in files. Called while the process has the rights of the
/// server; by the rules for links of [`environment::read_value`], an application's user
/// who can change a directory on the way cannot lead it to a file of another user.
pub fn read_environment_files(spec: &ApplicationSpec) -> Result<Vec<(String, String)>, Problem> {
    let read = |(name, file): &(String, String)| match environment::read_value(Path::new(file)) {
        Ok(value) => Ok((name.clone(), value)),
        Err(error) => {
            Err(Problem::at(format!("environment/{name}"), format_args!("{file}: {error}")))
        }
    };
    spec.environment_files.iter().map(read).collect()
}

/// Returns the configured variables and those of `files`, with `USER` and `HOME` of the user as
/// PHP-FPM sets them, and a `PATH` for the programs that scripts start.
pub fn environment(
    spec: &ApplicationSpec,
    user: Option<&Credentials>,
    files: &[(String, String)],
) -> Vec<(String, String)> {
    let user = user.cloned().unwrap_or_else(Credentials::current);
    let mut environment = spec.environment.clone();
    environment.extend(files.iter().cloned());
    for (name, value) in
        [("USER", user.name), ("HOME", user.home), ("PATH", DEFAULT_PATH.to_owned())]
    {
        if !environment.iter().any(|(n, _)| n == name) {
            environment.push((name.to_owned(), value));
        }
    }
    environment
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use howdah_sys::environment::MAX_VALUE_BYTES;

    use super::*;

    fn read(file: &Path) -> Result<String, Problem> {
        let files = vec![("A".to_owned(), file.display().to_string())];
        let spec = ApplicationSpec { environment_files: files, ..ApplicationSpec::new("a") };
        Ok(read_environment_files(&spec)?.remove(0).1)
    }

    #[test]
    fn a_value_is_the_file_without_line_feeds_at_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("value");
        for (content, expected) in
            [("s3cret\n", "s3cret"), ("a\nb\n\n", "a\nb"), (" a \r\n", " a \r"), ("", "")]
        {
            fs::write(&file, content).unwrap();
            assert_eq!(read(&file).unwrap(), expected);
        }
        // As Kubernetes mounts secrets.
        symlink("value", directory.path().join("link")).unwrap();
        assert_eq!(read(&directory.path().join("link")).unwrap(), "");
    }

    #[test]
    fn an_error_names_the_file_and_no_part_of_the_value() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("value");
        let long = vec![b'x'; (MAX_VALUE_BYTES + 1) as usize];
        for (content, message) in [
            (&b"s3cret\xff"[..], "it is not UTF-8"),
            (b"s3cret\0", "it contains a null character"),
            (&long, "it is longer than 65536 bytes"),
        ] {
            fs::write(&file, content).unwrap();
            let problem = read(&file).unwrap_err();
            assert_eq!(problem.key, "environment/A");
            assert_eq!(problem.message, format!("{}: {message}", file.display()));
        }
        assert!(read(directory.path()).unwrap_err().message.contains("directory"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().message.contains("not a regular file"));
        assert!(read(&directory.path().join("none")).unwrap_err().message.contains("No such file"));
    }

    #[test]
    fn the_user_of_a_site_cannot_lead_the_server_to_a_file_of_root() {
        if !howdah_requirements::root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (secret, link) = (directory.path().join("secret"), directory.path().join("link"));
        fs::write(&secret, "of root").unwrap();
        symlink(&secret, &link).unwrap();
        assert_eq!(read(&link).unwrap(), "of root");
        lchown(&link, Some(65534), Some(65534)).unwrap();
        assert!(!read(&link).unwrap_err().message.contains("of root"));
    }

    #[test]
    fn scripts_can_start_programs_unless_the_document_says_otherwise() {
        let spec = ApplicationSpec::new("a");
        let path = |environment: Vec<(String, String)>| {
            let found = environment.into_iter().filter(|(name, _)| name == "PATH");
            found.map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(path(environment(&spec, None, &[])), [DEFAULT_PATH]);
        let own = vec![("PATH".to_owned(), "/opt/bin".to_owned())];
        assert_eq!(path(environment(&spec, None, &own)), ["/opt/bin"]);
        let spec = ApplicationSpec { environment: own, ..spec };
        assert_eq!(path(environment(&spec, None, &[])), ["/opt/bin"]);
    }
}
