<?php

/**
 * The front controller: every address that is no file of public/ ends up here.
 *
 * It loads the classes, answers the request, and afterwards, when the client already has its
 * answer, does the housekeeping that nobody should wait for.
 */

declare(strict_types=1);

namespace Howdah\Demo;

if (PHP_VERSION_ID < 80200) {
    http_response_code(500);
    exit('This site needs PHP 8.2 or newer; this is PHP ' . PHP_VERSION . ".\n");
}

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, __NAMESPACE__ . '\\')) {
        $file = dirname(__DIR__) . '/src/' . strtr(substr($class, strlen(__NAMESPACE__) + 1), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
require dirname(__DIR__) . '/src/functions.php';

// Messages belong in the log. On the page they would tell strangers about the machine.
ini_set('display_errors', '0');
error_reporting(E_ALL);
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    if ((error_reporting() & $level) === 0) {
        return false; // silenced with @
    }
    throw new \ErrorException($message, 0, $level, $file, $line);
});

$request = Request::fromGlobals();
$app = new App($request, dirname(__DIR__));
$app->respond()->send($request);

if (function_exists('fastcgi_finish_request')) {
    fastcgi_finish_request();
}
$app->afterwards();
