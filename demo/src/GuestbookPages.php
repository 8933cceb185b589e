<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** The pages people read and write the guestbook with. */
final class GuestbookPages
{
    public function __construct(
        private readonly Request $request,
        private readonly View $view,
        private readonly Guestbook $guestbook,
        private readonly PictureStore $pictures,
        private readonly Session $session,
        private readonly \Closure $grown,
    ) {
    }

    public function list(): Response
    {
        return $this->page(Draft::blank(), 200);
    }

    public function sign(): Response
    {
        if ($this->request->wasTooLargeForPhp()) {
            $limit = bytes(PictureStore::limit());

            return $this->page(Draft::blank()->withProblem('picture', "That was too large; a picture can have $limit."), 413);
        }
        $this->session->requireToken();

        $draft = Draft::of($this->request->post('name'), $this->request->post('message'), $this->request->post('alt'));
        $picture = null;
        $upload = $this->request->file('picture');
        if ($draft->isAcceptable() && $upload !== null) {
            try {
                $picture = $this->pictures->take($upload, $draft->alt);
            } catch (\DomainException $problem) {
                $draft = $draft->withProblem('picture', $problem->getMessage());
            }
        }
        if (!$draft->isAcceptable()) {
            return $this->page($draft, 422);
        }

        $id = $this->guestbook->add($draft, time(), $picture);
        ($this->grown)();
        $this->session->addOwn($id);
        $this->session->setMessage('Thank you, ' . $draft->name . '. This is your entry.');

        return Response::seeOther('/entry/' . $id);
    }

    public function show(int $id): Response
    {
        $entry = $this->find($id);
        $html = $this->view->page('entry', 'Entry ' . $id . ' by ' . $entry->name, [
            'entry' => $entry,
            'neighbours' => $this->guestbook->neighbours($id),
            'owned' => $this->session->owns($id),
            'token' => $this->session->token(),
            'message' => $this->session->takeMessage(),
            'now' => time(),
        ]);

        return Response::html($html);
    }

    public function remove(int $id): Response
    {
        $this->session->requireToken();
        $entry = $this->find($id);
        if (!$this->session->owns($id)) {
            throw new HttpError(403, 'Only the one who wrote an entry can remove it, from the same browser.');
        }
        $this->guestbook->remove($id);
        if ($entry->picture !== null) {
            $this->pictures->remove($entry->picture->file);
        }
        $this->session->setMessage('Your entry is gone.');

        return Response::seeOther('/');
    }

    private function page(Draft $draft, int $status): Response
    {
        $count = $this->guestbook->count();
        $pages = max(1, intdiv($count + self::PAGE_SIZE - 1, self::PAGE_SIZE));
        $wanted = $this->request->query('page');
        if ($wanted !== '' && preg_match('/\A[1-9][0-9]{0,8}\z/', $wanted) !== 1 || (int) $wanted > $pages) {
            throw new HttpError(404, "The guestbook has $pages " . ($pages === 1 ? 'page.' : 'pages.'));
        }
        $page = max(1, (int) $wanted);
        $html = $this->view->page('guestbook', $page === 1 ? 'Guestbook' : "Guestbook, page $page", [
            'entries' => $this->guestbook->page($page, self::PAGE_SIZE),
            'count' => $count,
            'page' => $page,
            'pages' => $pages,
            'draft' => $draft,
            'token' => $this->session->token(),
            'message' => $this->session->takeMessage(),
            'limit' => PictureStore::limit(),
            'now' => time(),
        ]);

        return Response::html($html, $status);
    }

    private function find(int $id): Entry
    {
        return $this->guestbook->find($id)
            ?? throw new HttpError(404, 'There is no entry with this number. Its writer may have removed it.');
    }

    private const PAGE_SIZE = 6;
}
