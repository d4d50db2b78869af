//! `caretaker demo`: what the controllers do, told as a story, on a server that exists for it alone.
//!
//! Nothing is staged: an embedded server and the crew of `up` run in this process, and what is printed has been seen and
//! measured. It ends within a minute, with 1 if something that had to happen did not.

mod chapters;
mod scene;
mod screen;
mod story;

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use caretaker_apiserver::ApiServer;
use caretaker_controllers::runtime::driver::Mode;
use caretaker_controllers::runtime::manager::Manager;
use caretaker_machinery::clock::Clock;
use tokio::sync::oneshot;

use self::chapters::{CHAPTERS, Chapter, PODS_KEPT};
use self::screen::{Pause, Screen};
use self::story::Story;
use crate::args::{Demo, Work};
use crate::crew::Crew;
use crate::up::actors::{self, Workloads};
use crate::up::place::Place;
use crate::up::signals::Signals;
use crate::{up, wiring};

/// How many times faster the server's clock runs: a minute of waiting for a TTL or a cron slot is three seconds.
const CLOCK_SPEED: NonZeroU32 = NonZeroU32::new(20).expect("it is not zero");

/// A story that takes longer has gone wrong.
const TOLD_WITHIN: Duration = Duration::from_secs(60);

/// What to do next.
const FAREWELL: &str = "
That is all. To go on: `caretaker up` starts such a server for kubectl, `caretaker demo --keep` leaves
this one running.";

/// Who and what is there for the story.
struct Company {
    server: ApiServer,
    clock: Clock,
    crew: Crew,
    /// From the chapter on that needs them.
    actors: Option<Manager>,
}

/// Tells the story, and with `--keep` leaves the server to whoever wants to look around.
pub(crate) fn run(args: &Demo) -> Result<ExitCode> {
    wiring::log(0)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let outcome = runtime.block_on(perform(args));
    // There is nothing to keep.
    runtime.shutdown_background();
    match outcome {
        // Who has seen enough, `head` for one, is told no more.
        Err(error) if screen::is_unread(&error) => Ok(ExitCode::SUCCESS),
        outcome => outcome,
    }
}

async fn perform(args: &Demo) -> Result<ExitCode> {
    let mut company = Company::gather(Mode::Act).await?;
    let mut screen = Screen::stdout();
    let told = company.tell(&mut screen, &CHAPTERS).await;
    let outcome = match told {
        Ok(()) if args.keep => company.keep(&mut screen).await,
        told => {
            company.part().await;
            told.and_then(|()| screen.text(FAREWELL))
        }
    };
    outcome.map(|()| ExitCode::SUCCESS)
}

// === impl Company ===

impl Company {
    /// A server, and the controllers at work in it as in `up`, only that nobody narrates beside the story.
    async fn gather(mode: Mode) -> Result<Self> {
        let clock = wiring::fast_clock(CLOCK_SPEED);
        let server = wiring::server(clock.clone())?;
        let work = Work::quiet(&[&format!("--terminated-pod-gc-threshold={PODS_KEPT}")]);
        actors::install(&up::inside(&server), &work, Workloads::Simulated).await?;
        let crew = up::start_crew(&work, mode, &server, clock.clone())?;
        Ok(Self {
            server,
            clock,
            crew,
            actors: None,
        })
    }

    /// Ends all work.
    async fn part(self) {
        self.crew.stop().await;
        if let Some(actors) = self.actors {
            actors.stop().await;
        }
    }

    /// Tells the chapters, one after the other.
    async fn tell(&mut self, screen: &mut Screen, chapters: &[Chapter]) -> Result<()> {
        let client = up::inside(&self.server);
        let mut story = Story::new(client.clone(), &self.crew, screen);
        let telling = async {
            greet(&mut story)?;
            self.crew.ready().await;
            for chapter in chapters {
                let Chapter {
                    number,
                    controller,
                    title,
                    has_actors,
                    run,
                } = chapter;
                if *has_actors && self.actors.is_none() {
                    let (client, clock) = (client.clone(), self.clock.clone());
                    self.actors = Some(actors::start(client, self.crew.feeds(), clock));
                }
                story.screen().line("")?;
                let title = format!("Chapter {number}: {title} ({controller})");
                story.screen().title(&title)?;
                story.screen().line("")?;
                story.pause(Pause::Short).await;
                let told = run(&mut story).await;
                told.with_context(|| format!("chapter {number}, {controller}"))?;
            }
            Ok(())
        };
        let told = tokio::time::timeout(TOLD_WITHIN, telling).await;
        told.with_context(|| format!("the story was not told within {} s", TOLD_WITHIN.as_secs()))?
    }

    /// Opens the server to kubectl, until Ctrl-C.
    async fn keep(mut self, screen: &mut Screen) -> Result<()> {
        let mut signals = Signals::listen()?;
        let (listener, port) = up::open(None, up::Wire::Tls).await?;
        let kubeconfig = Place::choose(None, port, false)?.write(listener.kubeconfig())?;
        let url = listener.url();
        let (stop, stopped) = oneshot::channel::<()>();
        // A sender that is gone means the same.
        let serving = listener.serve(self.server, async { drop(stopped.await) });
        let serving = tokio::spawn(serving);
        self.crew.narrate();
        let tries = [
            "kubectl --namespace shop get pods,configmaps",
            "kubectl --namespace shop delete pods --all",
        ];
        let invitation = up::invitation(&url, kubeconfig.path(), &tries);
        let told = screen.text(&format!("\n{}", invitation.trim_end()));
        if told.is_ok() {
            signals.next().await;
        }
        self.crew.stop().await;
        if let Some(actors) = self.actors {
            actors.stop().await;
        }
        drop((kubeconfig, stop));
        serving.await.context("the server broke")?;
        told
    }
}

fn greet(story: &mut Story<'_>) -> Result<()> {
    let title =
        format!("Caretaker, a demonstration. Its clock runs {CLOCK_SPEED} times as fast as yours.");
    story.screen().title(&title)?;
    story.say(
        "A Kubernetes API server and the controllers run in this process, in memory only.
All numbers are measured in this very run, in your milliseconds.",
    )
}

#[cfg(test)]
mod tests;
