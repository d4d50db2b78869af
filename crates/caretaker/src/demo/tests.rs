use std::io;
use std::sync::{Arc, Mutex};

use super::screen::Look;
use super::*;

/// A screen that is read afterwards.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

// === impl Paper ===

impl Paper {
    fn screen(&self) -> Screen {
        Screen::new(Box::new(self.clone()), Look::PLAIN)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn the_chapters_tell_what_happens_in_its_order() {
    let paper = Paper::default();
    let mut company = Company::gather(Mode::Act).await.unwrap();
    company.tell(&mut paper.screen(), &CHAPTERS).await.unwrap();
    let text = paper.text();
    let mut rest = text.as_str();
    for expected in [
        "20 times as fast",
        "Chapter 1: cascades in three modes (garbage-collector-controller)",
        "Deployment web\n",
        "Background",
        "1. gone  Deployment web ",
        "you deleted it",
        "The controller: 5 objects, ",
        "Foreground",
        "gone  Pod web-5d9c7-",
        "gone  ReplicaSet web-5d9c7 ",
        "6. gone  Deployment web ",
        "no dependent blocks its end",
        "The controller: 6 objects, ",
        "Orphan",
        "kept  Pod web-5d9c7-3 ",
        "What is left",
        "All in all: 18 objects, ",
        "Chapter 2: Jobs that have finished (ttl-after-finished-controller, gc-controller)",
        "no container runs",
        "Job report\n",
        "Job training\n",
        "1. gone  Pod",
        "the 10 s that it stays after that are over",
        "The controllers: 6 objects, ",
        "Chapter 3: Pods that nobody else removes (pod-garbage-collector-controller)",
        "1. gone  Pod short-1 ",
        "2. gone  Pod short-2 ",
        "The controller: 2 objects, 2 requests; 4 Pods are left.",
        "kubectl delete node rack-7",
        "1. gone  Pod stranded ",
        "its Node rack-7 is gone: ",
        "The controller: 1 object, ",
        "Chapter 4: CronJobs of Volcano (cronjob-controller/volcano)",
        "1. made  Job train-",
        "2. made  Job train-",
        "3. gone  Job train-",
        "only 1 successful Job of its CronJob is kept",
        "Chapter 5: CronJobs of Kubernetes (cronjob-controller/batch)",
        "1. made  Job report-",
        "2. gone  Job report-",
        "the concurrency policy is Replace",
        "3. made  Job report-",
    ] {
        let Some((_, after)) = rest.split_once(expected) else {
            panic!("{expected:?} is not in its place:\n{text}");
        };
        rest = after;
    }
    assert!(text.is_ascii(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_happen_ends_the_story_with_a_sentence() {
    let paper = Paper::default();
    let mut company = Company::gather(Mode::DryRun).await.unwrap();
    let told = company.tell(&mut paper.screen(), &CHAPTERS).await;
    let sentence = format!("{:#}", told.unwrap_err());
    assert_eq!(
        sentence,
        "chapter 1, garbage-collector-controller: within 15 s ReplicaSet web-5d9c7 did not go"
    );
}

#[test]
fn chapters_are_numbered_in_order() {
    let numbers = CHAPTERS.iter().map(|chapter| chapter.number);
    assert!(numbers.eq(1..=CHAPTERS.len().try_into().unwrap()));
}
