<?php

use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\Cookie;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\StreamedResponse;
use Symfony\Component\Security\Http\Authentication\AuthenticationUtils;

/** The pages of the application. Each has the data of its own visitor only. */
class Pages extends AbstractController
{
    const ROUTES = [
        '/' => 'home',
        '/json' => 'json_',
        '/form' => 'noteForm',
        '/notes' => 'notes',
        '/login' => 'login',
        '/account' => 'account',
        '/upload' => 'upload',
        '/cookie' => 'cookie',
        '/redirect' => 'leave',
        '/stream' => 'lines',
        '/download' => 'download',
        '/error' => 'fail',
        '/slow' => 'slow',
        '/state' => 'state',
        '/disturb/{what}' => 'disturb',
        '/later/{what}' => 'later',
        '/hold/{name}' => 'hold',
        '/worker' => 'worker',
    ];

    public function home(): Response
    {
        $paths = array_filter(array_keys(self::ROUTES), fn ($path) => !str_contains($path, '{'));
        return $this->render('home.html.twig', ['paths' => array_diff($paths, ['/worker'])]);
    }

    public function json_(Request $request): Response
    {
        return $this->json([
            'method' => $request->getMethod(),
            'path' => $request->getPathInfo(),
            'query' => $request->query->all(),
            'id' => $request->headers->get('X-Request-Id'),
            'visitor' => $request->cookies->get('visitor'),
            'input' => json_decode($request->getContent() ?: 'null', true),
            'length' => strlen($request->getContent()),
            'address' => $this->generateUrl('notes', [], 0),
        ]);
    }

    public function noteForm(Request $request): Response
    {
        $error = null;
        if ($request->isMethod('POST')) {
            $note = trim((string) $request->request->get('note'));
            if (!$this->isCsrfTokenValid('note', (string) $request->request->get('token'))) {
                $error = 'The token is wrong.';
            } elseif ($note === '') {
                $error = 'A note must not be empty.';
            } else {
                $session = $request->getSession();
                $session->set('notes', [...$session->get('notes', []), $note]);
                $this->addFlash('notice', "Stored: $note");
                return $this->redirectToRoute('notes');
            }
        }
        $response = new Response(status: $error ? 422 : 200);
        return $this->render('form.html.twig', ['error' => $error], $response);
    }

    public function notes(Request $request): Response
    {
        return $this->render('notes.html.twig', ['notes' => $request->getSession()->get('notes', [])]);
    }

    public function login(AuthenticationUtils $utils): Response
    {
        return $this->render('login.html.twig', [
            'error' => $utils->getLastAuthenticationError(),
            'user' => $utils->getLastUsername(),
        ]);
    }

    public function account(): Response
    {
        return $this->render('account.html.twig');
    }

    public function upload(Request $request): Response
    {
        $file = $request->files->get('file');
        if ($file === null) {
            return $this->json(['error' => 'no file'], 422);
        }
        $moved = $file->move($this->directory(), bin2hex(random_bytes(8)));
        $answer = [
            'label' => $request->request->get('label'),
            'name' => $file->getClientOriginalName(),
            'size' => $moved->getSize(),
            'sha1' => sha1_file($moved->getPathname()),
        ];
        unlink($moved->getPathname());
        return $this->json($answer);
    }

    public function cookie(Request $request): Response
    {
        $response = $this->json(['before' => $request->cookies->get('visitor')]);
        $response->headers->setCookie(Cookie::create('visitor', $request->query->get('value', 'none')));
        return $response;
    }

    public function leave(): Response
    {
        return $this->redirectToRoute('json_', ['from' => 'redirect']);
    }

    public function lines(Request $request): Response
    {
        $lines = $request->query->getInt('lines', 5);
        $name = $request->query->get('name', '-');
        $response = new StreamedResponse(static function () use ($lines, $name) {
            for ($line = 1; $line <= $lines; $line++) {
                echo "line $line for $name\n";
                flush();
            }
        });
        $response->headers->set('Content-Type', 'text/plain');
        return $response;
    }

    public function download(): Response
    {
        return $this->file(__FILE__, 'pages.txt');
    }

    public function fail(Request $request): Response
    {
        throw new RuntimeException('deliberate: ' . $request->query->get('name', '-'));
    }

    public function slow(Request $request): Response
    {
        usleep(1000 * min(1000, $request->query->getInt('ms', 20)));
        return $this->json(['name' => $request->query->get('name', '-')]);
    }

    public function state(): Response
    {
        return $this->json(observed_state());
    }

    public function disturb(Request $request, string $what): Response
    {
        if (str_contains($what, 'session')) {
            $request->getSession()->start();
        }
        disturb($what);
        return new Response('disturbed');
    }

    public function later(string $what): Response
    {
        disturb_later($what);
        return new Response('planned');
    }

    public function hold(string $name): Response
    {
        hold($this->directory(), $name);
        return new Response('released');
    }

    public function worker(): Response
    {
        return $this->json(worker_facts());
    }

    private function directory(): string
    {
        return $this->getParameter('kernel.project_dir') . '/var';
    }
}
