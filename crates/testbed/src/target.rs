//! The server under test: where a scenario's requests go.
//!
//! A `Target` is made by the `suites` binary or by a test and only read afterwards. A real server is reached through a
//! kubeconfig. Retries are off, so that what a scenario writes down is what the server said.

use std::path::Path;

use anyhow::Context as _;
use caretaker_apiserver::{ApiServer, UpkeepTasks, UserIdentity};
use caretaker_controllers::cron::{self, CronJobs};
use caretaker_controllers::gc::{self, GarbageCollector};
use caretaker_controllers::podgc::{self, PodGc};
use caretaker_controllers::runtime::driver::Options;
use caretaker_controllers::runtime::driver::clock_skew::Timing;
use caretaker_controllers::runtime::events::Events;
use caretaker_controllers::runtime::evidence::Trail;
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, Interest};
use caretaker_controllers::runtime::manager::{Manager, Shared};
use caretaker_controllers::runtime::metrics::Metrics;
use caretaker_controllers::ttl::{self, Rules, Ttl};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use caretaker_simulator::volcano;
use http::{Request, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::Client;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

/// When the embedded server's time begins: the first second of 2026.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// What the embedded server's randomness begins with; any number does, as long as it stays.
const SEED: u64 = 4;

/// How many terminated Pods are kept by the Pod GC of suites: more than all plays make together that are about something
/// else.
pub const TERMINATED_PODS_KEPT: usize = 30;

/// Which kind of server a [`Target`] is; decides which scenarios can run and whether anything is left to clean up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// Our own server, in this process, made for one scenario.
    Embedded,
    /// A server behind a kubeconfig; it was there before and stays afterwards.
    Real,
}

/// A server under test.
#[derive(Clone)]
pub struct Target {
    server: Server,
    client: Client,
    /// What a client without or with another token is made from; none where there is no wire to authenticate on.
    config: Option<kube::Config>,
    /// The embedded server's time; a real server has its own.
    clock: Option<Clock>,
}

/// Controllers in this process; they end with this value.
pub struct Controllers {
    _manager: Manager,
    /// What they have written so far.
    pub evidence: Trail,
    /// What they have counted so far.
    pub metrics: Metrics,
}

// === impl Target ===

impl Target {
    /// The server that a kubeconfig's current context names.
    pub async fn real(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).context("kubeconfig")?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .context("kubeconfig")?;
        config.default_retry = false;
        config.read_timeout = None;
        config.proxy_url = None;
        Ok(Self {
            server: Server::Real,
            client: Client::try_from(config.clone())?,
            config: Some(config),
            clock: None,
        })
    }

    /// A new embedded server. It does not look after namespaces and events by itself, as a bare kube-apiserver does not.
    pub fn embedded() -> Self {
        let upkeep = UpkeepTasks {
            namespaces: false,
            crds: true,
            events: false,
        };
        let clock = Clock::driven(START, REAL_TIME);
        let server = ApiServer::ephemeral_with(clock.clone(), Rng::seeded(SEED), upkeep);
        Self {
            server: Server::Embedded,
            client: Client::new(server.service(UserIdentity::admin()), "default"),
            config: None,
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

    /// Which kind of server this is.
    pub fn server(&self) -> Server {
        self.server
    }

    /// The client of an all-powerful user.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The time of the embedded server.
    pub fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Starts controllers beside the embedded server, by the names that `--controllers` has for them, on its clock:
    /// one or several with commas between.
    pub fn controllers(&self, list: &str) -> anyhow::Result<Controllers> {
        let Some(clock) = self.clock() else {
            anyhow::bail!("{list} cannot run in process beside a real server");
        };
        let metrics = Metrics::new();
        let (events, recorder) = Events::new(self.client.clone(), clock.clone(), metrics.clone());
        tokio::spawn(recorder.run());
        let (mut manager, evidence) = self.manager(clock, events, &metrics);
        let ignored = gc::IGNORED.map(|(resource, group)| (resource.into(), group.into()));
        let interest = Interest::Deletable {
            ignored: ignored.to_vec(),
        };
        let names: Vec<&str> = list.split(',').collect();
        for name in &names {
            hire(&mut manager, name, &names, &interest)?;
        }
        Ok(Controllers {
            _manager: manager,
            evidence,
            metrics,
        })
    }

    /// Starts simulated Nodes and workloads beside the server, with the kinds of Volcano installed.
    pub async fn actors(&self) -> anyhow::Result<Controllers> {
        volcano::install(&self.client).await?;
        let clock = match self.clock() {
            Some(clock) => clock.clone(),
            None => Clock::driven(date(&self.client).await?, REAL_TIME),
        };
        let metrics = Metrics::new();
        let (mut manager, evidence) = self.manager(&clock, Events::none(), &metrics);
        caretaker_simulator::start(&mut manager);
        Ok(Controllers {
            _manager: manager,
            evidence,
            metrics,
        })
    }

    /// What controllers of this process are started with, and what they will have written.
    fn manager(&self, clock: &Clock, events: Events, metrics: &Metrics) -> (Manager, Trail) {
        let (options, rng) = (FeedSetOptions::default(), Rng::seeded(SEED));
        let evidence = Trail::new();
        let manager = Manager::new(Shared {
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

    /// A client that presents `token`, or nothing; `None` where the server is not behind a wire.
    pub fn stranger(&self, token: Option<&str>) -> Option<Client> {
        let mut config = self.config.clone()?;
        config.auth_info = AuthInfo {
            token: token.map(|t| t.to_owned().into()),
            ..AuthInfo::default()
        };
        Client::try_from(config).ok()
    }
}

/// The server's time, by what it says about an answer.
pub(crate) async fn date(client: &Client) -> anyhow::Result<Timestamp> {
    let request = Request::get("/version").body(Body::empty())?;
    let (parts, body) = client.send(request).await?.into_parts();
    // Read to its end, so that the connection can be used again.
    body.collect_bytes().await?;
    let date = parts.headers.get(header::DATE);
    let date = date.context("the server does not tell its time")?;
    let date = rfc2822::parse(date.to_str()?).context("the server's time")?;
    Ok(date.timestamp())
}

/// Starts the controller of this name in this process, where all of `names` work. The collector gets to see what is
/// `collected`.
pub(crate) fn hire(
    manager: &mut Manager,
    name: &str,
    names: &[&str],
    collected: &Interest,
) -> anyhow::Result<()> {
    let options = Options::default();
    if let Some(row) = cron::DIALECTS.iter().find(|row| row.name == name) {
        let options = Options {
            timing: Timing::Server,
            reporter: Some(row.reporter),
            ..options
        };
        let make = || CronJobs::new(row, cron::Settings::default());
        drop(manager.start(row.interest(), options, make));
        return Ok(());
    }
    match name {
        // Nobody asks it anything.
        gc::NAME => drop(manager.start(collected.clone(), options, || GarbageCollector::new(SEED))),
        podgc::NAME => drop(manager.start(podgc::interest(), options, pod_gc)),
        _ => {
            let mut ends = ttl::KINDS.iter();
            let row = ends.find(|row| row.name == name);
            let row = row.with_context(|| format!("there is no {name} in process"))?;
            let options = Options {
                timing: Timing::Server,
                workers: 5,
                ..options
            };
            let rules = Rules {
                with_cron: names.contains(&row.cron.name),
                ..Rules::default()
            };
            drop(manager.start(row.interest(rules), options, move || Ttl::new(row, rules)));
        }
    }
    Ok(())
}

/// Pod GC as suites expect it: few terminated Pods are kept, so that few have to be made.
fn pod_gc() -> PodGc {
    PodGc::new(podgc::Settings {
        threshold: Some(TERMINATED_PODS_KEPT),
        ..podgc::Settings::default()
    })
}
