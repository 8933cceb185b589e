//! Accepts connections of browsers, and gives them to `api`.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_control::{ConnectionSlot, Connections};
use howdah_http::drain::Drain;
use howdah_http::error_status::RequestError;
use howdah_http::exchange::{Exchange, Handler, RequestRecord};
use howdah_http::h1::{self, Io};
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, Response};
use howdah_sys::sandbox::landlock::Domain;
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::task::spawn_local;

use crate::address::Place;
use crate::api::{Api, failure};
use crate::sampler::{self, Sample};
use crate::secret::Secret;
use crate::{Control, Options};

/// Maximum number of connections. Beyond it, the oldest one of a client that has not logged in is
/// closed.
pub(crate) const MAX_CONNECTIONS: usize = 256;

/// Maximum number of questions to the control API at a time.
pub(crate) const MAX_QUESTIONS: usize = 8;

/// Maximum length of a body in bytes.
const MAX_BODY: u64 = 16 << 10;

/// Maximum length of a request head in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Maximum time for a head of a client that has not logged in.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// Binds the address, gives up rights and serves.
pub(crate) fn run(options: Options, control: Arc<dyn Control>) -> Result<(), String> {
    let Options { listen: address, page, is_read_only, prints_links } = options;
    if !address.ip().is_loopback() {
        return Err(format!(
            "--listen {address}: the page is for this machine alone, as it is not encrypted; \
             `ssh -L {port}:127.0.0.1:{port} HOST` leads to it from elsewhere, or a listener with \
             TLS that passes to it (see --url)",
            port = address.port()
        ));
    }
    if !prints_links && control.token().is_none() {
        return Err("--no-link: nobody could log in, as the control API has no token".to_owned());
    }
    let listener = StdListener::bind(address).map_err(|error| {
        format!("--listen {address}: {error}; name another address with --listen")
    })?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let code = prints_links.then(Secret::new).transpose()?;
    restrict(&*control);
    howdah_sys::signals::ignore_pipe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_QUESTIONS)
        .build_local(tokio::runtime::LocalOptions::default());
    let runtime = runtime.map_err(|error| format!("the event loop cannot start: {error}"))?;
    let begun = Instant::now();
    let samples = sampler::start(Arc::clone(&control), begun)?;
    let place = Place::Local { listen: address, page };
    let api = Rc::new(Api::new(place, is_read_only, control, begun, code));
    api.announce();
    runtime.block_on(async move {
        watch(&api, samples);
        serve(listener, &api).await
    })
}

/// Shows samples as they come.
pub(crate) fn watch(api: &Rc<Api>, mut samples: Receiver<Sample>) {
    let api = Rc::clone(api);
    spawn_local(async move {
        while let Some((sample, at)) = samples.recv().await {
            api.on_sample(sample, at);
        }
    });
}

/// Gives up access to files, and binding of ports. The control socket is reached by its name, which
/// needs no right to a file; a host may be looked up in files.
fn restrict(control: &dyn Control) {
    let address = control.address();
    if !address.starts_with("unix:") {
        return;
    }
    let nothing = Domain {
        files: Some(Vec::new()),
        no_device_ioctl: true,
        no_bind_tcp: true,
        no_abstract_sockets: !address.starts_with("unix:@"),
    };
    // Kernels without Landlock cannot; the process has no more rights than its user then.
    let _ = nothing.enter();
}

async fn serve(listener: StdListener, api: &Rc<Api>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the address cannot be used: {error}");
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    let connections = Rc::new(Connections::new(MAX_CONNECTIONS));
    loop {
        connections.room().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                answer(api, stream, Some(peer), &connections);
            }
            // Such as a lack of descriptors.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers the requests of a connection in a task of its own.
pub(crate) fn answer(
    api: &Rc<Api>,
    stream: impl Io + 'static,
    peer: Option<SocketAddr>,
    connections: &Rc<Connections>,
) {
    let (api, place) = (Rc::clone(api), connections.enter(false));
    let info = Arc::new(ConnectionInfo { peer, ..ConnectionInfo::default() });
    spawn_local(async move {
        let client = Client { api: &api, place: &place };
        place.run_unless_closed(h1::serve(stream, info, &client, Drain::new().register())).await;
    });
}

/// The client of one connection.
struct Client<'a> {
    api: &'a Rc<Api>,
    place: &'a ConnectionSlot,
}

impl Handler for Client<'_> {
    fn limits(&self) -> Rc<Limits> {
        let mut limits = Limits {
            max_body: MAX_BODY,
            max_head: MAX_HEAD,
            header_timeout: HEAD_TIME,
            body_timeout: HEAD_TIME,
            ..Limits::default()
        };
        if !self.place.is_trusted() {
            limits.idle_timeout = HEAD_TIME;
        }
        Rc::new(limits)
    }

    fn next_id(&self) -> u64 {
        0 // these requests appear in no log
    }

    async fn handle(&self, exchange: &mut Exchange<'_>) -> Response {
        self.api.answer(exchange, self.place).await
    }

    fn error(&self, error: RequestError) -> Response {
        failure(error.status(), "the request is not one that browsers send")
    }

    fn log_request(&self, _record: &RequestRecord<'_>) {}
}
