<?php

return [
    'defaults' => ['guard' => 'web'],
    'guards' => ['web' => ['driver' => 'session', 'provider' => 'known']],
    'providers' => ['known' => ['driver' => 'known']],
];
