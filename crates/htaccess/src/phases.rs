//! The phases of a request, in Apache's order.
//!
//! 1. Variables by header fields of the server's configuration (mod_setenvif), then
//!    [`translate`](Server::translate): the path is decoded and becomes the name of a file.
//! 2. [`walk`]: the directories' `.htaccess`, then sections by name, then sections by condition.
//! 3. Variables by header fields (mod_setenvif).
//! 4. [`access`]: addresses, passwords, `Require`.
//! 5. [`types`]: negotiation, then types by suffix.
//! 6. [`fixups`]: forced types and handlers, rewriting, redirects, variables, index files, request
//!    header fields.
//! 7. [`handler`]: the handler that answers.
//!
//! [`errors`] turns a status into an answer or an internal redirect. A sub-request
//! ([`sub_request`]) goes through 1 to 6 and returns the result that a request would have.

mod access;
mod closed;
mod errors;
mod fixups;
mod handler;
mod index;
mod response;
mod script_variables;
mod server;
mod services;
mod sub_request;
mod types;
mod walk;

#[cfg(test)]
mod canary_tests;
#[cfg(test)]
mod closed_tests;
#[cfg(test)]
mod server_config_tests;
#[cfg(test)]
mod tests;

use self::server::Progress;
pub(crate) use self::server::Server;
use crate::modules::alias;
use crate::modules::rewrite::Translation;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::uri;
use crate::work;
use crate::world::Later;

impl<'a> Server<'a> {
    /// Takes a request of a client through all phases and internal redirects.
    pub(crate) async fn handle(&self, mut record: Record) -> Outcome {
        record.status = 200;
        record.config = self.site.config.clone();
        let (path, args) = uri::split(&record.unparsed_uri);
        record.args = args.map(<[u8]>::to_vec);
        record.uri = path.to_vec();
        self.run(record).await
    }

    /// Runs a request and those that it is redirected to. The number of rounds has a limit.
    async fn run(&self, record: Record) -> Outcome {
        let mut record = Box::new(record);
        loop {
            let progress = self.phases(&mut record).await;
            let handled = match progress {
                Ok(()) => self.invoke(&mut record).await,
                Err(status) => Err(status),
            };
            let next = match handled {
                Ok(handler::Handled::Answer(action)) => {
                    return Outcome { record, action, is_unprepared: false };
                }
                Ok(handler::Handled::Redirect(target)) => self.redirect(record, &target),
                Err(status) => self.die(record, status),
            };
            match next {
                errors::Next::Answer(outcome) => return *outcome,
                errors::Next::Request(next) => record = next,
            }
        }
    }

    /// Answers an error that came after the phases.
    pub(crate) async fn fail(&self, record: Record, status: u16) -> Outcome {
        match self.die(Box::new(record), status) {
            errors::Next::Answer(outcome) => *outcome,
            errors::Next::Request(next) => self.run(*next).await,
        }
    }

    /// All phases before the handler, for a request whose `uri` is not decoded yet.
    async fn phases(&self, record: &mut Record) -> Progress {
        if !record.is_sub_request || record.previous.is_some() {
            record.config = self.site.config.clone();
            self.set_server_variables(record)?;
        }
        self.translate(record)?;
        let progress = self.after_translation(record).await;
        services::add_vary(record);
        progress
    }

    /// The phases of a request that has the name of a file.
    async fn after_translation(&self, record: &mut Record) -> Progress {
        let walked = self.directory_walk(record);
        let has_left = closed::leave(record);
        walked?;
        if has_left {
            self.set_server_variables(record)?;
        }
        self.file_walk(record);
        self.location_walk(record);
        self.if_walk(record)?;
        if !record.is_sub_request || has_left {
            self.header_parser(record)?;
        }
        self.authorize(record).await?;
        self.find_type(record).await?;
        let progress = self.fixups(record).await;
        if work::has_overrun() { Err(500) } else { progress }
    }

    /// The same as a boxed future, for sub-requests.
    fn phases_later<'s>(&'s self, record: &'s mut Record) -> Later<'s, Progress> {
        Box::pin(self.phases(record))
    }

    fn after_translation_later<'s>(&'s self, record: &'s mut Record) -> Later<'s, Progress> {
        Box::pin(self.after_translation(record))
    }

    /// Decodes the path and finds the name of the file: by rules of the server, its redirects, its
    /// aliases, or below the root.
    fn translate(&self, record: &mut Record) -> Progress {
        record.config = self.site.config.clone();
        record.uri = uri::decoded(&record.uri)?;
        if !record.uri.starts_with(b"/") {
            return if record.uri == b"*" { Ok(()) } else { Err(400) };
        }
        if record.method == b"TRACE" {
            return Err(405);
        }
        let own = &self.site.own;
        self.location_walk(record);
        let mut path = None;
        if own.rewrite.is_active() {
            record.depends_on_request = true;
            match self.rewrite_path(record) {
                Translation::None => {}
                Translation::File(file) => path = Some(file),
                Translation::Url(uri) => record.uri = uri,
                Translation::Status(status) => return Err(status),
            }
        }
        if path.is_none() {
            if let Some(status) = alias::redirect(&own.redirects, record, self.world, self) {
                self.world
                    .explain(&|| format!("Redirect or RedirectMatch of the server: {status}"));
                return Err(status);
            }
            if let Some(file) = own.aliased(&record.uri) {
                record.depends_on_request = true;
                record.filename = file;
                return self.checked_length(record);
            }
        }
        let (root, prefix) = (&record.connection.document_root, &record.connection.prefix);
        let below = path.unwrap_or_else(|| record.uri.clone());
        let is_file =
            |root: &[u8]| below.strip_prefix(root).is_some_and(|rest| rest.starts_with(b"/"));
        record.filename = if record.uri != below && (is_file(root) || own.root_of(&below).is_some())
        {
            below
        } else {
            // A path outside of the prefix belongs to another part of the host.
            let below = below.strip_prefix(prefix.as_slice());
            let Some(below) = below.filter(|below| below.starts_with(b"/")) else {
                return Err(404);
            };
            [root.as_slice(), below].concat()
        };
        self.checked_length(record)
    }

    fn checked_length(&self, record: &Record) -> Progress {
        if record.filename.len() > walk::MAX_PATH_BYTES { Err(403) } else { Ok(()) }
    }
}
