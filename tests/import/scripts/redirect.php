<?php header("Location: /elsewhere", true, 302);
