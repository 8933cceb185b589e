<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * What a visitor wants to write, cleaned and checked: from the form or from the API.
 *
 * `problems` names each field that cannot be accepted, with a sentence for the visitor.
 */
final class Draft
{
    /** @param array<string, string> $problems */
    private function __construct(
        public readonly string $name,
        public readonly string $message,
        public readonly string $alt,
        public readonly array $problems,
    ) {
    }

    public static function blank(): self
    {
        return new self('', '', '', []);
    }

    public static function of(string $name, string $message, string $alt = ''): self
    {
        $problems = [];
        $fields = [];
        foreach (['name' => $name, 'message' => $message, 'alt' => $alt] as $field => $text) {
            $clean = self::clean($text, $field === 'message');
            $length = mb_strlen($clean, 'UTF-8');
            if ($length > self::LONGEST[$field]) {
                $problems[$field] = "That is $length characters; there is room for " . self::LONGEST[$field] . '.';
            } elseif ($length === 0 && $field !== 'alt') {
                $problems[$field] = $field === 'name' ? 'Please say who you are.' : 'Please write something.';
            }
            $fields[] = $clean;
        }

        return new self($fields[0], $fields[1], $fields[2], $problems);
    }

    public function withProblem(string $field, string $problem): self
    {
        return new self($this->name, $this->message, $this->alt, [$field => $problem] + $this->problems);
    }

    public function isAcceptable(): bool
    {
        return $this->problems === [];
    }

    /**
     * Valid UTF-8 without control characters, without characters that XML forbids, and without
     * those that turn the direction of the text around them.
     */
    private static function clean(string $text, bool $lines): string
    {
        $text = mb_scrub($text, 'UTF-8');
        $text = strtr($text, ["\r\n" => "\n", "\r" => "\n", "\t" => ' ']);
        $text = preg_replace('/[^\n\P{Cc}]|[\x{202A}-\x{202E}\x{2066}-\x{2069}\x{FFFE}\x{FFFF}]/u', '', $text) ?? '';
        $text = $lines
            ? preg_replace('/\n{3,}/', "\n\n", $text)
            : preg_replace('/\s+/u', ' ', $text);

        return preg_replace('/\A\s+|\s+\z/u', '', $text ?? '') ?? '';
    }

    public const LONGEST = ['name' => 60, 'message' => 2_000, 'alt' => 200];
}
