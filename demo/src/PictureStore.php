<?php

declare(strict_types=1);

namespace Howdah\Demo;

/**
 * Takes uploaded pictures in and gives them out.
 *
 * 1. What a file is, its content decides; the name and type the client sent are never looked at.
 * 2. With the GD extension it is decoded and encoded anew, which leaves behind whatever else the
 *    file carried (place and camera, scripts). Without GD the bytes are kept as they came.
 * 3. It gets a name of our own making, in a directory that has no address.
 * 4. It is given out under its checked type, with sniffing off and scripts forbidden.
 */
final class PictureStore
{
    public function __construct(private readonly string $directory)
    {
    }

    /** The largest upload in bytes: ours, or PHP's if that is smaller. */
    public static function limit(): int
    {
        $limits = [self::MAX_BYTES];
        foreach (['upload_max_filesize', 'post_max_size'] as $name) {
            $bytes = ini_parse_quantity((string) ini_get($name));
            if ($bytes > 0) {
                $limits[] = $bytes;
            }
        }

        return min($limits);
    }

    public static function reencodes(): bool
    {
        return extension_loaded('gd');
    }

    /**
     * Stores an upload.
     *
     * @param array{tmp_name: string, size: int, error: int} $upload
     * @throws \DomainException with a sentence for the visitor when the file is not acceptable
     */
    public function take(array $upload, string $alt): Picture
    {
        $limit = bytes(self::limit());
        $problem = match ($upload['error']) {
            UPLOAD_ERR_OK => $upload['size'] > self::limit() ? "That picture is larger than $limit." : '',
            UPLOAD_ERR_INI_SIZE, UPLOAD_ERR_FORM_SIZE => "That picture is larger than $limit.",
            UPLOAD_ERR_PARTIAL => 'Only a part of that picture arrived. Please send it again.',
            default => 'The server could not store that picture. Please try again later.',
        };
        if ($problem === '' && !is_uploaded_file($upload['tmp_name'])) {
            $problem = 'That is no uploaded file.';
        }
        if ($problem !== '') {
            throw new \DomainException($problem);
        }

        return $this->keep($upload['tmp_name'], $alt);
    }

    /**
     * Checks a local file and stores a copy of it.
     *
     * @throws \DomainException when it is no picture that we take
     */
    public function keep(string $file, string $alt): Picture
    {
        $type = (string) (new \finfo(FILEINFO_MIME_TYPE))->file($file);
        // A broken file makes getimagesize() warn; the answer is the same.
        $size = @getimagesize($file);
        if (!isset(self::TYPES[$type]) || $size === false || $size['mime'] !== $type) {
            throw new \DomainException('That file is no picture this site takes. Choose a JPEG, PNG, WebP or GIF file.');
        }
        [$width, $height] = $size;
        if ($width < 1 || $height < 1 || $width * $height > self::MAX_PIXELS) {
            throw new \DomainException('That picture has too many pixels. Make it smaller than '
                . intdiv(self::MAX_PIXELS, 1_000_000) . ' megapixels.');
        }

        $name = bin2hex(random_bytes(12)) . '.' . self::TYPES[$type];
        $target = $this->directory . '/' . $name;
        if (Reencoder::handles($type)) {
            [$width, $height] = Reencoder::copy($file, $target, $type, self::MAX_EDGE);
        } elseif (!copy($file, $target)) {
            throw new \RuntimeException("Cannot write $target.");
        }
        clearstatcache(true, $target);

        return new Picture($name, $alt, $type, $width, $height, (int) filesize($target));
    }

    public function remove(string $name): void
    {
        // Another request may have removed it already.
        @unlink($this->directory . '/' . basename($name));
    }

    /** The answer that carries the picture. Its name never gets other content: it may be kept for good. */
    public function give(Picture $picture): Response
    {
        $file = $this->directory . '/' . basename($picture->file);
        if (!is_file($file)) {
            throw new HttpError(404, 'This picture has been removed.');
        }

        return new Response(static function () use ($file): void {
            readfile($file);
        }, 200, [
            'Content-Type' => $picture->type,
            'Content-Length' => (string) filesize($file),
            'Cache-Control' => 'public, max-age=31536000, immutable',
            'ETag' => '"' . substr($picture->file, 0, 24) . '"',
            'Content-Security-Policy' => "default-src 'none'; sandbox",
            'Cross-Origin-Resource-Policy' => 'same-origin',
        ]);
    }

    private const TYPES = ['image/gif' => 'gif', 'image/jpeg' => 'jpg', 'image/png' => 'png', 'image/webp' => 'webp'];
    private const MAX_BYTES = 5 << 20;
    /** A decoded picture takes 4 to 5 bytes a pixel, and PHP's usual memory limit is 128 MB. */
    private const MAX_PIXELS = 16_000_000;
    private const MAX_EDGE = 1_600;
}
