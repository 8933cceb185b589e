//! Lines of the log for requests that the server itself has refused because of their client: the
//! reason, and the key that changes it. The number of lines is limited, as clients cause them.

use howdah_config::BodyLimit;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::Exchange;
use howdah_http::message::Response;
use howdah_http::respond;
use howdah_sys::log::Level;

use crate::context::Context;

/// Returns the response for an error that the pipeline has met. Logs the reason, if it is not
/// logged yet.
pub fn refuse(context: &Context<'_>, exchange: &Exchange<'_>, error: RequestError) -> Response {
    let reason = match error {
        RequestError::NotRunning => {
            "the application of \"ping\" is not running; earlier log lines with its name say why"
        }
        RequestError::TooManyPasswords => {
            "too many passwords of the users_file of basic_auth are being checked; a \"limit\" of \
             the action, which is checked before, slows down who tries passwords"
        }
        RequestError::NotCached => {
            "the request says only-if-cached, and the cache has no response to it"
        }
        _ => return respond::refuse(error),
    };
    write(context, exchange, error.status(), reason);
    respond::refuse(error)
}

/// Logs the reason for a response of the server itself with status 408, 413 or 499. Other refusals
/// are logged where they are decided. `max_body_size` is that of the actions.
pub fn log(
    context: &Context<'_>,
    max_body_size: Option<&BodyLimit>,
    exchange: &Exchange<'_>,
    response: &Response,
) {
    if !response.is_default_error_page {
        return;
    }
    let http = &context.routing.snapshot.config.settings.http;
    let reason = match (response.status, max_body_size) {
        (408, _) => format!(
            "the request body did not arrive in time: {} s without a byte \
             (settings/http/body_read_timeout), or less than {} bytes/s (settings/http/min_rate)",
            http.body_read_timeout.as_secs(),
            http.min_rate
        ),
        (413, Some(BodyLimit { bytes, key })) => {
            format!("the request body is longer than {bytes} bytes ({key})")
        }
        (413, None) => format!(
            "the request body is longer than {} bytes (settings/http/max_body_size)",
            http.max_body_size
        ),
        // Not a matter of the configuration.
        (499, _) => "the client closed the connection before the response".to_owned(),
        _ => return,
    };
    write(context, exchange, response.status, &reason);
}

/// Logs that the request was refused because a database of addresses could not be read, and forgets
/// that for its error page.
pub fn log_unread_database(context: &Context<'_>, exchange: &Exchange<'_>) {
    let handling = &exchange.request.handling;
    if let Some(database) = handling.unread_database() {
        handling.set_unread_database(None);
        let file = database.file.display();
        let reason = format!(
            "its route or limit needs {file}, which could not be read; see \"howdah status\""
        );
        write(context, exchange, 503, &reason);
    }
}

/// Logs the reason of a refusal with this status.
pub fn write(context: &Context<'_>, exchange: &Exchange<'_>, status: u16, reason: &str) {
    context.log_client(Level::Info, &exchange.request, format_args!("{status}: {reason}"));
}
