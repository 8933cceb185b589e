<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** The guestbook for programs: JSON in, JSON out. */
final class Api
{
    public function __construct(
        private readonly Request $request,
        private readonly Guestbook $guestbook,
        private readonly \Closure $grown,
    ) {
    }

    public function list(): Response
    {
        $page = $this->request->query('page') ?: '1';
        if (preg_match('/\A[1-9][0-9]{0,8}\z/', $page) !== 1) {
            throw new HttpError(400, 'page must be a number from 1 on.');
        }
        $count = $this->guestbook->count();
        $entries = $this->guestbook->page((int) $page, self::PAGE_SIZE);

        return Response::json([
            'count' => $count,
            'page' => (int) $page,
            'pages' => max(1, intdiv($count + self::PAGE_SIZE - 1, self::PAGE_SIZE)),
            'entries' => array_map(fn (Entry $entry): array => $entry->forApi($this->request->origin()), $entries),
        ]);
    }

    public function show(int $id): Response
    {
        $entry = $this->guestbook->find($id) ?? throw new HttpError(404, "There is no entry $id.");

        return Response::json($entry->forApi($this->request->origin()));
    }

    /**
     * Needs no token: a page of another site cannot send this content type without asking us first
     * (Fetch standard, CORS-safelisted request headers), and we give no such permission.
     */
    public function add(): Response
    {
        $type = strtolower(trim(explode(';', $this->request->server('CONTENT_TYPE'))[0]));
        if ($type !== 'application/json') {
            throw new HttpError(415, 'Send the entry as application/json.');
        }
        $body = (string) file_get_contents('php://input', length: self::MAX_BODY + 1);
        if (strlen($body) > self::MAX_BODY) {
            throw new HttpError(413, 'An entry can have ' . bytes(self::MAX_BODY) . '.');
        }
        $fields = json_decode($body, true, 8);
        if (!is_array($fields) || !is_string($fields['name'] ?? '') || !is_string($fields['message'] ?? '')) {
            throw new HttpError(400, 'Send an object like {"name": "…", "message": "…"}.');
        }
        $draft = Draft::of($fields['name'] ?? '', $fields['message'] ?? '');
        if (!$draft->isAcceptable()) {
            return Response::json(['error' => 'This cannot be accepted.', 'problems' => $draft->problems], 422);
        }
        $id = $this->guestbook->add($draft, time(), null);
        ($this->grown)();

        return $this->show($id)->withStatus(201)->with('Location', '/api/entries/' . $id);
    }

    private const PAGE_SIZE = 20;
    private const MAX_BODY = 64 << 10;
}
