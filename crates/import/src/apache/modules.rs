//! Modules of Apache: which ones there are, for `<IfModule>`.

use std::collections::BTreeSet;

/// Modules that Debian's program has built in.
const BUILT_IN: &str = "core http_core so watchdog log_config logio version unixd";

/// Modules that Debian turns on.
const TURNED_ON: &str = "access_compat alias auth_basic authn_core authn_file authz_core authz_host \
     authz_user autoindex deflate dir env filter mime negotiation reqtimeout setenvif status \
     mpm_prefork php";

/// Modules that a host has turned on if it uses their directives, or words that only have a meaning
/// with them.
const BY_USE: [(&str, &str); 33] = [
    ("rewrite", "RewriteEngine RewriteRule RewriteCond RewriteOptions RewriteMap RewriteBase"),
    ("headers", "Header RequestHeader"),
    ("expires", "ExpiresActive ExpiresByType ExpiresDefault"),
    (
        "ssl",
        "SSLEngine SSLCertificateFile SSLProtocol SSLRequireSSL SSLProxyEngine SSLOptions \
             SSLCipherSuite SSLHonorCipherOrder SSLUseStapling SSLStaplingCache SSLVerifyClient",
    ),
    ("socache_shmcb", "SSLEngine SSLStaplingCache SSLSessionCache"),
    (
        "proxy",
        "ProxyPass ProxyPassMatch ProxyPassReverse <Proxy ProxyRequests ProxyPreserveHost \
               proxy: ProxyTimeout",
    ),
    ("proxy_http", "http:// https:// ProxyPass"),
    ("proxy_fcgi", "fcgi:// proxy:fcgi ProxyFCGISetEnvIf ProxyFCGIBackendType"),
    ("proxy_wstunnel", "ws:// wss://"),
    ("proxy_balancer", "balancer:// BalancerMember"),
    ("lbmethod_byrequests", "balancer:// BalancerMember"),
    ("lbmethod_bybusyness", "lbmethod=bybusyness"),
    ("lbmethod_bytraffic", "lbmethod=bytraffic"),
    ("slotmem_shm", "balancer:// BalancerMember"),
    ("macro", "<Macro Use"),
    ("userdir", "UserDir"),
    ("remoteip", "RemoteIPHeader RemoteIPTrustedProxy RemoteIPInternalProxy RemoteIPProxyProtocol"),
    ("substitute", "Substitute"),
    ("vhost_alias", "VirtualDocumentRoot VirtualScriptAlias"),
    ("http2", "H2Push H2Direct h2 h2c"),
    ("auth_digest", "AuthDigestProvider AuthDigestDomain"),
    ("authz_groupfile", "AuthGroupFile"),
    ("authz_owner", "file-owner file-group"),
    ("actions", "Action Script"),
    ("info", "server-info"),
    ("ratelimit", "RATE_LIMIT"),
    ("speling", "CheckSpelling CheckCaseOnly"),
    ("usertrack", "CookieTracking CookieName"),
    ("ext_filter", "ExtFilterDefine"),
    ("dav", "Dav DavLockDB"),
    ("cache", "CacheEnable"),
    ("authnz_ldap", "AuthLDAPURL"),
    ("unique_id", "UNIQUE_ID"),
];

/// Modules whose names have another form than `mod_NAME.c` and `NAME_module`.
const NAMES: [(&str, &str); 8] = [
    ("core", "core.c"),
    ("http_core", "http_core.c"),
    ("mpm_prefork", "prefork.c"),
    ("mpm_worker", "worker.c"),
    ("mpm_event", "event.c"),
    ("mpm_itk", "mpm_itk.c"),
    ("http2", "mod_http2.c"),
    ("php", "mod_php.c"),
];

/// The modules of a configuration.
#[derive(Debug, Default)]
pub struct Modules {
    /// Names without `mod_` and `_module`.
    loaded: BTreeSet<String>,
}

impl Modules {
    /// Returns the modules that are built in.
    pub fn built_in() -> Modules {
        Modules { loaded: BUILT_IN.split_whitespace().map(str::to_owned).collect() }
    }

    /// Returns the modules of Debian's configuration, and those that these texts use.
    pub fn of_hosts(texts: &[String]) -> Modules {
        let mut modules = Modules::built_in();
        modules.loaded.extend(TURNED_ON.split_whitespace().map(str::to_owned));
        let words: BTreeSet<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
        let uses = |sign: &str| match sign {
            _ if sign.ends_with("//") || sign.contains(':') => {
                texts.iter().any(|text| text.contains(sign))
            }
            _ => words.iter().any(|word| {
                word.trim_matches(['"', '\'', '>']).eq_ignore_ascii_case(sign.trim_matches('>'))
            }),
        };
        for (module, signs) in BY_USE {
            if signs.split_whitespace().any(uses) {
                modules.loaded.insert(module.to_owned());
            }
        }
        modules
    }

    /// Adds a module by its identifier in `LoadModule`.
    pub fn load(&mut self, identifier: &str) {
        self.loaded.insert(stem(identifier).to_owned());
    }

    /// Returns true if a module is there; its name is as `<IfModule>` or `LoadModule` have it.
    pub fn has(&self, name: &str) -> bool {
        if let Some((module, _)) = NAMES.iter().find(|(_, file)| *file == name) {
            return self.loaded.contains(*module);
        }
        let is_name = name.ends_with("_module") || name.ends_with(".c");
        is_name && self.loaded.contains(stem(name))
    }
}

/// Returns the name of a module without the parts that all have.
pub fn stem(name: &str) -> &str {
    match name.strip_suffix("_module") {
        Some(stem) => stem,
        None => {
            let name = name.strip_suffix(".c").unwrap_or(name);
            name.strip_prefix("mod_").unwrap_or(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_debian_and_those_in_use_are_there() {
        let text = "<IfModule mod_headers.c>\nHeader set A b\n</IfModule>\nRewriteEngine On\n\
                    ProxyPass / http://127.0.0.1/";
        let modules = Modules::of_hosts(&[text.to_owned()]);
        for name in [
            "mod_dir.c",
            "dir_module",
            "mod_headers.c",
            "rewrite_module",
            "mod_proxy.c",
            "mod_proxy_http.c",
            "prefork.c",
            "mod_php.c",
            "mod_authz_core.c",
            "mpm_prefork_module",
        ] {
            assert!(modules.has(name), "{name}");
        }
        for name in
            ["mod_security2.c", "mod_ssl.c", "mod_php7.c", "worker.c", "headers", "mod_cgi.c"]
        {
            assert!(!modules.has(name), "{name}");
        }
    }
}
