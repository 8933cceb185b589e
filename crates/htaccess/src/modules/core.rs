//! Apache's core: sections, options, error documents, types and handlers by force, settings of
//! responses.

mod directives;
mod error_document;
mod name;
mod settings;

use std::sync::Arc;

pub use directives::DIRECTIVES;
pub use error_document::ErrorDocument;
pub(crate) use error_document::{is_known, is_url};
pub use name::NamePattern;
pub use settings::{EtagParts, EtagSetting, Signature};

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::modules::pattern::{Condition, Text};
use crate::options::OptionsSetting;
use crate::record::PathInfo;

/// `<Files>` and `<FilesMatch>`: directives for files of some names.
#[derive(Debug)]
pub struct FilesSection {
    /// Names that the directives hold for.
    pub pattern: NamePattern,
    /// Directives of the section.
    pub config: Arc<DirConfig>,
}

/// `<If>`, `<ElseIf>` and `<Else>`: directives for requests that meet a condition.
#[derive(Debug)]
pub struct IfSection {
    /// Condition under which the directives hold.
    pub branch: Branch,
    /// Directives of the section.
    pub config: Arc<DirConfig>,
}

/// Condition under which the directives of an [`IfSection`] hold.
#[derive(Debug)]
pub enum Branch {
    /// The condition is true.
    If(Condition),
    /// Neither the section before nor those that it follows held.
    ElseIf(Condition),
    /// None of the sections before held.
    Else,
}

/// Directives of the core.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `Options`.
    pub options: OptionsSetting,
    /// Error documents by status.
    pub error_documents: Vec<(u16, ErrorDocument)>,
    /// `ForceType`, in lower case.
    pub force_type: Option<Arc<[u8]>>,
    /// `SetHandler`.
    pub handler: Option<Text>,
    /// `AcceptPathInfo`.
    pub accept_path_info: Option<PathInfo>,
    /// `FileETag`.
    pub etag: EtagSetting,
    /// `ContentDigest`.
    pub content_digest: Option<bool>,
    /// `ServerSignature`.
    pub signature: Option<Signature>,
    /// `LimitRequestBody`, in bytes; 0 is unlimited.
    pub limit_request_body: Option<u64>,
    /// `LimitXMLRequestBody`, in bytes; 0 is unlimited.
    pub limit_xml_request_body: Option<u64>,
    /// `EnableMMAP`.
    pub enable_mmap: Option<bool>,
    /// `EnableSendfile`.
    pub enable_sendfile: Option<bool>,
    /// `CGIPassAuth`: scripts see `HTTP_AUTHORIZATION`.
    pub pass_auth: Option<bool>,
    /// `CGIVar REQUEST_URI current-uri`: scripts see the path after rewriting.
    pub has_current_uri: Option<bool>,
    /// `QualifyRedirectURL`: `REDIRECT_URL` is a full URL.
    pub qualify_redirect_url: Option<bool>,
    /// Sections by file name, in order.
    pub files: Vec<Arc<FilesSection>>,
    /// Sections by condition, in order.
    pub branches: Vec<Arc<IfSection>>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Core;

    fn merged(&self, child: &Config) -> Config {
        let mut error_documents = child.error_documents.clone();
        let is_new = |status: u16| !child.error_documents.iter().any(|(known, _)| *known == status);
        error_documents
            .extend(self.error_documents.iter().filter(|(status, _)| is_new(*status)).cloned());
        Config {
            options: self.options.merged(child.options),
            error_documents,
            force_type: child.force_type.clone().or_else(|| self.force_type.clone()),
            handler: child.handler.clone().or_else(|| self.handler.clone()),
            accept_path_info: child.accept_path_info.or(self.accept_path_info),
            etag: self.etag.merged(child.etag),
            content_digest: child.content_digest.or(self.content_digest),
            signature: child.signature.or(self.signature),
            limit_request_body: child.limit_request_body.or(self.limit_request_body),
            limit_xml_request_body: child.limit_xml_request_body.or(self.limit_xml_request_body),
            enable_mmap: child.enable_mmap.or(self.enable_mmap),
            enable_sendfile: child.enable_sendfile.or(self.enable_sendfile),
            pass_auth: child.pass_auth.or(self.pass_auth),
            has_current_uri: child.has_current_uri.or(self.has_current_uri),
            qualify_redirect_url: child.qualify_redirect_url.or(self.qualify_redirect_url),
            files: self.files.iter().chain(&child.files).cloned().collect(),
            branches: self.branches.iter().chain(&child.branches).cloned().collect(),
        }
    }

    fn is_constant(&self) -> bool {
        self.branches.is_empty()
            && self.handler.is_none()
            && self.content_digest != Some(true)
            && self.limit_request_body.is_none()
    }
}

impl Config {
    /// Returns the error document of a status; `None` without one and for `default`.
    pub fn error_document(&self, status: u16) -> Option<&ErrorDocument> {
        let found = self.error_documents.iter().find(|(known, _)| *known == status);
        found.map(|(_, document)| document).filter(|document| **document != ErrorDocument::Default)
    }
}
