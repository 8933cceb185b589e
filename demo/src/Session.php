<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * The visitor's session: the token that proves that a form came from our own page, one message for
 * the next page, and the numbers of the entries this visitor wrote.
 *
 * It starts when it is first used; pages that need none (feed, API, pictures) set no cookie.
 */
final class Session
{
    public function __construct(private readonly string $directory, private readonly Request $request)
    {
    }

    public function token(): string
    {
        $this->start();
        if (!is_string($_SESSION['token'] ?? null)) {
            $_SESSION['token'] = bin2hex(random_bytes(24));
        }

        return $_SESSION['token'];
    }

    /** @throws HttpError 403 unless the form carries this session's token */
    public function requireToken(): void
    {
        if (!hash_equals($this->token(), $this->request->post('token'))) {
            throw new HttpError(403, 'The form did not come from this site, or it was open for too long. '
                . 'Go back, reload the page and send it again.');
        }
    }

    public function setMessage(string $message): void
    {
        $this->start();
        $_SESSION['message'] = $message;
    }

    /** The waiting message, once. */
    public function takeMessage(): string
    {
        $this->start();
        $message = $_SESSION['message'] ?? '';
        unset($_SESSION['message']);

        return is_string($message) ? $message : '';
    }

    public function addOwn(int $entry): void
    {
        $this->start();
        $_SESSION['own'] = array_slice([...$this->own(), $entry], -50);
    }

    public function owns(int $entry): bool
    {
        $this->start();

        return in_array($entry, $this->own(), true);
    }

    /** @return list<int> */
    private function own(): array
    {
        return is_array($_SESSION['own'] ?? null) ? array_values($_SESSION['own']) : [];
    }

    private function start(): void
    {
        if (session_status() === PHP_SESSION_ACTIVE) {
            return;
        }
        session_start([
            'save_path' => $this->directory,
            'name' => 'howdah_demo',
            'use_strict_mode' => true,
            'use_only_cookies' => true,
            'use_trans_sid' => false,
            'cookie_httponly' => true,
            'cookie_samesite' => 'Lax',
            'cookie_secure' => $this->request->isSecure(),
            'cache_limiter' => '',
            'gc_maxlifetime' => 86_400,
            // Debian clears only its own directory, by cron, and sets the probability to 0.
            'gc_probability' => 1,
            'gc_divisor' => 200,
        ]);
    }
}
