<?php

/**
 * Builds a Laravel application for the tests.
 */

use Illuminate\Contracts\Console\Kernel as ConsoleContract;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel as HttpContract;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Console\Kernel as ConsoleKernel;
use Illuminate\Foundation\Exceptions\Handler;

require_once 'Illuminate/autoload.php';
require_once 'Illuminate/Foundation/helpers.php';
require_once __DIR__ . '/state.php';
require_once __DIR__ . '/HttpKernel.php';
require_once __DIR__ . '/KnownUsers.php';
require_once __DIR__ . '/Pages.php';

putenv('E2E_SETTING=boot');
foreach (['SERVICES', 'PACKAGES', 'CONFIG', 'ROUTES', 'EVENTS'] as $name) {
    putenv("APP_{$name}_CACHE=" . __DIR__ . '/var/cache/' . strtolower($name) . '.php');
}

$app = new Application(__DIR__);
$app->useStoragePath(__DIR__ . '/var');
$app->singleton(HttpContract::class, HttpKernel::class);
$app->singleton(ConsoleContract::class, ConsoleKernel::class);
$app->singleton(ExceptionHandler::class, Handler::class);

return $app;
