<?php

use Illuminate\Http\Request;

// Follows the contract of Octane's script of the same name.
if (empty($_SERVER['FRANKENPHP_WORKER']) || !function_exists('frankenphp_handle_request')) {
    exit('This script runs in worker mode only.');
}
ignore_user_abort(true);
$directory = $_SERVER['APP_BASE_PATH'] ?? dirname(__DIR__);
$app = require "$directory/application.php";
require "$directory/Sandbox.php";
$sandbox = new Sandbox($app);
$maximum = (int) ($_SERVER['MAX_REQUESTS'] ?? 0);
$count = 0;
do {
    $goes_on = frankenphp_handle_request(static function () use ($sandbox) {
        count_request();
        try {
            $sandbox->handle(Request::createFromGlobals());
        } catch (Throwable $problem) {
            error_log((string) $problem, 4);
            http_response_code(500);
            echo 'Internal Server Error';
        }
    });
    between_requests();
    gc_collect_cycles();
} while ($goes_on && ++$count !== $maximum);
