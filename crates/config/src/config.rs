//! The document as a whole.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use howdah_template::geo_database::GeoDatabase;
use howdah_template::{DefinedVariables, Groups};
use serde_json::Value;

use crate::access_log::{AccessLog, LOGS};
use crate::action::ActionKind;
use crate::application::{APPLICATION, Application};
use crate::defaults::Defaults;
use crate::definitions::Definitions;
use crate::error::{Error, ErrorKind};
use crate::error_logs::ErrorLog;
use crate::fastcgi::{FASTCGI, FastCgi, Servers};
use crate::include::{self, LeftOut};
use crate::json;
use crate::key::{Key, Kind, Shape};
use crate::limit::LimitRule;
use crate::listener::{LISTENER, Listener};
use crate::mail::{MAIL, Mail};
use crate::mistakes::Mistakes;
use crate::node::{Node, Scope, path};
use crate::proxy::Proxy;
use crate::route::{Route, STEP};
use crate::settings::{SETTINGS, Settings};
use crate::site::{SITE, SITE_DEFAULTS};
use crate::smtp::{MailServer, mail_server};
use crate::stream::{STREAM_STEP, Stream};
use crate::upstream::{UPSTREAM, Upstream};
use crate::upstream_tls::UpstreamTls;
use crate::variables;
use crate::variables::VARIABLE;

/// The document itself.
pub static DOCUMENT: Shape = Shape {
    name: "document",
    parts: &[&[
        Key::new(
            "include",
            Kind::Texts,
            "Files with parts of the document, such as `\"conf.d/*.json\"`",
        )
        .details("See [Several files](#several-files)")
        .replaced(),
        Key::new(
            "sites",
            Kind::Either(&[Kind::Texts, Kind::Named(&Kind::Object(&SITE))]),
            "Files with a site each, such as `\"sites/*.json\"`, or sites by name",
        )
        .details("See [Sites](configuration/sites.md)")
        .replaced(),
        Key::new("defaults", Kind::Object(&SITE_DEFAULTS), "Keys that all sites share")
            .details("See [Defaults](configuration/sites.md#defaults)")
            .replaced(),
        Key::new("settings", Kind::Object(&SETTINGS), "Settings of the whole server")
            .details("See [Settings](configuration/settings.md)")
            .unit(),
        Key::new(
            "variables",
            Kind::Named(&Kind::Object(&VARIABLE)),
            "Variables by name, whose values are looked up in tables",
        )
        .details(
            "See [Variables](configuration/variables.md#defined-variables); nginx's `map`, `geo`, \
             `split_clients`",
        ),
        Key::new(
            "listeners",
            Kind::Named(&Kind::Object(&LISTENER)),
            "Listening sockets by address, such as `\"*:80\"` or `\"unix:/run/site.sock\"`",
        )
        .details("See [Listeners](configuration/listeners.md)")
        .unit(),
        Key::new(
            "routes",
            Kind::Either(&[
                Kind::Array(&Kind::Object(&STEP)),
                Kind::Named(&Kind::Array(&Kind::Object(&STEP))),
            ]),
            "Steps, the first of which that matches handles a request",
        )
        .details("See [Routes](configuration/routes.md)")
        .unit(),
        Key::new(
            "applications",
            Kind::Named(&Kind::Either(&[Kind::Object(&APPLICATION), Kind::Object(&FASTCGI)])),
            "PHP applications by name",
        )
        .details("See [Applications](configuration/applications.md)")
        .unit(),
        Key::new(
            "upstreams",
            Kind::Named(&Kind::Object(&UPSTREAM)),
            "Groups of servers by name, which share the requests that are passed to them",
        )
        .details("See [Upstreams](configuration/upstreams.md#upstreams)")
        .unit(),
        Key::new(
            "mail",
            Kind::Named(&Kind::Object(&MAIL)),
            "Proxies of IMAP, POP3 and SMTP by name, to which listeners pass their connections",
        )
        .details("See [Mail](mail.md)"),
        Key::new(
            "streams",
            Kind::Named(&Kind::Array(&Kind::Object(&STREAM_STEP))),
            "Steps that choose an upstream for connections of `\"tcp\"` listeners",
        )
        .details("See [Streams](stream.md)"),
        Key::new(
            "access_log",
            LOGS,
            "The access log: a file, an object, an array of them, or `false`",
        )
        .details("See [Access log](configuration/access-log.md)")
        .unit(),
        Key::new(
            "error_logs",
            Kind::Named(&Kind::Text),
            "Files for the log records about sites, by the names of routes, applications and \
             upstreams, as `$site` has them",
        )
        .default("the server's log")
        .details("See [Log of a site](operations.md#log-of-a-site)"),
        Key::new(
            "included",
            Kind::Named(&Kind::Text),
            "Files that parts of the document come from",
        )
        .internal(),
        Key::new("left_out", Kind::Named(&Kind::Text), "Files that cannot be used").internal(),
        Key::new("places", Kind::Named(&Kind::Text), "Places of parts in sites").internal(),
        Key::new("source", Kind::Named(&Kind::Text), "The sites that parts were made from")
            .internal(),
    ]],
};

/// A valid document.
#[derive(Debug, Clone)]
pub struct Config {
    /// The document itself, members in the order written.
    pub document: Value,
    /// The sockets that accept connections.
    pub listeners: Vec<Listener>,
    /// The routes: one without a name, or any number with names.
    pub routes: Vec<Route>,
    /// The PHP applications, which the parts of the router share.
    pub applications: Vec<Arc<Application>>,
    /// The applications of type `fastcgi`.
    pub fastcgi: Vec<FastCgi>,
    /// Groups of servers.
    pub upstreams: Vec<Upstream>,
    /// Proxies of mail.
    pub mail: Vec<Mail>,
    /// Lists of steps for connections that are no requests.
    pub streams: Vec<Stream>,
    /// Settings of the whole server.
    pub settings: Settings,
    /// The access logs of requests that no other log is configured for.
    pub access_log: Vec<AccessLog>,
    /// Logs of sites.
    pub error_logs: Vec<ErrorLog>,
    /// The databases of addresses that variables name, each with its place.
    pub geo_databases: Vec<(String, Arc<GeoDatabase>)>,
    /// The parts that come from other files, by their paths (`included`).
    pub included: Vec<(String, PathBuf)>,
    /// The files without which the document was read, because they cannot be used (`left_out`).
    pub left_out: Vec<LeftOut>,
}

/// Reads a document with Howdah's defaults.
pub fn parse(text: &[u8]) -> Result<Config, Error> {
    parse_with(text, &Defaults::default())
}

/// Reads a document with these defaults.
pub fn parse_with(text: &[u8], defaults: &Defaults) -> Result<Config, Error> {
    Config::from_value_with(json::parse(text)?, defaults)
}

impl Config {
    /// Returns the mail server that takes the messages of an application.
    pub fn mail_server(&self, application: &str) -> MailServer {
        let found = self.applications.iter().find(|found| found.name == application);
        let own = found.and_then(|found| found.smtp.as_ref());
        mail_server(application, own, self.settings.smtp.as_ref())
    }

    /// Reads a document from a value tree with Howdah's defaults.
    pub fn from_value(document: Value) -> Result<Config, Error> {
        Config::from_value_with(document, &Defaults::default())
    }

    /// Reads a document from a value tree with these defaults.
    pub fn from_value_with(document: Value, defaults: &Defaults) -> Result<Config, Error> {
        let config = Config::read_all(&document, defaults)?;
        Ok(Config { document, ..config })
    }

    /// Checks that a value tree is a valid document with these defaults.
    pub fn check(document: &Value, defaults: &Defaults) -> Result<(), Error> {
        Config::read_all(document, defaults).map(drop)
    }

    /// Reads a document, without keeping it.
    fn read_all(document: &Value, defaults: &Defaults) -> Result<Config, Error> {
        let mistakes = Mistakes::default();
        let read = Config::read(document, defaults, &mistakes);
        mistakes.finish_document(read).map_err(|errors| {
            // The reading has failed, so there is an error.
            let none = || Error::new(ErrorKind::InvalidValue, String::new(), "cannot be read");
            Error::of_all(errors).unwrap_or_else(none)
        })
    }

    /// Reads a document. The result is unusable if there are mistakes.
    fn read(
        document: &Value,
        defaults: &Defaults,
        mistakes: &Mistakes<Error>,
    ) -> Result<Config, Error> {
        let (groups, variables) = (Groups::default(), DefinedVariables::default());
        let scope = Scope {
            definitions: Definitions::of(document),
            defaults: *defaults,
            groups: &groups,
            variables: &variables,
            mistakes,
        };
        let root = Node::root(document, &scope);
        let object = root.object(&DOCUMENT)?;
        include::refuse(&root)?;
        // Templates refer to them.
        object.optional("variables").map(|node| variables::read(&variables, &node)).transpose()?;
        let settings = mistakes.part(object.read("settings", Settings::read))?.flatten();
        let settings = settings.unwrap_or_else(|| Settings::new(defaults));
        let listeners = mistakes.part(object.read("listeners", Listener::read_all))?.flatten();
        let routes = mistakes.part(object.read("routes", Route::read_all))?.flatten();
        let applications = mistakes.part(object.read("applications", read_applications))?.flatten();
        let (applications, fastcgi) = applications.unwrap_or_default();
        let upstreams = mistakes.part(object.read("upstreams", Upstream::read_all))?.flatten();
        let mail = mistakes.part(object.read("mail", Mail::read_all))?.flatten();
        let streams = mistakes.part(object.read("streams", Stream::read_all))?.flatten();
        let access_log = mistakes.part(object.read("access_log", AccessLog::read_all))?.flatten();
        let error_logs = mistakes.part(object.read("error_logs", ErrorLog::read_all))?.flatten();
        let included = object.optional("included").map(|node| include::read_included(&node));
        let included = included.transpose()?.unwrap_or_default();
        let left_out = object.optional("left_out").map(|node| include::read_left_out(&node));
        let left_out = left_out.transpose()?.unwrap_or_default();
        // The parts that were made from it are read.
        object.optional("source");
        object.optional("places");
        mistakes.part(object.end())?;
        let mut config = Config {
            listeners: listeners.unwrap_or_default(),
            routes: routes.unwrap_or_default(),
            applications,
            fastcgi,
            upstreams: upstreams.unwrap_or_default(),
            mail: mail.unwrap_or_default(),
            streams: streams.unwrap_or_default(),
            settings,
            access_log: access_log.unwrap_or_default(),
            error_logs: error_logs.unwrap_or_default(),
            geo_databases: variables::databases(&variables),
            included,
            left_out,
            document: Value::Null,
        };
        for added in [&config.settings.metrics, &config.settings.probes] {
            mistakes.part(added.add_to(&mut config.listeners))?;
        }
        mistakes.part(LimitRule::check_zones(config.limit_rules()))?;
        let obedient = config.applications_of_htaccess_shares();
        let settings = config.settings_of_routes();
        let behind = |name: &str| {
            let mut listeners = config.listeners.iter().filter_map(|one| one.fastcgi.as_ref());
            listeners.any(|fastcgi| fastcgi.application == name)
        };
        let behind: Vec<bool> = config.applications.iter().map(|one| behind(&one.name)).collect();
        for (application, takes_fastcgi) in config.applications.iter_mut().zip(behind) {
            let application = Arc::make_mut(application);
            application.takes_fastcgi = takes_fastcgi;
            application.obeys_htaccess |= obedient.contains(&application.name);
            // A worker takes any setting from `.htaccess` files.
            if !application.obeys_htaccess {
                application.route_settings = settings.of(&application.name);
            }
        }
        let of_scripts: HashSet<String> = {
            let fastcgi = config.listeners.iter().filter_map(|one| one.fastcgi.as_ref());
            let of_scripts = fastcgi.filter(|fastcgi| fastcgi.status_path.is_none());
            of_scripts.map(|fastcgi| fastcgi.application.clone()).collect()
        };
        for fastcgi in config.listeners.iter_mut().filter_map(|one| one.fastcgi.as_mut()) {
            let has_status = fastcgi.status_path.is_some();
            fastcgi.is_status_apart = has_status && of_scripts.contains(&fastcgi.application);
        }
        mistakes.part(config.check_cache_stores())?;
        Ok(config)
    }

    /// Returns the route of a [`Target::Route`](crate::Target::Route).
    pub fn route(&self, name: Option<&str>) -> Option<&Route> {
        self.routes.iter().find(|route| route.name.as_deref() == name)
    }

    /// Returns all TLS settings for connections to other servers, each with its path.
    pub fn upstream_tls(&self) -> Vec<(String, UpstreamTls)> {
        let mut all: Vec<_> = self
            .upstreams
            .iter()
            .filter_map(|upstream| {
                let place = format!("{}/tls", path(["upstreams", upstream.name.as_str()]));
                upstream.tls.clone().map(|tls| (place, tls))
            })
            .collect();
        let secure = self.proxies().into_iter().find(|(_, proxy)| proxy.tls.is_some());
        all.extend(secure.map(|(place, _)| (place, UpstreamTls::default())));
        all.extend(self.mail.iter().flat_map(Mail::upstream_tls));
        all
    }

    /// Returns the server names that must be looked up.
    pub fn server_names(&self) -> Vec<String> {
        let upstreams = self.upstreams.iter().flat_map(|upstream| &upstream.servers);
        let upstreams = upstreams.map(|server| &server.address);
        let proxies = self.proxies().into_iter().map(|(_, proxy)| &proxy.address);
        let fastcgi = self.fastcgi.iter().filter_map(|site| match &site.servers {
            Servers::One(address) => Some(address),
            Servers::Upstream(_) => None,
        });
        let mail = self.mail.iter().flat_map(|mail| &mail.authentication);
        let mail = mail.map(|server| &server.address);
        let all = upstreams.chain(proxies).chain(fastcgi).chain(mail);
        all.filter_map(|address| address.name().map(str::to_owned)).collect()
    }

    /// Returns the servers of all `proxy` actions, each with its path.
    fn proxies(&self) -> Vec<(String, &Proxy)> {
        let mut all = Vec::new();
        for (place, action) in self.actions() {
            if let ActionKind::Proxy(proxy) = &action.kind {
                all.push((format!("{place}/proxy"), proxy));
            }
        }
        all
    }

    /// Returns the limits of all listeners and actions.
    pub fn limit_rules(&self) -> impl Iterator<Item = &LimitRule> {
        let listeners = self.listeners.iter().flat_map(|listener| &listener.limit);
        listeners.chain(self.actions().into_iter().flat_map(|(_, action)| &action.limit))
    }

    /// Returns the application of this name.
    pub fn application(&self, name: &str) -> Option<&Application> {
        self.applications.iter().find(|application| application.name == name).map(Arc::as_ref)
    }
}

/// Reads `applications`: the local ones, and those of type `fastcgi`.
fn read_applications(node: &Node<'_>) -> Result<(Vec<Arc<Application>>, Vec<FastCgi>), Error> {
    let (mut applications, mut fastcgi) = (Vec::new(), Vec::new());
    for (name, application) in node.members()? {
        if FastCgi::is(&application) {
            fastcgi.extend(node.part(FastCgi::read(name, &application))?)
        } else {
            applications.extend(node.part(Application::read(name, &application))?.map(Arc::new))
        }
    }
    Ok((applications, fastcgi))
}
