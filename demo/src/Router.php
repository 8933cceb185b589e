<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * From method and path to a handler. `{id}` stands for a positive number, `{picture}` for the name
 * of a stored picture; everything else is literal.
 */
final class Router
{
    /** @var list<array{method: string, pattern: string, handler: \Closure}> */
    private array $routes = [];

    public function add(string $method, string $path, \Closure $handler): void
    {
        $pattern = strtr(preg_quote($path, '~'), [
            '\{id\}' => '([1-9][0-9]{0,17})',
            '\{picture\}' => '([0-9a-f]{24}\.(?:gif|jpg|png|webp))',
        ]);
        $this->routes[] = ['method' => $method, 'pattern' => '~\A' . $pattern . '\z~', 'handler' => $handler];
    }

    /** @throws HttpError 404 and 405 */
    public function answer(Request $request): Response
    {
        $allowed = [];
        foreach ($this->routes as $route) {
            if (preg_match($route['pattern'], $request->path, $found) !== 1) {
                continue;
            }
            $method = $request->method === 'HEAD' ? 'GET' : $request->method;
            if ($method === $route['method']) {
                return ($route['handler'])(...array_slice($found, 1));
            }
            $allowed[] = $route['method'];
        }
        if ($allowed !== []) {
            return $this->otherMethod($request, $allowed);
        }

        return $this->canonical($request)
            ?? throw new HttpError(404, 'There is no page here. It may have been removed, or the address has a slip in it.');
    }

    /** @param list<string> $allowed */
    private function otherMethod(Request $request, array $allowed): Response
    {
        $list = implode(', ', array_unique([...$allowed, ...(in_array('GET', $allowed, true) ? ['HEAD'] : []), 'OPTIONS']));
        if ($request->method === 'OPTIONS') {
            return new Response('', 204, ['Allow' => $list]);
        }
        throw new HttpError(405, 'This address answers ' . $list . ' only.', ['Allow' => $list]);
    }

    /**
     * `/about/` and `/index.php/about` are `/about`. The target is always the path of a route, so it
     * can never lead to another host.
     */
    private function canonical(Request $request): ?Response
    {
        $path = preg_replace('~\A/index\.php(?=/|\z)~', '', $request->path) ?? '';
        $path = '/' . trim($path, '/');
        if ($request->path === '' || $path === $request->path || !$request->isRead()) {
            return null;
        }
        foreach ($this->routes as $route) {
            if ($route['method'] === 'GET' && preg_match($route['pattern'], $path) === 1) {
                $query = $request->server('QUERY_STRING');

                return Response::movedTo($path . ($query === '' ? '' : '?' . $query));
            }
        }

        return null;
    }
}
