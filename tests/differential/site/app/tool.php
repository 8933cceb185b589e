<?php require __DIR__ . "/../probe.php"; probe(["inner" => true]);
