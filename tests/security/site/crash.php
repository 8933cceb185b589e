<?php
// A worker that crashes, and now and then the prototype.
if (mt_rand(0, 3) === 0) {
    posix_kill(posix_getppid(), SIGKILL);
}
posix_kill(getmypid(), SIGSEGV);
