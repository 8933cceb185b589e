<?php
/* Answers in the way that ?do= names. Each of these is something that scripts do to a response. */

function fill(int $bytes): string
{
    return substr(str_repeat("0123456789abcde\n", intdiv($bytes, 16) + 1), 0, $bytes);
}

function no_buffer(): void
{
    while (ob_get_level() > 0) {
        ob_end_flush();
    }
}

/* In a directory of the test's own, so that nothing is left behind. */
function own_session(): void
{
    session_save_path(dirname($_SERVER['DOCUMENT_ROOT']) . '/sessions');
    session_start();
}

$ways = [
    // Status and reason.
    'code-404' => function () { http_response_code(404); echo 'nothing here'; },
    'code-500' => function () { http_response_code(500); echo 'own error page'; },
    'code-503-retry' => function () { http_response_code(503); header('Retry-After: 7'); echo 'later'; },
    'code-418' => function () { http_response_code(418); echo 'short and stout'; },
    'code-299' => function () { http_response_code(299); echo 'odd'; },
    'code-599' => function () { http_response_code(599); echo 'odd'; },
    'code-204' => function () { http_response_code(204); },
    'code-204-body' => function () { http_response_code(204); echo 'must not be sent'; },
    'code-205' => function () { http_response_code(205); },
    'code-304' => function () { http_response_code(304); header('ETag: "own"'); },
    'code-304-body' => function () { http_response_code(304); echo 'must not be sent'; },
    'code-201-location' => function () { http_response_code(201); header('Location: /made'); echo 'made'; },
    'code-401' => function () { http_response_code(401); header('WWW-Authenticate: Basic realm="Here"'); echo 'who?'; },
    'code-405' => function () { http_response_code(405); header('Allow: GET'); echo 'no'; },
    'code-413' => function () { http_response_code(413); echo 'too much'; },
    'line-404-foo' => function () { header('HTTP/1.1 404 Foo'); echo 'foo'; },
    'line-10-410' => function () { header('HTTP/1.0 410 Gone'); echo 'gone'; },
    'line-20-404' => function () { header('HTTP/2 404'); echo 'gone'; },
    'line-no-reason' => function () { header('HTTP/1.1 404'); echo 'gone'; },
    'line-protocol' => function () { header($_SERVER['SERVER_PROTOCOL'] . ' 403 Keep Out'); echo 'out'; },
    'status-503' => function () { header('Status: 503 Busy'); echo 'busy'; },
    'status-404' => function () { header('Status: 404'); echo 'gone'; },
    'status-third' => function () { header('X-Third: 1', true, 402); echo 'pay'; },
    'code-then-line' => function () { http_response_code(403); header('HTTP/1.1 200 OK'); echo 'fine'; },

    // Location.
    'location' => function () { header('Location: /target'); echo 'moved'; },
    'location-301' => function () { header('Location: /target', true, 301); },
    'location-303' => function () { header('Location: /target', true, 303); },
    'location-307' => function () { header('Location: /target', true, 307); },
    'location-308' => function () { header('Location: /target', true, 308); },
    'location-relative' => function () { header('Location: other?a=1#part'); },
    'location-absolute' => function () { header('Location: https://example.org/a/b?c=d'); },
    'location-query' => function () { header('Location: ?page=2'); },
    'location-after-404' => function () { http_response_code(404); header('Location: /target'); },
    'location-404-third' => function () { header('Location: /target', true, 404); echo 'with location'; },
    'location-file' => function () { header('Location: /hello.txt'); },
    'location-utf8' => function () { header("Location: /\xc3\xa4"); },
    'location-lines' => function () { header("Location: /target\r\nX-Evil: 1"); echo 'refused'; },

    // Header fields.
    'cookies' => function () {
        setcookie('one', '1');
        setcookie('two', 'zwei und drei', ['path' => '/', 'httponly' => true, 'samesite' => 'Lax', 'secure' => true]);
        setrawcookie('three', 'raw%20');
        echo 'cookies';
    },
    'cookie-delete' => function () { setcookie('gone', ''); echo 'deleted'; },
    'cookie-same-twice' => function () { setcookie('a', '1'); setcookie('a', '2'); echo 'twice'; },
    'duplicate' => function () { header('X-Many: 1'); header('X-Many: 2', false); header('X-Many: 3', false); echo 'many'; },
    'replace' => function () { header('X-Once: 1'); header('x-once: 2'); echo 'one'; },
    'remove' => function () { header('X-Gone: 1'); header('X-Kept: 1'); header_remove('X-Gone'); echo 'removed'; },
    'remove-all' => function () { header('X-Gone: 1'); header_remove(); header('X-From: php'); echo 'removed'; },
    'remove-type' => function () { header_remove('Content-Type'); echo 'typeless'; },
    'empty-value' => function () { header('X-Empty:'); echo 'empty'; },
    'spaces' => function () { header('X-Spaces:    many   '); echo 'spaces'; },
    'no-colon' => function () { header('NoColon'); echo 'no colon'; },
    'name-with-space' => function () { header('X Odd: 1'); echo 'odd name'; },
    'name-empty' => function () { header(': lost'); echo 'odd name'; },
    'value-utf8' => function () { header("X-Utf: gr\xc3\xbcn"); echo 'utf-8'; },
    'value-nul' => function () { header("X-Nul: a\0b"); echo 'nul'; },
    'value-tab' => function () { header("X-Tab: a\tb"); echo 'tab'; },
    'value-control' => function () { header("X-Control: a\x01b\x7f"); echo 'control'; },
    'value-fold' => function () { header("X-Fold: a\r\n b"); echo 'folded'; },
    'case' => function () { header('x-lower-CASE: Value'); echo 'case'; },
    'long-value' => function () { header('X-Long: ' . fill(3000)); echo 'long'; },
    'very-long-value' => function () { header('X-Long: ' . str_repeat('a', 30000)); echo 'long'; },
    'hundred' => function () { for ($i = 0; $i < 100; $i++) { header("X-Number-$i: $i"); } echo 'hundred'; },
    'callback' => function () { header_register_callback(fn () => header('X-Late: 1')); echo 'callback'; },
    'connection-close' => function () { header('Connection: close'); echo 'close'; },
    'transfer-encoding' => function () { header('Transfer-Encoding: chunked'); echo "not chunked at all"; },
    'own-date' => function () { header('Date: Sat, 01 Jan 2000 00:00:00 GMT'); echo 'dated'; },
    'own-server' => function () { header('Server: mine'); echo 'served'; },
    'powered-by' => function () { header('X-Powered-By: tests'); echo 'powered'; },
    'etag' => function () { header('ETag: "own"'); header('Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT'); echo 'tagged'; },
    'vary' => function () { header('Vary: Cookie'); header('Vary: Accept', false); echo 'vary'; },
    'accel-redirect' => function () { header('X-Accel-Redirect: /hello.txt'); echo 'not redirected'; },
    'sendfile' => function () { header('X-Sendfile: /etc/passwd'); echo 'not sent'; },
    'accel-buffering' => function () { header('X-Accel-Buffering: no'); echo 'unbuffered'; },
    'security' => function () {
        header('Content-Security-Policy: default-src \'self\'');
        header('Strict-Transport-Security: max-age=3600');
        header('Link: </style.css>; rel=preload; as=style');
        echo 'secure';
    },
    'expires' => function () { header('Expires: Thu, 19 Nov 1981 08:52:00 GMT'); header('Cache-Control: no-store'); echo 'old'; },

    // Content type.
    'type-json' => function () { header('Content-Type: application/json'); echo '{}'; },
    'type-plain' => function () { header('Content-Type: text/plain'); echo 'text'; },
    'type-latin1' => function () { header('Content-Type: text/html; charset=iso-8859-1'); echo 'text'; },
    'type-xml' => function () { header('Content-type: text/xml'); echo '<a/>'; },
    'type-empty' => function () { header('Content-Type:'); echo 'typeless'; },
    'type-png' => function () { header('Content-Type: image/png'); echo "\x89PNG"; },
    'type-charset-ini' => function () { ini_set('default_charset', 'iso-8859-2'); echo 'text'; },
    'type-charset-none' => function () { ini_set('default_charset', ''); echo 'text'; },
    'type-mime-none' => function () { ini_set('default_mimetype', ''); echo 'text'; },
    'type-twice' => function () { header('Content-Type: text/plain'); header('Content-Type: text/css'); echo 'text'; },
    'disposition' => function () {
        header('Content-Type: application/octet-stream');
        header('Content-Disposition: attachment; filename="a b.bin"');
        echo fill(100);
    },

    // Content-Length set by the script.
    'length-right' => function () { header('Content-Length: 5'); echo 'right'; },
    'length-more' => function () { header('Content-Length: 3'); echo 'more than three'; },
    'length-less' => function () { header('Content-Length: 100'); echo 'less'; },
    'length-zero' => function () { header('Content-Length: 0'); },
    'length-zero-body' => function () { header('Content-Length: 0'); echo 'more than nothing'; },
    'length-negative' => function () { header('Content-Length: -5'); echo 'negative'; },
    'length-word' => function () { header('Content-Length: five'); echo 'word'; },
    'length-twice' => function () { header('Content-Length: 5'); header('Content-Length: 5', false); echo 'twice'; },
    'length-two-values' => function () { header('Content-Length: 5'); header('Content-Length: 6', false); echo 'twice'; },
    'length-right-large' => function () { header('Content-Length: 300000'); echo fill(300000); },

    // Output buffering and flushing.
    'nested-buffers' => function () { ob_start(); echo 'lost'; ob_start(); echo 'also'; ob_end_clean(); ob_end_clean(); echo 'kept'; },
    'buffer-callback' => function () { ob_start(fn ($text) => strtoupper($text)); echo 'upper'; },
    'buffer-open' => function () { ob_start(); echo 'left open'; },
    'header-after-output' => function () { echo 'text'; header('X-After: 1'); http_response_code(202); },
    'header-after-flush' => function () { echo 'text'; no_buffer(); flush(); header('X-After: 1'); echo headers_sent() ? ' sent' : ' not'; },
    'header-after-4096' => function () { echo fill(5000); header('X-After: 1'); },
    'slow-flush' => function () {
        no_buffer();
        for ($i = 0; $i < 4; $i++) {
            echo "part $i\n";
            flush();
            usleep(300000);
        }
    },
    'events' => function () {
        header('Content-Type: text/event-stream');
        header('Cache-Control: no-cache');
        header('X-Accel-Buffering: no');
        no_buffer();
        for ($i = 0; $i < 4; $i++) {
            echo "data: $i\n\n";
            flush();
            usleep(300000);
        }
    },
    'flush-only' => function () { no_buffer(); flush(); echo 'after'; },
    'implicit-flush' => function () { no_buffer(); ob_implicit_flush(); echo 'a'; echo 'b'; },
    'finish-request' => function () { echo 'before'; if (function_exists('fastcgi_finish_request')) { fastcgi_finish_request(); echo 'after'; } },
    'tiny' => function () { echo 'x'; },
    'nothing' => function () { },
    'binary' => function () { header('Content-Type: application/octet-stream'); for ($i = 0; $i < 256; $i++) { echo chr($i); } },
    'size-4096' => function () { echo fill(4096); },
    'size-65535' => function () { echo fill(65535); },
    'size-65536' => function () { echo fill(65536); },
    'size-5m' => function () { echo fill(5 << 20); },
    'size-5m-pieces' => function () { for ($i = 0; $i < 640; $i++) { echo fill(8192); } },
    'readfile' => function () { header('Content-Type: text/plain'); readfile(__DIR__ . '/../hello.txt'); },
    'passthru-output' => function () { $out = fopen('php://output', 'w'); fwrite($out, 'through a stream'); },
    'stdout-is-not-the-client' => function () { $out = @fopen('php://stdout', 'w'); if ($out) { @fwrite($out, 'lost'); } echo 'sent'; },
    'stderr-is-not-the-client' => function () { $err = @fopen('php://stderr', 'w'); if ($err) { @fwrite($err, "to the log\n"); } echo 'sent'; },
    'error-log' => function () { error_log('a line for the log'); echo 'logged'; },

    // Compression by PHP.
    'zlib' => function () { ini_set('zlib.output_compression', '1'); echo fill(20000); },
    'gzhandler' => function () { ob_start('ob_gzhandler'); echo fill(20000); },
    'gzencode' => function () { header('Content-Encoding: gzip'); $z = gzencode(fill(20000)); header('Content-Length: ' . strlen($z)); echo $z; },

    // Endings.
    'exit' => function () { echo 'before'; exit; },
    'exit-text' => function () { echo 'before '; exit('and at the end'); },
    'exit-code' => function () { echo 'before'; exit(3); },
    'exit-in-buffer' => function () { ob_start(); echo 'buffered'; exit; },
    'shutdown' => function () { register_shutdown_function(function () { echo ' and after'; }); echo 'before'; },
    'shutdown-header' => function () { register_shutdown_function(function () { header('X-Shutdown: 1'); }); echo 'before'; },
    'shutdown-after-exit' => function () { register_shutdown_function(function () { echo ' and after'; }); echo 'before'; exit; },
    'shutdown-after-fatal' => function () { register_shutdown_function(function () { echo 'caught ' . (error_get_last()['type'] ?? 0); }); no_such_function(); },
    'destructor' => function () { $GLOBALS['o'] = new class { public function __destruct() { echo ' destroyed'; } }; echo 'alive'; },
    'fatal' => function () { no_such_function(); },
    'fatal-after-output' => function () { echo 'some output '; no_such_function(); },
    'fatal-after-flush' => function () { echo 'some output '; no_buffer(); flush(); no_such_function(); },
    'fatal-shown' => function () { ini_set('display_errors', '1'); ini_set('html_errors', '0'); throw new DomainException('shown'); },
    'exception' => function () { throw new RuntimeException('secret detail'); },
    'exception-code-set' => function () { http_response_code(403); throw new RuntimeException('secret detail'); },
    'type-error' => function () { strlen([]); },
    'user-error' => function () { trigger_error('own error', E_USER_ERROR); },
    'warning' => function () { echo 'a'; trigger_error('own warning', E_USER_WARNING); echo 'b'; },
    'require-missing' => function () { require __DIR__ . '/missing-file'; },
    'include-missing' => function () { @include __DIR__ . '/missing-file'; echo 'went on'; },
    'include-broken' => function () { include __DIR__ . '/syntax.php'; },
    'memory' => function () { ini_set('memory_limit', '16M'); $s = str_repeat('x', 64 << 20); echo strlen($s); },
    'recursion' => function () { ini_set('memory_limit', '32M'); $f = function ($n) use (&$f) { return $f($n + 1) + 1; }; $f(0); },
    'time-limit' => function () { set_time_limit(1); for (;;) { } },
    'caught-error' => function () { try { no_such_function(); } catch (Error $e) { echo 'caught'; } },

    // Sessions.
    'session' => function () { own_session(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo 'visit ', $_SESSION['n']; },
    'session-new' => function () { own_session(); echo strlen(session_id()); },
    'session-public' => function () { session_cache_limiter('public'); own_session(); echo 'public'; },
    'session-regenerate' => function () { own_session(); session_regenerate_id(true); echo 'new'; },
    'session-destroy' => function () { own_session(); session_destroy(); echo 'destroyed'; },

    // HEAD and conditionals are the script's own business.
    'method' => function () { echo $_SERVER['REQUEST_METHOD']; header('X-Method: ' . $_SERVER['REQUEST_METHOD']); },
    'range-ignored' => function () { header('Content-Type: text/plain'); echo fill(1000); },
    'own-range' => function () { http_response_code(206); header('Content-Range: bytes 0-9/100'); header('Content-Type: text/plain'); echo fill(10); },
];

header('X-From: php');
$way = $ways[$_GET['do'] ?? ''] ?? null;
if ($way === null) {
    http_response_code(400);
    exit('no such way');
}
$way();
