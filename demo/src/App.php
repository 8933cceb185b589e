<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * One request: the table of addresses, and what becomes of an error.
 *
 * Nothing is opened before a page needs it; a page of plain text touches neither the database nor
 * the session.
 */
final class App
{
    private readonly View $view;
    /** @var array{requests: int, since: int} */
    private array $worker = ['requests' => 0, 'since' => 0];
    private ?Storage $storage = null;
    private ?Guestbook $guestbook = null;
    private bool $hasGrown = false;

    public function __construct(private readonly Request $request, private readonly string $root)
    {
        $this->view = new View($root . '/templates', $request);
    }

    public function respond(): Response
    {
        try {
            $this->worker = WorkerCounter::count();

            return PublicFile::answer($this->request, $this->root . '/public') ?? $this->router()->answer($this->request);
        } catch (HttpError $error) {
            return $this->failure($error);
        } catch (\Throwable $error) {
            error_log('howdah demo: ' . $error::class . ': ' . $error->getMessage()
                . ' in ' . $error->getFile() . ':' . $error->getLine());

            return $this->failure(new HttpError(500, 'This is our fault, not yours. What happened is in the server’s error log.'));
        }
    }

    /** Housekeeping, when the client already has its answer. */
    public function afterwards(): void
    {
        if ($this->hasGrown) {
            foreach ($this->guestbook()->prune(self::KEPT_ENTRIES, self::KEPT_PICTURE_BYTES) as $picture) {
                $this->pictures()->remove($picture);
            }
        }
    }

    private function router(): Router
    {
        $book = fn (): GuestbookPages => new GuestbookPages(
            $this->request,
            $this->view,
            $this->guestbook(),
            $this->pictures(),
            new Session($this->storage()->sessions, $this->request),
            fn () => $this->hasGrown = true,
        );
        $api = fn (): Api => new Api($this->request, $this->guestbook(), fn () => $this->hasGrown = true);
        $facts = fn (): Facts => new Facts($this->request, $this->worker);

        $router = new Router();
        $router->add('GET', '/', fn () => $book()->list());
        $router->add('POST', '/', fn () => $book()->sign());
        $router->add('GET', '/entry/{id}', fn (string $id) => $book()->show((int) $id));
        $router->add('POST', '/entry/{id}/remove', fn (string $id) => $book()->remove((int) $id));
        $router->add('GET', '/picture/{picture}', fn (string $file) => $this->picture($file));
        $router->add('GET', '/about', fn () => $this->page('about', 'About', ['origin' => $this->request->origin()]));
        $router->add('GET', '/facts', fn () => $this->page('facts', 'Facts', ['facts' => $facts()]));
        $router->add('GET', '/live', fn () => $this->page('live', 'Live', ['origin' => $this->request->origin()]));
        $router->add('GET', '/live/events', fn () => $this->events());
        $router->add('GET', '/feed', fn () => $this->feed());
        $router->add('GET', '/api/entries', fn () => $api()->list());
        $router->add('POST', '/api/entries', fn () => $api()->add());
        $router->add('GET', '/api/entries/{id}', fn (string $id) => $api()->show((int) $id));
        $router->add('GET', '/api/facts', fn () => Response::json($facts()->all())->with('Cache-Control', 'no-store'));

        return $router;
    }

    /** @param array<string, mixed> $values */
    private function page(string $template, string $title, array $values): Response
    {
        return Response::html($this->view->page($template, $title, $values));
    }

    private function picture(string $file): Response
    {
        $picture = $this->guestbook()->picture($file) ?? throw new HttpError(404, 'This picture has been removed.');

        return $this->pictures()->give($picture);
    }

    private function feed(): Response
    {
        $xml = $this->view->render('feed', [
            'origin' => $this->request->origin(),
            'entries' => $this->guestbook()->page(1, 20),
        ]);

        return new Response($xml, 200, [
            'Content-Type' => 'application/rss+xml; charset=utf-8',
            'Cache-Control' => 'no-cache',
            'ETag' => '"' . hash('xxh128', $xml) . '"',
        ]);
    }

    /** `?events=` and `?pause=` (milliseconds) are for tests and the curious; the page uses neither. */
    private function events(): Response
    {
        $number = static fn (string $text, int $default, int $least, int $most): int =>
            preg_match('/\A[0-9]{1,9}\z/', $text) === 1 ? min($most, max($least, (int) $text)) : $default;

        return (new LiveStream($this->guestbook(), $this->worker['requests']))->response(
            $number($this->request->server('HTTP_LAST_EVENT_ID'), 0, 0, 999_999_999),
            $number($this->request->query('events'), 20, 1, 30),
            $number($this->request->query('pause'), 1_000, 50, 2_000),
        );
    }

    private function failure(HttpError $error): Response
    {
        if (str_starts_with($this->request->path, '/api/')) {
            $response = Response::json(['error' => $error->getMessage()], $error->status);
        } else {
            $response = Response::html(
                $this->view->page('error', $error->title(), ['error' => $error]),
                $error->status,
            );
        }
        foreach ($error->headers as $name => $value) {
            $response = $response->with($name, $value);
        }

        return $response;
    }

    private function storage(): Storage
    {
        return $this->storage ??= Storage::choose($this->request, $this->root . '/var');
    }

    private function guestbook(): Guestbook
    {
        return $this->guestbook ??= new Guestbook($this->storage()->database());
    }

    private function pictures(): PictureStore
    {
        return new PictureStore($this->storage()->pictures);
    }

    private const KEPT_ENTRIES = 2_000;
    private const KEPT_PICTURE_BYTES = 256 << 20;
}
