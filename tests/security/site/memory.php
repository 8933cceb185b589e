<?php
// As much as PHP gives, and as much as the system gives to a program.
exec('head -c 400M /dev/zero | tail > /dev/null 2>&1 &');
for ($all = []; true; ) {
    $all[] = str_repeat('x', 1 << 20);
}
