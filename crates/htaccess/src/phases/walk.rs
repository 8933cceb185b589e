//! Directives that hold for a request: `.htaccess` files along its path, sections by name, sections
//! by condition.

use std::sync::Arc;

use super::closed;
use super::server::{Progress, Server};
use crate::config::DirConfig;
use crate::modules::core;
use crate::modules::core::Branch;
use crate::options::Options;
use crate::record::{FileInfo, FileKind, Record};
use crate::support::lossy;
use crate::work;
use crate::world::{FileRule, Level};

/// Longest name of a file (Linux: 4096 with its NUL).
pub(super) const MAX_PATH_BYTES: usize = 4095;
/// Longest name of a directory entry.
const MAX_NAME_BYTES: usize = 255;
/// Deepest nesting of sections by condition.
const MAX_NESTED_SECTIONS: usize = 100;

impl Server<'_> {
    /// Walks from the root to the file. Finds the file at the path, the part of the path that is
    /// `path_info`, and the directives of the directories on the way.
    pub(super) fn directory_walk(&self, record: &mut Record) -> Progress {
        let root = &record.connection.document_root;
        let is_below = |root: &[u8]| {
            record.filename.strip_prefix(root).is_some_and(|rest| rest.starts_with(b"/"))
        };
        let root = if is_below(root) {
            root.len()
        } else {
            match self.site.own.root_of(&record.filename) {
                Some(root) if record.filename.get(root) == Some(&b'/') => root,
                // An alias for the root of another directory itself.
                Some(root) => memchr::memrchr(b'/', &record.filename[..root]).unwrap_or(0),
                None => return Ok(()),
            }
        };
        let path = std::mem::take(&mut record.filename);
        let mut is_closed = false;
        let walked = self.walk(&path, root, record.file, &mut is_closed);
        if is_closed {
            closed::enter(record);
        }
        let (result, end) = match walked {
            Ok(walk) => {
                record.config = walk.config;
                record.file = walk.file;
                (Ok(()), walk.end)
            }
            Err(Refused { status, end, is_final }) => {
                if is_final {
                    record.status = status;
                }
                (Err(status), end)
            }
        };
        let mut path = path;
        if end < path.len() {
            let mut info = path.split_off(end);
            info.append(&mut record.path_info);
            record.path_info = info;
        }
        record.filename = path;
        result
    }

    /// Walks along a path. `is_closed` is set if directives hold of a directory whose scripts are
    /// not run.
    fn walk(
        &self,
        path: &[u8],
        root: usize,
        known: FileInfo,
        is_closed: &mut bool,
    ) -> Result<Walk, Refused> {
        let mut file = known;
        if file.kind == FileKind::None || file.is_link {
            file = self.world.stat(path).unwrap_or_default();
            let is_slashed = path.ends_with(b"/");
            if file.kind != FileKind::None && file.kind != FileKind::Directory && is_slashed {
                file = FileInfo::default();
            }
        }
        // As in Apache, directories are merged with each other, and all of them with the server at
        // the end: the result differs if a directive changes those above it.
        let mut chain = self.site.directory.clone();
        let mut end = root + 1;
        let mut reads_files = !self.site.base.allow.is_none();
        let own = &self.site.own;
        if !own.has_no_directories() {
            for slash in memchr::memchr_iter(b'/', &path[..root]) {
                self.add_sections(&path[..slash + 1], &mut chain, &mut reads_files);
            }
        }
        // The root itself may be missing.
        let mut directory = FileInfo::default();
        let mut pending = None;
        loop {
            // `path[..end]` is a directory, with a slash at its end.
            self.add_sections(&path[..end], &mut chain, &mut reads_files);
            if reads_files {
                *is_closed |= self.read_directives(&path[..end], &mut chain, &mut pending)?;
            }
            let options = chain.of::<core::Config>().options.get();
            let rest = &path[end..];
            if rest.is_empty() {
                break;
            }
            let length = memchr::memchr(b'/', rest).unwrap_or(rest.len());
            let is_last = length == rest.len();
            let segment = end + length;
            if file.kind != FileKind::None && options.follows_links() {
                if is_last && file.kind != FileKind::Directory {
                    end = segment;
                    break;
                }
            } else {
                directory = self.entry(&path[..segment], length, options, end)?;
                if directory.kind != FileKind::Directory {
                    end = segment;
                    break;
                }
            }
            if is_last {
                // A directory without a slash behind its name: its directives hold all the same.
                let slashed = [path, b"/"].concat();
                self.add_sections(&slashed, &mut chain, &mut reads_files);
                if reads_files {
                    *is_closed |= self.read_directives(&slashed, &mut chain, &mut pending)?;
                }
                end = segment;
                break;
            }
            end = segment + 1;
        }
        if let Some(refused) = pending {
            return Err(refused);
        }
        if file.kind == FileKind::None {
            file = directory;
        }
        if file.kind == FileKind::Other {
            return Err(Refused::final_error(403, end));
        }
        if !own.has_no_directories() {
            let directory = match file.kind {
                FileKind::Directory if !path[..end].ends_with(b"/") => {
                    [&path[..end], b"/"].concat()
                }
                _ => path[..memchr::memrchr(b'/', &path[..end]).map_or(0, |at| at + 1)].to_vec(),
            };
            for section in own.of_expressions(&directory) {
                chain = self.site.merges.merge(&chain, section);
            }
        }
        let config = if Arc::ptr_eq(&chain, &self.site.directory) {
            self.site.config.clone()
        } else {
            self.site.merges.merge(&self.site.server, &chain)
        };
        Ok(Walk { config, file, end })
    }

    /// Adds the sections of the server's configuration for a directory.
    fn add_sections(&self, directory: &[u8], chain: &mut Arc<DirConfig>, reads_files: &mut bool) {
        if self.site.own.has_no_directories() {
            return;
        }
        for (section, reads) in self.site.own.of_directory(directory) {
            self.world.explain(&|| format!("a section applies to {}", lossy(directory)));
            *chain = self.site.merges.merge(chain, section);
            *reads_files = reads.unwrap_or(*reads_files);
        }
    }

    /// Adds the sections of the server's configuration for the path of the URL.
    pub(super) fn location_walk(&self, record: &mut Record) {
        for section in self.site.own.of_location(&record.uri) {
            record.config = self.site.merges.merge(&record.config, section);
        }
    }

    /// Adds the directives of a directory. If they are not known yet, those of the directories
    /// below are asked for, too, so that the request is run again once for all of them. Returns
    /// true if there are directives, and the scripts of the directory are not run.
    fn read_directives(
        &self,
        directory: &[u8],
        chain: &mut Arc<DirConfig>,
        pending: &mut Option<Refused>,
    ) -> Result<bool, Refused> {
        if work::is_spent() {
            // Files on the way take time to compile, and each of them has a limit of its own.
            let text = format!("{}: no time is left to read its directives", lossy(directory));
            self.world.log(Level::Error, &text);
            return Err(Refused { status: 500, end: directory.len(), is_final: false });
        }
        match self.world.directives(directory) {
            Ok(None) => Ok(false),
            Ok(Some(own)) => {
                self.world.explain(&|| format!("rules of {} apply", lossy(directory)));
                *chain = self.site.merges.merge(chain, &own);
                Ok(self.world.rule(directory) != FileRule::Open)
            }
            Err(broken) if broken.is_pending => {
                *pending = Some(Refused { status: 500, end: directory.len(), is_final: true });
                Ok(false)
            }
            Err(broken) => {
                if !broken.is_logged {
                    self.world.log(Level::Error, &broken.message);
                }
                let status = if broken.is_unreadable { 403 } else { 500 };
                Err(Refused { status, end: directory.len(), is_final: false })
            }
        }
    }

    /// Looks at an entry of a directory, where a link may not be allowed.
    fn entry(
        &self,
        path: &[u8],
        length: usize,
        options: Options,
        end: usize,
    ) -> Result<FileInfo, Refused> {
        if length > MAX_NAME_BYTES {
            return Err(Refused::final_error(403, end));
        }
        let entry = self.world.lstat(path).unwrap_or_default();
        if !entry.is_link {
            return self.usable(path, entry);
        }
        let owner_matters = options.contains(Options::SYM_LINKS_IF_OWNER_MATCH);
        let target = match self.world.stat(path) {
            Some(target) if options.follows_links() => target,
            Some(target) if owner_matters && target.user == entry.user => target,
            _ => {
                let path = String::from_utf8_lossy(path);
                let text =
                    format!("Symbolic link not allowed or link target not accessible: {path}");
                self.world.log(Level::Error, &text);
                return Err(Refused::final_error(403, path.len()));
            }
        };
        self.usable(path, target)
    }

    fn usable(&self, path: &[u8], entry: FileInfo) -> Result<FileInfo, Refused> {
        if entry.kind == FileKind::Other {
            let text = format!(
                "Forbidden: {} doesn't point to a file or directory",
                String::from_utf8_lossy(path)
            );
            self.world.log(Level::Error, &text);
            return Err(Refused::final_error(403, path.len()));
        }
        Ok(entry)
    }

    /// Adds the sections that match the name of the file, the last segment of its path.
    pub(super) fn file_walk(&self, record: &mut Record) {
        if record.config.of::<core::Config>().files.is_empty() {
            return;
        }
        let name = match memchr::memrchr(b'/', &record.filename) {
            Some(at) => &record.filename[at + 1..],
            None => &record.filename,
        };
        let mut sections: Option<Arc<DirConfig>> = None;
        for section in &record.config.of::<core::Config>().files {
            if !section.pattern.matches(name) {
                continue;
            }
            // The directives of a section may be large, and sections many.
            if work::must_stop() {
                return;
            }
            self.world
                .explain(&|| format!("a section of files applies to the name {}", lossy(name)));
            for (variable, value) in section.pattern.variables(name) {
                record.env.set(variable, value);
            }
            sections = Some(match sections {
                None => section.config.clone(),
                Some(sections) => self.site.merges.merge(&sections, &section.config),
            });
        }
        if let Some(sections) = sections {
            record.config = self.site.merges.merge(&record.config, &sections);
        }
    }

    /// Adds the sections whose conditions are true, and then those inside of them.
    pub(super) fn if_walk(&self, record: &mut Record) -> Progress {
        let mut scope = record.config.clone();
        for _ in 0..MAX_NESTED_SECTIONS {
            if scope.of::<core::Config>().branches.is_empty() {
                return Ok(());
            }
            let Some(sections) = self.true_sections(record, &scope) else { return Ok(()) };
            record.config = self.site.merges.merge(&record.config, &sections);
            scope = sections;
        }
        Ok(())
    }

    fn true_sections(&self, record: &mut Record, scope: &DirConfig) -> Option<Arc<DirConfig>> {
        let mut sections: Option<Arc<DirConfig>> = None;
        let mut was_true = false;
        for section in &scope.of::<core::Config>().branches {
            if work::must_stop() {
                return sections;
            }
            let condition = match &section.branch {
                Branch::If(condition) => Some(condition),
                Branch::ElseIf(condition) if !was_true => Some(condition),
                Branch::Else if !was_true => None,
                Branch::ElseIf(_) | Branch::Else => continue,
            };
            was_true = condition.is_none_or(|condition| self.is_true(record, condition));
            if was_true {
                self.world.explain(&|| "an <If>, <ElseIf> or <Else> section applies".to_owned());
                sections = Some(match sections {
                    None => section.config.clone(),
                    Some(sections) => self.site.merges.merge(&sections, &section.config),
                });
            }
        }
        sections
    }
}

/// Result of a walk.
struct Walk {
    config: Arc<DirConfig>,
    file: FileInfo,
    /// Length of the file's name; the rest of the path is behind it.
    end: usize,
}

/// A walk that ended early.
struct Refused {
    status: u16,
    end: usize,
    /// The status is that of the request even if it is an error document's.
    is_final: bool,
}

impl Refused {
    fn final_error(status: u16, end: usize) -> Refused {
        Refused { status, end, is_final: true }
    }
}
