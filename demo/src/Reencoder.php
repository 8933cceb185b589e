<?php

declare(strict_types=1);

namespace Howdah\Demo;

/** Decodes a picture with GD and writes it anew: turned upright, at most so large, and without anything else in it. */
final class Reencoder
{
    public static function handles(string $type): bool
    {
        return extension_loaded('gd') && (imagetypes() & (self::FLAGS[$type] ?? 0)) !== 0;
    }

    /**
     * @return array{int, int} width and height of what was written
     * @throws \DomainException when the content cannot be decoded
     */
    public static function copy(string $from, string $to, string $type, int $maxEdge): array
    {
        $image = @imagecreatefromstring((string) file_get_contents($from));
        if ($image === false) {
            throw new \DomainException('That picture is damaged. Please choose another one.');
        }
        // Smaller first: two copies at full size could exceed PHP's memory limit.
        $image = self::within($image, $maxEdge);
        if ($type === 'image/jpeg') {
            $image = self::upright($image, $from);
        }
        imagesavealpha($image, true);
        $written = match ($type) {
            'image/gif' => imagegif($image, $to),
            'image/jpeg' => imagejpeg($image, $to, 85),
            'image/png' => imagepng($image, $to, 9),
            'image/webp' => imagewebp($image, $to, 85),
            default => false,
        };
        if (!$written) {
            throw new \RuntimeException("Cannot write $to.");
        }

        return [imagesx($image), imagesy($image)];
    }

    /** Cameras store how they were held instead of turning the pixels; that note is lost here, so it is obeyed. */
    private static function upright(\GdImage $image, string $file): \GdImage
    {
        $notes = function_exists('exif_read_data') ? @exif_read_data($file) : false;
        $orientation = is_array($notes) && is_int($notes['Orientation'] ?? null) ? $notes['Orientation'] : 1;
        $degrees = match ($orientation) {
            3, 4 => 180,
            5, 6 => 270,
            7, 8 => 90,
            default => 0,
        };
        if ($degrees !== 0) {
            $image = imagerotate($image, $degrees, 0) ?: $image;
        }
        if (in_array($orientation, [2, 4, 5, 7], true)) {
            imageflip($image, IMG_FLIP_HORIZONTAL);
        }

        return $image;
    }

    private static function within(\GdImage $image, int $maxEdge): \GdImage
    {
        $longest = max(imagesx($image), imagesy($image));
        if ($longest <= $maxEdge) {
            return $image;
        }
        $width = max(1, intdiv(imagesx($image) * $maxEdge, $longest));
        $height = max(1, intdiv(imagesy($image) * $maxEdge, $longest));
        $small = imagecreatetruecolor($width, $height);
        imagealphablending($small, false);
        imagecopyresampled($small, $image, 0, 0, 0, 0, $width, $height, imagesx($image), imagesy($image));

        return $small;
    }

    private const FLAGS = ['image/gif' => IMG_GIF, 'image/jpeg' => IMG_JPG, 'image/png' => IMG_PNG, 'image/webp' => IMG_WEBP];
}
