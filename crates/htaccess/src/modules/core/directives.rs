//! Directives of the core that are no sections.

use std::num::IntErrorKind;

use super::error_document::{ErrorDocument, put, shared};
use super::settings::Signature;
use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Override, Place, is_on};
use crate::modules::pattern::Text;
use crate::record::PathInfo;
use crate::support::atoi;

type Outcome = Result<(), String>;

/// Directives of the core.
pub const DIRECTIVES: &[Directive] = &[
    Directive::new(
        "AcceptPathInfo",
        Arguments::One,
        Override::FILE_INFO,
        "Set to on or off for PATH_INFO to be accepted by handlers, or default for the per-handler \
         preference",
        accept_path_info,
    ),
    Directive::new(
        "CGIPassAuth",
        Arguments::Flag,
        Override::AUTH_CONFIG,
        "",
        |config, _, words| {
            config.of_mut::<super::Config>().pass_auth = Some(is_on(words));
            Ok(())
        },
    ),
    Directive::new(
        "CGIVar",
        Arguments::Two,
        Override::FILE_INFO,
        "Controls how some CGI variables are set",
        cgi_var,
    ),
    Directive::new("ContentDigest", Arguments::Flag, Override::OPTIONS, "", |config, _, words| {
        config.of_mut::<super::Config>().content_digest = Some(is_on(words));
        Ok(())
    }),
    Directive::new(
        "DefaultType",
        Arguments::One,
        Override::FILE_INFO,
        "the default media type for otherwise untyped files (DEPRECATED)",
        |_, _, _| Ok(()),
    ),
    Directive::new(
        "EnableMMAP",
        Arguments::One,
        Override::FILE_INFO,
        "Controls whether memory-mapping may be used to read files",
        |config, _, words| {
            config.of_mut::<super::Config>().enable_mmap = Some(on_or_off(words[0])?);
            Ok(())
        },
    ),
    Directive::new(
        "EnableSendfile",
        Arguments::One,
        Override::FILE_INFO,
        "Controls whether sendfile may be used to transmit files",
        |config, _, words| {
            config.of_mut::<super::Config>().enable_sendfile = Some(on_or_off(words[0])?);
            Ok(())
        },
    ),
    Directive::new(
        "ErrorDocument",
        Arguments::Two,
        Override::FILE_INFO,
        "Change responses for HTTP errors",
        |config, _, words| {
            if let Some((status, document)) = ErrorDocument::parse(words[0], words[1])? {
                put(&mut config.of_mut::<super::Config>().error_documents, status, document);
            }
            Ok(())
        },
    ),
    Directive::new("FileETag", Arguments::Raw, Override::FILE_INFO, "", |config, _, words| {
        config.of_mut::<super::Config>().etag.add(words[0])
    }),
    Directive::new(
        "ForceType",
        Arguments::One,
        Override::FILE_INFO,
        "a mime type that overrides other configured type",
        |config, _, words| {
            config.of_mut::<super::Config>().force_type =
                Some(shared(&words[0].to_ascii_lowercase()));
            Ok(())
        },
    ),
    Directive::new(
        "LimitRequestBody",
        Arguments::One,
        Override::ALL,
        "Limit (in bytes) on maximum size of request message body",
        |config, _, words| {
            config.of_mut::<super::Config>().limit_request_body = Some(number(words[0])?);
            Ok(())
        },
    ),
    Directive::new(
        "LimitXMLRequestBody",
        Arguments::One,
        Override::ALL,
        "Limit (in bytes) on maximum size of an XML-based request body",
        |config, _, words| {
            // Text that is no number is 0, which is unlimited.
            let limit = u64::try_from(atoi(words[0]))
                .map_err(|_| "LimitXMLRequestBody requires a non-negative integer.".to_owned())?;
            config.of_mut::<super::Config>().limit_xml_request_body = Some(limit);
            Ok(())
        },
    ),
    Directive::new("Options", Arguments::Raw, Override::OPTIONS, "", |config, place, words| {
        config.of_mut::<super::Config>().options.add(words[0], place.options)
    }),
    Directive::new(
        "QualifyRedirectURL",
        Arguments::Flag,
        Override::FILE_INFO,
        "",
        |config, _, words| {
            config.of_mut::<super::Config>().qualify_redirect_url = Some(is_on(words));
            Ok(())
        },
    ),
    Directive::new("RLimitCPU", Arguments::OneOrTwo, Override::ALL, RLIMIT_CPU, |_, _, _| Ok(())),
    Directive::new("RLimitMEM", Arguments::OneOrTwo, Override::ALL, RLIMIT_MEM, |_, _, _| Ok(())),
    Directive::new("RLimitNPROC", Arguments::OneOrTwo, Override::ALL, RLIMIT_NPROC, |_, _, _| {
        Ok(())
    }),
    Directive::new(
        "ServerSignature",
        Arguments::One,
        Override::ALL,
        "En-/disable server signature (on|off|email)",
        signature,
    ),
    Directive::new(
        "SetHandler",
        Arguments::One,
        Override::FILE_INFO,
        "a handler name that overrides any other configured handler",
        |config, _, words| {
            let handler = Text::parse(words[0]);
            config.of_mut::<super::Config>().handler =
                Some(handler.map_err(|error| format!("Can't parse expression : {error}"))?);
            Ok(())
        },
    ),
];

const RLIMIT_CPU: &str = "Soft/hard limits for max CPU usage in seconds";
const RLIMIT_MEM: &str = "Soft/hard limits for max memory usage per process";
const RLIMIT_NPROC: &str = "soft/hard limits for max number of processes per uid";

fn on_or_off(word: &[u8]) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err("parameter must be 'on' or 'off'".to_owned()),
    }
}

fn number(word: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| "LimitRequestBody requires a non-negative integer.".to_owned()),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => {
            Err("LimitRequestBody argument is not parsable.".to_owned())
        }
        Err(_) => Err("LimitRequestBody requires a non-negative integer.".to_owned()),
    }
}

fn accept_path_info(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Outcome {
    config.of_mut::<super::Config>().accept_path_info =
        Some(match words[0].to_ascii_lowercase().as_slice() {
            b"on" => PathInfo::Accept,
            b"off" => PathInfo::Reject,
            b"default" => PathInfo::Default,
            _ => return Err("AcceptPathInfo must be set to on, off or default".to_owned()),
        });
    Ok(())
}

fn cgi_var(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Outcome {
    if words[0] != b"REQUEST_URI" {
        let name = String::from_utf8_lossy(words[0]);
        return Err(format!("Unrecognized CGI variable: \"{name}\""));
    }
    config.of_mut::<super::Config>().has_current_uri =
        Some(match words[1].to_ascii_lowercase().as_slice() {
            b"current-uri" => true,
            b"original-uri" => false,
            _ => {
                let text = "Valid rules for REQUEST_URI are 'current-uri' and 'original-uri'";
                return Err(text.to_owned());
            }
        });
    Ok(())
}

fn signature(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Outcome {
    config.of_mut::<super::Config>().signature =
        Some(match words[0].to_ascii_lowercase().as_slice() {
            b"on" => Signature::On,
            b"off" => Signature::Off,
            b"email" => Signature::Email,
            _ => return Err("ServerSignature: use one of: off | on | email".to_owned()),
        });
    Ok(())
}
