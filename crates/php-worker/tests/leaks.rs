//! Changes that a request to a worker script makes in PHP: they are invisible to the next request,
//! as in the classic mode, or the worker ends, and the reason names the change.

mod harness;

use harness::Application;
use harness::resident::{LOOP, Resident, Script};
use howdah_wire::frame::Retirement;

/// A change, an expression that shows it, and the reason for which the worker ends if the change
/// stays.
type Leak = (&'static str, &'static str, Option<Retirement>);

const LEAKS: &[Leak] = &[
    ("mb_internal_encoding('ISO-8859-1')", "mb_internal_encoding()", None),
    (
        "mb_http_output('SJIS'); ini_set('default_charset', 'ISO-8859-1'); \
         mb_internal_encoding('SJIS')",
        "[mb_internal_encoding(), mb_http_output()]",
        None,
    ),
    (
        "mb_strlen(ini_set('default_charset', 'ISO-8859-1')); mb_ereg_search_init('a')",
        "[mb_internal_encoding(), mb_http_output(), ini_get('default_charset')]",
        None,
    ),
    (
        "mb_internal_encoding('SJIS')",
        "[ini_set('default_charset', 'ISO-8859-2') => mb_internal_encoding(), \
         ini_set('default_charset', 'UTF-8')]",
        None,
    ),
    ("mb_http_output('ISO-8859-1')", "mb_http_output()", None),
    ("mb_substitute_character(0x21)", "mb_substitute_character()", None),
    ("mb_language('ja')", "mb_language()", None),
    ("mb_detect_order(['SJIS', 'ASCII'])", "mb_detect_order()", None),
    ("mb_regex_encoding('EUC-JP')", "mb_regex_encoding()", None),
    ("mb_regex_set_options('i')", "mb_regex_set_options()", None),
    (
        "mb_ereg_search_init('of a visitor', 'v.'); mb_ereg_search()",
        "@mb_ereg_search_getregs()",
        None,
    ),
    ("mb_ereg_search_init('of a visitor')", "mb_internal_encoding()", None),
    ("libxml_use_internal_errors(true)", "libxml_use_internal_errors()", None),
    (
        "libxml_use_internal_errors(true); simplexml_load_string('<secret')",
        "[libxml_get_errors(), libxml_get_last_error()]",
        None,
    ),
    (
        "libxml_set_streams_context(stream_context_create(['http' => ['header' => 'Cookie: a']]))",
        "1",
        Some(Retirement::Xml),
    ),
    (
        "libxml_set_external_entity_loader(fn () => 'data:,loaded')",
        "(new SimpleXMLElement('<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///none\">]><a>&e;</a>',
            LIBXML_NOENT | LIBXML_NOWARNING | LIBXML_NOERROR))->asXML()",
        None,
    ),
    ("Locale::setDefault('de_AT')", "Locale::getDefault()", None),
    ("locale_set_default('de_AT')", "Locale::getDefault()", None),
    ("error_reporting(0)", "[error_reporting(), ini_get('error_reporting')]", None),
    ("ini_set('memory_limit', '64M')", "ini_get('memory_limit')", None),
    ("ini_set('display_errors', '1')", "ini_get('display_errors')", None),
    ("ini_set('precision', '3')", "[ini_get('precision'), (string) (10 / 3)]", None),
    ("ini_set('open_basedir', '/tmp:/usr:/var')", "ini_get('open_basedir')", None),
    ("set_include_path('/tmp')", "get_include_path()", None),
    (
        "iconv_set_encoding('internal_encoding', 'UTF-7')",
        "iconv_get_encoding('internal_encoding')",
        None,
    ),
    ("assert_options(ASSERT_CALLBACK, 'strlen')", "1", Some(Retirement::Settings)),
    ("set_time_limit(9)", "ini_get('max_execution_time')", None),
    ("ignore_user_abort(true)", "ignore_user_abort()", None),
    ("textdomain('visitor')", "textdomain(null)", None),
    ("bindtextdomain('messages', '/tmp')", "bindtextdomain('messages', null)", None),
    (
        "bind_textdomain_codeset('messages', 'UTF-16')",
        "bind_textdomain_codeset('messages', null)",
        Some(Retirement::TextDomain),
    ),
    ("setlocale(LC_ALL, 'C.UTF-8')", "setlocale(LC_ALL, 0)", None),
    ("date_default_timezone_set('Asia/Tokyo')", "date_default_timezone_get()", None),
    ("umask(0)", "umask()", None),
    ("chdir('/')", "getcwd()", None),
    ("putenv('LEAK=1')", "getenv('LEAK')", None),
    ("putenv('PATH')", "getenv('PATH')", None),
    ("srand(1); mt_srand(1)", "mt_rand() === 895547922 || mt_rand() === 895547922", None),
    (
        "gmp_random_seed(1)",
        "function_exists('gmp_random_bits') && gmp_strval(gmp_random_bits(62)) === \
         '499319903450806587'",
        None,
    ),
    (
        "use_soap_error_handler()",
        "function_exists('use_soap_error_handler')
            && [$old = use_soap_error_handler(false), use_soap_error_handler($old)]",
        None,
    ),
    ("gc_disable()", "gc_enabled()", None),
    ("set_error_handler(fn () => true)", "set_error_handler(null)", None),
    ("set_exception_handler(fn () => 1)", "set_exception_handler(null)", None),
    ("ob_implicit_flush()", "ob_get_status(true)", None),
    ("header_register_callback(fn () => header('X-Leak: 1'))", "headers_list()", None),
    ("stream_wrapper_register('own', 'W')", "stream_get_wrappers()", None),
    ("stream_register_wrapper('alias', 'W')", "stream_get_wrappers()", None),
    (
        "stream_wrapper_unregister('data')",
        "[stream_get_wrappers(), @file_get_contents('data:,a')]",
        None,
    ),
    (
        "stream_wrapper_unregister('data'); stream_wrapper_register('data', 'W')",
        "[stream_get_wrappers(), @file_get_contents('data:,a')]",
        None,
    ),
    (
        "stream_filter_register('own.*', 'F')",
        "[stream_get_filters(), stream_filter_register('own.*', 'F')]",
        None,
    ),
    (
        "stream_context_set_default(['http' => ['header' => 'Cookie: of a visitor']])",
        "stream_context_get_options(stream_context_get_default())",
        None,
    ),
    ("mb_parse_str('a=1', $parsed)", "mb_http_input()", None),
    (
        "(new NumberFormatter('en', NumberFormatter::DECIMAL))->parse('x')",
        "function_exists('intl_get_error_code') ? intl_get_error_code() : 0",
        None,
    ),
    ("strtok('secret of a visitor', ' ')", "strtok(' ')", None),
    ("json_decode('{')", "json_last_error()", None),
    ("@preg_match('/(?:\\D+|<\\d+>)*[!?]/', 'foobar foobar foobar')", "preg_last_error()", None),
    (
        "touch('/tmp/howdah-' . getmypid()); is_file('/tmp/howdah-' . getmypid());
            shell_exec('rm /tmp/howdah-' . getmypid())",
        "is_file('/tmp/howdah-' . getmypid())",
        None,
    ),
    ("pcntl_alarm(100)", "pcntl_alarm(0)", None),
    (
        "pcntl_sigprocmask(SIG_BLOCK, [SIGUSR2])",
        "[pcntl_sigprocmask(SIG_BLOCK, [], $old), $old]",
        None,
    ),
    ("pcntl_signal(SIGUSR2, fn () => 1)", "1", Some(Retirement::Signals)),
    ("pcntl_async_signals(true)", "pcntl_async_signals()", Some(Retirement::Signals)),
    ("posix_setsid()", "1", Some(Retirement::Identity)),
];

/// Functions whose effects PHP itself does not undo at the end of a request.
const NOT_UNDONE: [&str; 5] =
    ["mb_regex_set_options", "textdomain", "bindtextdomain", "bind_textdomain_codeset", "pcntl_"];

/// Code for `state`, and for a change: without the extension, it has no effect.
fn guarded(code: &str) -> String {
    let function: String = code
        .trim_start_matches('@')
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect();
    let condition = match code.starts_with("Locale::") {
        true => "class_exists('Locale')".to_owned(),
        false if code.starts_with("(new NumberFormatter") => "class_exists('Locale')".to_owned(),
        false => format!("function_exists('{function}')"),
    };
    format!("if ({condition}) {{ {code}; }}")
}

fn shown(state: &str) -> String {
    format!(
        "try {{ echo json_encode({state}); }} catch (Error $error) {{ echo get_class($error); }}"
    )
}

/// Declarations before the code, in each mode.
const CLASSES: &str = "class_exists('W', false) || eval('class W { public $context; }
    class F extends php_user_filter {}');";

#[test]
fn the_classic_mode_shows_nothing_of_an_earlier_request() {
    let mut application = Application::start(1);
    for (change, state, _) in LEAKS {
        if NOT_UNDONE.iter().any(|function| change.starts_with(function)) {
            continue;
        }
        let state = format!("{CLASSES} {}", shown(state));
        let before = application.run(&state).text();
        application.run(&format!("{CLASSES} {}", guarded(change)));
        assert_eq!(application.run(&state).text(), before, "{change}");
    }
}

#[test]
fn a_request_sees_nothing_of_the_one_before_or_has_another_process() {
    leaks_are_mended("");
    // State of the boot is that of each request.
    leaks_are_mended(
        "if (function_exists('mb_internal_encoding')) {
            mb_internal_encoding('SJIS'); mb_substitute_character(0x3f); mb_detect_order(['UTF-8']);
            mb_regex_set_options('x'); mb_http_output('UTF-8');
         }
         if (function_exists('textdomain')) {
            textdomain('boot'); bindtextdomain('messages', '/usr');
         }
         error_reporting(E_ALL & ~E_NOTICE); ini_set('precision', '5'); session_name('BOOT');
         ini_set('memory_limit', '96M'); set_include_path('/usr'); set_time_limit(55);
         libxml_use_internal_errors(true); set_error_handler('strlen'); umask(0027);
         stream_wrapper_register('boot', 'W'); stream_filter_register('boot.*', 'F');
         stream_context_set_default(['http' => ['header' => 'X: of the boot']]);",
    );
}

fn leaks_are_mended(boot: &str) {
    let script = Script::new(&format!("{CLASSES} {boot} {LOOP}"));
    let mut resident = script.start(1);
    for (change, state, reason) in LEAKS {
        let state = shown(state);
        let fresh = resident.text(&state);
        match reason {
            Some(reason) => {
                let answer = resident.run(&guarded(change));
                match answer.done.unwrap().retirement {
                    // Without the extension, or the right.
                    None => {}
                    found => {
                        assert_eq!(found, Some(*reason), "{boot} {change}");
                        resident.replace();
                    }
                }
            }
            None => assert_eq!(resident.text(&guarded(change)), "", "{boot} {change}"),
        }
        assert_eq!(resident.text(&state), fresh, "{boot} {change}");
    }
}

#[test]
fn a_request_that_registers_a_wrapper_leaves_no_memory() {
    let script = Script::new(&format!("{CLASSES} {LOOP}"));
    let mut resident = script.start(1);
    let register = "for ($i = 0; $i < 100; $i++) stream_wrapper_register('own' . $i, 'W');
        for ($i = 0; $i < 100; $i++) stream_wrapper_unregister('own' . $i);
        echo memory_get_usage();";
    let used = |text: String| text.parse::<i64>().unwrap();
    for _ in 0..5 {
        resident.text(register);
    }
    let before = used(resident.text(register));
    for _ in 0..20 {
        resident.text(register);
    }
    let grown = used(resident.text(register)) - before;
    assert!(grown < 20 * 100, "{grown} bytes");
}

#[test]
fn a_stream_of_a_wrapper_that_has_gone_can_still_be_used() {
    let script = Script::new(&format!(
        "class Kept {{
            public $context;
            function stream_open($path, $mode, $options, &$opened) {{ return true; }}
            function stream_read($count) {{ return 'kept'; }}
            function stream_eof() {{ return true; }}
            function stream_close() {{ $GLOBALS['closed'] = 1; }}
         }}
         {LOOP}"
    ));
    let mut resident = script.start(1);
    resident.text(
        "stream_wrapper_register('kept', 'Kept'); $GLOBALS['open'] = fopen('kept://a', 'r');",
    );
    resident.text("stream_wrapper_register('other', 'Kept'); $a = str_repeat('x', 64);");
    assert_eq!(resident.text("echo fread($GLOBALS['open'], 4);"), "kept");
    assert_eq!(resident.text("fclose($GLOBALS['open']); echo $GLOBALS['closed'];"), "1");
}

#[test]
fn what_the_request_that_warms_up_has_set_belongs_to_the_boot() {
    let mut script = Script::new(
        "while (frankenphp_handle_request(function () {
            if ($_SERVER['REQUEST_URI'] === '/warm') {
                set_error_handler(function () { echo 'handled '; return true; });
                date_default_timezone_set('Europe/Berlin');
                setlocale(LC_ALL, 'C.UTF-8');
                return;
            }
            eval($_SERVER['HTTP_CODE']);
        }));",
    );
    script.warm_up = Some("/warm".to_owned());
    let mut resident = script.start(1);
    let state = "echo $undefined, date_default_timezone_get(), ' ', setlocale(LC_ALL, 0);";
    for _ in 0..2 {
        assert_eq!(resident.text(state), "handled Europe/Berlin C.UTF-8");
        resident.text(
            "set_error_handler(null); date_default_timezone_set('UTC'); setlocale(LC_ALL, 'C');",
        );
    }
}

#[test]
fn an_alarm_of_the_boot_comes_although_a_request_has_set_another() {
    // The process keeps workers from being forked from a template: an alarm is not inherited.
    let script = Script::new(&format!(
        "$process = proc_open('sleep 100', [], $pipes);
         if (function_exists('pcntl_alarm')) pcntl_alarm(1000);
         {LOOP}"
    ));
    let mut resident = script.start(1);
    if resident.text("echo (int) function_exists('pcntl_alarm');") == "1" {
        resident.text("pcntl_alarm(50); pcntl_alarm(0);");
        let left: u32 = resident.text("echo pcntl_alarm(0);").parse().unwrap();
        assert!((900..=1000).contains(&left), "{left}");
    }
}

/// An object that stores sessions may set them up once for all requests, as that of Symfony does.
#[test]
fn what_a_request_sets_up_for_sessions_stays() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    resident.text(
        "ini_set('session.name', 'OWN'); session_cache_limiter(''); ini_set('precision', '3');",
    );
    let state =
        "echo session_name(), '|', session_cache_limiter(), '|', 10 / 3 > 3.33 ? 'ok' : '';";
    assert_eq!(resident.text(state), "OWN||ok");
}

#[test]
fn a_superglobal_that_a_request_unsets_is_there_for_the_next() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let request = script.request("echo json_encode($_REQUEST);").with("QUERY_STRING", "a=1");
    for _ in 0..2 {
        assert_eq!(resident.send(&request).text(), r#"{"a":"1"}"#);
        resident.text("unset($GLOBALS['_REQUEST'], $GLOBALS['_SERVER'], $GLOBALS['_GET']);");
    }
}

#[test]
fn each_response_is_compressed_as_its_own_client_accepts() {
    let script = Script::new(LOOP);
    for setting in ["0", "1"] {
        let application = Application::start_with(1, &|spec| {
            spec.worker = Some(script.spec());
            spec.ini_user = vec![("zlib.output_compression".into(), setting.into())];
        });
        let mut resident = Resident { application, script: &script };
        let code = format!(
            "if ('{setting}' === '0') ob_start('ob_gzhandler'); echo str_repeat('a', 100);"
        );
        if resident.text("echo (int) function_exists('gzencode');") == "0" {
            return;
        }
        for accepted in ["gzip", "", "deflate", "gzip"] {
            let request = script.request(&code).with("HTTP_ACCEPT_ENCODING", accepted);
            let answer = resident.send(&request);
            let encoding = answer.field("Content-Encoding");
            assert_eq!(encoding.unwrap_or_default(), accepted, "{setting}: {answer:?}");
            assert_eq!(answer.text() == "a".repeat(100), accepted.is_empty(), "{setting}");
        }
    }
}

#[test]
fn a_session_that_cannot_be_stored_stays_as_it_was() {
    let classic = Application::start(1);
    let script = Script::new(LOOP);
    let resident = script.start(2);
    let id = format!("broken{}", std::process::id());
    let start =
        format!("session_save_path(sys_get_temp_dir()); session_id('{id}'); session_start(); ");
    for (mut application, is_resident) in [(classic, false), (resident.application, true)] {
        let mut run = |code: &str| {
            let request = if is_resident {
                script.request(&format!("{start} {code}"))
            } else {
                application.script(&format!("{start} {code}"))
            };
            application.send(&request).wait(&mut application)
        };
        run("$_SESSION['user'] = 'ann';");
        for end in ["", "exit;"] {
            let answer = run(&format!("$_SESSION['list'] = [[fn () => 1]]; {end}"));
            assert!(answer.logged("Serialization of 'Closure' is not allowed"), "{answer:?}");
            assert_eq!(answer.done.unwrap().retirement.is_some(), is_resident && !end.is_empty());
        }
        let answer = run("echo json_encode($_SESSION); session_destroy();");
        assert_eq!(answer.text(), r#"{"user":"ann"}"#, "resident: {is_resident}");
    }
}

#[test]
fn the_constant_of_a_session_is_that_of_its_visitor() {
    let script = Script::new(&format!(
        "ini_set('session.save_path', sys_get_temp_dir()); ini_set('session.use_only_cookies', \
         '0'); {LOOP}"
    ));
    let mut resident = script.start(1);
    if resident.text("echo extension_loaded('session');") != "1" {
        return;
    }
    let start = "session_start(); echo constant('SID'); session_destroy();";
    let first = resident.text(start);
    assert!(first.starts_with("PHPSESSID="), "{first}");
    assert_eq!(resident.text("echo constant('SID');"), "");
    let second = resident.text(start);
    assert!(second.starts_with("PHPSESSID=") && second != first, "{second}");
}

#[test]
fn random_numbers_of_the_boot_are_not_repeated_by_each_worker() {
    let numbers = "mt_rand(), rand(), lcg_value(), bin2hex(random_bytes(4)), uniqid('', true),
        function_exists('openssl_random_pseudo_bytes') ? bin2hex(openssl_random_pseudo_bytes(4)) \
        : uniqid(),
        function_exists('gmp_random_bits') ? gmp_strval(gmp_random_bits(62)) : uniqid()";
    let script = Script::new(&format!("json_encode([{numbers}]); {LOOP}"));
    let mut resident = script.start(1);
    let numbers = format!("echo implode(' ', [{numbers}]);");
    let first = resident.text(&numbers);
    resident.run("exit;");
    resident.replace();
    let second = resident.text(&numbers);
    for (one, other) in first.split(' ').zip(second.split(' ')) {
        assert_ne!(one, other, "{first} {second}");
    }
}
