<?php
ignore_user_abort(true);
$part = str_repeat('x', 1 << 16);
for ($until = microtime(true) + 2; microtime(true) < $until; ) {
    echo $part;
    fwrite(fopen('php://stderr', 'w'), $part);
}
