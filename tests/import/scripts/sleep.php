<?php $end = microtime(true) + $_GET["s"]; while (microtime(true) < $end) usleep(20000); echo "slept";
