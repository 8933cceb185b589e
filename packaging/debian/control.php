
Package: howdah-php@PHP@
Architecture: any
Depends: howdah (= ${binary:Version}), libphp@PHP@-embed, ${shlibs:Depends}, ${misc:Depends}
Provides: howdah-php (= ${binary:Version})
Enhances: howdah
Description: PHP @PHP@ for the web server Howdah
 Howdah serves PHP sites in place of nginx with PHP-FPM, Apache with mod_php,
 or NGINX Unit.
 .
 This package has the program that runs PHP @PHP@. Extensions are those of the
 distribution: php@PHP@-mysql, php@PHP@-gd and so on. Packages for several
 versions of PHP can be installed at the same time.
