<?php
/* The front controller of a tree: prints what it was asked for, and the links of links.txt beside it. */
header('X-From: ' . basename(__FILE__));
$names = ['SCRIPT_NAME', 'PHP_SELF', 'REQUEST_URI', 'QUERY_STRING', 'PATH_INFO', 'ORIG_PATH_INFO', 'REQUEST_METHOD',
    'REDIRECT_STATUS', 'REDIRECT_URL', 'REDIRECT_QUERY_STRING', 'HTTP_AUTHORIZATION', 'REDIRECT_HTTP_AUTHORIZATION',
    'HTTP_MOD_REWRITE', 'REDIRECT_HTTP_MOD_REWRITE', 'front_controller_active', 'HTTPS', 'REMOTE_USER', 'modHeadersAvailable',
    'REDIRECT_BASE', 'BASE'];
echo "<!doctype html><title>front</title>\n<pre>\n";
foreach ($names as $name) {
    if (isset($_SERVER[$name])) {
        echo $name, ' = ', htmlspecialchars($_SERVER[$name]), "\n";
    }
}
foreach ($_GET as $key => $value) {
    echo 'get ', htmlspecialchars("$key = " . json_encode($value)), "\n";
}
echo 'memory_limit = ', ini_get('memory_limit'), "\n</pre>\n";
$links = __DIR__ . '/links.txt';
foreach (is_file($links) ? file($links, FILE_IGNORE_NEW_LINES) : [] as $link) {
    echo '<a href="', htmlspecialchars($link), "\">link</a>\n";
}
