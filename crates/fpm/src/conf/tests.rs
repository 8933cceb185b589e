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
    log.started();
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
fn the_facility_of_syslog_is_printed_as_a_number() {
    for (line, number) in
        [("", 24), ("syslog.facility = daemon", 24), ("syslog.facility = local3", 152)]
    {
        let (_, _, lines) = load(&format!("{line}\n{POOL}"), 2);
        let printed = format!("NOTICE: \tsyslog.facility = {number}");
        assert!(lines.contains(&printed), "{line}: {lines:?}");
    }
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
fn a_wrong_format_of_the_access_log_is_refused_if_there_is_a_log() {
    let format = format!("{POOL}access.format = \"%R %{{mil}}d\"\n");
    assert!(load(&format, 0).0.is_ok());
    let (loaded, _, lines) = load(&format!("{format}access.log = {{}}/access\n"), 0);
    assert_eq!(loaded.err(), Some(Invalid));
    let expected = [
        "WARNING: only 'seconds', 'milli', 'milliseconds', 'micro' or 'microseconds' are allowed \
         as a modifier for %d ('mil')",
        "ERROR: [pool www] wrong format for access.format '%R %{mil}d'",
        "ERROR: failed to post process the configuration",
    ];
    assert_eq!(lines, expected);
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

/// A generator of numbers that are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

const PIECES: [&str; 32] = [
    "[",
    "]",
    "=",
    ";",
    "\"",
    "'",
    "\\",
    "${",
    "$pool",
    "}",
    "\n",
    "\0",
    "\u{feff}",
    "é",
    "#",
    "env[A",
    "[[",
    "]]",
    "include = *",
    "include =",
    "[global]",
    "[www]",
    "pm = ",
    "-1",
    "99999999999999999999",
    "yes",
    "&|!~",
    "()",
    "php_value[",
    "\r",
    " ",
    "\t",
];

#[test]
fn any_text_is_read_or_refused_with_its_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let (file, errors) = (directory.path().join("fpm.conf"), directory.path().join("errors"));
    let start = format!("[global]\nlog_level = notice\n{POOL}env[A] = \"$pool ${{HOME}}\"\n");
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for _ in 0..800 {
        let mut text = start.clone();
        for _ in 0..=numbers.below(4) {
            let at = text.floor_char_boundary(numbers.below(text.len() + 1));
            let end = text.ceil_char_boundary((at + numbers.below(9)).min(text.len()));
            text.replace_range(at..end, PIECES[numbers.below(PIECES.len())]);
        }
        fs::write(&file, &text).unwrap();
        let _ = fs::remove_file(&errors);
        let mut log = Log::default();
        log.open_file(&errors).unwrap();
        log.started();
        if super::reader::read(&file, directory.path(), &log).is_ok() {
            continue;
        }
        refused += 1;
        let lines = fs::read_to_string(&errors).unwrap();
        let line = lines.lines().find(|line| line.contains("] ERROR: ")).unwrap_or_default();
        let (_, message) = line.split_once("] ERROR: ").unwrap_or_default();
        let place = message.strip_prefix(&format!("[{}:", file.display()));
        let has_line = place.is_some_and(|rest| {
            rest.split(']').next().is_some_and(|number| number.parse::<u32>().is_ok())
        });
        // A file that includes itself.
        let is_loop = message.starts_with("failed to include more than 5 files");
        assert!(has_line || is_loop, "{text:?}: {lines}");
    }
    assert!(refused > 150, "{refused}");
}

#[test]
fn any_values_are_accepted_or_refused_with_a_reason() {
    const NAMES: [&str; 14] = [
        "pm",
        "pm.max_children",
        "pm.start_servers",
        "pm.min_spare_servers",
        "pm.max_spare_servers",
        "pm.max_spawn_rate",
        "pm.process_idle_timeout",
        "pm.status_path",
        "ping.path",
        "ping.response",
        "process.priority",
        "request_terminate_timeout",
        "request_slowlog_trace_depth",
        "listen.backlog",
    ];
    const VALUES: [&str; 14] = [
        "0",
        "1",
        "2",
        "5",
        "-1",
        "-9223372036854775808",
        "9223372036854775807",
        "20",
        "static",
        "dynamic",
        "ondemand",
        "/a",
        "1d",
        "\"\"",
    ];
    let mut numbers = Numbers(1);
    for _ in 0..200 {
        let mut text = POOL.to_owned();
        for _ in 0..6 {
            let (name, value) =
                (NAMES[numbers.below(NAMES.len())], VALUES[numbers.below(VALUES.len())]);
            text += &format!("{name} = {value}\n");
        }
        let (loaded, _, lines) = load(&text, 1);
        assert!(loaded.is_ok() || !lines.is_empty(), "{text}");
    }
}

#[test]
fn a_device_without_an_end_is_no_configuration() {
    let (loaded, _, lines) = load("include = /dev/zero\n", 0);
    assert_eq!(loaded.err(), Some(Invalid));
    assert!(lines[0].contains("failed to open configuration file '/dev/zero'"), "{lines:?}");
}
