<?php

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Http\Request;

$app = require dirname(__DIR__) . '/application.php';
count_request();
$kernel = $app->make(Kernel::class);
$request = Request::capture();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
between_requests();
