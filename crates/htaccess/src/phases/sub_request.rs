//! Sub-requests: the result that another path or file would have.

use std::sync::Arc;

use super::server::{MAX_REDIRECTS, Server};
use super::walk::MAX_PATH_BYTES;
use crate::modules::rewrite::END_NOTE;
use crate::record::{FileKind, Main, Record};
use crate::table::Table;
use crate::uri;
use crate::work;

impl Server<'_> {
    /// Takes a path, absolute or relative to that of the request, through the phases; the result's
    /// `status` is 200 or that of the phase that failed.
    pub(super) async fn lookup_path(&self, record: &Record, target: &[u8]) -> Record {
        let headers = record.headers_in.clone();
        self.lookup_path_with(record, target, headers).await
    }

    /// The same without a copy of the header fields.
    pub(super) async fn lookup_own_path(&self, record: &mut Record, target: &[u8]) -> Record {
        let headers = std::mem::take(&mut record.headers_in);
        let mut sub = self.lookup_path_with(record, target, headers).await;
        record.headers_in = std::mem::take(&mut sub.headers_in);
        sub
    }

    async fn lookup_path_with(&self, record: &Record, target: &[u8], headers: Table) -> Record {
        let mut target = target.to_vec();
        if !target.starts_with(b"/") {
            let mut full = uri::escaped(uri::parent(&record.uri));
            full.extend_from_slice(&target);
            target = full;
        }
        let mut sub = sub_request(record, headers);
        let (path, args) = uri::split(&target);
        sub.uri = path.to_vec();
        sub.args = args.map(<[u8]>::to_vec);
        sub.unparsed_uri = target;
        if is_refused(&sub) {
            sub.status = 500;
        } else if let Err(status) = self.phases_later(&mut sub).await {
            sub.status = status;
        }
        sub
    }

    /// Takes an entry of the request's directory through the phases. A directory has a slash behind
    /// its path, as in a request for it, and stays one if it has an index file.
    pub(super) async fn lookup_entry(&self, record: &Record, name: &[u8]) -> Record {
        let path = [uri::parent(&record.filename), name].concat();
        let file = self.world.stat(&path).unwrap_or_default();
        if file.kind != FileKind::Directory {
            return self.lookup_file(record, name).await;
        }
        let mut sub = self.lookup_file(record, &[name, b"/"].concat()).await;
        sub.file = file;
        sub.content_type = None;
        sub
    }

    /// Takes a file in the directory of the request through the phases.
    pub(super) async fn lookup_file(&self, record: &Record, name: &[u8]) -> Record {
        let mut sub = sub_request(record, record.headers_in.clone());
        let length = if record.path_info.is_empty() {
            record.uri.len()
        } else {
            uri::script_length(&record.uri, &record.path_info)
        };
        sub.uri = [uri::parent(&record.uri[..length]), name].concat();
        sub.filename = [uri::parent(&record.filename), name].concat();
        sub.uri.extend_from_slice(&record.path_info);
        sub.path_info.clone_from(&record.path_info);
        sub.unparsed_uri = uri::escaped(&sub.uri);
        sub.config = self.site.config.clone();
        if is_refused(&sub) {
            sub.status = 500;
        } else if let Err(status) = self.after_translation_later(&mut sub).await {
            sub.status = status;
        }
        sub
    }

    /// Takes a file, absolute or relative to the directory of the request, through the phases. A
    /// file elsewhere has no path of the site.
    pub(super) async fn lookup_any_file(&self, record: &Record, path: &[u8]) -> Record {
        let directory = uri::parent(&record.filename);
        let name = path.strip_prefix(directory).filter(|_| !directory.is_empty()).unwrap_or(path);
        if !name.is_empty() && !name.contains(&b'/') {
            return self.lookup_file(record, name).await;
        }
        let mut sub = sub_request(record, record.headers_in.clone());
        sub.filename =
            if path.starts_with(b"/") { path.to_vec() } else { [directory, path].concat() };
        sub.config = self.site.config.clone();
        if is_refused(&sub) || sub.filename.len() > MAX_PATH_BYTES {
            sub.status = 500;
            return sub;
        }
        match uri::normal(&sub.filename) {
            Ok(filename) if !filename.contains(&0) => sub.filename = filename,
            _ => {
                sub.status = 403;
                return sub;
            }
        }
        if let Err(status) = self.after_translation_later(&mut sub).await {
            sub.status = status;
        }
        sub
    }

    /// Lets a request continue as a sub-request of it (Apache's `ap_internal_fast_redirect`).
    pub(super) fn become_sub_request(&self, record: &mut Record, mut sub: Record) {
        // The flag `END` counts for the sub-request only.
        sub.notes.unset(END_NOTE);
        record.uri = sub.uri;
        record.filename = sub.filename;
        record.path_info = sub.path_info;
        record.args = sub.args;
        record.file = sub.file;
        record.handler = sub.handler;
        record.content_type = sub.content_type;
        record.is_type_trusted = sub.is_type_trusted;
        record.content_encoding = sub.content_encoding;
        record.content_languages = sub.content_languages;
        record.config = sub.config;
        overlay(&mut record.notes, &mut sub.notes);
        overlay(&mut record.headers_out, &mut sub.headers_out);
        overlay(&mut record.err_headers_out, &mut sub.err_headers_out);
        if record.client_fields.is_some() && sub.client_fields.is_none() {
            (record.env, record.user, record.auth_type) = (sub.env, sub.user, sub.auth_type);
        } else {
            overlay(&mut record.env, &mut sub.env);
        }
        record.client_fields = sub.client_fields;
    }
}

fn sub_request(record: &Record, headers_in: Table) -> Record {
    let main = Main {
        uri: record.uri.clone(),
        filename: record.filename.clone(),
        config: record.config.clone(),
        user: record.user.clone(),
        auth_type: record.auth_type.clone(),
        client_fields: record.client_fields.clone(),
        depth: record.main.as_ref().map_or(0, |main| main.depth.saturating_add(1)),
    };
    Record {
        connection: record.connection.clone(),
        request_line: record.request_line.clone(),
        method: b"GET".to_vec(),
        protocol: b"INCLUDED".to_vec(),
        headers_in,
        env: record.env.clone(),
        status: 200,
        is_sub_request: true,
        main: Some(Arc::new(main)),
        ..Record::default()
    }
}

/// Returns true if a sub-request is too deep, or the request has no time left.
fn is_refused(sub: &Record) -> bool {
    work::is_spent() || sub.main.as_ref().is_some_and(|main| main.depth >= MAX_REDIRECTS)
}

/// Puts the entries of another table in front, where they win.
fn overlay(table: &mut Table, other: &mut Table) {
    let mut merged = std::mem::take(other);
    for (name, value) in table.iter() {
        if merged.get(name).is_none() || merged.get(name) != Some(value) {
            merged.add(name, value);
        }
    }
    *table = merged;
}
