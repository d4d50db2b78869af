//! The process environment: the system clock and time zone, random numbers, TLS keys, logs.
//!
//! All other code gets these as values; nothing else in the product reads them.

use std::future::Future;
use std::io::Write as _;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use caretaker_apiserver::listen::{BearerToken, ListenTransport, TOKEN_BYTES, TlsKeys};
use caretaker_apiserver::{ApiServer, ServerCredentials, ServerOptions, TokenKey};
use caretaker_machinery::clock::Clock;
use caretaker_machinery::cron::zone;
use caretaker_machinery::rng::Rng;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::KeyPair;
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// The time zone file of the system.
const LOCALTIME: &str = "/etc/localtime";

/// The directive that suppresses the lines of the client library.
const KUBE_CLIENT_OFF: &str = "kube_client::client=off";

/// Set once by [`log_except`]; [`notice`] reads it.
static LOG_FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// An API server with a random seed and a new key for tokens; `admin` is the token of its kubeconfig. Must be called
/// inside a tokio runtime.
pub(crate) fn server(
    clock: Clock,
    options: ServerOptions,
    admin: Option<&BearerToken>,
) -> Result<ApiServer> {
    let key = KeyPair::generate().context("cannot generate a key for tokens")?;
    let credentials = ServerCredentials {
        token_key: Some(TokenKey::from_pkcs8(&key.serialize_der())?),
        admin_token: admin.cloned(),
    };
    Ok(ApiServer::start(clock, rng()?, options).with_credentials(credentials))
}

/// Runs a command on a new runtime. Tasks that it leaves behind end with the process: nothing is kept on disk.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_background();
    outcome
}

/// The system clock.
pub(crate) fn clock() -> Clock {
    Clock::wall(Timestamp::now)
}

/// A clock that starts at the system time and runs `speed` times faster.
pub(crate) fn fast_clock(speed: NonZeroU32) -> Clock {
    Clock::driven(Timestamp::now(), speed)
}

/// The local time zone by Go's rules: `TZ`, else `/etc/localtime`, else UTC.
pub(crate) fn local_zone() -> TimeZone {
    let name = std::env::var("TZ").ok();
    zone_of(name.as_deref(), Path::new(LOCALTIME))
}

/// `file` is mostly a link into a zoneinfo directory, whose path gives the zone's name.
fn zone_of(variable: Option<&str>, file: &Path) -> TimeZone {
    if let Some(name) = variable {
        let name = name.strip_prefix(':').unwrap_or(name);
        return zone::find(name).unwrap_or(TimeZone::UTC);
    }
    let linked = std::fs::canonicalize(file).ok();
    let linked = linked.as_ref().and_then(|path| path.to_str());
    let named = linked.and_then(|path| zone::find(path.split_once("/zoneinfo/")?.1).ok());
    let rules = || TimeZone::tzif("Local", &std::fs::read(file).ok()?).ok();
    named.or_else(rules).unwrap_or(TimeZone::UTC)
}

/// A generator with a random seed.
pub(crate) fn rng() -> Result<Rng> {
    Ok(Rng::seeded(u64::from_ne_bytes(random()?)))
}

/// A random bearer token.
pub(crate) fn token() -> Result<BearerToken> {
    Ok(BearerToken::from_random(random::<TOKEN_BYTES>()?))
}

/// TLS with new keys.
pub(crate) fn tls() -> Result<ListenTransport> {
    let key = || KeyPair::generate().context("cannot generate a TLS key");
    Ok(ListenTransport::Tls(Box::new(TlsKeys {
        authority: key()?,
        server: key()?,
        now: Timestamp::now(),
    })))
}

/// The addresses of this machine's network interfaces. Without them a server that listens on all addresses knows only
/// loopback and the names that the user gives.
pub(crate) fn interface_addresses() -> Vec<IpAddr> {
    match if_addrs::get_if_addrs() {
        Ok(interfaces) => interfaces.iter().map(if_addrs::Interface::ip).collect(),
        Err(error) => {
            tracing::warn!(%error, "cannot read the addresses of this machine; name them with --tls-san");
            Vec::new()
        }
    }
}

/// Sends logs to stderr: warnings and errors, unless `verbosity` or `RUST_LOG` ask for more.
pub(crate) fn log(verbosity: u8, format: LogFormat) -> Result<()> {
    log_except(verbosity, format, "")
}

/// Like [`log`], without the targets in `silenced` at the default verbosity.
pub(crate) fn log_except(verbosity: u8, format: LogFormat, silenced: &str) -> Result<()> {
    let variable = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let directives = directives(verbosity, &variable, silenced);
    let filter = EnvFilter::try_new(directives)
        .with_context(|| format!("invalid filter RUST_LOG={variable}"))?;
    // A second call in the same process would fail in `init` below.
    let _ = LOG_FORMAT.set(format);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    match format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    Ok(())
}

/// The filter of the log: `variable`, or what `verbosity` asks for.
///
/// kube_client logs every failed connection and every 5xx response as an error, also those that are retried and reported
/// once by their callers. Its lines are shown if the user names it.
fn directives(verbosity: u8, variable: &str, silenced: &str) -> String {
    let level = match verbosity {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let silenced = match verbosity {
        0 => silenced,
        _ => "",
    };
    match variable {
        "" => format!("{level},{KUBE_CLIENT_OFF},{silenced}"),
        named if named.contains("kube_client") => named.to_owned(),
        other => format!("{other},{KUBE_CLIENT_OFF}"),
    }
}

/// Prints a line for the user on stderr, whatever the log level: `caretaker: …`, or a JSON object with
/// `--logging-format=json`, so that every line of stderr parses.
pub(crate) fn notice(message: &str) {
    let line = match LOG_FORMAT.get() {
        Some(LogFormat::Json) => json_line(Timestamp::now(), message),
        _ => format!("caretaker: {message}"),
    };
    // A closed terminal is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Has the keys of the lines that `tracing_subscriber` writes.
fn json_line(now: Timestamp, message: &str) -> String {
    let timestamp = format!("{now:.6}");
    json!({"timestamp": timestamp, "level": "INFO", "target": "caretaker", "message": message})
        .to_string()
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow!("cannot read random bytes from the system: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_zone_is_found_by_gos_rules() {
        let missing = Path::new("/nowhere/localtime");
        for (variable, name) in [
            ("Asia/Kathmandu", Some("Asia/Kathmandu")),
            (":Europe/Berlin", Some("Europe/Berlin")),
            ("", None),
            ("nowhere", None),
        ] {
            let zone = zone_of(Some(variable), missing);
            let expected = name.map_or(TimeZone::UTC, |name| zone::find(name).unwrap());
            assert_eq!(zone, expected, "{variable:?}");
        }
        assert_eq!(zone_of(None, missing), TimeZone::UTC);
    }

    #[test]
    fn the_client_library_logs_only_if_it_is_named() {
        let table = [
            (0, "", "a=error", "warn,kube_client::client=off,a=error"),
            (1, "", "a=error", "info,kube_client::client=off,"),
            (0, "debug", "a=error", "debug,kube_client::client=off"),
            (0, "warn,kube_client=info", "", "warn,kube_client=info"),
        ];
        for (verbosity, variable, silenced, expected) in table {
            assert_eq!(directives(verbosity, variable, silenced), expected);
            assert!(EnvFilter::try_new(expected).is_ok());
        }
    }

    #[test]
    fn a_notice_in_json_parses_and_has_the_keys_of_log_lines() {
        let line = json_line(Timestamp::UNIX_EPOCH, "a \"quoted\"\nmessage");
        assert_eq!(line.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["timestamp"], "1970-01-01T00:00:00.000000Z");
        assert_eq!(value["level"], "INFO");
        assert_eq!(value["message"], "a \"quoted\"\nmessage");
    }
}
