//! The other parts of the server: upstreams, caches, limits, certificates, listeners, the document.

use howdah_http::message::Request;
use serde_json::{Value, json};

use super::{Api, Reply};
use crate::actions::Action;

impl Api {
    /// Answers a question about the parts of the server, as the last status has them.
    pub(super) async fn parts(&self, request: &Request) -> Reply {
        let mut parts = self.state.of_status(|status| {
            json!({
                "upstreams": status.upstreams,
                "caches": status.caches,
                "limits": status.limits,
                "certificates": status.certificates,
                "listeners": status.listeners,
                "connections": status.connections,
                "requests": status.requests,
                "memory": status.memory,
                "cluster": status.cluster,
                "protection": status.protection.router,
                "landlock": status.protection.landlock,
            })
        });
        // Only servers that the document itself names can be drained: those of sites are compiled.
        let named = self.ask("/config/upstreams".to_owned()).await.ok();
        let named = named.as_deref().and_then(Value::as_object);
        let servers = named.into_iter().flatten().flat_map(|(upstream, value)| {
            let servers = value.get("servers").and_then(Value::as_object);
            servers.into_iter().flatten().map(move |(server, options)| (upstream, server, options))
        });
        let (mut buttons, mut drained) = (Vec::new(), Vec::new());
        for (upstream, server, options) in servers {
            let drains = options.get("drain").and_then(Value::as_bool).unwrap_or(false);
            if drains {
                drained.push(json!([upstream, server]));
            }
            let (upstream, server) = (upstream.clone(), server.clone());
            let name = format!("drain {}", json!([upstream, server]));
            buttons.push((name, Action::Drain { upstream, server, drains: !drains }));
        }
        let caches: Vec<String> =
            self.state.of_status(|status| status.caches.keys().cloned().collect());
        buttons.extend(
            caches
                .into_iter()
                .map(|cache| (format!("purge {cache}"), Action::Purge { cache, prefix: None })),
        );
        buttons.push(("reload".to_owned(), Action::Reload));
        if let Value::Object(parts) = &mut parts {
            parts.insert("drained".to_owned(), json!(drained));
            parts.insert("buttons".to_owned(), self.buttons(request, &buttons));
        }
        Ok(parts)
    }
}
