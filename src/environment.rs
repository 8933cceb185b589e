//! Environment variables in place of options of `serve`, for containers.
//!
//! The command line takes precedence: a variable has no effect beside its option, or beside an
//! option that excludes it. A variable that is empty counts as absent, as Compose files leave it.

use std::ffi::OsString;

use howdah_sys::log::LEVEL_VARIABLE;
use howdah_sys::log::json::FORMAT_VARIABLE;

use crate::cli::{Serve, cache_size, log_level};

/// Fills in options that the command line does not have. `variable` returns the value of a
/// variable. The error names a variable with an invalid value.
pub fn apply(
    arguments: &mut Serve,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), String> {
    let value = |name| variable(name).filter(|value| !value.is_empty());
    // The log itself reads this variable.
    if let Some(format) =
        value(FORMAT_VARIABLE).filter(|format| format != "json" && format != "text")
    {
        return Err(format!("{FORMAT_VARIABLE}: {format:?} is not \"json\" or \"text\""));
    }
    if arguments.common.log_level.is_none()
        && let Some(level) = value(LEVEL_VARIABLE)
    {
        let level = text(LEVEL_VARIABLE, level)?;
        let known = log_level(&level).map_err(|problem| format!("{LEVEL_VARIABLE}: {problem}"))?;
        arguments.common.log_level = Some(known);
    }
    // The options that belong to a directory exclude a configuration.
    let is_directory = arguments.dir.is_some()
        || !arguments.host.is_empty()
        || !arguments.listen.is_empty()
        || arguments.workers.is_some()
        || arguments.cache.is_some()
        || arguments.tls
        || !arguments.domain.is_empty();
    if arguments.config.is_none() && !is_directory {
        arguments.config = value("HOWDAH_CONFIG").map(Into::into);
    }
    if arguments.config.is_some() {
        return Ok(());
    }
    if arguments.dir.is_none() && arguments.host.is_empty() {
        arguments.dir = value("HOWDAH_ROOT").map(Into::into);
    }
    if arguments.env.is_empty()
        && let Some(names) = value("HOWDAH_ENV")
    {
        let names = text("HOWDAH_ENV", names)?;
        arguments.env = names.split_whitespace().map(str::to_owned).collect();
    }
    if arguments.listen.is_empty()
        && let Some(addresses) = value("HOWDAH_LISTEN")
    {
        let addresses = text("HOWDAH_LISTEN", addresses)?;
        arguments.listen = addresses.split_whitespace().map(str::to_owned).collect();
    }
    if arguments.cache.is_none()
        && let Some(size) = value("HOWDAH_CACHE")
    {
        let size = cache_size(&text("HOWDAH_CACHE", size)?);
        arguments.cache = Some(size.map_err(|problem| format!("HOWDAH_CACHE: {problem}"))?);
    }
    if arguments.workers.is_none()
        && let Some(number) = value("HOWDAH_WORKERS")
    {
        let number = text("HOWDAH_WORKERS", number)?;
        let workers = number.parse().ok().filter(|workers| (1..=2000).contains(workers));
        let problem = || format!("HOWDAH_WORKERS: \"{number}\" is not a number from 1 to 2000");
        arguments.workers = Some(workers.ok_or_else(problem)?);
    }
    Ok(())
}

fn text(name: &str, value: OsString) -> Result<String, String> {
    value.into_string().map_err(|value| format!("{name}: {value:?} is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn applied(mut serve: Serve, variables: &[(&str, &str)]) -> Result<Serve, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        apply(&mut serve, |name| find(name).map(|(_, value)| value.into())).map(|()| serve)
    }

    const ALL: [(&str, &str); 6] = [
        ("HOWDAH_CONFIG", "/etc/site.json"),
        ("HOWDAH_LISTEN", "*:8080  [::1]:8081"),
        ("HOWDAH_WORKERS", "3"),
        ("HOWDAH_CACHE", "64M"),
        ("HOWDAH_ENV", "APP_*  TZ"),
        ("HOWDAH_ROOT", "/srv/site"),
    ];

    #[test]
    fn variables_stand_for_options() {
        let serve = applied(Serve::default(), &ALL[1..]).unwrap();
        assert_eq!(serve.listen, ["*:8080", "[::1]:8081"]);
        assert_eq!((serve.workers, serve.cache, serve.config), (Some(3), Some(64 << 20), None));
        assert_eq!(
            (serve.env, serve.dir),
            (vec!["APP_*".into(), "TZ".into()], Some("/srv/site".into()))
        );
        let serve = applied(Serve::default(), &ALL).unwrap();
        assert_eq!(serve.config, Some("/etc/site.json".into()));
        assert!(serve.listen.is_empty() && serve.workers.is_none());
        assert!(serve.env.is_empty() && serve.dir.is_none());
    }

    #[test]
    fn the_command_line_takes_precedence() {
        let with_dir = Serve { dir: Some("/srv".into()), ..Serve::default() };
        let serve = applied(with_dir, &ALL).unwrap();
        assert_eq!((serve.config, serve.workers), (None, Some(3)));
        assert_eq!(serve.dir, Some("/srv".into()));
        let with_config = Serve { config: Some("/a.json".into()), ..Serve::default() };
        let serve = applied(with_config, &ALL).unwrap();
        assert_eq!(serve.config, Some("/a.json".into()));
        assert!(serve.listen.is_empty());
        let with_listen =
            Serve { listen: vec!["*:1".to_owned()], workers: Some(9), ..Serve::default() };
        let serve = applied(with_listen, &ALL).unwrap();
        assert_eq!((serve.listen, serve.workers), (vec!["*:1".to_owned()], Some(9)));
        assert_eq!(serve.config, None);
        assert_eq!(applied(Serve { tls: true, ..Serve::default() }, &ALL).unwrap().config, None);
    }

    #[test]
    fn an_empty_variable_is_absent() {
        let empty = ALL.map(|(name, _)| (name, ""));
        let serve = applied(Serve::default(), &empty).unwrap();
        assert!(serve.config.is_none() && serve.listen.is_empty() && serve.workers.is_none());
    }

    #[test]
    fn an_invalid_value_is_an_error_that_names_the_variable() {
        for workers in ["0", "2001", "-1", "many", "99999999999999999999"] {
            let error = applied(Serve::default(), &[("HOWDAH_WORKERS", workers)]).unwrap_err();
            assert!(error.contains("HOWDAH_WORKERS") && error.contains(workers), "{error}");
        }
        for size in ["1", "many", "-1M", "2T"] {
            let error = applied(Serve::default(), &[("HOWDAH_CACHE", size)]).unwrap_err();
            assert!(error.starts_with(&format!("HOWDAH_CACHE: \"{size}\" is not ")), "{error}");
        }
        let error = applied(Serve::default(), &[("HOWDAH_LOG_FORMAT", "xml")]).unwrap_err();
        assert!(error.contains("HOWDAH_LOG_FORMAT: \"xml\""), "{error}");
        let error = applied(Serve::default(), &[("HOWDAH_LOG_LEVEL", "loud")]).unwrap_err();
        assert!(error.starts_with("HOWDAH_LOG_LEVEL: \"loud\" is not "), "{error}");
        let invalid = |name: &str| {
            (!name.starts_with("HOWDAH_LOG_")).then(|| OsString::from_vec(b"\xff".to_vec()))
        };
        let mut serve = Serve {
            cache: Some(0),
            workers: Some(1),
            env: vec!["A".to_owned()],
            dir: Some("/srv".into()),
            ..Serve::default()
        };
        assert!(apply(&mut serve, invalid).unwrap_err().starts_with("HOWDAH_LISTEN: "));
    }
}
