//! The last phase before the handler.

use super::index::REWRITTEN;
use super::server::{Progress, Server};
use crate::config::ModuleConfig;
use crate::modules::core;
use crate::modules::rewrite::{Event, Outcome as Rewriting, Trace};
use crate::modules::services::Services;
use crate::modules::{alias, auth_basic, env, headers, negotiation, rewrite, setenvif};
use crate::record::PathInfo;
use crate::record::Record;
use crate::support::lossy;
use crate::world::Level;

/// Describes a step of rewriting.
fn described(event: &Event<'_>) -> String {
    let verb = |is_match: bool| if is_match { "matches" } else { "does not match" };
    match event {
        Event::Pattern { file, line, pattern, path, is_match } => format!(
            "{file}: line {line}: RewriteRule {} {} \"{}\"",
            lossy(pattern),
            verb(*is_match),
            lossy(path)
        ),
        Event::Condition { input, pattern, is_match } => {
            format!("  RewriteCond \"{}\" {} {}", lossy(input), verb(*is_match), lossy(pattern))
        }
        Event::Substitution { from, to } => {
            format!("  \"{}\" becomes \"{}\"", lossy(from), lossy(to))
        }
        Event::Env { name, value: Some(value) } => {
            format!("  variable {} is \"{}\"", lossy(name), lossy(value))
        }
        Event::Env { name, value: None } => format!("  variable {} is removed", lossy(name)),
        Event::End(outcome) => match outcome {
            Rewriting::Declined | Rewriting::Unchanged => "rewriting: nothing changes".to_owned(),
            Rewriting::Internal(target) => format!("rewriting: to {}", lossy(target)),
            Rewriting::External(status) => format!("rewriting: redirect with {status}"),
            Rewriting::Status(status) => format!("rewriting: {status}"),
        },
    }
}

impl Server<'_> {
    /// Sets variables by the request's header fields.
    pub(super) fn header_parser(&self, record: &mut Record) -> Progress {
        setenvif::header_parser(record, self.world, self)
    }

    /// Sets variables by the request's header fields, as directives of the server say outside of all
    /// sections: rules, conditions of sections and all that follows see them. A sub-request has those
    /// of its request.
    pub(super) fn set_server_variables(&self, record: &mut Record) -> Progress {
        let rules = &self.site.own.environment;
        record.depends_on_request |= !rules.is_constant();
        setenvif::set_variables(rules, record, self.world, self)
    }

    /// Runs the modules in the order of Apache's hooks: forced types, rewriting, redirects,
    /// variables, index files, header fields of the request. The first status ends it.
    pub(super) async fn fixups(&self, record: &mut Record) -> Progress {
        self.override_type(record)?;
        self.rewrite(record)?;
        if let Some(status) = alias::fixup(record, self.world, self) {
            self.world.explain(&|| format!("Redirect or RedirectMatch: {status}"));
            return Err(status);
        }
        env::fixup(record, &|_| None);
        negotiation::fixup(record);
        auth_basic::fixup(record, self.world, self)?;
        self.fixup_dir(record).await?;
        headers::request(record, self.world, self);
        rewrite::force_type(record);
        Ok(())
    }

    /// Applies the rules of mod_rewrite. A redirect inside the server waits for the other fix-ups.
    fn rewrite(&self, record: &mut Record) -> Progress {
        let follows_links = record.config.of::<core::Config>().options.get().allows_rewriting();
        let world = self.world;
        let mut tell = |event: Event<'_>| world.explain(&|| described(&event));
        let trace: Trace<'_> = if world.is_explaining() { Some(&mut tell) } else { None };
        match rewrite::fixup(record, self, follows_links, trace) {
            Rewriting::Declined => Ok(()),
            Rewriting::Unchanged => {
                record.depends_on_request = true;
                Ok(())
            }
            Rewriting::Internal(target) => {
                // The query stays in `args`: look-ahead sees the file name without it.
                let query = record.args.as_ref().map_or(0, |args| args.len() + 1);
                let path = &target[..target.len().saturating_sub(query)];
                record.filename = [b"redirect:".as_slice(), path].concat();
                record.handler = Some(REWRITTEN.to_vec());
                Ok(())
            }
            Rewriting::External(status) | Rewriting::Status(status) => Err(status),
        }
    }

    /// Applies the rules of the server to the path of a request.
    pub(super) fn rewrite_path(&self, record: &mut Record) -> rewrite::Translation {
        let world = self.world;
        let mut tell = |event: Event<'_>| world.explain(&|| described(&event));
        let trace: Trace<'_> = if world.is_explaining() { Some(&mut tell) } else { None };
        rewrite::translate(&self.site.own.rewrite, record, self, trace)
    }

    /// `ForceType`, `SetHandler`, `AcceptPathInfo`.
    fn override_type(&self, record: &mut Record) -> Progress {
        let config = record.config.clone();
        let config = config.of::<core::Config>();
        if let Some(kind) = config.force_type.as_deref().filter(|kind| *kind != b"none") {
            record.content_type = Some(kind.to_vec());
            record.is_type_trusted = true;
        }
        if let Some(handler) = &config.handler {
            let handler = self.text(record, handler).map_err(|error| {
                self.world
                    .log(Level::Error, &format!("Can't evaluate handler expression: {error}"));
                500_u16
            })?;
            let handler = handler.to_ascii_lowercase();
            if handler != b"none" {
                record.handler = Some(handler);
            }
        }
        if let Some(setting) = config.accept_path_info
            && record.accepts_path_info == PathInfo::Default
        {
            record.accepts_path_info = setting;
        }
        Ok(())
    }
}
