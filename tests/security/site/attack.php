<?php
// Runs the attacker with the arguments in the body, a list in JSON. What it finds goes to a file, so that nothing
// is lost when it ends this process.
$arguments = json_decode(file_get_contents('php://input'), true, 8, JSON_THROW_ON_ERROR);
$pipes = [];
$streams = [['pipe', 'r'], ['file', __DIR__ . '/data/report', 'a'], ['file', __DIR__ . '/data/errors', 'a']];
$process = @proc_open([__DIR__ . '/attacker', ...$arguments], $streams, $pipes);
echo $process ? proc_close($process) : 'no process could be started';
