use std::fs;

use super::*;

/// Loads a configuration, and returns the lines of the log without their times.
fn load(text: &str, tests: u32) -> (Result<Conf, Invalid>, String, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let (file, errors) = (directory.path().join("fpm.conf"), directory.path().join("errors"));
    let text = format!("[global]\nerror_log = {}\n{text}", errors.display());
    fs::write(&file, text.replace("{}", &directory.path().display().to_string())).unwrap();
    let arguments = Arguments { tests, allow_root: true, ..Arguments::default() };
    let mut log = Log::default();
    log.open_file(&errors).unwrap();
    let loaded = Conf::load(&file, &arguments, &mut log);
    if let Ok(conf) = &loaded
        && tests > 0
    {
        let _ = conf.test(&arguments, &log);
    }
    let lines = fs::read_to_string(&errors).unwrap();
    let lines = lines.lines().map(|line| line.split_once("] ").unwrap().1.to_owned()).collect();
    (loaded, file.display().to_string(), lines)
}

const POOL: &str = "[www]\nlisten = /run/a.sock\npm = static\npm.max_children = 2\n";

#[test]
fn a_test_says_that_the_file_is_successful() {
    let (loaded, file, lines) = load(POOL, 1);
    assert_eq!(loaded.unwrap().pools[0].text("listen"), Some("/run/a.sock"));
    assert_eq!(lines, [format!("NOTICE: configuration file {file} test is successful")]);
}

#[test]
fn mistakes_in_a_line_have_the_file_and_the_line() {
    for (line, message) in [
        ("nothing = 1", "unknown entry 'nothing'"),
        (
            "pm.max_children = x",
            "unable to parse value for entry 'pm.max_children': is not a valid number (greater or equal than zero)",
        ),
        (
            "request_terminate_timeout = 3w",
            "unable to parse value for entry 'request_terminate_timeout': unknown suffix used in time value",
        ),
        (
            "pm = more",
            "unable to parse value for entry 'pm': invalid process manager (static, dynamic or ondemand)",
        ),
        ("clear_env = maybe", "unable to parse value for entry 'clear_env': invalid boolean value"),
        ("env[] = 1", "You must provide a key for field 'env'"),
        ("env[A] =", "empty value"),
        ("other[A] = 1", "unknown directive 'other'"),
        (
            "access.suppress_path[] = x",
            "Values provided to field 'access.suppress_path' must begin with '/'",
        ),
    ] {
        let (loaded, file, lines) = load(&format!("{POOL}{line}\n"), 0);
        assert_eq!(loaded.err(), Some(Invalid), "{line}");
        assert_eq!(lines[0], format!("ERROR: [{file}:7] {message}"));
        assert_eq!(lines[1], format!("ERROR: failed to load configuration file '{file}'"));
    }
}

#[test]
fn what_does_not_fit_together_is_refused_in_php_fpms_words() {
    let dynamic = "[w]\nlisten = 9000\npm = dynamic\npm.max_children = 4\n";
    for (text, message) in [
        ("", "ERROR: No pool defined. at least one pool section must be specified in config file"),
        ("log_limit = 64", "ERROR: log_limit must be greater than 512"),
        ("[w]", "ALERT: [pool w] no listen address have been defined!"),
        (
            "[w]\nlisten = 9000",
            "ALERT: [pool w] the process manager is missing (static, dynamic or ondemand)",
        ),
        (
            "[w]\nlisten = 9000\npm = static",
            "ALERT: [pool w] pm.max_children must be a positive value",
        ),
        (dynamic, "ALERT: [pool w] pm.min_spare_servers(0) must be a positive value"),
        (
            &format!("{dynamic}pm.min_spare_servers = 2\npm.max_spare_servers = 1"),
            "ALERT: [pool w] pm.max_spare_servers(1) must not be less than pm.min_spare_servers(2)",
        ),
        (
            &format!("{POOL}request_slowlog_timeout = 1"),
            "ERROR: [pool www] 'slowlog' must be specified for use with 'request_slowlog_timeout'",
        ),
        (
            &format!("{POOL}pm.status_path = x"),
            "ERROR: [pool www] the status path 'x' must start with a '/'",
        ),
        (
            &format!("{POOL}chdir = /none"),
            "ERROR: [pool www] the chdir path '/none' does not exist or is not a directory",
        ),
        (
            &format!("{POOL}[b]\nlisten = /run/a.sock\npm = static\npm.max_children = 1"),
            "ERROR: [pool b] unable to set listen address as it's already used in another pool 'www'",
        ),
    ] {
        let (loaded, _, lines) = load(text, 0);
        assert_eq!(loaded.err(), Some(Invalid), "{text}");
        assert_eq!(lines, [message, "ERROR: failed to post process the configuration"]);
    }
}

#[test]
fn an_include_that_nothing_matches_is_a_warning_and_others_are_read() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("b.conf"), POOL).unwrap();
    let place = directory.path().display();
    let (loaded, file, lines) =
        load(&format!("include = {place}/none*.conf\ninclude = {place}/*.conf\n"), 0);
    assert_eq!(loaded.unwrap().pools.len(), 1);
    let pattern = format!("{place}/none*.conf");
    let message =
        format!("WARNING: Nothing matches the include pattern '{pattern}' from {file} at line 3.");
    assert_eq!(lines, [message]);
    let (loaded, ..) = load("include = {}/fpm.conf\n", 0);
    assert_eq!(loaded.err(), Some(Invalid), "a loop ends");
}

#[test]
fn a_second_t_prints_every_directive() {
    let (_, _, lines) = load(&format!("{POOL}env[A] = b\nphp_flag[c] = on\n"), 2);
    for line in [
        "NOTICE: [global]",
        "NOTICE: \tdaemonize = yes",
        "NOTICE: [www]",
        "NOTICE: \tlisten = /run/a.sock",
        "NOTICE: \tenv[A] = b",
        "NOTICE: \tphp_value[c] = 1",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
    let tables = howdah_import::php_fpm::POOL.iter().chain(howdah_import::php_fpm::GLOBAL);
    for (name, _) in tables.filter(|(name, _)| *name != "apparmor_hat") {
        assert!(lines.iter().any(|line| line.contains(&format!("\t{name} = "))), "{name}");
    }
}
