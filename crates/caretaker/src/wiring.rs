//! Where the outside world comes in: the machine's clock, its randomness, its log.
//!
//! Everything below gets these as values, so nothing else in the product reads them.

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use caretaker_apiserver::ApiServer;
use caretaker_apiserver::listen::{Keys, TOKEN_BYTES, Token, Transport};
use caretaker_machinery::clock::Clock;
use caretaker_machinery::cron::zone;
use caretaker_machinery::rng::Rng;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::KeyPair;
use tracing_subscriber::EnvFilter;

/// Where a machine keeps the rules of its zone.
const LOCALTIME: &str = "/etc/localtime";

/// A server with a seed that nobody knows. Needs a tokio runtime around it.
pub(crate) fn server(clock: Clock) -> Result<ApiServer> {
    Ok(ApiServer::ephemeral(clock, rng()?))
}

/// The machine's clock.
pub(crate) fn clock() -> Clock {
    Clock::wall(Timestamp::now)
}

/// A clock that starts with the machine's and runs so many times faster. It can be moved, unlike the machine's own.
pub(crate) fn fast_clock(speed: NonZeroU32) -> Clock {
    Clock::driven(Timestamp::now(), speed)
}

/// The machine's zone, found as Go finds it: what `TZ` names, else what the machine is set to, else UTC.
pub(crate) fn local_zone() -> TimeZone {
    let name = std::env::var("TZ").ok();
    zone_of(name.as_deref(), Path::new(LOCALTIME))
}

/// What a variable says, or else a file with a zone's rules, which mostly is a link to where its name can be read off.
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

/// Randomness with a seed that nobody knows.
pub(crate) fn rng() -> Result<Rng> {
    Ok(Rng::seeded(u64::from_ne_bytes(random()?)))
}

/// A token that nobody can guess.
pub(crate) fn token() -> Result<Token> {
    Ok(Token::from_random(random::<TOKEN_BYTES>()?))
}

/// TLS with fresh keys.
pub(crate) fn tls() -> Result<Transport> {
    let key = || KeyPair::generate().context("cannot make a key");
    Ok(Transport::Tls(Box::new(Keys {
        authority: key()?,
        server: key()?,
        now: Timestamp::now(),
    })))
}

/// Logs go to stderr: problems only, unless `verbose` or `RUST_LOG` ask for more.
pub(crate) fn log(verbose: u8) -> Result<()> {
    log_but(verbose, "")
}

/// The same, without the problems that `quiet` names, if only problems are logged.
pub(crate) fn log_but(verbose: u8, quiet: &str) -> Result<()> {
    let quiet = if verbose == 0 { quiet } else { "" };
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(text) if !text.is_empty() => {
            EnvFilter::try_new(&text).with_context(|| format!("RUST_LOG={text} is not a filter"))?
        }
        // kube's stack logs every answer of the 5xx kind by itself, and bodies it cannot read.
        _ => EnvFilter::new(format!("{level},kube_client::client=off,{quiet}")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    Ok(())
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_zone_is_found_as_go_finds_it() {
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
}
