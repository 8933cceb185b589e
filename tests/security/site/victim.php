<?php
usleep(1000);
echo 'fine ', getmypid(), ' ', strlen(file_get_contents('php://input'));
