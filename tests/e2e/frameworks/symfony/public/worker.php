<?php

use Symfony\Component\HttpFoundation\Request;

// The loop of Symfony's runner for FrankenPHP.
ignore_user_abort(true);
$kernel = require dirname(__DIR__) . '/application.php';
$booted = array_filter($_SERVER, static fn ($name) => !str_starts_with($name, 'HTTP_'), ARRAY_FILTER_USE_KEY);
$booted['APP_RUNTIME_MODE'] = 'web=1&worker=1';
do {
    $exchange = null;
    $goes_on = frankenphp_handle_request(static function () use ($kernel, $booted, &$exchange) {
        count_request();
        $_SERVER += $booted;
        $request = Request::createFromGlobals();
        $response = $kernel->handle($request);
        $response->send();
        $exchange = [$request, $response];
    });
    if ($exchange) {
        $kernel->terminate(...$exchange);
    }
    between_requests();
    gc_collect_cycles();
} while ($goes_on);
