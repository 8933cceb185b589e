<?php

require dirname(__DIR__) . '/application.php';
$app = application();
while (frankenphp_handle_request(static fn () => answer($app))) {
    between_requests();
    gc_collect_cycles();
}
