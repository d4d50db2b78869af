//! The server under test.
//!
//! The `suites` binary or a test creates a `Target` and only reads it afterwards. A real server is reached through a
//! kubeconfig. The client does not retry, so a transcript holds every answer of the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use caretaker_apiserver::{
    ApiServer, ServerCredentials, ServerOptions, TokenKey, UpkeepTasks, UserIdentity,
};
use caretaker_controllers::cron::{self, CronJobs};
use caretaker_controllers::gc::{self, GarbageCollector};
use caretaker_controllers::podgc::{self, PodGcController};
use caretaker_controllers::runtime::driver::DriverOptions;
use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::evidence::EvidenceTrail;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, KindInterest};
use caretaker_controllers::runtime::manager::{ControllerManager, SharedParts};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::ttl::{self, TtlController, TtlSettings};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use caretaker_simulator::{SimulationOptions, volcano};
use http::{Request, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

/// When the embedded server's time begins: the first second of 2026.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// The seed of the embedded server's randomness; fixed, so that runs repeat.
const SEED: u64 = 4;
/// The key that signs the embedded server's tokens, PKCS #8 in base64; fixed for the same reason. It protects nothing.
const TOKEN_KEY: &str = include_str!("../data/token-key.txt");

/// The address in Service `kubernetes`; no client uses it.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// Pod GC's threshold in suites: more terminated Pods than all cases about other things create together.
pub const TERMINATED_PODS_KEPT: usize = 30;

/// Which kind of server a [`Target`] is; decides which cases can run and whether a cleanup is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Our own server, in this process, for one case.
    Embedded,
    /// A server behind a kubeconfig; it outlives the case.
    Real,
}

/// A server under test.
#[derive(Clone)]
pub struct Target {
    server: Server,
    client: Client,
    /// A client without a token.
    stranger: Option<Client>,
    /// The embedded server's clock.
    clock: Option<Clock>,
}

/// Controllers in this process; dropping it ends them.
pub struct InProcessControllers {
    _manager: ControllerManager,
    pub evidence: EvidenceTrail,
    pub metrics: ControllerMetrics,
}

// === impl Target ===

impl Target {
    /// The server of a kubeconfig's current context.
    pub async fn real(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).context("kubeconfig")?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .context("kubeconfig")?;
        config.default_retry = false;
        config.read_timeout = None;
        config.proxy_url = None;
        let client = Client::try_from(config.clone())?;
        config.auth_info = AuthInfo::default();
        Ok(Self {
            server: Server::Real,
            client,
            stranger: Client::try_from(config).ok(),
            clock: None,
        })
    }

    /// A new embedded server. Like a bare kube-apiserver it has roles and the like from the start, and neither empties
    /// namespaces nor expires Events nor keeps ServiceAccounts.
    pub fn embedded() -> Self {
        Self::embedded_on(Clock::driven(START, REAL_TIME))
    }

    /// A new embedded server on this clock.
    pub fn embedded_on(clock: Clock) -> Self {
        let options = ServerOptions {
            upkeep: UpkeepTasks {
                namespaces: false,
                crds: true,
                events: false,
            },
            bootstrap: Some(ADDRESS),
            accounts: None,
        };
        let server = ApiServer::start(clock.clone(), Rng::seeded(SEED), options);
        let credentials = ServerCredentials {
            token_key: token_key(),
            admin_token: None,
        };
        let server = server.with_credentials(credentials);
        Self {
            server: Server::Embedded,
            client: Client::new(server.service(UserIdentity::admin()), "default"),
            stranger: Some(Client::new(server.token_service(), "default")),
            clock: Some(clock),
        }
    }

    /// The same server, reached through another client.
    #[must_use]
    pub fn through(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    pub fn server(&self) -> Server {
        self.server
    }

    /// A client with all rights.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The clock of the embedded server; `None` for a real one.
    pub fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Starts controllers beside the embedded server, on its clock; `list` is what `--controllers` takes.
    pub fn controllers(&self, list: &str) -> anyhow::Result<InProcessControllers> {
        let Some(clock) = self.clock() else {
            anyhow::bail!("{list} cannot run in process beside a real server");
        };
        let metrics = ControllerMetrics::new();
        let (events, recorder) =
            EventSink::new(self.client.clone(), clock.clone(), metrics.clone());
        tokio::spawn(recorder.run());
        let (mut manager, evidence) = self.manager(clock, events, &metrics);
        let ignored = gc::IGNORED.map(|(resource, group)| (resource.into(), group.into()));
        let interest = KindInterest::Deletable {
            ignored: ignored.to_vec(),
        };
        let names: Vec<&str> = list.split(',').collect();
        for name in &names {
            start_controller(&mut manager, name, &names, &interest)?;
        }
        Ok(InProcessControllers {
            _manager: manager,
            evidence,
            metrics,
        })
    }

    /// Starts simulated Nodes and workloads beside the server, with the kinds of Volcano installed.
    pub async fn actors(&self) -> anyhow::Result<InProcessControllers> {
        volcano::install(&self.client).await?;
        self.start_actors(EventSink::none(), caretaker_simulator::start)
            .await
    }

    /// Starts simulated Nodes and Pods beside a server whose workloads have other controllers, with their Events.
    pub async fn nodes(&self) -> anyhow::Result<InProcessControllers> {
        let (clock, metrics) = (self.time().await?, ControllerMetrics::new());
        let (events, recorder) = EventSink::new(self.client.clone(), clock, metrics);
        tokio::spawn(recorder.run());
        self.start_actors(events, caretaker_simulator::start_nodes)
            .await
    }

    async fn start_actors(
        &self,
        events: EventSink,
        start: fn(&mut ControllerManager, SimulationOptions),
    ) -> anyhow::Result<InProcessControllers> {
        let clock = self.time().await?;
        let metrics = ControllerMetrics::new();
        let (mut manager, evidence) = self.manager(&clock, events, &metrics);
        start(&mut manager, SimulationOptions::default());
        Ok(InProcessControllers {
            _manager: manager,
            evidence,
            metrics,
        })
    }

    /// The embedded server's clock, or one with the time of a real server.
    async fn time(&self) -> anyhow::Result<Clock> {
        Ok(match self.clock() {
            Some(clock) => clock.clone(),
            None => Clock::driven(date(&self.client).await?, REAL_TIME),
        })
    }

    fn manager(
        &self,
        clock: &Clock,
        events: EventSink,
        metrics: &ControllerMetrics,
    ) -> (ControllerManager, EvidenceTrail) {
        let (options, rng) = (FeedSetOptions::default(), Rng::seeded(SEED));
        let evidence = EvidenceTrail::new();
        let manager = ControllerManager::new(SharedParts {
            client: self.client.clone(),
            feeds: FeedSet::start(self.client.clone(), clock.clone(), rng, options),
            clock: clock.clone(),
            events,
            evidence: evidence.clone(),
            metrics: metrics.clone(),
            limit: None,
        });
        (manager, evidence)
    }

    /// A client that sends no token of its own.
    pub fn stranger(&self) -> Option<Client> {
        self.stranger.clone()
    }
}

/// The server's time, by the `Date` header of an answer.
pub(crate) async fn date(client: &Client) -> anyhow::Result<Timestamp> {
    let request = Request::get("/version").body(Body::empty())?;
    let (parts, body) = client.send(request).await?.into_parts();
    // Read to its end, so that the connection can be used again.
    body.collect_bytes().await?;
    let date = parts.headers.get(header::DATE);
    let date = date.context("the server sends no Date header")?;
    let date = rfc2822::parse(date.to_str()?).context("the server's time")?;
    Ok(date.timestamp())
}

/// Starts the controller of this name in this process, beside the others of `names`. The garbage collector watches
/// `collected`.
pub(crate) fn start_controller(
    manager: &mut ControllerManager,
    name: &str,
    names: &[&str],
    collected: &KindInterest,
) -> anyhow::Result<()> {
    let options = DriverOptions::default();
    if let Some(row) = cron::DIALECTS.iter().find(|row| row.name == name) {
        let options = DriverOptions {
            timing: TimeSource::Server,
            reporter: Some(row.reporter),
            ..options
        };
        let make = || CronJobs::new(row, cron::CronSettings::default());
        drop(manager.start(row.interest(), options, make));
        return Ok(());
    }
    match name {
        // The handle is for questions of `explain`, which no case asks.
        gc::NAME => drop(manager.start(collected.clone(), options, || GarbageCollector::new(SEED))),
        podgc::NAME => drop(manager.start(podgc::interest(), options, pod_gc)),
        _ => {
            let mut ends = ttl::KINDS.iter();
            let row = ends.find(|row| row.name == name);
            let row = row.with_context(|| format!("there is no {name} in process"))?;
            let options = DriverOptions {
                timing: TimeSource::Server,
                workers: 5,
                ..options
            };
            let with_cron = names.contains(&row.cron_dialect.name);
            let rules = TtlSettings {
                cron_zone: with_cron.then_some(TimeZone::UTC),
                ..TtlSettings::default()
            };
            drop(manager.start(row.interest(&rules), options, move || {
                TtlController::new(row, rules.clone())
            }));
        }
    }
    Ok(())
}

/// Pod GC with a low threshold, so that cases need few terminated Pods.
fn token_key() -> Option<TokenKey> {
    let text: String = TOKEN_KEY.split_whitespace().collect();
    TokenKey::from_pkcs8(&STANDARD.decode(text).ok()?).ok()
}

fn pod_gc() -> PodGcController {
    PodGcController::new(podgc::PodGcSettings {
        threshold: Some(TERMINATED_PODS_KEPT),
        ..podgc::PodGcSettings::default()
    })
}
