<?php

use Illuminate\Cookie\Middleware\AddQueuedCookiesToResponse;
use Illuminate\Cookie\Middleware\EncryptCookies;
use Illuminate\Foundation\Http\Kernel;
use Illuminate\Foundation\Http\Middleware\ValidatePostSize;
use Illuminate\Foundation\Http\Middleware\VerifyCsrfToken;
use Illuminate\Routing\Middleware\SubstituteBindings;
use Illuminate\Session\Middleware\StartSession;
use Illuminate\View\Middleware\ShareErrorsFromSession;

class HttpKernel extends Kernel
{
    protected $middleware = [ValidatePostSize::class];

    protected $middlewareGroups = [
        'web' => [
            EncryptCookies::class,
            AddQueuedCookiesToResponse::class,
            StartSession::class,
            ShareErrorsFromSession::class,
            Tokens::class,
            SubstituteBindings::class,
        ],
    ];
}

/** Asks for the token of a form, but not for one of an upload or of JSON. */
class Tokens extends VerifyCsrfToken
{
    protected $except = ['json', 'upload', 'error'];
}
