<?php
// The environment variables of ?n=A,B
foreach (explode(',', $_GET['n']) as $name) {
    $all[$name] = [getenv($name), $_SERVER[$name] ?? false];
}
echo json_encode($all);
