<?php
/* Prints what PHP sees of a request as JSON. Bytes outside ASCII appear as \xNN, so that the answer is exact. */

function printable(mixed $value): mixed
{
    if (is_string($value)) {
        return preg_replace_callback(
            '/[\x00-\x1f\x7f-\xff]/',
            fn (array $byte): string => sprintf('\x%02x', ord($byte[0])),
            $value
        );
    }
    if (is_array($value)) {
        $copy = [];
        foreach ($value as $key => $member) {
            $copy[printable($key)] = printable($member);
        }
        return $copy;
    }
    return $value;
}

function uploads(array $files): array
{
    foreach ($files as &$file) {
        $names = (array) $file['tmp_name'];
        $file['digest'] = [];
        foreach ($names as $key => $name) {
            $real = is_uploaded_file($name);
            $file['digest'][$key] = $real ? filesize($name) . ':' . md5_file($name) : 'none';
        }
        unset($file['tmp_name']);
    }
    return $files;
}

function brief(string $bytes): string
{
    return strlen($bytes) > 200 ? strlen($bytes) . ':' . md5($bytes) : $bytes;
}

function probe(array $more = []): void
{
    header('X-From: php');
    header('Content-Type: application/json');
    $seen = [
        'script' => basename($_SERVER['SCRIPT_FILENAME'] ?? ''),
        'file' => get_included_files()[0],
        'cwd' => getcwd(),
        'server' => $_SERVER,
        'get' => $_GET,
        'post' => array_map(fn ($v) => is_string($v) ? brief($v) : $v, $_POST),
        'cookie' => $_COOKIE,
        'request' => array_map(fn ($v) => is_string($v) ? brief($v) : $v, $_REQUEST),
        'files' => uploads($_FILES),
        'input' => brief(file_get_contents('php://input')),
    ] + $more;
    echo json_encode(printable($seen), JSON_UNESCAPED_SLASHES | JSON_PRETTY_PRINT), "\n";
}

if (get_included_files()[0] === __FILE__) {
    probe();
}
