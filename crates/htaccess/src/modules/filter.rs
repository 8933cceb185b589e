//! `mod_filter`, `mod_deflate` and the filters of the core: which filters a response and a request
//! pass.
//!
//! The only filter that changes a response here is `DEFLATE`; [`compression`] decides about it. The
//! names of others are known, so that directives with them are no errors.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::negotiation::token;
use crate::modules::pattern::Condition;
use crate::modules::services::Services;
use crate::record::Record;
use crate::support::{lossy, merge, without_parameters};
use crate::world::{Level, World};

/// Bytes below which Apache does not compress: the overhead of gzip and of the header fields.
const MIN_BYTES: u64 = 10 + 8 + 50;

/// Largest number of filters in a chain.
const MAX_FILTERS: usize = 1000;

/// Filters of a directory.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `SetOutputFilter`, in lower case, in order.
    output: Option<Vec<Vec<u8>>>,
    input: Option<Vec<Vec<u8>>>,
    /// `FilterDeclare`, `FilterProvider` and `AddOutputFilterByType`: filters by name.
    smart: Vec<Smart>,
    /// `FilterChain`: names of smart filters, in order.
    chain: Vec<Vec<u8>>,
    /// `FilterChain !`: the parent's chain is dropped.
    is_cleared: bool,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Filter;

    fn merged(&self, child: &Config) -> Config {
        let mut smart = self.smart.clone();
        for filter in &child.smart {
            match smart.iter_mut().find(|other| other.name == filter.name) {
                // As Apache: a filter that the child has hides the one of the parent.
                Some(other) => *other = filter.clone(),
                None => smart.push(filter.clone()),
            }
        }
        let mut chain = if child.is_cleared { Vec::new() } else { self.chain.clone() };
        chain.extend(child.chain.iter().cloned());
        Config {
            output: child.output.clone().or_else(|| self.output.clone()),
            input: child.input.clone().or_else(|| self.input.clone()),
            smart,
            chain,
            is_cleared: self.is_cleared || child.is_cleared,
        }
    }

    fn is_constant(&self) -> bool {
        let mut providers = self.smart.iter().flat_map(|filter| &filter.providers);
        providers.all(|provider| matches!(provider.when, When::Types(_)))
    }
}

impl Config {
    /// Returns true if a condition of a response may take a sub-request.
    pub(crate) fn looks_up(&self) -> bool {
        let mut providers = self.smart.iter().flat_map(|filter| &filter.providers);
        providers.any(|provider| matches!(&provider.when, When::Expression(condition) if condition.expr().looks_up()))
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive::new(
        "AddOutputFilterByType",
        Arguments::Words,
        Override::FILE_INFO,
        "output filter name followed by one or more content-types",
        by_type,
    ),
    Directive::new(
        "SetOutputFilter",
        Arguments::One,
        Override::FILE_INFO,
        "filter (or ; delimited list of filters) to be run on the request content",
        |config, _, arguments| {
            config.of_mut::<Config>().output = Some(names(arguments));
            Ok(())
        },
    ),
    Directive::new(
        "SetInputFilter",
        Arguments::One,
        Override::FILE_INFO,
        "filter (or ; delimited list of filters) to be run on the request body",
        |config, _, arguments| {
            config.of_mut::<Config>().input = Some(names(arguments));
            Ok(())
        },
    ),
    Directive::new(
        "FilterDeclare",
        Arguments::OneOrTwo,
        Override::OPTIONS,
        "filter-name [filter-type]",
        declare,
    ),
    Directive::new(
        "FilterProvider",
        Arguments::Three,
        Override::OPTIONS,
        "filter-name provider-name match-expression",
        provider,
    ),
    Directive::new(
        "FilterChain",
        Arguments::Each,
        Override::OPTIONS,
        "list of filter names with optional [+-=!@]",
        chain,
    ),
    Directive::new(
        "FilterProtocol",
        Arguments::TwoOrThree,
        Override::OPTIONS,
        "filter-name [provider-name] protocol-args",
        protocol,
    ),
    Directive::new(
        "FilterTrace",
        Arguments::Two,
        Override::NONE,
        "filter-name debug-level",
        ignored,
    ),
    Directive::new(
        "DeflateFilterNote",
        Arguments::OneOrTwo,
        Override::NONE,
        "Set a note to report on compression ratio",
        ignored,
    ),
    Directive::new(
        "DeflateWindowSize",
        Arguments::One,
        Override::NONE,
        "Set the Deflate window size (1-15)",
        ignored,
    ),
    Directive::new(
        "DeflateBufferSize",
        Arguments::One,
        Override::NONE,
        "Set the Deflate Buffer Size",
        ignored,
    ),
    Directive::new(
        "DeflateMemLevel",
        Arguments::One,
        Override::NONE,
        "Set the Deflate Memory Level (1-9)",
        ignored,
    ),
    Directive::new(
        "DeflateCompressionLevel",
        Arguments::One,
        Override::NONE,
        "Set the Deflate Compression Level (1-9)",
        ignored,
    ),
    Directive::new(
        "DeflateAlterETag",
        Arguments::One,
        Override::NONE,
        "Set how mod_deflate should modify ETAG response headers: 'AddSuffix' (default), \
         'NoChange' (2.2.x behavior), 'Remove'",
        ignored,
    ),
    Directive::new(
        "DeflateInflateLimitRequestBody",
        Arguments::One,
        Override::ALL,
        "Set a limit on size of inflated input",
        ignored,
    ),
    Directive::new(
        "DeflateInflateRatioLimit",
        Arguments::One,
        Override::ALL,
        "Set the inflate ratio limit above which inflation is aborted (default: 200)",
        ignored,
    ),
    Directive::new(
        "DeflateInflateRatioBurst",
        Arguments::One,
        Override::ALL,
        "Set the maximum number of following inflate ratios above limit (default: 3)",
        ignored,
    ),
];

/// Compression of the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No filter compresses it.
    None,
    /// The response stays unchanged, and `Vary` says that it could have been compressed.
    Refused,
    /// The response is to be sent with `Content-Encoding: gzip`, and with `-gzip` in its `ETag`.
    Gzip,
}

/// Decides whether a response is to be compressed, and sets `Vary`. `by_extension` are the output
/// filters of [`mime::type_checker`](crate::modules::mime::type_checker); `length` is the length of
/// the body if it is known. Comes before [`headers::response`](crate::modules::headers::response);
/// the fields of the encoding are set by the caller.
pub fn compression(
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
    by_extension: &[Vec<u8>],
    length: Option<u64>,
) -> Compression {
    let names = output_filters(record, world, services, by_extension);
    // The filter is run once; a second one finds the encoding of the first.
    if !names.iter().any(|name| name == b"deflate")
        || length.is_some_and(|length| length <= MIN_BYTES)
    {
        return Compression::None;
    }
    let is_error_document = !matches!(record.status, 200..=299)
        && record.env.get(b"REDIRECT_STATUS").is_some_and(|status| status != b"200");
    let is_excluded = record.is_sub_request
        || is_error_document
        || matches!(record.status, 204 | 304)
        || record.env.get(b"no-gzip").is_some()
        || record.headers_out.get(b"Content-Range").is_some();
    let is_html = record.content_type.as_ref().is_some_and(|name| name.starts_with(b"text/html"));
    let is_html_only = record.env.get(b"gzip-only-text/html") == Some(b"1");
    if is_excluded || (is_html_only && !is_html) || is_encoded(record) {
        return Compression::None;
    }
    merge(&mut record.headers_out, b"Vary", b"Accept-Encoding");
    let is_forced = record.env.get(b"force-gzip").is_some();
    if is_forced || record.headers_in.get(b"Accept-Encoding").is_some_and(accepts_gzip) {
        Compression::Gzip
    } else {
        Compression::Refused
    }
}

/// Returns the names of the filters that a response passes, in lower case.
pub fn output_filters(
    record: &Record,
    world: &dyn World,
    services: &dyn Services,
    by_extension: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let config = record.config.of::<Config>();
    let mut names = by_extension.to_vec();
    names.extend(config.output.iter().flatten().cloned());
    for name in &config.chain {
        match config.smart.iter().find(|filter| filter.name == *name) {
            Some(filter) => names.extend(filter.provider(record, world, services)),
            None => {
                let message = format!("Unknown filter {} not added", lossy(name));
                world.log(Level::Warn, &message);
            }
        }
    }
    names
}

/// Returns the names of `SetInputFilter`, in lower case.
pub fn input_filters(record: &Record) -> Vec<Vec<u8>> {
    record.config.of::<Config>().input.clone().unwrap_or_default()
}

/// Filter that chooses one of several.
#[derive(Debug, Clone)]
struct Smart {
    name: Vec<u8>,
    providers: Vec<Provider>,
}

#[derive(Debug, Clone)]
struct Provider {
    /// In lower case.
    name: Vec<u8>,
    when: When,
}

#[derive(Debug, Clone)]
enum When {
    Types(Vec<Vec<u8>>),
    Expression(Condition),
}

impl Smart {
    /// Returns the first provider that holds for the response.
    fn provider(
        &self,
        record: &Record,
        world: &dyn World,
        services: &dyn Services,
    ) -> Option<Vec<u8>> {
        let holds = |provider: &&Provider| match &provider.when {
            When::Types(types) => {
                let content_type = record.content_type.as_deref().map(without_parameters);
                content_type.is_some_and(|name| types.iter().any(|wanted| name == wanted))
            }
            When::Expression(condition) => {
                services.holds(record, condition).unwrap_or_else(|error| {
                    world.log(Level::Error, &format!("FilterProvider: {error}"));
                    false
                })
            }
        };
        self.providers.iter().find(holds).map(|provider| provider.name.clone())
    }
}

fn is_encoded(record: &Record) -> bool {
    let tables = [&record.headers_out, &record.err_headers_out];
    let of_tables = tables.iter().filter_map(|table| table.get(b"Content-Encoding"));
    let mut all = of_tables.chain(record.content_encoding.as_deref());
    all.any(|encodings| {
        let mut names = encodings.split(|&byte| byte == b',').map(crate::support::trimmed);
        names.any(|name| !matches!(name, b"" | b"identity" | b"7bit" | b"8bit" | b"binary"))
    })
}

/// Looks for `gzip` with another quality than zero, as `mod_deflate` does.
fn accepts_gzip(accepted: &[u8]) -> bool {
    let mut rest = accepted;
    loop {
        let name = token(&mut rest, false);
        if name.is_empty() {
            return false;
        }
        if name.eq_ignore_ascii_case(b"gzip") {
            break;
        }
        while let Some(after) = rest.strip_prefix(b";") {
            rest = after;
            token(&mut rest, true);
        }
        rest = rest.strip_prefix(b",").unwrap_or(rest);
    }
    let Some(mut parameters) = rest.strip_prefix(b";") else { return true };
    let quality = token(&mut parameters, true);
    quality.len() < 3 || !b"q=0.000".starts_with(quality)
}

fn ignored(_: &mut DirConfig, _: &Place<'_>, _: &[&[u8]]) -> Result<(), String> {
    Ok(())
}

fn names(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let list = arguments.first().copied().unwrap_or_default();
    let names = list.split(|&byte| byte == b';').filter(|name| !name.is_empty());
    let names = names.filter(|name| !name.eq_ignore_ascii_case(b"none"));
    names.map(<[u8]>::to_ascii_lowercase).collect()
}

fn by_type(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let [list, types @ ..] = arguments else {
        return Err("AddOutputFilterByType requires at least two arguments".into());
    };
    if types.is_empty() {
        return Err("AddOutputFilterByType requires at least two arguments".into());
    }
    for name in list.split(|&byte| byte == b';').filter(|name| !name.is_empty()) {
        let smart = [b"BYTYPE:", name].concat();
        let types = types.iter().map(|name| name.to_vec()).collect();
        add_provider(config.of_mut::<Config>(), &smart, name, When::Types(types))?;
        if !config.of::<Config>().chain.contains(&smart) {
            config.of_mut::<Config>().chain.push(smart);
        }
    }
    Ok(())
}

fn add_provider(config: &mut Config, smart: &[u8], name: &[u8], when: When) -> Result<(), String> {
    // Filters of Debian's modules that are loaded.
    if !KNOWN.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        return Err(format!("Unknown filter provider {}", lossy(name)));
    }
    if config.smart.len() >= MAX_FILTERS {
        return Err("too many filters".into());
    }
    let provider = Provider { name: name.to_ascii_lowercase(), when };
    match config.smart.iter_mut().find(|filter| filter.name == smart) {
        // The latest provider is asked first.
        Some(filter) => filter.providers.insert(0, provider),
        None => config.smart.push(Smart { name: smart.to_vec(), providers: vec![provider] }),
    }
    Ok(())
}

/// Output filters that Apache's modules on Debian register.
const KNOWN: &[&str] = &[
    "DEFLATE",
    "INFLATE",
    "BROTLI_COMPRESS",
    "SUBSTITUTE",
    "SED",
    "RATE_LIMIT",
    "CONTENT_LENGTH",
    "BYTERANGE",
    "CHUNK",
    "FIXUP_HEADERS_OUT",
    "FIXUP_HEADERS_ERR",
    "MOD_EXPIRES",
    "OLD_WRITE",
];

fn declare(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let Some(name) = arguments.first() else { return Ok(()) };
    let config = config.of_mut::<Config>();
    config.smart.retain(|filter| filter.name != *name);
    if config.smart.len() < MAX_FILTERS {
        config.smart.push(Smart { name: name.to_vec(), providers: Vec::new() });
    }
    Ok(())
}

fn provider(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let [smart, name, expression] = arguments else { return Ok(()) };
    let condition = Condition::parse(expression)
        .map_err(|error| format!("Error parsing FilterProvider expression:{error}"))?;
    add_provider(config.of_mut::<Config>(), smart, name, When::Expression(condition))
}

fn protocol(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let Some(filter) = config
        .of::<Config>()
        .smart
        .iter()
        .find(|filter| arguments.first() == Some(&filter.name.as_slice()))
    else {
        return Err("FilterProtocol: No such filter".into());
    };
    if let [_, name, _] = arguments
        && !filter.providers.iter().any(|provider| provider.name.eq_ignore_ascii_case(name))
    {
        return Err("FilterProtocol: No such provider for this filter".into());
    }
    Ok(())
}

fn chain(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let Some(argument) = arguments.first() else { return Ok(()) };
    let config = config.of_mut::<Config>();
    let (action, name) = match argument.split_first() {
        Some((&action @ (b'+' | b'-' | b'=' | b'!' | b'@'), name)) => (action, name.to_vec()),
        _ => (b'+', argument.to_vec()),
    };
    if config.chain.len() >= MAX_FILTERS {
        return Err("too many filters".into());
    }
    match action {
        // Filters of the parent stay.
        b'-' => config.chain.retain(|other| *other != name),
        b'!' => {
            config.chain.clear();
            config.is_cleared = true;
        }
        b'=' => {
            config.chain = vec![name];
            config.is_cleared = true;
        }
        b'@' => config.chain.insert(0, name),
        _ => config.chain.push(name),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::{Stub, apply, record};

    fn decided(lines: &[&str], content_type: &str, accepted: &str, env: &str) -> Compression {
        let mut config = DirConfig::default();
        config = config.merged(&apply(DIRECTIVES, lines).unwrap());
        let mut record = record(config);
        record.content_type = Some(content_type.into());
        if !accepted.is_empty() {
            record.headers_in.set("Accept-Encoding", accepted);
        }
        if !env.is_empty() {
            record.env.set(env, "1");
        }
        compression(&mut record, &Stub::default(), &Stub::default(), &[], Some(1000))
    }

    #[test]
    fn responses_are_compressed_by_type_client_and_variables() {
        use Compression::{Gzip, None, Refused};
        let html = "AddOutputFilterByType DEFLATE text/html";
        for (lines, content_type, accepted, env, expected) in [
            (vec![html], "text/html; charset=utf-8", "gzip", "", Gzip),
            (vec![html], "text/css", "gzip", "", None),
            (vec![html], "text/html", "", "", Refused),
            (vec![html], "text/html", "br, gzip;q=0.5", "", Gzip),
            (vec![html], "text/html", "gzip;q=0", "", Refused),
            (vec![html], "text/html", "br", "force-gzip", Gzip),
            (vec![html], "text/html", "gzip", "no-gzip", None),
            (vec!["SetOutputFilter DEFLATE"], "image/png", "gzip", "", Gzip),
            (vec!["SetOutputFilter deflate"], "image/png", "gzip", "gzip-only-text/html", None),
            (vec!["SetOutputFilter NONE"], "text/html", "gzip", "", None),
            (vec!["FilterProvider z DEFLATE true", "FilterChain z"], "a/b", "gzip", "", Gzip),
            (vec!["FilterProvider z DEFLATE false", "FilterChain z"], "a/b", "gzip", "", None),
            (vec![html, "FilterChain !"], "text/html", "gzip", "", None),
            (vec!["FilterChain DEFLATE"], "text/html", "gzip", "", None),
            (vec!["AddOutputFilterByType DEFLATE *"], "text/html", "gzip", "", None),
        ] {
            assert_eq!(
                decided(&lines, content_type, accepted, env),
                expected,
                "{lines:?} {accepted} {env}"
            );
        }
    }

    #[test]
    fn errors_are_those_of_apache() {
        for (line, expected) in [
            (
                "AddOutputFilterByType DEFLATE",
                "AddOutputFilterByType requires at least two arguments",
            ),
            ("AddOutputFilterByType X text/html", "Unknown filter provider X"),
            ("FilterProtocol x change=yes", "FilterProtocol: No such filter"),
        ] {
            assert_eq!(apply(DIRECTIVES, &[line]).unwrap_err(), expected, "{line}");
        }
    }
}
