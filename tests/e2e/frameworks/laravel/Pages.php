<?php

use Illuminate\Http\Request;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Cookie;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\ServiceProvider;

/** Registers the pages. Each has the data of its own visitor only. */
class Pages extends ServiceProvider
{
    public function boot(): void
    {
        Auth::provider('known', static fn () => new KnownUsers());
        Route::get('/plain', static fn () => view('plain')); // without a session
        Route::middleware('web')->group(function () {
            $this->plain();
            $this->forms();
            $this->login();
            $this->observers();
        });
    }

    private function plain(): void
    {
        Route::get('/', static fn () => view('home'));
        Route::any('/json', static fn (Request $request) => response()->json([
            'method' => $request->getMethod(),
            'path' => $request->getPathInfo(),
            'query' => $request->query->all(),
            'id' => $request->header('X-Request-Id'),
            'visitor' => $request->cookie('visitor'),
            'input' => json_decode($request->getContent() ?: 'null', true),
            'length' => strlen($request->getContent()),
            'address' => url('/notes'),
        ], 200, [], JSON_INVALID_UTF8_SUBSTITUTE));
        Route::get('/cookie', static function (Request $request) {
            Cookie::queue('visitor', $request->query('value', 'none'), 60);
            return ['before' => $request->cookie('visitor')];
        });
        Route::get('/redirect', static fn () => redirect('/json?from=redirect'));
        Route::get('/stream', static function (Request $request) {
            $lines = (int) $request->query('lines', 5);
            $name = $request->query('name', '-');
            return response()->stream(static function () use ($lines, $name) {
                for ($line = 1; $line <= $lines; $line++) {
                    echo "line $line for $name\n";
                    flush();
                }
            }, 200, ['Content-Type' => 'text/plain']);
        });
        Route::get('/download', static fn () => response()->download(__FILE__, 'pages.txt'));
        Route::any('/error', static function (Request $request) {
            throw new RuntimeException('deliberate: ' . $request->query('name', '-'));
        });
        Route::get('/slow', static function (Request $request) {
            usleep(1000 * min(1000, (int) $request->query('ms', 20)));
            return ['name' => $request->query('name', '-')];
        });
    }

    private function forms(): void
    {
        Route::get('/form', static fn () => view('form'));
        Route::post('/form', static function (Request $request) {
            $fields = $request->validate(['note' => 'required|string|max:500'],
                ['required' => 'A note must not be empty.']);
            $note = trim($fields['note']);
            session()->push('notes', $note);
            return redirect('/notes')->with('notice', "Stored: $note");
        });
        Route::get('/notes', static fn () => view('notes', ['notes' => session('notes', [])]));
        Route::any('/upload', static function (Request $request) {
            if (!$request->hasFile('file')) {
                return response()->json(['error' => 'no file'], 422);
            }
            $file = $request->file('file');
            $moved = $file->move(storage_path(), bin2hex(random_bytes(8)));
            $answer = [
                'label' => $request->input('label'),
                'name' => $file->getClientOriginalName(),
                'size' => $moved->getSize(),
                'sha1' => sha1_file($moved->getPathname()),
            ];
            unlink($moved->getPathname());
            return $answer;
        });
    }

    private function login(): void
    {
        Route::get('/login', static fn () => view('login'))->name('login');
        Route::post('/login', static function (Request $request) {
            if (!Auth::attempt($request->only('user', 'password'))) {
                return redirect('/login')->withErrors(['user' => 'Wrong name or password.']);
            }
            session()->regenerate();
            return redirect('/account');
        });
        Route::get('/account', static fn () => Auth::check() ? view('account') : redirect('/login'));
        Route::get('/logout', static function () {
            Auth::logout();
            session()->invalidate();
            return redirect('/');
        });
    }

    private function observers(): void
    {
        Route::get('/state', static fn () => observed_state());
        Route::get('/disturb/{what}', static function (string $what) {
            disturb($what);
            return 'disturbed';
        });
        Route::get('/later/{what}', static function (string $what) {
            disturb_later($what);
            return 'planned';
        });
        Route::get('/hold/{name}', static function (string $name) {
            hold(storage_path(), $name);
            return 'released';
        });
        Route::get('/worker', static fn () => worker_facts());
    }
}
