//! Data of the request in a script: `$_SERVER`, `$_ENV`, `getenv()`, credentials, header functions,
//! settings per directory.

mod harness;

use harness::Application;

#[test]
fn a_script_says_hello() {
    let mut application = Application::start(1);
    assert!(application.version.starts_with("8."), "{}", application.version);
    let answer = application.run("echo 'Hello world';");
    assert_eq!((answer.status, answer.text().as_str()), (200, "Hello world"));
    assert_eq!(answer.field("Content-Type"), Some("text/html; charset=UTF-8"));
    assert!(answer.done.unwrap().peak_memory > 0);
}

#[test]
fn server_variables_are_those_of_a_fastcgi_server() {
    let mut application = Application::start(1);
    let request = application
        .script("echo json_encode($_SERVER, JSON_UNESCAPED_SLASHES);")
        .with("QUERY_STRING", "a=1&b[]=2")
        .with("PATH_INFO", "/extra/path")
        .with("HTTP_X_FORWARDED_FOR", "10.0.0.1")
        .with("HTTP_COOKIE", "a=b");
    let answer = application.send(&request).wait(&mut application);
    let text = answer.text();
    let script = request.params.iter().find(|(n, _)| n == b"SCRIPT_NAME").unwrap();
    let script = String::from_utf8(script.1.clone()).unwrap();
    for expected in [
        "\"FCGI_ROLE\":\"RESPONDER\"".to_owned(),
        "\"QUERY_STRING\":\"a=1&b[]=2\"".to_owned(),
        "\"PATH_INFO\":\"/extra/path\"".to_owned(),
        format!("\"PHP_SELF\":\"{script}/extra/path\""),
        format!("\"SCRIPT_NAME\":\"{script}\""),
        "\"HTTP_X_FORWARDED_FOR\":\"10.0.0.1\"".to_owned(),
        "\"HTTP_COOKIE\":\"a=b\"".to_owned(),
        "\"CONTENT_TYPE\":\"\"".to_owned(),
        "\"USER\":\"www\"".to_owned(),
        "\"HOME\":\"/srv\"".to_owned(),
        "\"REQUEST_TIME\":".to_owned(),
        "\"REQUEST_TIME_FLOAT\":".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected} is not in {text}");
    }
    assert!(!text.contains("\"argv\":[\""), "no arguments from a query string: {text}");
}

#[test]
fn the_query_string_becomes_no_argument() {
    let mut application = Application::start(1);
    let request = application
        .script("echo (int) ini_get('allow_url_include'), '|', $_SERVER['QUERY_STRING'];")
        .with("QUERY_STRING", "-d+allow_url_include=1");
    let answer = application.send(&request).wait(&mut application);
    assert_eq!(answer.text(), "0|-d+allow_url_include=1");
}

#[test]
fn getenv_finds_parameters_and_the_environment() {
    let mut application = Application::start_with(1, &|spec| {
        spec.environment = vec![("APP_ENV".into(), "test".into())];
    });
    let answer = application.run(
        "echo getenv('SERVER_NAME'), '|', getenv('APP_ENV'), '|', $_SERVER['APP_ENV'], '|', \
         var_export(getenv('NO_SUCH'), true), '|', isset(getenv()['REMOTE_ADDR']);",
    );
    assert_eq!(answer.text(), "localhost|test|test|false|1");
}

#[test]
fn a_proxy_header_is_not_the_environment() {
    let mut application = Application::start(1);
    let request = application
        .script("echo var_export(getenv('HTTP_PROXY'), true);")
        .with("HTTP_PROXY", "http://evil/");
    assert_eq!(application.send(&request).wait(&mut application).text(), "false");
}

#[test]
fn the_input_filter_sees_server_variables() {
    let mut application = Application::start(1);
    let answer = application.run("echo filter_input(INPUT_SERVER, 'REMOTE_ADDR');");
    assert_eq!(answer.text(), "127.0.0.1");
}

#[test]
fn basic_and_digest_credentials_are_decoded() {
    let mut application = Application::start(1);
    let code = "echo $_SERVER['PHP_AUTH_USER'] ?? '-', '|', $_SERVER['PHP_AUTH_PW'] ?? '-', '|', \
                $_SERVER['PHP_AUTH_DIGEST'] ?? '-';";
    let basic = application.script(code).with("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw==");
    assert_eq!(application.send(&basic).wait(&mut application).text(), "user|pa:ss|-");
    let digest = application.script(code).with("HTTP_AUTHORIZATION", "Digest username=\"u\"");
    assert_eq!(application.send(&digest).wait(&mut application).text(), "-|-|username=\"u\"");
    // No values are left for the next request.
    assert_eq!(application.run(code).text(), "-|-|-");
}

#[test]
fn cookies_and_query_are_parsed() {
    let mut application = Application::start(1);
    let request = application
        .script("echo $_COOKIE['x'], $_GET['b'][1], $_REQUEST['c'];")
        .with("HTTP_COOKIE", "x=1; y=2")
        .with("QUERY_STRING", "b[1]=2&c=3");
    assert_eq!(application.send(&request).wait(&mut application).text(), "123");
}

#[test]
fn request_headers_have_their_names_back() {
    let mut application = Application::start(1);
    let request = application
        .script("echo json_encode([getallheaders(), apache_request_headers() == getallheaders()]);")
        .with("HTTP_X_REQUESTED_WITH", "XMLHttpRequest")
        .post("text/plain", "hi");
    let text = application.send(&request).wait(&mut application).text();
    assert_eq!(
        text,
        r#"[{"Content-Type":"text\/plain","Content-Length":"2","Host":"localhost","X-Requested-With":"XMLHttpRequest"},true]"#
    );
}

#[test]
fn response_headers_can_be_read_back() {
    let mut application = Application::start(1);
    let answer = application.run(
        "header_remove('X-Powered-By'); header('X-A:  1'); header('X-B: 2');
         echo json_encode(apache_response_headers());",
    );
    assert_eq!(answer.text(), r#"{"X-A":"1","X-B":"2"}"#);
}

#[test]
fn the_sapi_is_one_that_opcache_and_applications_know() {
    let mut application = Application::start(1);
    let answer = application.run(
        "echo PHP_SAPI, '|', php_sapi_name(), '|', (int) function_exists('fastcgi_finish_request'),
         '|', (int) function_exists('dl'), '|', PHP_BINARY;",
    );
    assert_eq!(answer.text(), "fpm-fcgi|fpm-fcgi|1|0|");
}

#[test]
fn php_runs_without_opcache() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![("opcache.enable".into(), "0".into())];
    });
    let code = "$opcache = function_exists('opcache_get_status') && opcache_get_status();
                echo (int) $opcache, (int) extension_loaded('unit');";
    for _ in 0..2 {
        assert_eq!(application.run(code).text(), "01");
    }
}

#[test]
fn a_user_ini_counts_from_the_document_root_down_to_the_script() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![("memory_limit".into(), "77M".into())];
    });
    application.file(".user.ini", "arg_separator.output = \"#\"\nprecision = 5\n");
    application.file("sub/.user.ini", "precision = 6\nmemory_limit = 99M\n");
    let code = "<?php echo ini_get('arg_separator.output'), ini_get('precision'), '|',
                ini_get('memory_limit');";
    let above = application.file("a.php", code);
    let below = application.file("sub/b.php", code);
    let root = application.root.path().to_owned();
    let mut get = |path| {
        let request = harness::Request::get(path, &root);
        application.send(&request).wait(&mut application).text()
    };
    assert_eq!(get(&below), "#6|77M");
    assert_eq!(get(&above), "#5|77M");
    assert_eq!(get(&below), "#6|77M", "from the cache");
}

#[test]
fn a_user_ini_above_the_document_root_does_not_count() {
    let mut application = Application::start(1);
    application.file(".user.ini", "precision = 5\n");
    let script = application.file("public/a.php", "<?php echo ini_get('precision');");
    let request = harness::Request::get(&script, &application.root.path().join("public"));
    assert_eq!(application.send(&request).wait(&mut application).text(), "14");
}

#[test]
fn administrators_settings_hold_and_users_settings_can_be_changed() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![
            ("precision".into(), "7".into()),
            ("opcache.max_accelerated_files".into(), "4000".into()),
            ("disable_functions".into(), "passthru, system".into()),
        ];
        spec.ini_user = vec![
            ("precision".into(), "3".into()),
            ("user_agent".into(), "it's \"${HOME}\" ; me".into()),
        ];
    });
    let answer = application.run(
        "ini_set('precision', 9); echo ini_get('precision'), '|', ini_get('user_agent'), '|';
         ini_set('user_agent', 'x'); echo ini_get('user_agent'), '|',
         ini_get('opcache.max_accelerated_files'), '|', (int) function_exists('system'),
         (int) function_exists('passthru'), (int) function_exists('exec');",
    );
    assert_eq!(answer.text(), "7|it's \"${HOME}\" ; me|x|4000|001");
    // Settings of a script end with it.
    assert_eq!(application.run("echo ini_get('user_agent');").text(), "it's \"${HOME}\" ; me");
}
