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
async fn the_first_chapter_tells_three_modes_in_their_order() {
    let paper = Paper::default();
    let company = Company::gather(Mode::Act).unwrap();
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
    let company = Company::gather(Mode::DryRun).unwrap();
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
