<?php

use Symfony\Component\Runtime\SymfonyRuntime;

require_once 'Symfony/Bundle/FrameworkBundle/autoload.php';
require_once 'Symfony/Bundle/TwigBundle/autoload.php';
require_once 'Symfony/Bundle/SecurityBundle/autoload.php';
require_once 'Symfony/Component/Runtime/autoload.php';
require_once 'Symfony/Component/Mime/autoload.php';
require_once __DIR__ . '/state.php';
require_once __DIR__ . '/Pages.php';
require_once __DIR__ . '/Kernel.php';

putenv('E2E_SETTING=boot');
// Sets up the error handlers, as for each application that starts by autoload_runtime.php.
new SymfonyRuntime(['env' => 'prod', 'debug' => false, 'disable_dotenv' => true, 'project_dir' => __DIR__]);

return new Kernel('prod', false);
