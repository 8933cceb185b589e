<?php

use Symfony\Component\HttpFoundation\Request;

$kernel = require dirname(__DIR__) . '/application.php';
count_request();
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
between_requests();
