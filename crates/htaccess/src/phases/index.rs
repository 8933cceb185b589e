//! mod_dir: slashes, index files and fallback resources.

use super::server::{Progress, Server};
use crate::modules::dir;
use crate::modules::rewrite::adopt_cookies;
use crate::record::{FileKind, Record};
use crate::uri;

/// Handler and type of directories.
pub(super) const DIRECTORY: &[u8] = b"httpd/unix-directory";
/// Handler of requests that mod_rewrite sends to another path.
pub(super) const REWRITTEN: &[u8] = b"redirect-handler";

impl Server<'_> {
    /// Looks for an index file of a directory, or for the fallback of a missing file.
    pub(super) async fn fixup_dir(&self, record: &mut Record) -> Progress {
        match record.file.kind {
            FileKind::Directory => self.fixup_directory(record).await,
            FileKind::None if record.handler.is_none() => self.fixup_fallback(record).await,
            _ => Ok(()),
        }
    }

    async fn fixup_directory(&self, record: &mut Record) -> Progress {
        let handler = record.handler.get_or_insert_with(|| DIRECTORY.to_vec()).clone();
        if !record.path_info.is_empty() {
            return Ok(());
        }
        let config = record.config.clone();
        let config = config.of::<dir::Config>();
        if !record.uri.ends_with(b"/") {
            return self.add_slash(record, config.slash != Some(false));
        }
        let is_taken = config.checks_handler == Some(true) && handler != DIRECTORY;
        if handler == REWRITTEN || is_taken {
            record.content_type.take_if(|kind| kind == DIRECTORY);
            return Ok(());
        }
        let default = [b"index.html".to_vec()];
        let names = config.index_names.as_deref().unwrap_or(&default);
        let mut error = None;
        for (index, name) in names.iter().enumerate() {
            let target = with_query(name, record.args.as_deref());
            let sub = self.lookup_own_path(record, &target).await;
            if sub.status == 200 && sub.file.kind == FileKind::File {
                if let Some(Some(status)) = config.index_redirect {
                    let location = uri::construct_url(record, &sub.uri);
                    record.headers_out.set("Location", location);
                    return Err(status);
                }
                self.become_sub_request(record, sub);
                return Ok(());
            }
            adopt_cookies(record, &sub);
            let is_last = index + 1 == names.len();
            let is_redirect = (300..400).contains(&sub.status);
            if is_redirect || is_last && matches!(sub.status, 401 | 406) {
                take_answer(record, &sub);
                return Err(sub.status);
            }
            if !matches!(sub.status, 200 | 404) {
                error = Some(sub.status);
            }
        }
        if let Some(status) = error {
            return Err(status);
        }
        record.notes.set("dir-index-names", names.join(&b','));
        Ok(())
    }

    fn add_slash(&self, record: &mut Record, adds_slash: bool) -> Progress {
        let is_get = record.method == b"GET" || record.method == b"HEAD";
        if !adds_slash || !is_get && record.env.get(b"redirect-carefully").is_some() {
            return Ok(());
        }
        let mut path = uri::escaped(&record.uri);
        path.push(b'/');
        let location = uri::construct_url(record, &with_query(&path, record.args.as_deref()));
        record.headers_out.set("Location", location);
        Err(301)
    }

    async fn fixup_fallback(&self, record: &mut Record) -> Progress {
        let config = record.config.clone();
        let Some(path) = config.of::<dir::Config>().fallback() else { return Ok(()) };
        let target = with_query(path, record.args.as_deref());
        let sub = self.lookup_own_path(record, &target).await;
        if sub.status == 200 && sub.file.kind == FileKind::File {
            self.become_sub_request(record, sub);
            return Ok(());
        }
        if (300..400).contains(&sub.status) {
            take_answer(record, &sub);
        }
        if matches!(sub.status, 200 | 404) { Ok(()) } else { Err(sub.status) }
    }
}

pub(super) fn with_query(path: &[u8], args: Option<&[u8]>) -> Vec<u8> {
    match args {
        Some(args) => [path, b"?", args].concat(),
        None => path.to_vec(),
    }
}

/// Takes the header fields and notes of a sub-request that is the answer.
fn take_answer(record: &mut Record, sub: &Record) {
    for (name, value) in sub.headers_out.iter() {
        record.headers_out.set(name, value);
    }
    for (name, value) in sub.err_headers_out.iter() {
        record.err_headers_out.set(name, value);
    }
    for (name, value) in sub.notes.iter() {
        record.notes.set(name, value);
    }
}
