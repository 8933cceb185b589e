<?php
// From PHP 8.5 on, PHP-FPM reads the settings before the body, and the limit holds.
header('Content-Type: text/plain');
echo ini_get('post_max_size'), ' ', count($_POST), "\n";
