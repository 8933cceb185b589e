<?php

return [
    'paths' => [dirname(__DIR__) . '/views'],
    'compiled' => dirname(__DIR__) . '/var/views',
];
