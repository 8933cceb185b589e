#!/usr/bin/env php
<?php header("X-From: php"); echo "after the hash-bang";