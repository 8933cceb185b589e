<?php
require __DIR__ . '/../probe.php';
probe(['index' => 'app']);
