<?php
/* Prints what a script sees, a line for each value; `?status=` sets a status, `?env=a,b` asks apache_getenv(). */
$show = fn ($value) => addcslashes(is_array($value) ? json_encode($value) : (string) $value, "\0..\37\177..\377");
if (isset($_GET['status'])) {
    http_response_code((int) $_GET['status']);
}
header('X-From: ' . basename(__FILE__));
header('Content-Type: text/plain; charset=UTF-8');
echo 'script ', basename(__FILE__), "\n";
ksort($_SERVER);
foreach ($_SERVER as $key => $value) {
    echo 'server ', $show($key), ' = ', $show($value), "\n";
}
foreach (['get' => $_GET, 'post' => $_POST, 'cookie' => $_COOKIE] as $name => $values) {
    foreach ($values as $key => $value) {
        echo $name, ' ', $show($key), ' = ', $show($value), "\n";
    }
}
foreach (array_filter(explode(',', $_GET['env'] ?? '')) as $key) {
    echo 'getenv ', $key, ' = ', $show(var_export(apache_getenv($key), true)), "\n";
}
$input = file_get_contents('php://input');
echo $input === '' ? '' : 'input ' . $show($input) . "\n";
