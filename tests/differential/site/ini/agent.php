<?php header("X-From: php"); header("Content-Type: text/plain"); echo ini_get("user_agent"), "\n";
