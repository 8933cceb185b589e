<?php

/**
 * What a request can see of the process it runs in, and the ways in which a request can change it.
 * All applications of this directory have a route for each.
 */

/** Returns what must be the same at the start of each request. */
function observed_state(): array
{
    return [
        'locale' => setlocale(LC_ALL, '0'),
        'directory' => basename(getcwd()),
        'variable' => getenv('E2E_LEAK'),
        'setting' => getenv('E2E_SETTING'),
        'time zone' => date_default_timezone_get(),
        'umask' => sprintf('%03o', umask()),
        'time limit' => ini_get('max_execution_time'),
        'output buffers' => ob_get_level(),
        'error handler' => name_of_handler('set_error_handler', 'restore_error_handler'),
        'exception handler' => name_of_handler('set_exception_handler', 'restore_exception_handler'),
        'last error' => error_get_last(),
        'connection' => connection_status(),
        'status' => http_response_code(),
        'headers' => preg_grep('/^X-Leak|^Set-Cookie: leak/i', headers_list()),
        'superglobals' => array_filter([
            'get' => $_GET['leak'] ?? null,
            'post' => $_POST['leak'] ?? null,
            'cookie' => $_COOKIE['leak'] ?? null,
            'files' => $_FILES['leak'] ?? null,
            'request' => $_REQUEST['leak'] ?? null,
            'server' => $_SERVER['leak'] ?? null,
            'session' => $_SESSION['leak'] ?? null,
        ]),
        'input' => file_get_contents('php://input'),
        'random' => mt_rand() === NUMBER_AFTER_SEED,
    ];
}

/** Describes the handler that is set, without changing it. */
function name_of_handler(string $set, string $restore): string
{
    $handler = $set(null);
    $restore();
    if (is_array($handler)) {
        return (is_object($handler[0]) ? get_class($handler[0]) : $handler[0]) . '::' . $handler[1];
    }
    return is_object($handler) ? get_class($handler) : (string) $handler;
}

/** A seed, and the first random number that follows it. */
const SEED = 4711;
const NUMBER_AFTER_SEED = 223897874;

const SIGSEGV_NUMBER = 11;

/** Changes the state of the process and leaves it so. */
function disturb(string $what): void
{
    switch ($what) {
        case 'locale':
            setlocale(LC_ALL, 'C.UTF-8', 'C.utf8');
            break;
        case 'directory':
            chdir('/');
            break;
        case 'variable':
            putenv('E2E_LEAK=1');
            break;
        case 'setting':
            putenv('E2E_SETTING=changed');
            break;
        case 'time-zone':
            date_default_timezone_set('Asia/Kolkata');
            break;
        case 'umask':
            umask(0);
            break;
        case 'time-limit':
            set_time_limit(0);
            break;
        case 'max-execution-time':
            ini_set('max_execution_time', '5000');
            break;
        case 'error-handler':
            set_error_handler(static fn () => true);
            set_error_handler('strlen');
            break;
        case 'exception-handler':
            set_exception_handler(static fn () => null);
            break;
        case 'buffer':
            ob_start();
            ob_start(static fn (string $text) => $text);
            break;
        case 'session':
            session_status() === PHP_SESSION_ACTIVE || session_start();
            $_SESSION['leak'] = 'left by another visitor';
            break;
        case 'superglobals':
            $_GET['leak'] = $_POST['leak'] = $_COOKIE['leak'] = $_REQUEST['leak'] = $_SERVER['leak'] = 'left';
            $_FILES['leak'] = ['name' => 'left'];
            break;
        case 'headers':
            http_response_code(418);
            header('X-Leak: 1');
            setcookie('leak', '1');
            break;
        case 'header-callback':
            header_register_callback(static fn () => header('X-Leak: callback'));
            break;
        case 'late-header':
            echo 'early ';
            while (ob_get_level() > 0) {
                ob_end_flush();
            }
            flush();
            @header('X-Leak: late');
            break;
        case 'warning':
            @trigger_error('a warning that is left as the last error');
            break;
        case 'random':
            mt_srand(SEED);
            break;
        case 'finish':
            echo 'finished';
            fastcgi_finish_request();
            echo ' and went on';
            break;
        case 'nested':
            try {
                frankenphp_handle_request(static fn () => null);
            } catch (RuntimeException) {
                // Expected: there is no request within a request.
            }
            break;
        case 'open-file':
            $GLOBALS['left open'][] = fopen(__FILE__, 'r');
            $GLOBALS['left open'][] = fopen('php://input', 'r');
            $GLOBALS['left open'] = array_slice($GLOBALS['left open'], -4);
            break;
        case 'abort':
            ignore_user_abort(true);
            break;
        case 'broken-session':
            session_status() === PHP_SESSION_ACTIVE && session_abort();
            session_set_save_handler(new BrokenSessions());
            session_start();
            break;
        case 'broken-buffer':
            ob_start(static fn () => throw new RuntimeException('deliberate: output callback'));
            break;
        case 'broken-header':
            header_register_callback(static fn () => throw new RuntimeException('deliberate: header callback'));
            break;
        case 'exit':
            exit;
        case 'exit-after-output':
            header('X-Leak: exit');
            echo 'said before exit';
            exit(3);
        case 'fatal':
            eval('interface Left_' . ($n = bin2hex(random_bytes(6))) . ' { function f(); }'
                . " class Broken_$n implements Left_$n {}");
            break;
        case 'memory':
            $text = 'x';
            while (true) {
                $text .= $text;
            }
        case 'time':
            set_time_limit(1);
            while (true) {
                hash('sha256', 'x');
            }
        case 'loop':
            while (true) {
                hash('sha256', 'x');
            }
        case 'crash':
            posix_kill(getmypid(), SIGSEGV_NUMBER);
            sleep(60);
            break;
        default:
            throw new LogicException("unknown change: $what");
    }
}

/** A store of sessions that has gone. */
class BrokenSessions extends SessionHandler
{
    public function write(string $id, string $data): bool
    {
        throw new RuntimeException('deliberate: the session is not written');
    }
}

/** Plans a change for the time between two requests, when frameworks do what the visitor need not wait for. */
function disturb_later(string $what): void
{
    $GLOBALS['disturb later'] = $what;
}

function is_disturbed_later(): bool
{
    return isset($GLOBALS['disturb later']);
}

/** Makes the planned change; each front script calls it after a request. */
function between_requests(): void
{
    $what = $GLOBALS['disturb later'] ?? null;
    unset($GLOBALS['disturb later']);
    if ($what !== null) {
        disturb($what);
    }
}

/** Counts a request, which each front script does, and returns the number of requests. */
function count_request(int $more = 1): int
{
    static $count = 0;
    return $count += $more;
}

/** Describes the process: how many requests it has handled, and its memory. */
function worker_facts(): array
{
    return ['pid' => getmypid(), 'requests' => count_request(0), 'memory' => memory_get_usage()];
}

/** Waits until it is killed, or until a file says that it may go on. */
function hold(string $directory, string $name): void
{
    $name = preg_replace('/\W/', '', $name);
    file_put_contents("$directory/$name.new", (string) getmypid());
    rename("$directory/$name.new", "$directory/$name.held");
    while (!file_exists("$directory/$name.release")) {
        usleep(5000);
        clearstatcache();
    }
}
