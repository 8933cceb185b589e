<?php
// The settings of ?n=a,b, and whether a script can change them
foreach (explode(',', $_GET['n']) as $name) {
    $before = ini_get($name);
    $all[$name] = [$before, @ini_set($name, '7') !== false];
}
echo json_encode($all);
