"""Sends the same requests to Howdah, to nginx with PHP-FPM and to Apache with mod_php, and compares the answers."""
