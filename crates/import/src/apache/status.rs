//! Directives whose status does not depend on their place.

use crate::Status;

/// Directives that need nothing, with the reason.
const NOT_NEEDED: [(&str, &str); 32] = [
    ("acceptfilter", "the kernel holds back connections without data"),
    ("bufferedlogs", "log lines are written together on a busy server"),
    ("coredumpdirectory", "it is a matter of the kernel (core_pattern)"),
    ("defaultruntimedir mutex scoreboardfile", "processes share memory without names"),
    ("defaulttype port namevirtualhost", "Apache ignores it, too"),
    ("directorycheckhandler", "a directory never has another handler"),
    ("enablemmap enablesendfile", "files are always sent from the page cache"),
    ("extendedstatus", "the status is always complete"),
    (
        "flushmaxpipelined flushmaxthreshold readbuffersize sendbuffersize receivebuffersize \
         buffersize",
        "buffers have limits of their own",
    ),
    (
        "keepalive maxkeepaliverequests keepalivetimeout",
        "connections are kept, with limits of their own",
    ),
    (
        "startservers minspareservers maxspareservers maxrequestworkers maxclients serverlimit \
         threadsperchild threadlimit minsparethreads maxsparethreads maxconnectionsperchild \
         maxrequestsperchild asyncrequestworkerfactor listenbacklog listencoresbucketsratio \
         gracefulshutdowntimeout maxmemfree threadstacksize",
        "requests are not processes or threads, and PHP has as many processes as it needs",
    ),
    ("limitinternalrecursion", "at most ten internal redirects follow each other"),
    ("limitxmlrequestbody", "there is no WebDAV"),
    ("loadfile", "no library of Apache is loaded"),
    ("maxrangeoverlaps maxrangereversals maxranges", "of at most 64 ranges no byte is sent twice"),
    ("mergeslashes mergetrailers", "paths are always normalised, and trailers never merged"),
    ("pidfile", "the service manager knows the process"),
    ("protocolshonororder", "HTTP/2 precedes HTTP/1.1"),
    ("proxybadheader proxystatus", "howdah status shows the servers"),
    ("proxyiobuffersize proxyreceivebuffersize", "responses are read at the server's speed"),
    ("qualifyredirecturl", "redirects have the host of the request"),
    ("requestreadtimeout", "clients have a minimum rate (http.min_rate) and timeouts"),
    ("seerequesttail", "URLs in the status are not cut in the middle"),
    ("serveradmin", "pages of the server have no address"),
    ("serversignature", "pages of the server have no signature"),
    ("serverpath", "all clients send a host"),
    ("stricthostcheck", "hosts are compared as Apache compares them by default"),
    (
        "sslrandomseed sslpassphrasedialog sslsessioncache sslsessioncachetimeout \
         sslstaplingcache sslcompression sslinsecurerenegotiation sslusestapling \
         sslstaplingrespondertimeout sslstaplingreturnrespondererrors sslstaplingstandardcachetimeout \
         sslstaplingerrorcachetimeout sslstaplingfaketrylater sslstaplingforceurl sslcryptodevice \
         sslrenegbuffersize",
        "the TLS library takes care of it",
    ),
    ("traceenable", "TRACE is not answered"),
    ("usecanonicalphysicalport", "it concerns only addresses that a redirect never shows here"),
    (
        "addmoduleinfo cgidscripttimeout scriptsock scriptlog scriptlogbuffer scriptloglength",
        "CGI programs are not run",
    ),
    (
        "deflatebuffersize deflatememlevel deflatewindowsize deflatefilternote deflateinflatelimitrequestbody \
      deflateinflateratiolimit deflateinflateratioburst",
        "compression takes care of it",
    ),
];

/// Returns the reason for a directive that needs nothing.
pub fn not_needed(name: &str, words: &[String]) -> Option<&'static str> {
    let first = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    let is_off = first == "off";
    match name {
        "loglevel" => {
            return Some(
                "the log has warnings and errors of all sites; --log-level sets another level",
            );
        }
        "dav" if is_off => return Some("there is no WebDAV"),
        "hostnamelookups" if is_off => return Some("addresses are logged"),
        "allowencodedslashes" if is_off => return Some("an encoded slash is a 404 as well"),
        "proxyrequests" | "proxyvia" if is_off => return Some("Howdah is no forward proxy"),
        "hostnamelookups"
        | "allowencodedslashes"
        | "acceptpathinfo"
        | "proxyrequests"
        | "proxyvia"
        | "proxydomain" => return None,
        _ => {}
    }
    let found =
        NOT_NEEDED.iter().find(|(names, _)| names.split_whitespace().any(|own| own == name));
    found.map(|(_, reason)| *reason)
}

/// Returns the status of a directive for which the document has nothing, and the reason.
pub fn of_unknown(name: &str) -> (Status, String) {
    let is = |prefix: &str| name.starts_with(prefix);
    let reason = if is("sec") || is("modsecurity") {
        "there is no mod_security: put a filter in front of the server if its rules are needed"
    } else if is("dos") {
        "there is no mod_evasive; \"limit\" of an action refuses clients that ask too often"
    } else if is("wsgi") || is("passenger") || is("perl") || is("lua") || is("<perl") || is("cgi") {
        "Howdah runs PHP; other programs need a server of their own, and a proxy in front of it"
    } else if is("dav") {
        "there is no WebDAV"
    } else if is("authldap") || is("authdbd") || is("authdigest") || is("authform") || is("session")
    {
        "passwords come from files alone"
    } else if is("pagespeed") || is("modpagespeed") {
        "there is no mod_pagespeed"
    } else {
        match name {
            "fcgidwrapper" | "fcgidinitialenv" | "fcgidmaxrequestlen" | "fcgidiotimeout" => {
                "the PHP of the application runs the scripts"
            }
            "allowencodedslashes" => {
                "a file whose path has an encoded slash is not found; other servers get the path as it was sent"
            }
            "hostnamelookups" => "addresses are logged, not names",
            "proxyrequests" => "Howdah is no forward proxy",
            _ => "Howdah does not know this directive",
        }
    };
    let is_harmless =
        matches!(name, "hostnamelookups" | "allowencodedslashes") || name.starts_with("fcgid");
    (if is_harmless { Status::Changed } else { Status::NotConverted }, reason.to_owned())
}
