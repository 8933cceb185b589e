<?php
// What a site shares among its own processes: a memory segment, a queue, a semaphore and a file in memory, all
// for its user alone. Says which of them the attacker has changed.
$key = (int) $_GET['key'];
$file = '/dev/shm/' . basename($_GET['file']);
if (!file_exists($file)) {
    umask(077);
    shmop_write(shmop_open($key, 'n', 0600, 64), 'mine', 0);
    msg_get_queue($key, 0600);
    sem_get($key, 1, 0600);
    file_put_contents($file, 'mine');
}
$segment = @shmop_open($key, 'a', 0, 0);
$memory = $segment ? shmop_read($segment, 0, 4) : 'gone';
$queue = msg_queue_exists($key) ? msg_stat_queue(msg_get_queue($key))['msg_qnum'] . ' messages' : 'gone';
echo json_encode(['memory' => $memory, 'queue' => $queue, 'file' => @file_get_contents($file)]);
