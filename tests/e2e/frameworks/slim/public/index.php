<?php

require dirname(__DIR__) . '/application.php';
answer(application());
if (is_disturbed_later()) {
    fastcgi_finish_request();
    between_requests();
}
