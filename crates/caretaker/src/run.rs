//! `caretaker run`: the controllers against a cluster that is already there, until somebody stops them.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use caretaker_apiserver::listen::{KubeconfigFile, Listener};
use caretaker_controllers::runtime::clients::{Choice, Clients, Environment};
use caretaker_controllers::runtime::driver::Mode;
use caretaker_controllers::runtime::driver::clock_skew::Timing;
use caretaker_controllers::runtime::effects::Limit;
use tokio::sync::oneshot;

use crate::admin::{self, Admin, Credentials};
use crate::args::Run;
use crate::crew::{Crew, Orders};
use crate::peers::{self, Manners, Peers};
use crate::up::place;
use crate::up::signals::Signals;
use crate::wiring;

/// How long a server that does not answer at the start is asked again before that is an error.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Between two of these questions.
const START_PAUSE: Duration = Duration::from_secs(1);

/// Runs the controllers, and returns when they have ended.
pub(crate) fn run(args: &Run) -> Result<ExitCode> {
    if args.master.is_some() {
        bail!("--master is not supported: name the server in a kubeconfig");
    }
    wiring::log(args.verbosity.level())?;
    for warning in args.warnings() {
        eprintln!("caretaker: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(work(args));
    runtime.shutdown_background();
    outcome
}

async fn work(args: &Run) -> Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let choice = Choice {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        environment: Environment::read(),
    };
    let clients = Clients::find(&choice).await?;
    let peers = tokio::select! {
        biased;
        _ = signals.next() => return Ok(ExitCode::SUCCESS),
        peers = look_around(&clients) => peers,
    };
    let manners = Manners::by_flag(args.take_over);
    for sentence in peers.sentences(&args.work.controllers(), manners) {
        eprintln!("caretaker: {sentence}");
    }
    let running = args.work.running();
    let mode = match args.work.dry_run {
        true => Mode::DryRun,
        false => Mode::Act,
    };
    let mut shy = running.clone();
    shy.retain(|name| mode == Mode::DryRun || !peers.let_act(name, manners));
    let names = at_work(&running, &shy);
    let door = open_admin(args).await?;
    let mut crew = Crew::start(Orders {
        clients: clients.clone(),
        clock: wiring::clock(),
        rng: wiring::rng()?,
        work: &args.work,
        limit: args.rate().map(|rate| Limit {
            qps: rate.qps.into(),
            burst: rate.burst,
        }),
        mode,
        shy,
        timing: Timing::Server,
    });
    crew.announce();
    let server = clients.server();
    eprintln!("caretaker: at work in {server}: {names}");
    let (stop, stopped) = oneshot::channel::<()>();
    let file = door.and_then(|(listener, file)| {
        serve_admin(listener, file.as_ref(), &crew, stopped);
        file
    });
    signals.next().await;
    crew.stop().await;
    drop((stop, file));
    Ok(ExitCode::SUCCESS)
}

/// The admin server's socket, and the file with its token.
async fn open_admin(args: &Run) -> Result<Option<(Listener, Option<KubeconfigFile>)>> {
    if args.secure_port == 0 {
        return Ok(None);
    }
    let credentials = match &args.admin_token_file {
        Some(path) => Credentials::Given(path.clone()),
        None => Credentials::Fresh(place::directory()),
    };
    let door = admin::open(args.bind_address, args.secure_port, &credentials);
    Ok(Some(door.await?))
}

fn serve_admin(
    listener: Listener,
    file: Option<&KubeconfigFile>,
    crew: &Crew,
    stopped: oneshot::Receiver<()>,
) {
    eprintln!("caretaker: health, metrics and graph at {}", listener.url());
    if let Some(file) = file {
        let path = file.path().display();
        eprintln!("caretaker: the token for it is in {path}");
    }
    let admin = Admin::new(crew.backstage());
    tokio::spawn(listener.serve(admin, async {
        // A sender that is gone means the same.
        let _ = stopped.await;
    }));
}

/// Who else is at work. A server that does not answer yet, right after a start, is asked again for a while.
async fn look_around(clients: &Clients) -> Peers {
    let deadline = tokio::time::Instant::now() + START_PATIENCE;
    loop {
        let peers = peers::find(&clients.requests()).await;
        if !peers.is_unanswered() || tokio::time::Instant::now() >= deadline {
            return peers;
        }
        tokio::time::sleep(START_PAUSE).await;
    }
}

/// Who is at work, and who of them only shows what it would do.
fn at_work(running: &[&str], shy: &[&str]) -> String {
    let names = running.join(", ");
    match shy {
        _ if running.is_empty() => "no controller".to_owned(),
        [] => names,
        _ if shy.len() == running.len() => {
            format!("{names}, and only showing what it would do, one step deep")
        }
        _ => format!(
            "{names}; {} only showing what it would do, one step deep",
            shy.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_only_shows_what_it_would_do_is_said() {
        let table: [(&[&str], &[&str], &str); 4] = [
            (&[], &[], "no controller"),
            (&["a", "b"], &[], "a, b"),
            (
                &["a"],
                &["a"],
                "a, and only showing what it would do, one step deep",
            ),
            (
                &["a", "b"],
                &["b"],
                "a, b; b only showing what it would do, one step deep",
            ),
        ];
        for (running, shy, expected) in table {
            assert_eq!(at_work(running, shy), expected);
        }
    }
}
