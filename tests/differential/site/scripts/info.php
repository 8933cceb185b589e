<?php
/* What PHP says about itself: settings, functions and the environment. */
require __DIR__ . '/../probe.php';

$what = [
    'ini' => fn () => array_map(fn ($name) => ini_get($name), [
        'memory_limit' => 'memory_limit', 'post_max_size' => 'post_max_size',
        'upload_max_filesize' => 'upload_max_filesize', 'max_file_uploads' => 'max_file_uploads',
        'max_execution_time' => 'max_execution_time', 'max_input_time' => 'max_input_time',
        'max_input_vars' => 'max_input_vars', 'display_errors' => 'display_errors',
        'log_errors' => 'log_errors', 'html_errors' => 'html_errors',
        'error_reporting' => 'error_reporting', 'output_buffering' => 'output_buffering',
        'implicit_flush' => 'implicit_flush', 'variables_order' => 'variables_order',
        'request_order' => 'request_order', 'register_argc_argv' => 'register_argc_argv',
        'auto_globals_jit' => 'auto_globals_jit', 'short_open_tag' => 'short_open_tag',
        'expose_php' => 'expose_php', 'default_charset' => 'default_charset',
        'default_mimetype' => 'default_mimetype', 'allow_url_fopen' => 'allow_url_fopen',
        'allow_url_include' => 'allow_url_include', 'enable_dl' => 'enable_dl',
        'file_uploads' => 'file_uploads', 'session.save_path' => 'session.save_path',
        'session.gc_probability' => 'session.gc_probability',
        'session.sid_length' => 'session.sid_length', 'zend.assertions' => 'zend.assertions',
        'precision' => 'precision', 'serialize_precision' => 'serialize_precision',
        'opcache.enable' => 'opcache.enable', 'user_ini.filename' => 'user_ini.filename',
        'user_ini.cache_ttl' => 'user_ini.cache_ttl', 'open_basedir' => 'open_basedir',
        'include_path' => 'include_path', 'cgi.fix_pathinfo' => 'cgi.fix_pathinfo',
        'default_socket_timeout' => 'default_socket_timeout', 'zend.exception_ignore_args' => 'zend.exception_ignore_args',
    ]),
    'sapi' => fn () => ['name' => php_sapi_name(), 'constant' => PHP_SAPI, 'version' => PHP_VERSION, 'zts' => PHP_ZTS],
    'functions' => fn () => array_combine(
        $names = ['fastcgi_finish_request', 'getallheaders', 'apache_request_headers', 'apache_response_headers',
            'fpm_get_status', 'headers_send', 'apache_setenv', 'apache_getenv', 'virtual', 'dl', 'cli_set_process_title'],
        array_map('function_exists', $names)
    ),
    'opcache' => fn () => ['enabled' => (bool) (opcache_get_status(false)['opcache_enabled'] ?? false)],
    'headers' => fn () => ['seen' => array_change_key_case(getallheaders(), CASE_LOWER)],
    'response-headers' => function () {
        header('X-One: 1');
        header('X-Two: 2');
        setcookie('a', 'b');
        return ['list' => headers_list(), 'apache' => apache_response_headers(), 'code' => http_response_code()];
    },
    'environment' => fn () => ['proxy' => getenv('HTTP_PROXY'), 'pathinfo' => getenv('PATH_INFO'),
        'method' => getenv('REQUEST_METHOD'), 'secret' => getenv('DIFFERENTIAL_SECRET'), 'env' => array_keys($_ENV)],
    'filter' => fn () => ['method' => filter_input(INPUT_SERVER, 'REQUEST_METHOD'),
        'get' => filter_input(INPUT_GET, 'a', FILTER_VALIDATE_INT)],
    'argv' => fn () => ['argv' => isset($argv), 'global' => isset($GLOBALS['argv']), 'server' => isset($_SERVER['argv'])],
    'connection' => fn () => ['status' => connection_status(), 'aborted' => connection_aborted(),
        'ignore' => ignore_user_abort(), 'sent' => headers_sent(), 'level' => ob_get_level(), 'handlers' => ob_list_handlers()],
    'constants' => fn () => ['stdin' => defined('STDIN'), 'stdout' => defined('STDOUT'), 'stderr' => defined('STDERR'),
        'os' => PHP_OS_FAMILY],
    'input-twice' => fn () => ['one' => file_get_contents('php://input'), 'two' => file_get_contents('php://input'),
        'part' => file_get_contents('php://input', false, null, 2, 3)],
    'input-stream' => function () {
        $stream = fopen('php://input', 'r');
        $start = fread($stream, 4);
        fseek($stream, 1);
        return ['start' => $start, 'again' => fread($stream, 3), 'rest' => stream_get_contents($stream), 'end' => feof($stream)];
    },
    'dirty' => function () {
        ini_set('precision', '5');
        putenv('LEFT_OVER=1');
        setlocale(LC_ALL, 'C.UTF-8');
        umask(0);
        chdir('/');
        $GLOBALS['left_over'] = 1;
        set_error_handler(fn () => true);
        header_register_callback(fn () => null);
        return ['done' => true];
    },
    'clean' => fn () => ['precision' => ini_get('precision'), 'environment' => getenv('LEFT_OVER'),
        'locale' => setlocale(LC_ALL, '0'), 'umask' => umask(), 'cwd' => basename(getcwd()),
        'global' => isset($GLOBALS['left_over']), 'handler' => set_error_handler(null) !== null],
];

$ask = $_GET['ask'] ?? '';
$answer = isset($what[$ask]) ? $what[$ask]() : ['error' => 'no such question'];
header('X-From: php');
header('Content-Type: application/json');
echo json_encode(printable($answer), JSON_UNESCAPED_SLASHES), "\n";
