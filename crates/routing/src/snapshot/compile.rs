//! Compiles a configuration into a snapshot.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use howdah_access_log::LogFiles;
use howdah_cache::store::Store;
use howdah_cgi::target::Targets;
use howdah_config::{self as config, Config, Part, Pass, ScriptSources, Template, Variable};
use howdah_files::mime::MimeTypes;
use howdah_http::compress::{Compression, Compressor};
use howdah_http::message::Encoding;
use howdah_http::trace_context::Tracing;
use howdah_limits::rules::Rule;
use howdah_limits::zone::Zones;
use howdah_mail_proxy::proxy::MailProxy;
use howdah_php_pool::application::Application;
use howdah_php_pool::queue::Queue;
use howdah_upstream::fastcgi::application::FastCgiApplication;
use howdah_upstream::servers::addresses::ResolvedServers;
use howdah_upstream::servers::direct::DirectUpstreams;
use howdah_upstream::servers::upstream::Upstream;

use super::action::{
    Action, ActionCache, ActionKind, AuthRequest, CompiledPass, ErrorPage, HtaccessShare, Location,
    Mirror, NameTemplate, PageSource, Return, Share, SharePath,
};
use super::delegations::Delegations;
use super::index::Index;
use super::{Listener, Route, RouteStep, Snapshot, location};
use crate::auth::BasicAuth;
use crate::htaccess_state::site::Site;

impl Snapshot {
    /// Compiles a document, except for the TLS of its listeners. `queue` gives each application its
    /// queue: that of the running application if its settings are the same. The state of upstreams
    /// that `previous` has with the same settings is kept; `known` has addresses and TLS settings.
    /// `logs` has the files of access logs; a log without one is left out.
    pub fn compile(
        config: Config,
        logs: LogFiles,
        previous: Option<&Snapshot>,
        known: &ResolvedServers,
        mut queue: impl FnMut(&config::Application) -> Arc<Queue>,
    ) -> Self {
        let mime = Arc::new(mime_types(&config));
        let stores = cache_stores(&config, previous);
        let mut direct_upstreams =
            DirectUpstreams::new(known, previous.map(|previous| &previous.direct_upstreams));
        let zones = Zones::new(&config, previous.map(|previous| &previous.zones));
        let sources = ScriptSources::new(&config);
        let mut actions = ActionCompiler {
            sources: &sources,
            mime: &mime,
            logs: &logs,
            zones: &zones,
            direct_upstreams: &mut direct_upstreams,
            stores: &stores,
            shared: HashMap::new(),
        };
        let listeners = config
            .listeners
            .iter()
            .map(|listener| {
                let before = previous.and_then(|previous| previous.listeners.get(&listener.name));
                (listener.name.clone(), Listener::new(listener, before, &logs, &zones))
            })
            .collect();
        let mut routes: HashMap<_, _> = config
            .routes
            .iter()
            .map(|route| {
                let steps = route.steps.iter().map(|step| RouteStep {
                    conditions: Arc::clone(&step.conditions),
                    action: actions.shared(&step.action),
                    captures: step.captures,
                });
                let index = Index::if_worthwhile(route.steps.iter().map(|step| &*step.conditions));
                let name = route.name.as_deref().map(Arc::from);
                let compiled = Route { name, steps: steps.collect(), index };
                (route.name.clone().unwrap_or_default(), compiled)
            })
            .collect();
        let applications = config
            .applications
            .iter()
            .map(|application| {
                let compiled = Application {
                    name: application.name.as_str().into(),
                    config: Arc::clone(application),
                    queue: queue(application),
                    targets: Targets::new(&application.targets, &application.limit_extensions),
                };
                (application.name.clone(), Arc::new(compiled))
            })
            .collect();
        let htaccess = config
            .applications
            .iter()
            .filter_map(|application| {
                let settings = application.htaccess.as_ref()?;
                let scripts = Some((&*application.name, application.limit_extensions.clone()));
                let site = Site::new(settings, scripts, true, Vec::new(), &mime);
                Some((application.name.clone(), Arc::new(site)))
            })
            .collect();
        let upstreams: HashMap<_, _> = config
            .upstreams
            .iter()
            .map(|upstream| {
                let running = previous.and_then(|previous| previous.upstreams.get(&upstream.name));
                let tls = known.client(upstream.tls.as_ref());
                let compiled = Upstream::new(&known.resolved(upstream), tls).following(running);
                (upstream.name.clone(), compiled)
            })
            .collect();
        let mail = config
            .mail
            .iter()
            .map(|mail| {
                let asked = mail.authentication.iter();
                let asked = asked.map(|server| direct_upstreams.authentication(server)).collect();
                let backend = mail.backend.as_ref().and_then(|name| upstreams.get(name).cloned());
                let tls = known.client(mail.tls.as_ref());
                (mail.name.clone(), Arc::new(MailProxy::new(mail, asked, backend, tls)))
            })
            .collect();
        let fastcgi = config
            .fastcgi
            .iter()
            .filter_map(|site| {
                let upstream = match &site.servers {
                    config::Servers::One(address) => direct_upstreams.fastcgi(address),
                    config::Servers::Upstream(name) => Arc::clone(upstreams.get(name)?),
                };
                let running = previous.and_then(|previous| previous.fastcgi.get(&site.name));
                Some((
                    site.name.clone(),
                    FastCgiApplication::new(site, upstream).following(running),
                ))
            })
            .collect();
        let delegations = Delegations::new(&config, &sources, &mime);
        let application_logs = config
            .applications
            .iter()
            .filter_map(|application| {
                let settings = application.access_log.as_deref()?;
                Some((application.name.clone(), howdah_access_log::compile(settings, &logs)))
            })
            .collect();
        let access_log = howdah_access_log::compile(&config.access_log, &logs);
        Snapshot {
            compression: compression(&config),
            tracing: { config.settings.telemetry.as_ref() }
                .map(|telemetry| Tracing::new(telemetry.sampling_ratio, telemetry.parent)),
            config,
            listeners,
            main_route: routes.remove(""),
            routes,
            applications,
            fastcgi,
            htaccess,
            caches: stores,
            mail,
            upstreams,
            direct_upstreams: direct_upstreams.into_table(),
            tls_clients: known.clients.clone(),
            delegations,
            zones,
            access_log,
            application_logs,
            logs,
        }
    }
}

/// Returns the settings of compression; `None` if no response is compressed.
fn compression(config: &Config) -> Option<Compression> {
    let settings = config.settings.http.compression.as_ref().filter(|settings| settings.enabled)?;
    let compressor = |compressor: &config::Compressor| {
        let &config::Compressor { encoding, level, min_length } = compressor;
        Some(Compressor { encoding: Encoding::named(encoding)?, level, min_length })
    };
    let compressors: Vec<_> = settings.compressors.iter().filter_map(compressor).collect();
    let types = settings.types.clone();
    (!compressors.is_empty()).then_some(Compression { types, compressors })
}

/// Returns the stores of caches: those of the previous configuration, with their entries, if their
/// settings are the same.
fn cache_stores(config: &Config, previous: Option<&Snapshot>) -> HashMap<String, Arc<Store>> {
    let store = |settings: config::CacheStore| {
        let running = previous.and_then(|previous| previous.caches.get(&settings.name));
        let running = running.filter(|running| *running.config() == settings);
        let name = settings.name.clone();
        (name, running.map_or_else(|| Store::new(settings), Arc::clone))
    };
    config.cache_stores().into_iter().map(store).collect()
}

impl Listener {
    fn new(
        listener: &config::Listener,
        before: Option<&Listener>,
        logs: &LogFiles,
        zones: &Zones,
    ) -> Self {
        let proxies = [&listener.forwarded, &listener.client_ip];
        Listener {
            pass: compile_pass(&listener.pass),
            fastcgi: listener.fastcgi.clone(),
            session: listener.session.clone(),
            tls: None,
            http2: listener.http2,
            http3: listener.http3.clone(),
            alternative: alternative(listener, before),
            redirect_to_https: listener.redirect_to_https,
            balancers: listener.proxy_protocol.clone(),
            proxies: proxies.into_iter().flatten().cloned().collect(),
            limit: Rule::compile(&listener.limit, zones).into(),
            access_log: listener
                .access_log
                .as_deref()
                .map(|log| howdah_access_log::compile(log, logs)),
        }
    }
}

/// Value of `Alt-Svc` (RFC 7838, 3) that makes browsers forget what they have been told.
const NO_ALTERNATIVE: &str = "clear";

/// Returns the value of `Alt-Svc`. Browsers that were told of HTTP/3 before learn of its end.
fn alternative(listener: &config::Listener, before: Option<&Listener>) -> Option<Arc<str>> {
    let advertised = listener.http3.as_ref().and_then(|http3| http3.advertise);
    let port = match advertised {
        Some(config::Http3Port::Other(port)) => Some(port),
        Some(config::Http3Port::OfListener) => match &listener.address {
            config::Address::Inet(address) => Some(address.port()),
            _ => None,
        },
        None => None,
    };
    match port {
        Some(port) => Some(format!("h3=\":{port}\"; ma=86400").into()),
        None => before?.alternative.as_ref().map(|_| NO_ALTERNATIVE.into()),
    }
}

fn compile_pass(pass: &Pass) -> CompiledPass {
    match pass {
        Pass::Fixed(target) => CompiledPass::Fixed(target.clone()),
        Pass::Variable(template) => CompiledPass::Variable(template.clone()),
    }
}

/// Compiles actions, with the parts of the snapshot that they refer to.
struct ActionCompiler<'a, 'u> {
    sources: &'a ScriptSources<'a>,
    mime: &'a Arc<MimeTypes>,
    logs: &'a LogFiles,
    zones: &'a Zones,
    direct_upstreams: &'a mut DirectUpstreams<'u>,
    stores: &'a HashMap<String, Arc<Store>>,
    /// Actions that several routes have, by their addresses in the document.
    shared: HashMap<*const config::Action, Arc<Action>>,
}

impl ActionCompiler<'_, '_> {
    /// Returns the cache of an action, if it has one.
    fn cache(&self, action: &config::Action) -> Option<ActionCache> {
        let settings = action.options.cache.as_ref()?.settings()?;
        let store = self.stores.get(&settings.name)?;
        Some(ActionCache { settings: Arc::clone(settings), store: Arc::clone(store) })
    }

    /// Compiles the action of a step, once for all steps that share it.
    fn shared(&mut self, action: &Arc<config::Action>) -> Arc<Action> {
        if Arc::strong_count(action) == 1 {
            return Arc::new(self.action(action));
        }
        if let Some(known) = self.shared.get(&Arc::as_ptr(action)) {
            return Arc::clone(known);
        }
        let compiled = Arc::new(self.action(action));
        self.shared.insert(Arc::as_ptr(action), Arc::clone(&compiled));
        compiled
    }

    fn action(&mut self, action: &config::Action) -> Action {
        let kind = match &action.kind {
            config::ActionKind::Pass(pass) => ActionKind::Pass(compile_pass(pass)),
            config::ActionKind::Return(answer) => ActionKind::Return(compile_return(answer)),
            config::ActionKind::Proxy(proxy) => {
                ActionKind::Proxy(self.direct_upstreams.proxy(proxy))
            }
            config::ActionKind::Status(application) => ActionKind::Status(application.clone()),
            config::ActionKind::Metrics => ActionKind::Metrics,
            config::ActionKind::Dashboard => ActionKind::Proxy(self.direct_upstreams.dashboard()),
            config::ActionKind::Ping(ping) => ActionKind::Ping(ping.clone()),
            config::ActionKind::Share(share) if share.htaccess.is_some() => {
                let settings = share.htaccess.clone().unwrap_or_default();
                let scripts = share.scripts.as_ref().and_then(Pass::application);
                let scripts = scripts.map(|name| (name, self.sources.of_application(name)));
                let sources = self.sources.of_share(share);
                let site = Site::new(&settings, scripts, share.traverse_mounts, sources, self.mime);
                let site = site.at(share.prefix.clone());
                let fallback = share.fallback.as_ref();
                ActionKind::Htaccess(Box::new(HtaccessShare {
                    site: Arc::new(site),
                    root: share.paths.first().cloned().unwrap_or_default(),
                    fallback: fallback.map(|action| self.action(action)),
                }))
            }
            config::ActionKind::Share(share) => ActionKind::Share(Box::new(Share {
                paths: share.paths.iter().map(|path| self.path(path, share)).collect(),
                candidates: share.candidates.clone(),
                prefix: share.prefix.clone(),
                chroot: share.chroot.clone(),
                scripts: share.scripts.as_ref().map(compile_pass),
                fallback: share.fallback.as_ref().map(|action| self.action(action)),
                denied_has_fallback: share.denied_has_fallback,
            })),
        };
        Action {
            site: site(&kind, &action.kind),
            kind,
            rewrite: action.rewrite.clone(),
            allow: action.access.allow.clone(),
            deny: action.access.deny.clone(),
            limit: Rule::compile(&action.limit, self.zones),
            auth: action.access.basic_auth.as_ref().map(|auth| Arc::new(BasicAuth::new(auth))),
            auth_request: action.auth_request.as_ref().map(|check| {
                Box::new(AuthRequest {
                    action: self.action(&check.action),
                    copy_headers: check.copy_headers.clone(),
                    response_headers: check.response_headers.clone(),
                })
            }),
            mirror: { action.mirror.iter() }
                .map(|mirror| {
                    Arc::new(Mirror {
                        action: self.action(&mirror.action),
                        max_body_size: mirror.max_body_size,
                        concurrency: mirror.concurrency,
                        in_progress: AtomicU32::new(0),
                    })
                })
                .collect(),
            cache: self.cache(action),
            options: action.options.clone(),
            access_log: { action.options.access_log.as_deref() }
                .map(|logs| howdah_access_log::compile(logs, self.logs)),
            error_pages: { action.error_pages.iter() }.map(|page| self.page(page)).collect(),
        }
    }

    fn path(&self, template: &Template, share: &config::Share) -> SharePath {
        let options = howdah_files::Options {
            index: share.index.clone(),
            prefix: share.prefix.clone(),
            symlinks: share.symlinks,
            traverse_mounts: share.traverse_mounts,
            scripts: share.scripts.is_some(),
            extensions: self.sources.of_target(share.scripts.as_ref()),
            sources: self.sources.of_share(share),
            source_names: None,
            is_decided: false,
            precompressed: true,
            types: share.types.clone(),
            mime: Arc::clone(self.mime),
            listing: share.listing,
        };
        compile_path(template, options)
    }

    fn page(&mut self, page: &config::ErrorPage) -> ErrorPage {
        let source = match &page.source {
            config::PageSource::File(file) => {
                let mime = Arc::clone(self.mime);
                let options = howdah_files::Options {
                    mime,
                    precompressed: false,
                    ..howdah_files::Options::default()
                };
                // `howdah-config` has checked that the path is absolute and names a file.
                let name = file.file_name().unwrap_or_default().as_bytes();
                let directory = file.parent().unwrap_or(Path::new("/"));
                let files = howdah_files::Share::new(directory, options);
                PageSource::File { files, path: [b"/", name].concat().into() }
            }
            config::PageSource::Action { action, status } => {
                PageSource::Action { action: Box::new(self.action(action)), status: *status }
            }
        };
        ErrorPage { status: page.status, source }
    }
}

/// Returns the name of the application, share or upstream that answers the requests of an action.
/// Files belong to the application that runs their scripts, or gets the requests for which there is
/// no file.
fn site(kind: &ActionKind, source: &config::ActionKind) -> Option<Arc<str>> {
    match (kind, source) {
        (ActionKind::Pass(pass), _) => application(pass),
        // As metrics, the page is the listener's: an application may have this upstream's name.
        (_, config::ActionKind::Dashboard) => None,
        (ActionKind::Proxy(upstream), _) => Some((*upstream.name).into()),
        (ActionKind::Share(compiled), config::ActionKind::Share(share)) => {
            let scripts = compiled.scripts.as_ref().and_then(application);
            let fallback = || compiled.fallback.as_ref()?.site.clone();
            scripts.or_else(fallback).or_else(|| directory(share))
        }
        (ActionKind::Htaccess(_), config::ActionKind::Share(share)) => {
            let scripts = share.scripts.as_ref().and_then(Pass::application);
            scripts.map(Arc::from).or_else(|| directory(share))
        }
        _ => None,
    }
}

/// Returns the name of the application or upstream that requests are passed to, if it is always the
/// same.
fn application(pass: &CompiledPass) -> Option<Arc<str>> {
    match pass {
        CompiledPass::Fixed(
            config::Target::Application { name, .. } | config::Target::Upstream(name),
        ) => Some(name.as_str().into()),
        _ => None,
    }
}

/// Returns the constant part of the first path of a share.
fn directory(share: &config::Share) -> Option<Arc<str>> {
    match share.paths.first()?.parts().first()? {
        Part::Literal(text) => Some(text.as_str().into()),
        Part::Variable(_) => None,
    }
}

fn compile_return(answer: &config::Return) -> Return {
    let location = answer.location.as_ref().map(|template| match template.constant() {
        Some(text) => Location::Fixed(location::encode(text.as_bytes()).into()),
        None => Location::Variable(template.clone()),
    });
    let (keep_query, body) = (answer.keep_query, answer.body.clone());
    Return { status: answer.status, location, keep_query, body, is_unsent: answer.is_unsent }
}

fn compile_path(template: &Template, options: howdah_files::Options) -> SharePath {
    if let [Part::Literal(root), Part::Variable(Variable::Uri)] = template.parts()
        && root.starts_with('/')
    {
        let root = root.strip_suffix('/').unwrap_or(root);
        return SharePath { files: howdah_files::Share::new(root, options), template: None };
    }
    let fixed = match template.parts().first() {
        Some(Part::Literal(literal)) => literal.len(),
        _ => 0,
    };
    let ends_with_path = matches!(template.parts().last(), Some(Part::Variable(Variable::Uri)));
    let needs_host = template.parts().contains(&Part::Variable(Variable::Host));
    let template = NameTemplate { template: template.clone(), fixed, ends_with_path, needs_host };
    SharePath { files: howdah_files::Share::new("", options), template: Some(template) }
}

fn mime_types(config: &Config) -> MimeTypes {
    let http = &config.settings.http;
    let types = MimeTypes::new(http.mime_types.iter().flat_map(|(media_type, extensions)| {
        extensions.iter().map(move |extension| (extension.as_str(), media_type.as_str()))
    }));
    let types = types.without(http.removed_types.iter().map(String::as_str));
    let types = if http.builtin_types { types } else { types.without_builtin() };
    match &http.default_type {
        Some(media_type) => types.with_default(media_type),
        None => types,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_of_the_document_is_offered_unless_compression_is_off() {
        let compression = |settings: &str| {
            let document = format!(r#"{{"settings": {{"http": {{"compression": {settings}}}}}}}"#);
            super::compression(&config::parse(document.as_bytes()).unwrap())
        };
        let all = config::ENCODINGS.map(|name| format!(r#"{{"encoding": "{name}"}}"#)).join(", ");
        let names = compression(&format!(r#"{{"compressors": [{all}]}}"#)).map(|compression| {
            compression.compressors.iter().map(|one| one.encoding.name()).collect::<Vec<_>>()
        });
        assert_eq!(names.as_deref(), Some(&config::ENCODINGS[..]));
        for off in [
            r#"{"enabled": false, "compressors": {"encoding": "gzip"}}"#,
            r#"{"enabled": false}"#,
            r#"{"compressors": []}"#,
        ] {
            assert!(compression(off).is_none(), "{off}");
        }
    }
}
