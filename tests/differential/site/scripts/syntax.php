<?php header("X-From: php"); echo "before"; this is no PHP
