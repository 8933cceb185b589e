//! Applications that a reload has changed to ones that cannot run: they continue unchanged.
//!
//! A mistake in a document must not end a site that serves. Until it is corrected and the document
//! read again, requests have the former settings of the application; only its logs are the new
//! ones, as those are open.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::howdah_config as config;

use super::Pools;
use super::application::PooledApplication;

/// An application that continues unchanged.
#[derive(Debug)]
pub(super) struct Kept {
    /// The configuration with which it cannot run.
    refused: Arc<config::Application>,
    /// The configuration that requests have.
    pub(super) in_use: Arc<config::Application>,
    /// Reason why it continues unchanged, and the remedy.
    pub(super) reason: String,
}

impl Pools {
    /// Returns true if an application of this name can serve at once.
    pub(in crate::process) fn is_serving(&self, name: &str) -> bool {
        self.applications.iter().any(|app| app.config.name == name && app.is_serving())
    }

    /// Returns true if this configuration of a running application is known to be unusable.
    pub(in crate::process) fn is_kept(&self, config: &config::Application) -> bool {
        let mut kept = self.applications.iter().filter_map(|app| app.kept.as_ref());
        kept.any(|kept| *kept.refused == *config)
    }

    /// Drops the prepared applications that have failed where former ones can continue, and puts
    /// the configuration of those into this one.
    pub(in crate::process) fn keep_former(
        &mut self,
        config: &mut config::Config,
    ) -> io::Result<()> {
        let Pools { preparing, applications, .. } = self;
        let has_former = |app: &mut PooledApplication| {
            let is_failed = !app.is_restart && app.failure.is_some();
            let former = applications.iter_mut().find(|former| former.can_go_on_for(app));
            let Some(former) = former.filter(|_| is_failed) else { return false };
            let problem = app.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            let reason = format!(
                "it continues unchanged, as it cannot run with its changed configuration: \
                 {problem}; once that is mended, run howdah reload"
            );
            let (refused, in_use) = (Arc::clone(&app.config), former.with_logs_of(&app.config));
            former.kept = Some(Box::new(Kept { refused, in_use, reason }));
            true
        };
        let dropped: Vec<_> = preparing.extract_if(.., has_former).collect();
        for app in dropped {
            if let Some(instance) = app.instance {
                self.retire(app.config.name.clone(), app.queue, instance, Duration::ZERO)?;
            }
        }
        let Pools { preparing, applications, .. } = self;
        for app in applications {
            let Some(kept) = &app.kept else { continue };
            let is_new =
                |new: &PooledApplication| !new.is_restart && new.config.name == app.config.name;
            if preparing.iter().any(is_new) {
                continue; // it can run by now, and is adopted
            }
            let mut all = config.applications.iter_mut();
            match all.find(|own| own.name == app.config.name) {
                Some(own) if *own == kept.refused => *own = Arc::clone(&kept.in_use),
                Some(own) if own.has_same_processes(&app.config) => app.kept = None,
                _ => {}
            }
        }
        Ok(())
    }
}

impl PooledApplication {
    /// Returns true if it can serve at once.
    fn is_serving(&self) -> bool {
        self.instance.is_some() && self.ready_since.is_some()
    }

    /// Returns true if it can serve the routes of a configuration that has this application in its
    /// place.
    pub(super) fn can_go_on_for(&self, new: &PooledApplication) -> bool {
        let targets = |app: &config::Application| {
            app.targets.iter().map(|target| target.name.clone()).collect::<Vec<_>>()
        };
        let (own, new) = (&self.config, &new.config);
        own.name == new.name
            && self.is_serving()
            && targets(own) == targets(new)
            && own.route_settings == new.route_settings
            && own.takes_fastcgi == new.takes_fastcgi
    }

    /// Returns its configuration with the logs of another one.
    fn with_logs_of(&self, other: &config::Application) -> Arc<config::Application> {
        let mut own = config::Application::clone(&self.config);
        own.access_log.clone_from(&other.access_log);
        own.limits.slow_log.clone_from(&other.limits.slow_log);
        Arc::new(own)
    }
}
