//! Options of an action that affect the responses of every kind.

use crate::access_log::AccessLog;
use crate::buffering::Buffering;
use crate::cors::Cors;
use crate::error::Error;
use crate::node::Object;
use crate::response_headers::ResponseHeader;

/// Options of an action. The server merges those of all actions on the way of a request
/// (`howdah-server`, `Effects::apply`).
#[derive(Debug, Clone)]
pub struct ActionOptions {
    /// Response header fields that are set or removed.
    pub response_headers: Vec<ResponseHeader>,
    /// True if responses may be compressed.
    pub compress: bool,
    /// True if responses get the security header fields (`security_headers`).
    pub security_headers: bool,
    /// Other origins whose scripts may read responses.
    pub cors: Option<Cors>,
    /// Buffering of messages of other servers.
    pub buffering: Buffering,
    /// Maximum size of a request body in bytes; if `None`, that of the settings.
    pub max_body_size: Option<u64>,
    /// Access logs of the requests; if `None`, those of the listener.
    pub access_log: Option<Vec<AccessLog>>,
}

impl ActionOptions {
    /// Reads the options among the keys of an action.
    pub(crate) fn read(object: &Object<'_>) -> Result<ActionOptions, Error> {
        Ok(ActionOptions {
            response_headers: object
                .read("response_headers", ResponseHeader::read_all)?
                .unwrap_or_default(),
            compress: object.boolean("compress")?.unwrap_or(true),
            security_headers: object.boolean("security_headers")?.unwrap_or(false),
            cors: object.read("cors", Cors::read)?,
            buffering: Buffering::read(object)?,
            max_body_size: object.read("max_body_size", |node| node.size(0))?,
            access_log: object.read("access_log", AccessLog::read_all)?,
        })
    }
}
