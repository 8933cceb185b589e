<?php

/**
 * A Slim application for the tests, with PSR-7 messages of Guzzle and PHP's own sessions.
 */

use GuzzleHttp\Psr7\Response;
use GuzzleHttp\Psr7\ServerRequest;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Slim\App;

require_once 'Slim/autoload.php';
require_once 'GuzzleHttp/Psr7/autoload.php';
require_once __DIR__ . '/state.php';
require_once __DIR__ . '/pages.php';

putenv('E2E_SETTING=boot');
ini_set('session.save_path', __DIR__ . '/var/sessions');
ini_set('session.use_strict_mode', '1');

/** Builds the application with all routes. */
function application(): App
{
    $app = new App(['settings' => ['displayErrorDetails' => false]]);
    $app->add('with_session');
    add_pages($app);
    // Slim 3 is older than PHP 8.1: its classes are deprecated as they are loaded.
    $app->getContainer()->get('router');
    $app->getContainer()->get('foundHandler');
    error_clear_last();
    return $app;
}

/** Middleware that opens the session of the visitor. PHP or the server closes it. */
function with_session(ServerRequestInterface $request, ResponseInterface $response, callable $next)
{
    // An identifier that no session can have would be an error.
    if (!preg_match('/^[a-zA-Z0-9,-]{22,256}$/', $_COOKIE['PHPSESSID'] ?? str_repeat('0', 22))) {
        unset($_COOKIE['PHPSESSID']);
    }
    // In worker mode a handler stays until another one is set.
    session_set_save_handler(new SessionHandler());
    session_start(['cookie_httponly' => true, 'cookie_samesite' => 'Lax']);
    return $next($request, $response);
}

/** Handles one request from PHP's variables and sends the answer. */
function answer(App $app): void
{
    count_request();
    $request = ServerRequest::fromGlobals();
    $response = $app->process($request, new Response());
    if (!headers_sent()) {
        http_response_code($response->getStatusCode());
        foreach ($response->getHeaders() as $name => $values) {
            foreach ($values as $number => $value) {
                header("$name: $value", $number === 0 && strcasecmp($name, 'Set-Cookie') !== 0);
            }
        }
    }
    if ($request->getMethod() === 'HEAD') {
        return;
    }
    $body = $response->getBody();
    if ($body->isSeekable()) {
        $body->rewind();
    }
    while (!$body->eof()) {
        echo $body->read(16384);
    }
}
