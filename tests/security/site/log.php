<?php
for ($until = microtime(true) + 1; microtime(true) < $until; ) {
    error_log(str_repeat('a line of the log ', 50));
}
