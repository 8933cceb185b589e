<?php
// Sends requests to a unix socket, or floods it for some seconds.
$order = json_decode(file_get_contents('php://input'), true);
$connect = fn () => @stream_socket_client("unix://{$order['socket']}", $code, $error, 5);
if (isset($order['flood'])) {
    $end = microtime(true) + $order['flood'];
    [$connected, $held] = [0, []];
    while (microtime(true) < $end) {
        if ($socket = $connect()) {
            $connected++;
            stream_set_blocking($socket, false);
            $request = ["GET /requests?limit=1000 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /sta", "\0\xff\r\n"][$connected % 3];
            @fwrite($socket, $request);
            $held[] = $socket;
        }
        if (count($held) > 200) {
            array_splice($held, 0, 100);
        }
    }
    echo $connected;
    exit;
}
$answers = [];
foreach ($order['requests'] as [$method, $target, $body]) {
    $answer = '';
    if ($socket = $connect()) {
        $length = strlen($body);
        $head = "$method $target HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: $length\r\n\r\n";
        @fwrite($socket, $head . $body);
        $answer = stream_get_contents($socket);
    }
    [$head, $text] = explode("\r\n\r\n", $answer, 2) + ['', ''];
    $answers[] = [(int) substr($head, 9, 3), $text];
}
echo json_encode($answers);
