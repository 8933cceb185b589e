//! Type, language and encoding of a file: negotiation, then suffixes.

use super::server::{Progress, Server};
use crate::modules::core;
use crate::modules::mime;
use crate::modules::negotiation::{self, Candidate, Lookup, Multiviews};
use crate::options::Options;
use crate::record::{FileKind, Record};
use crate::world::Later;

impl Server<'_> {
    /// Determines the media type, encodings and handler of the file.
    pub(super) async fn find_type(&self, record: &mut Record) -> Progress {
        let has_multiviews =
            record.config.of::<core::Config>().options.get().contains(Options::MULTI_VIEWS);
        if has_multiviews && record.file.kind == FileKind::None {
            let found = negotiation::type_checker(record, self.world, self, true).await?;
            if let Multiviews::Chosen(sub) = found {
                self.become_sub_request(record, *sub);
                return Ok(());
            }
        }
        let found = mime::type_checker(record, &self.site.base.types);
        record.is_type_trusted |= record.content_type.is_some();
        record.name_exceptions = found.exceptions;
        record.output_filters = found.output_filters;
        Ok(())
    }
}

impl Lookup for Server<'_> {
    fn lookup<'a>(&'a self, record: &'a Record, name: &'a [u8]) -> Later<'a, Option<Candidate>> {
        Box::pin(async move {
            let sub = if name.contains(&b'/') {
                self.lookup_path(record, name).await
            } else {
                self.lookup_entry(record, name).await
            };
            let (status, exceptions) = (sub.status, sub.name_exceptions.clone());
            Some(Candidate { record: sub, status, exceptions })
        })
    }
}
