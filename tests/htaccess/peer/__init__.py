"""The comparison of Howdah's .htaccess with Apache's: cases, trees of files, servers and answers."""
