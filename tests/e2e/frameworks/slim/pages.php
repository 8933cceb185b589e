<?php

/**
 * The pages of the application. Each has the data of its own visitor only.
 */

use GuzzleHttp\Psr7\PumpStream;
use GuzzleHttp\Psr7\Utils;
use Psr\Http\Message\ResponseInterface as Response;
use Psr\Http\Message\ServerRequestInterface as Request;
use Slim\App;

/** Makes a page of a body. */
function page(Response $response, string $body, int $status = 200): Response
{
    $notice = $_SESSION['notice'] ?? null;
    unset($_SESSION['notice']);
    $notice = $notice === null ? '' : '<p class="notice">' . htmlspecialchars($notice) . '</p>';
    return $response->withStatus($status)->withHeader('Content-Type', 'text/html; charset=utf-8')
        ->withBody(Utils::streamFor("<!DOCTYPE html>\n<html lang=\"en\">\n<body>$notice\n$body\n</body>\n</html>\n"));
}

function json(Response $response, mixed $value, int $status = 200): Response
{
    return $response->withStatus($status)->withHeader('Content-Type', 'application/json')
        ->withBody(Utils::streamFor(json_encode($value, JSON_INVALID_UTF8_SUBSTITUTE)));
}

function redirect(Response $response, string $path): Response
{
    return $response->withStatus(302)->withHeader('Location', $path);
}

/** Makes a form with the token of the session. */
function form(string $fields, ?string $error): string
{
    $_SESSION['token'] ??= bin2hex(random_bytes(16));
    $error = $error === null ? '' : "<p class=\"error\">$error</p>";
    return "$error<form method=\"post\"><input name=\"token\" type=\"hidden\" value=\"$_SESSION[token]\">$fields</form>";
}

function has_token(Request $request): bool
{
    return hash_equals($_SESSION['token'] ?? '', (string) ($request->getParsedBody()['token'] ?? ''))
        && isset($_SESSION['token']);
}

function add_pages(App $app): void
{
    $paths = ['/', '/json', '/form', '/notes', '/login', '/account', '/upload', '/cookie', '/redirect', '/stream',
        '/download', '/error', '/slow', '/state', '/missing'];
    $directory = __DIR__ . '/var';

    $app->get('/', function (Request $request, Response $response) use ($paths) {
        $links = array_map(static fn ($path) => "<li><a href=\"$path\">$path</a></li>", $paths);
        return page($response, '<ul>' . implode("\n", $links) . '</ul>');
    });
    $app->any('/json', function (Request $request, Response $response) {
        $body = (string) $request->getBody();
        return json($response, [
            'method' => $request->getMethod(),
            'path' => $request->getUri()->getPath(),
            'query' => $request->getQueryParams(),
            'id' => $request->getHeader('X-Request-Id')[0] ?? null,
            'visitor' => $request->getCookieParams()['visitor'] ?? null,
            'input' => json_decode($body, true),
            'fields' => $request->getParsedBody(),
            'length' => strlen($body),
            'address' => (string) $request->getUri(),
        ]);
    });
    $app->get('/form', fn (Request $request, Response $response)
        => page($response, form('<input name="note">', null)));
    $app->post('/form', function (Request $request, Response $response) {
        $note = trim((string) ($request->getParsedBody()['note'] ?? ''));
        if (!has_token($request)) {
            return page($response, form('<input name="note">', 'The token is wrong.'), 422);
        }
        if ($note === '') {
            return page($response, form('<input name="note">', 'A note must not be empty.'), 422);
        }
        $_SESSION['notes'][] = $note;
        $_SESSION['notice'] = "Stored: $note";
        return redirect($response, '/notes');
    });
    $app->get('/notes', function (Request $request, Response $response) {
        $notes = array_map(static fn ($note) => '<li>' . htmlspecialchars($note) . '</li>', $_SESSION['notes'] ?? []);
        return page($response, '<ol>' . implode($notes) . '</ol>');
    });
    $app->get('/login', function (Request $request, Response $response) {
        $error = $_SESSION['login error'] ?? null;
        unset($_SESSION['login error']);
        return page($response, form('<input name="user"><input name="password" type="password">', $error));
    });
    $app->post('/login', function (Request $request, Response $response) {
        $fields = $request->getParsedBody();
        $user = (string) ($fields['user'] ?? '');
        if (!has_token($request) || !preg_match('/^user(\d+)$/', $user, $found)
            || ($fields['password'] ?? '') !== "secret$found[1]") {
            $_SESSION['login error'] = 'Wrong name or password.';
            return redirect($response, '/login');
        }
        session_regenerate_id(true);
        $_SESSION['user'] = $user;
        return redirect($response, '/account');
    });
    $app->get('/account', fn (Request $request, Response $response) => isset($_SESSION['user'])
        ? page($response, "<p class=\"user\">$_SESSION[user]</p>") : redirect($response, '/login'));
    $app->get('/logout', function (Request $request, Response $response) {
        session_destroy();
        return redirect($response, '/');
    });
    $app->any('/upload', function (Request $request, Response $response) use ($directory) {
        $file = $request->getUploadedFiles()['file'] ?? null;
        if ($file === null || $file->getError() !== UPLOAD_ERR_OK) {
            return json($response, ['error' => $file?->getError()], 422);
        }
        $path = $directory . '/' . bin2hex(random_bytes(8));
        $file->moveTo($path);
        $answer = [
            'label' => $request->getParsedBody()['label'] ?? null,
            'name' => $file->getClientFilename(),
            'size' => filesize($path),
            'sha1' => sha1_file($path),
        ];
        unlink($path);
        return json($response, $answer);
    });
    $app->get('/cookie', function (Request $request, Response $response) {
        $value = rawurlencode($request->getQueryParams()['value'] ?? 'none');
        return json($response, ['before' => $request->getCookieParams()['visitor'] ?? null])
            ->withAddedHeader('Set-Cookie', "visitor=$value; Path=/; HttpOnly");
    });
    $app->get('/redirect', fn (Request $request, Response $response)
        => redirect($response, '/json?from=redirect'));
    $app->get('/stream', function (Request $request, Response $response) {
        $query = $request->getQueryParams() + ['lines' => 5, 'name' => '-'];
        $line = 0;
        $body = new PumpStream(static function () use ($query, &$line) {
            return $line++ < $query['lines'] ? "line $line for $query[name]\n" : false;
        });
        return $response->withHeader('Content-Type', 'text/plain')->withBody($body);
    });
    $app->get('/download', fn (Request $request, Response $response) => $response
        ->withHeader('Content-Type', 'application/octet-stream')
        ->withHeader('Content-Disposition', 'attachment; filename=pages.txt')
        ->withBody(Utils::streamFor(fopen(__FILE__, 'r'))));
    $app->any('/error', function (Request $request) {
        throw new RuntimeException('deliberate: ' . ($request->getQueryParams()['name'] ?? '-'));
    });
    $app->get('/slow', function (Request $request, Response $response) {
        $query = $request->getQueryParams() + ['ms' => 20, 'name' => '-'];
        usleep(1000 * min(1000, (int) $query['ms']));
        return json($response, ['name' => $query['name']]);
    });
    $app->get('/state', fn (Request $request, Response $response) => json($response, observed_state()));
    $app->get('/disturb/{what}', function (Request $request, Response $response, array $arguments) {
        disturb($arguments['what']);
        return page($response, 'disturbed');
    });
    $app->get('/later/{what}', function (Request $request, Response $response, array $arguments) {
        disturb_later($arguments['what']);
        return page($response, 'planned');
    });
    $app->get('/hold/{name}', function (Request $request, Response $response, array $arguments) use ($directory) {
        hold($directory, $arguments['name']);
        return page($response, 'released');
    });
    $app->get('/worker', fn (Request $request, Response $response) => json($response, worker_facts()));
}
