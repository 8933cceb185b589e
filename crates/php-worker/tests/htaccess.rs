//! Applications with `.htaccess` files: settings of a request, credentials, functions of Apache.

mod harness;

use harness::{Answer, Application, Request};
use howdah_wire::frame::Retirement;
use howdah_wire::messages::{ApplicationSpec, WorkerScript};
use howdah_wire::php_values::{MAX_PHP_VALUES, PhpValues};

const VALUES: &str = "\x01php_values";
const ADMIN_VALUES: &str = "\x01php_admin_values";
const AUTHORIZATION: &str = "\x01authorization";
const ANY_NAME: &str = "\x01any_name";

fn start() -> Application {
    start_with(&|_| ())
}

fn start_with(adapt: harness::Adapt<'_>) -> Application {
    Application::start_with(1, &|spec: &mut ApplicationSpec| {
        spec.htaccess = true;
        adapt(spec);
    })
}

fn values(settings: &[(&str, &str)]) -> Vec<u8> {
    let mut values = PhpValues::default();
    for (name, value) in settings {
        assert!(values.push(name.as_bytes(), value.as_bytes()));
    }
    values.as_bytes().to_vec()
}

fn send(application: &mut Application, request: &Request) -> Answer {
    application.send(request).wait(application)
}

/// Runs code with settings. Returns the output.
fn with_settings(application: &mut Application, settings: &[(&str, &str)], code: &str) -> String {
    let request = application.script(code).with(VALUES, values(settings));
    let answer = send(application, &request);
    assert_eq!(answer.done.unwrap().retirement, None, "{answer:?}");
    answer.text()
}

#[test]
fn settings_apply_to_one_request() {
    let mut application = start();
    let code =
        "echo ini_get('precision'), '|', ini_get('memory_limit'), '|', ini_get('user_agent');";
    let usual = application.run(code).text();
    let settings =
        [("precision", "5"), ("memory_limit", "64M"), ("precision", "6"), ("user_agent", "a b")];
    assert_eq!(with_settings(&mut application, &settings, code), "6|64M|a b");
    assert_eq!(application.run(code).text(), usual);
}

#[test]
fn a_script_cannot_change_a_locked_setting_of_its_request() {
    let mut application = start_with(&|spec| {
        spec.ini_admin = vec![("precision".into(), "9".into())];
    });
    application.file(".user.ini", "memory_limit = 1G\n");
    let code = "ini_set('memory_limit', '2G'); ini_restore('memory_limit');
        ini_set('open_basedir', '/tmp'); echo ini_get('memory_limit'), '|', ini_get('precision'), '|',
        ini_get('open_basedir'), '|', ini_set('user_agent', 'own'), ini_get('user_agent');";
    let usual = application.run(code).text();
    let locked = [
        ("memory_limit", "64M"),
        ("precision", "3"),
        ("open_basedir", "/"),
        ("disable_functions", "ini_get"),
        ("no.such", "1"),
    ];
    let request = application.script(code).with(ADMIN_VALUES, values(&locked));
    assert_eq!(send(&mut application, &request).text(), "64M|9|/|own");
    let both = request.with(VALUES, values(&[("memory_limit", "3G"), ("user_agent", "a")]));
    assert_eq!(send(&mut application, &both).text(), "64M|9|/|aown");
    assert_eq!(application.run(code).text(), usual);
    // The right to change settings is back.
    let code = "ini_set('memory_limit', '65M'); echo ini_get('memory_limit');";
    assert_eq!(application.run(code).text(), "65M");
}

#[test]
fn settings_apply_before_the_body_is_read() {
    let mut application = start();
    let request = application
        .script("echo count($_POST), '|', ini_get('post_max_size');")
        .post("application/x-www-form-urlencoded", "a=1&b=2&c=3")
        .with(VALUES, values(&[("max_input_vars", "1"), ("display_errors", "0")]));
    assert_eq!(send(&mut application, &request).text(), "2|8M");
    let small = request.with(VALUES, values(&[("post_max_size", "5"), ("display_errors", "0")]));
    assert_eq!(send(&mut application, &small).text(), "0|5");
}

#[test]
fn files_are_run_before_and_after_the_script() {
    let mut application = start();
    let before = application.file("before.inc", "<?php echo 'before ';");
    let after = application.file("after.inc", "<?php echo ' after';");
    let settings = [
        ("auto_prepend_file", before.to_str().unwrap()),
        ("auto_append_file", after.to_str().unwrap()),
    ];
    assert_eq!(with_settings(&mut application, &settings, "echo 'script';"), "before script after");
    assert_eq!(application.run("echo 'script';").text(), "script");
}

#[test]
fn settings_that_are_not_for_directories_stay() {
    let mut application = start_with(&|spec| {
        spec.ini_admin = vec![
            ("memory_limit".into(), "77M".into()),
            ("auto_prepend_file".into(), String::new()),
            ("open_basedir".into(), "/".into()),
        ];
    });
    let code = "echo ini_get('memory_limit'), '|', ini_get('auto_prepend_file'), '|',
        ini_get('open_basedir'), '|', ini_get('disable_functions'), '|',
        (int) function_exists('strrev'), '|', ini_get('allow_url_include'), '|',
        ini_get('file_uploads'), '|', (int) extension_loaded('nothing');";
    let usual = application.run(code).text();
    let settings = [
        ("memory_limit", "9G"),
        ("auto_prepend_file", "/etc/passwd"),
        ("open_basedir", "/tmp"),
        ("disable_functions", "strrev"),
        ("allow_url_include", "1"),
        ("file_uploads", "0"),
        ("extension", "nothing.so"),
        ("zend_extension", "nothing.so"),
        ("extension_dir", "/tmp"),
        ("cgi.fix_pathinfo", "0"),
        ("no.such.setting", "1"),
        ("upload_tmp_dir", "/"),
        ("sendmail_path", "/bin/false"),
        ("opcache.preload", "/etc/passwd"),
    ];
    assert_eq!(with_settings(&mut application, &settings, code), usual);
    assert!(usual.starts_with("77M||/|"), "{usual}");
}

#[test]
fn the_base_directory_can_only_be_made_narrower() {
    let mut application = start_with(&|spec| {
        spec.ini_user = vec![("open_basedir".into(), "/tmp:/etc".into())];
    });
    let code = "echo ini_get('open_basedir');";
    for (value, expected) in
        [("/tmp", "/tmp"), ("/", "/tmp:/etc"), ("", "/tmp:/etc"), ("/usr", "/tmp:/etc")]
    {
        let settings = [("open_basedir", value)];
        assert_eq!(with_settings(&mut application, &settings, code), expected, "{value}");
    }
    assert_eq!(application.run(code).text(), "/tmp:/etc");
    // The script itself is outside.
    let request = application.script(code).with(VALUES, values(&[("open_basedir", "/etc")]));
    assert_eq!(send(&mut application, &request).status, 403);
}

#[test]
fn settings_come_before_those_of_user_ini_files() {
    let mut application = start();
    application.file(".user.ini", "precision = 4\nuser_agent = ini\n");
    let code = "echo ini_get('precision'), ini_get('user_agent');";
    assert_eq!(with_settings(&mut application, &[("precision", "5")], code), "5ini");
    assert_eq!(application.run(code).text(), "4ini");
}

#[test]
fn a_script_may_change_settings_and_put_them_back() {
    let mut application = start();
    let code = "ini_set('precision', 9); echo ini_get('precision'); ini_restore('precision');
        echo ini_get('precision');";
    let text = with_settings(&mut application, &[("precision", "5")], code);
    assert!(text.starts_with('9'), "{text}");
    assert_eq!(application.run("echo ini_get('precision');").text(), "14");
}

#[test]
fn no_script_runs_while_the_engine_is_off() {
    let mut application = start();
    let code = "echo 'it runs';";
    for off in ["0", "off", "", "no", "false", "nonsense"] {
        for settings in [
            &[("engine", off)][..],
            &[("engine", "1"), ("engine", off)],
            &[("engine", off), ("auto_prepend_file", "/etc/passwd"), ("precision", "1")],
        ] {
            let request = application.script(code).with(VALUES, values(settings));
            let answer = send(&mut application, &request);
            assert_eq!(answer.status, 403, "{settings:?}");
            assert_eq!(answer.text(), "Access denied.\n");
        }
    }
    assert_eq!(
        with_settings(&mut application, &[("engine", "0"), ("engine", "On")], code),
        "it runs"
    );
    assert_eq!(application.run(code).text(), "it runs");
}

#[test]
fn no_script_sees_what_is_for_the_worker() {
    let mut application = start();
    let request = application
        .script(
            "foreach ([$_SERVER, $_ENV, getenv(), getallheaders()] as $all) {
                 foreach ($all as $name => $value) {
                     if (str_contains($name, \"\\x01\") || str_contains($name, 'php_values')
                         || str_contains($name, 'any_name')) { echo 'seen: ', $name; }
                 }
             }
             var_dump(getenv(\"\\x01php_values\"), apache_getenv(\"\\x01php_values\"));
             echo isset($_SERVER['HTTP_AUTHORIZATION']) ? 'seen' : '-';",
        )
        .with(VALUES, values(&[("precision", "5"), ("variables_order", "EGPCS")]))
        .with(AUTHORIZATION, "Basic dXNlcjpwdw==")
        .with(ANY_NAME, "1");
    let answer = send(&mut application, &request);
    assert_eq!(answer.text(), "bool(false)\nbool(false)\n-");
}

#[test]
fn a_broken_encoding_is_refused() {
    let mut application = start();
    let script = || "echo 'it runs';";
    for broken in [&b"a"[..], b"a\x02", b"a\x021", b"\x02\x03", b"a\x021\x02\x03", b"\x03\x03"] {
        let request = application.script(script()).with(VALUES, broken);
        let answer = send(&mut application, &request);
        assert_eq!((answer.status, answer.text().as_str()), (500, ""), "{broken:?}");
        assert!(answer.logged("its parameters are broken"));
    }
    for nul in [&b"precision\0x\x025\x03"[..], b"precision\x025\0\x03", b"\0"] {
        let request = application.script(script()).with(VALUES, nul);
        assert_eq!(send(&mut application, &request).status, 400, "{nul:?}");
    }
    let request = application.script(script()).with(AUTHORIZATION, "Basic \0");
    assert_eq!(send(&mut application, &request).status, 400);
    assert_eq!(application.run(script()).text(), "it runs");
}

#[test]
fn any_number_of_settings_is_survived() {
    let mut application = start();
    let many = b"precision\x025\x03".repeat(100_000);
    let mut request = application.script("echo 'it runs';").with(VALUES, many);
    request.params_in_file = true;
    assert_eq!(send(&mut application, &request).status, 500);
    let most = b"user_agent\x02abc\x03no.such\x021\x03".repeat(MAX_PHP_VALUES / 2);
    let mut request = application.script("echo ini_get('user_agent');").with(VALUES, most);
    request.params_in_file = true;
    for _ in 0..3 {
        assert_eq!(send(&mut application, &request).text(), "abc");
    }
    assert_eq!(application.run("echo ini_get('user_agent');").text(), "");
}

#[test]
fn settings_that_make_no_sense_break_nothing() {
    let mut application = start();
    for (name, value) in [
        ("date.timezone", "Nowhere/Nothing"),
        ("memory_limit", "1"),
        ("memory_limit", "nonsense"),
        ("memory_limit", "-1"),
        ("output_buffering", "-7"),
        ("output_handler", "no_such_function"),
        ("default_charset", "a\r\nX-Injected: 1"),
        ("default_mimetype", "text/plain\r\nX-Injected: 1"),
        ("error_log", "/no/such/directory/file"),
        ("session.save_handler", "nothing"),
        ("session.auto_start", "1"),
        ("zlib.output_compression", "1"),
        ("zend.assertions", "1"),
        ("mbstring.internal_encoding", "nothing"),
        ("mbstring.encoding_translation", "1"),
        ("pcre.backtrack_limit", "0"),
        ("pcre.jit", "0"),
        ("opcache.enable", "0"),
        ("opcache.jit", "tracing"),
        ("max_input_time", "-9"),
        ("max_execution_time", "99999999999999999999"),
        ("user_ini.filename", "/etc/passwd"),
        ("auto_globals_jit", "0"),
        ("register_argc_argv", "1"),
        ("variables_order", ""),
        ("zend.script_encoding", "nothing"),
        ("zend.multibyte", "1"),
        ("assert.exception", "0"),
        ("arg_separator.input", ""),
        ("disable_classes", "ArrayObject"),
        ("unserialize_callback_func", "phpinfo"),
    ] {
        let request = application
            .script("echo 'it runs';")
            .with(VALUES, values(&[("display_errors", "1"), (name, value)]));
        let answer = send(&mut application, &request);
        let end = answer.done.unwrap().retirement;
        assert!(answer.ended, "{name}");
        let injected = answer.fields.iter().any(|field| field.starts_with("X-Injected"));
        assert!(!injected, "{name}: {:?}", answer.fields);
        if let Some(reason) = end {
            assert_eq!(reason, Retirement::Broken, "{name}");
            let (owner, ..) = application.death();
            application.spawn(howdah_wire::queue::WorkerId {
                incarnation: owner.incarnation + 1,
                ..owner
            });
        }
        assert_eq!(application.run("echo 'it runs';").text(), "it runs", "after {name}");
    }
}

#[test]
fn a_value_above_the_memory_limit_does_not_count() {
    let mut application = start_with(&|spec| {
        spec.ini_admin = vec![("memory_limit".into(), "4M".into())];
    });
    let value = "x".repeat(5 << 20);
    let code = "echo 'it runs';";
    let mut request = application.script(code).with(VALUES, values(&[("user_agent", &value)]));
    request.params_in_file = true;
    for _ in 0..3 {
        let answer = send(&mut application, &request);
        assert_eq!(answer.text(), "it runs");
        assert_eq!(answer.done.unwrap().retirement, None);
    }
    let settings = [("engine", &value[..])];
    let mut request = application.script(code).with(VALUES, values(&settings));
    request.params_in_file = true;
    assert_eq!(send(&mut application, &request).status, 403);
}

#[test]
fn an_application_without_support_takes_no_settings() {
    let mut application = Application::start(1);
    let request = application
        .script("echo ini_get('precision');")
        .with(VALUES, values(&[("precision", "5"), ("engine", "0")]))
        .with(ADMIN_VALUES, values(&[("precision", "5"), ("engine", "0")]));
    assert_eq!(send(&mut application, &request).text(), "14");
    let script = application.file("page.html", "<?php echo 'it runs';");
    let request = Request::get(&script, application.root.path()).with(ANY_NAME, "1");
    assert_eq!(send(&mut application, &request).status, 403);
}

#[test]
fn a_script_may_have_any_name_if_the_router_says_so() {
    let mut application = start();
    for name in ["page.html", "page", "page.php.bak"] {
        let script = application.file(name, "<?php echo 'it runs ', basename(__FILE__);");
        let request = Request::get(&script, application.root.path());
        assert_eq!(send(&mut application, &request).status, 403, "{name}");
        for no in ["", "0", "11"] {
            let request = Request::get(&script, application.root.path()).with(ANY_NAME, no);
            assert_eq!(send(&mut application, &request).status, 403, "{name}");
        }
        let request = request.with(ANY_NAME, "1");
        assert_eq!(send(&mut application, &request).text(), format!("it runs {name}"));
    }
    let directory = application.root.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    let request = Request::get(&directory, application.root.path()).with(ANY_NAME, "1");
    assert_eq!(send(&mut application, &request).status, 404);
}

const CREDENTIALS: &str =
    "echo $_SERVER['PHP_AUTH_USER'] ?? '-', '|', $_SERVER['PHP_AUTH_PW'] ?? '-',
    '|', $_SERVER['PHP_AUTH_DIGEST'] ?? '-', '|', $_SERVER['HTTP_AUTHORIZATION'] ?? '-', '|',
    getallheaders()['Authorization'] ?? '-';";

#[test]
fn credentials_come_from_a_field_that_scripts_do_not_see() {
    let mut application = start();
    let request = application.script(CREDENTIALS);
    for (field, expected) in [
        ("Basic dXNlcjpwYTpzcw==", "user|pa:ss|-|-|Basic dXNlcjpwYTpzcw=="),
        ("Digest username=\"u\"", "-|-|username=\"u\"|-|Digest username=\"u\""),
        ("Bearer token", "-|-|-|-|Bearer token"),
        ("Basic !!!", "-|-|-|-|Basic !!!"),
        ("", "-|-|-|-|-"),
    ] {
        let request = application.script(CREDENTIALS).with(AUTHORIZATION, field);
        assert_eq!(send(&mut application, &request).text(), expected, "{field}");
    }
    assert_eq!(send(&mut application, &request).text(), "-|-|-|-|-");
}

#[test]
fn a_variable_that_is_named_like_the_field_gives_no_credentials() {
    let mut application = start();
    let request = application
        .script(CREDENTIALS)
        .with("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw==")
        .with(AUTHORIZATION, "");
    let text = send(&mut application, &request).text();
    assert!(text.starts_with("-|-|-|Basic"), "{text}");
    let request = request.with(AUTHORIZATION, "Basic YTpi");
    let text = send(&mut application, &request).text();
    assert_eq!(text, "a|b|-|Basic dXNlcjpwYTpzcw==|Basic YTpi");
}

#[test]
fn a_user_whom_the_server_has_checked_is_known_without_credentials() {
    let mut application = start();
    let request = application
        .script(CREDENTIALS)
        .with("REMOTE_USER", "someone")
        .with("AUTH_TYPE", "Basic")
        .with(AUTHORIZATION, "Basic c29tZW9uZQ==");
    let text = send(&mut application, &request).text();
    assert!(text.starts_with("someone|-|"), "{text}");
}

#[test]
fn functions_of_apache_exist_only_with_support() {
    let code =
        "foreach (['apache_get_modules', 'apache_get_version', 'apache_getenv', 'apache_setenv',
        'apache_note', 'apache_request_headers', 'apache_response_headers', 'virtual',
        'apache_lookup_uri'] as $name) { echo (int) function_exists($name); }";
    assert_eq!(Application::start(1).run(code).text(), "000001100");
    assert_eq!(start().run(code).text(), "111111100");
    let mut without_some = start_with(&|spec| {
        spec.ini_admin = vec![("disable_functions".into(), "apache_note,apache_setenv".into())];
    });
    assert_eq!(without_some.run(code).text(), "111001100");
}

#[test]
fn functions_have_the_signatures_of_mod_php() {
    let mut application = start();
    let answer = application.run(
        "foreach (['apache_get_modules', 'apache_get_version', 'apache_getenv', 'apache_setenv',
             'apache_note'] as $name) {
             $function = new ReflectionFunction($name);
             echo $name, '(';
             foreach ($function->getParameters() as $one) {
                 echo $one->getType(), ' $', $one->getName();
                 if ($one->isOptional()) { echo ' = ', var_export($one->getDefaultValue(), true); }
                 echo ',';
             }
             echo '): ', $function->getReturnType(), ' ', $function->getExtensionName(), \"\\n\";
         }",
    );
    assert_eq!(
        answer.text(),
        "apache_get_modules(): array cgi-fcgi\n\
         apache_get_version(): string|false cgi-fcgi\n\
         apache_getenv(string $variable,bool $walk_to_top = false,): string|false cgi-fcgi\n\
         apache_setenv(string $variable,string $value,bool $walk_to_top = false,): bool cgi-fcgi\n\
         apache_note(string $note_name,?string $note_value = NULL,): string|false cgi-fcgi\n"
    );
}

#[test]
fn modules_and_version_are_listed() {
    let mut application = start();
    let answer = application.run(
        "echo count(apache_get_modules()), (int) in_array('mod_rewrite', apache_get_modules()), '|',
         apache_get_version();",
    );
    assert_eq!(answer.text(), "241|howdah");
}

#[test]
fn variables_of_the_request_are_read_and_set() {
    let mut application = start();
    let code = "echo json_encode([apache_getenv('REMOTE_ADDR'), apache_getenv('remote_addr', true),
        apache_getenv('NO_SUCH'), apache_getenv('HOME'), getenv('remote_addr'), getenv('HOME')]);";
    assert_eq!(
        application.run(code).text(),
        r#"["127.0.0.1","127.0.0.1",false,false,"127.0.0.1","\/srv"]"#
    );
    let code = "var_dump(apache_setenv('A', '1'), apache_setenv('REMOTE_ADDR', 'changed', true));
        echo apache_getenv('a'), getenv('A'), getenv()['A'], apache_getenv('REMOTE_ADDR'),
        getenv('REMOTE_ADDR'), getenv()['REMOTE_ADDR'];
        include __DIR__ . '/server.inc';";
    application.file("server.inc", "<?php echo ' ', $_SERVER['REMOTE_ADDR'], $_SERVER['A'];");
    assert_eq!(
        application.run(code).text(),
        "bool(true)\nbool(true)\n111changedchangedchanged changed1"
    );
    // The next request starts clean.
    let code = "var_dump(apache_getenv('A'), getenv('A'), apache_getenv('REMOTE_ADDR'));";
    assert_eq!(application.run(code).text(), "bool(false)\nbool(false)\nstring(9) \"127.0.0.1\"\n");
}

#[test]
fn notes_are_kept_for_a_request() {
    let mut application = start();
    let code = "var_dump(apache_note('a'), apache_note('a', '1'), apache_note('A', '2'),
        apache_note('a', null), apache_note('a'));";
    let expected = "bool(false)\nbool(false)\nstring(1) \"1\"\nstring(1) \"2\"\nstring(1) \"2\"\n";
    for _ in 0..2 {
        assert_eq!(application.run(code).text(), expected);
    }
}

#[test]
fn hostile_variables_and_notes_are_survived() {
    let mut application = start();
    let answer = application.run(
        "apache_setenv(\"a\\0b\", \"c\\0d\"); echo apache_getenv('a'), apache_getenv(\"a\\0x\");
         apache_setenv('', 'empty'); echo apache_getenv(''); apache_note('', ''); $_SERVER;
         for ($i = 0; $i < 20000; $i++) { apache_setenv(\"N$i\", 'x'); apache_note(\"N$i\", 'x'); }
         echo apache_getenv('n19999'), count(getenv()) > 20000;
         apache_setenv('BIG', str_repeat('x', 1 << 20)); echo strlen(apache_getenv('big'));
         class Late { function __destruct() \
         { apache_setenv('late', '1'); echo apache_getenv('LATE'); } }
         $late = new Late; register_shutdown_function(function () { echo apache_note('n1'); });",
    );
    assert_eq!(answer.text(), "ccemptyx11048576x1");
    let lines: usize = answer.fields.iter().map(String::len).sum();
    assert!(lines < 8192, "{lines} bytes of header lines");
    let answer =
        application.run("while (true) { apache_setenv('N' . ++$i, str_repeat('x', 9999)); }");
    assert!(answer.logged("Allowed memory size"), "{answer:?}");
    assert_eq!(application.run("echo json_encode(apache_getenv('N1'));").text(), "false");
}

#[test]
fn the_router_is_told_variables_that_a_script_has_set() {
    let mut application = start();
    let answer = application.run(
        "apache_setenv('no-gzip', '1'); apache_setenv('long', str_repeat('x', 300)); echo 'x'; \
         flush();
         apache_setenv('late', '1');",
    );
    let lines: Vec<_> = answer.fields.iter().filter(|line| line.starts_with('\x01')).collect();
    assert_eq!(lines, ["\x01env:no-gzip=1"]);
}

#[test]
fn a_worker_script_takes_credentials_and_no_settings() {
    let directory = tempfile::tempdir().unwrap();
    harness::open_to_all(directory.path());
    let path = directory.path().join("worker.php");
    let handler = "ini_get('precision') . ($_SERVER['PHP_AUTH_USER'] ?? '-')
        . json_encode([apache_getenv('A'), apache_note('B', '1'), apache_setenv('A', '1')])";
    let code =
        format!("<?php while (frankenphp_handle_request(function () {{ echo {handler}; }}));");
    std::fs::write(&path, code).unwrap();
    let mut application = start_with(&|spec| {
        spec.worker = Some(WorkerScript {
            script: path.display().to_string(),
            root: directory.path().display().to_string(),
            warm_up: None,
            has_fallback: false,
            watch: Vec::new(),
        });
    });
    let request = Request::get(&path, directory.path())
        .with(VALUES, values(&[("precision", "5"), ("engine", "0")]))
        .with(AUTHORIZATION, "Basic YTpi");
    for _ in 0..3 {
        let answer = send(&mut application, &request);
        assert_eq!(answer.text(), "14a[false,false,true]");
        assert_eq!(answer.done.unwrap().retirement, None);
    }
}
