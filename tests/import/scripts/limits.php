<?php
// The limits of the process whose names contain ?n=
preg_match_all('/^Max (open files|core file size) +(\S+) +(\S+)/m', file_get_contents('/proc/self/limits'), $all, PREG_SET_ORDER);
foreach ($all as $one) {
    if (str_contains($one[1], $_GET['n'] ?? '')) {
        echo "$one[1]: $one[2] $one[3]\n";
    }
}
