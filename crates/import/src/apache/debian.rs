//! The configuration that stands around virtual hosts on Debian.

/// Directives of Debian's files with an effect on a host. Types, languages, icons and compression
/// are those of the engine of `.htaccess`.
pub const AROUND_HOSTS: &str = r#"
Timeout 300
User ${APACHE_RUN_USER}
Group ${APACHE_RUN_GROUP}
ErrorLog ${APACHE_LOG_DIR}/error.log
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>
<Directory /usr/share>
    AllowOverride None
    Require all granted
</Directory>
<Directory /var/www/>
    Options Indexes FollowSymLinks
    AllowOverride None
    Require all granted
</Directory>
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
LogFormat "%h %l %u %t \"%r\" %>s %O" common
LogFormat "%{Referer}i -> %U" referer
LogFormat "%{User-agent}i" agent
CustomLog ${APACHE_LOG_DIR}/other_vhosts_access.log vhost_combined
DirectoryIndex index.html index.cgi index.pl index.php index.xhtml index.htm
Alias /icons/ "/usr/share/apache2/icons/"
<Directory "/usr/share/apache2/icons">
    Options FollowSymLinks
    AllowOverride None
    Require all granted
</Directory>
<Location /server-status>
    SetHandler server-status
    Require local
</Location>
<FilesMatch ".+\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
"#;

/// Where hosts without a `DocumentRoot` have their files.
pub const NO_ROOT: &str = "/var/www/html";

/// Expression of the names that Debian's mod_php runs.
pub const SCRIPTS: &str = r".+\.ph(?:ar|p|tml)$";
