<?php

use Illuminate\Container\Container;
use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Facade;

/**
 * Handles each request in a copy of the booted application, as Octane does: services that know the
 * application are given the copy, and those that have data of a visitor are reset.
 */
class Sandbox
{
    private const SERVICES = ['auth', 'config', 'cookie', 'encrypter', 'files', 'hash', 'router', 'routes',
        'session', 'session.store', 'translator', 'url', 'validator', 'view'];

    public function __construct(private Application $app)
    {
        // A request without a visitor boots what needs one.
        $app->instance('request', Request::create('/'));
        $app->make(Kernel::class)->bootstrap();
        foreach (self::SERVICES as $name) {
            if ($app->bound($name)) {
                $app->make($name);
            }
        }
    }

    public function handle(Request $request): void
    {
        $copy = clone $this->app;
        $this->activate($copy);
        try {
            $this->prepare($copy);
            $kernel = $copy->make(Kernel::class);
            $response = $kernel->handle($request);
            $response->send();
            $kernel->terminate($request, $response);
        } finally {
            $copy->flush();
            $this->app->make('view.engine.resolver')->forget('blade');
            $this->app->make('view.engine.resolver')->forget('php');
            $this->activate($this->app);
        }
    }

    private function activate(Application $app): void
    {
        $app->instance('app', $app);
        $app->instance(Container::class, $app);
        Container::setInstance($app);
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
    }

    private function prepare(Application $copy): void
    {
        $copy->instance('config', clone $copy->make('config'));
        $url = clone $copy->make('url');
        $url->setSessionResolver(static fn () => $copy->make('session'));
        $url->setKeyResolver(static fn () => $copy->make('config')->get('app.key'));
        $copy->instance('url', $url);
        $copy->make(Kernel::class)->setApplication($copy);
        $copy->make('router')->setContainer($copy);
        $copy->make('auth')->setApplication($copy)->forgetGuards();
        $copy->make('cookie')->flushQueuedCookies();
        $copy->make('session')->setContainer($copy);
        $store = $copy->make('session')->driver();
        $store->flush();
        $store->regenerate();
        $copy->make('validator')->setContainer($copy);
        $view = $copy->make('view');
        $view->setContainer($copy);
        $view->share('app', $copy);
        $view->flushState();
    }
}
