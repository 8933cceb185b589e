<?php

/**
 * A Symfony application for the tests: one class with the configuration and all routes.
 */

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Bundle\SecurityBundle\SecurityBundle;
use Symfony\Bundle\TwigBundle\TwigBundle;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;
use Symfony\Component\Security\Core\User\InMemoryUser;

class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
        yield new TwigBundle();
        yield new SecurityBundle();
    }

    public function getProjectDir(): string
    {
        return __DIR__;
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            'secret' => 'used by this test only',
            'http_method_override' => false,
            'session' => [
                'handler_id' => 'session.handler.native_file',
                'save_path' => '%kernel.project_dir%/var/sessions',
                'storage_factory_id' => 'session.storage.factory.native',
                'cookie_samesite' => 'lax',
            ],
            'csrf_protection' => true,
            'router' => ['utf8' => true],
        ]);
        $container->extension('twig', ['default_path' => '%kernel.project_dir%/templates']);
        $users = [];
        for ($number = 0; $number < 32; $number++) {
            $users["user$number"] = ['password' => "secret$number", 'roles' => ['ROLE_USER']];
        }
        $container->extension('security', [
            'enable_authenticator_manager' => true,
            'password_hashers' => [InMemoryUser::class => 'plaintext'],
            'providers' => ['users' => ['memory' => ['users' => $users]]],
            'firewalls' => ['main' => [
                'lazy' => true,
                'provider' => 'users',
                'form_login' => [
                    'login_path' => '/login',
                    'check_path' => '/login',
                    'default_target_path' => '/account',
                    'always_use_default_target_path' => true,
                    'enable_csrf' => true,
                    'username_parameter' => 'user',
                    'password_parameter' => 'password',
                    'csrf_parameter' => 'token',
                ],
                'logout' => ['path' => '/logout', 'target' => '/'],
            ]],
            'access_control' => [['path' => '^/account', 'roles' => 'ROLE_USER']],
        ]);
        $container->services()->set(Pages::class, Pages::class)->autowire()->autoconfigure()->public()
            ->tag('controller.service_arguments');
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        foreach (Pages::ROUTES as $path => $method) {
            $routes->add($method, $path)->controller([Pages::class, $method]);
        }
        $routes->add('logout', '/logout')->methods(['GET']);
    }
}
