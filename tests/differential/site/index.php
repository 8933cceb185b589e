<?php
require __DIR__ . '/probe.php';
probe(['front' => true]);
