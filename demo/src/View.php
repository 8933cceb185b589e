<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** Templates: plain PHP files that get their variables by name and escape with e(). */
final class View
{
    public function __construct(private readonly string $directory, private readonly Request $request)
    {
    }

    /**
     * A template inside the layout that all pages share.
     *
     * @param array<string, mixed> $values
     */
    public function page(string $template, string $title, array $values): string
    {
        return $this->render('layout', [
            'title' => $title,
            'here' => $this->request->path,
            'content' => $this->render($template, $values),
            'software' => explode('/', $this->request->server('SERVER_SOFTWARE'))[0] ?: 'PHP',
            'message' => $values['message'] ?? '',
        ]);
    }

    /** @param array<string, mixed> $values */
    public function render(string $template, array $values): string
    {
        // Static, and with no name of its own but these two: a template sees its values and nothing else.
        $show = static function (string $__file, array $__values): void {
            extract($__values, EXTR_SKIP);
            require $__file;
        };
        ob_start();
        try {
            $show($this->directory . '/' . $template . '.php', $values + ['view' => $this]);
        } finally {
            $html = (string) ob_get_clean();
        }

        return $html;
    }
}
