//! The modules of the engine and the names of their directives.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::directive::Directive;
use crate::modules::{
    access_compat, alias, auth_basic, authn_file, authz, authz_groupfile, autoindex, core, dir,
    env, expires, filter, headers, mime, negotiation, php, rewrite, setenvif,
};

/// A module, as `<IfModule>` and the table of directives see it.
#[derive(Debug)]
pub struct Module {
    /// Name of its source: `mod_dir.c`.
    pub file: &'static str,
    /// Name in `LoadModule`: `dir_module`.
    pub identifier: &'static str,
    /// Directives of the module.
    pub directives: &'static [Directive],
}

/// All modules of the engine.
pub static MODULES: &[Module] = &[
    module("core.c", "core_module", core::DIRECTIVES),
    module("mod_access_compat.c", "access_compat_module", access_compat::DIRECTIVES),
    module("mod_alias.c", "alias_module", alias::DIRECTIVES),
    module("mod_auth_basic.c", "auth_basic_module", auth_basic::DIRECTIVES),
    module("mod_authn_core.c", "authn_core_module", &[]),
    module("mod_authn_file.c", "authn_file_module", authn_file::DIRECTIVES),
    module("mod_authz_core.c", "authz_core_module", authz::DIRECTIVES),
    module("mod_authz_groupfile.c", "authz_groupfile_module", authz_groupfile::DIRECTIVES),
    module("mod_authz_host.c", "authz_host_module", &[]),
    module("mod_authz_user.c", "authz_user_module", &[]),
    module("mod_autoindex.c", "autoindex_module", autoindex::DIRECTIVES),
    module("mod_dir.c", "dir_module", dir::DIRECTIVES),
    module("mod_env.c", "env_module", env::DIRECTIVES),
    module("mod_expires.c", "expires_module", expires::DIRECTIVES),
    module("mod_deflate.c", "deflate_module", &[]),
    module("mod_filter.c", "filter_module", filter::DIRECTIVES),
    module("mod_headers.c", "headers_module", headers::DIRECTIVES),
    module("mod_mime.c", "mime_module", mime::DIRECTIVES),
    module("mod_negotiation.c", "negotiation_module", negotiation::DIRECTIVES),
    module("mod_php.c", "php_module", php::DIRECTIVES),
    module("mod_rewrite.c", "rewrite_module", rewrite::DIRECTIVES),
    module("mod_setenvif.c", "setenvif_module", setenvif::DIRECTIVES),
    module("mod_so.c", "so_module", &[]),
    module("mod_version.c", "version_module", &[]),
    module("http_core.c", "http_module", &[]),
];

const fn module(
    file: &'static str,
    identifier: &'static str,
    directives: &'static [Directive],
) -> Module {
    Module { file, identifier, directives }
}

/// Returns the directives of a name, one for each module that has it.
pub fn find(name: &str) -> &'static [&'static Directive] {
    static INDEX: OnceLock<HashMap<String, Vec<&'static Directive>>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let mut index: HashMap<String, Vec<&'static Directive>> = HashMap::new();
        for directive in MODULES.iter().flat_map(|module| module.directives.iter()) {
            index.entry(directive.name.to_ascii_lowercase()).or_default().push(directive);
        }
        index
    });
    index.get(&name.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
}

/// Returns the module of a name as `<IfModule>` has it: `mod_dir.c` or `dir_module`.
pub fn find_module(name: &[u8]) -> Option<&'static Module> {
    MODULES
        .iter()
        .find(|module| module.file.as_bytes() == name || module.identifier.as_bytes() == name)
}

/// Returns true for a directive that Apache knows but allows in the server's configuration only.
pub fn is_server_only(name: &str) -> bool {
    SERVER_ONLY.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(name))
}

const SERVER_ONLY: &str = "
    <Directory <DirectoryMatch <Location <LocationMatch <VirtualHost
    AcceptFilter AccessFileName AddModuleInfo Alias AliasMatch AllowEncodedSlashes AllowOverride \
    AllowOverrideList
    AuthBasicUseDigestAlgorithm BufferSize CoreDumpDirectory CustomLog Define DeflateBufferSize
    DeflateCompressionLevel DeflateFilterNote DeflateMemLevel DeflateWindowSize DocumentRoot \
    ErrorLog
    ErrorLogFormat ExtendedStatus FlushMaxPipelined FlushMaxThreshold GlobalLog \
    GracefulShutdownTimeout
    Group HostnameLookups HttpProtocolOptions Include IncludeOptional KeepAlive KeepAliveTimeout
    LimitInternalRecursion LimitRequestFields LimitRequestFieldsize LimitRequestLine Listen \
    ListenBackLog LoadFile
    LoadModule LogFormat LogLevel MaxConnectionsPerChild MaxKeepAliveRequests MaxMemFree \
    MaxRangeOverlaps
    MaxRangeReversals MaxRanges MaxRequestsPerChild MaxRequestWorkers MaxSpareServers \
    MergeSlashes MergeTrailers
    MinSpareServers Mutex NameVirtualHost php_admin_flag php_admin_value PHPINIDir PidFile Port
    Protocol Protocols ProtocolsHonorOrder ReadBufferSize
    ReceiveBufferSize RegexDefaultOptions RegisterHttpMethod RequestReadTimeout RewriteLock \
    RewriteLog
    RewriteLogLevel RewriteMap ScoreBoardFile ScriptAlias ScriptAliasMatch ScriptLog \
    SecurityModel SeeRequestTail
    SendBufferSize ServerAdmin ServerAlias ServerLimit ServerName ServerPath ServerRoot ServerTokens
    StartServers StrictHostCheck ThreadStackSize TimeOut TraceEnable TransferLog TypesConfig \
    UnDefine
    UseCanonicalName UseCanonicalPhysicalPort User
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DirConfig, ModuleConfig, SLOTS};

    #[test]
    fn each_module_with_directives_has_its_own_slot() {
        fn slot<C: ModuleConfig>() -> usize {
            let mut config = DirConfig::default();
            let _: &mut C = config.of_mut();
            let _: &C = config.of();
            C::SLOT as usize
        }
        let mut slots = vec![
            slot::<core::Config>(),
            slot::<access_compat::Config>(),
            slot::<alias::Config>(),
            slot::<auth_basic::Config>(),
            slot::<authn_file::Config>(),
            slot::<authz::Config>(),
            slot::<authz_groupfile::Config>(),
            slot::<autoindex::Config>(),
            slot::<dir::Config>(),
            slot::<env::Config>(),
            slot::<expires::Config>(),
            slot::<filter::Config>(),
            slot::<headers::Config>(),
            slot::<mime::Config>(),
            slot::<negotiation::Config>(),
            slot::<php::Config>(),
            slot::<rewrite::Config>(),
            slot::<setenvif::Config>(),
        ];
        slots.sort_unstable();
        let expected: Vec<_> = (0..SLOTS).collect();
        assert_eq!(slots, expected);
    }
}
