use std::io;
use std::sync::{Arc, Mutex};

use super::printer::PrintStyle;
use super::*;

/// Keeps the output of a printer.
#[derive(Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

// === impl OutputBuffer ===

impl OutputBuffer {
    fn printer(&self) -> DemoPrinter {
        DemoPrinter::new(Box::new(self.clone()), PrintStyle::default())
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn all_chapters_show_their_writes_in_order() {
    let output = OutputBuffer::default();
    let mut cluster = DemoCluster::start(DriverMode::Act).await.unwrap();
    let shown = cluster.show(&mut output.printer(), &chapters()).await;
    let text = output.text();
    assert!(shown.is_ok(), "{shown:?}\n{text}");
    let mut rest = text.as_str();
    for expected in [
        "20 times as fast",
        "1. Cascading deletion in three modes (garbage-collector-controller)",
        "Deployment web\n",
        "`- ConfigMap web-settings\n",
        "Background",
        "$ kubectl -n shop delete deployment web\n",
        "1. deleted ",
        "5. deleted   Pod web-5d9c7-",
        "The controllers: 5 objects, ",
        "Foreground",
        "1. deleted ",
        "6. released  ReplicaSet web-5d9c7 ",
        "7. released  Deployment web ",
        "no dependent blocks its deletion",
        "The controllers: 6 objects, ",
        "Orphan",
        "1. orphaned ",
        "3. released  Deployment web ",
        "The controllers: 3 objects, ",
        "orphaned  Pod web-5d9c7-3 ",
        "4. released  ReplicaSet web-5d9c7 ",
        "The controllers: 4 objects, ",
        "The remaining objects have no owner",
        "\n    Pod web-5d9c7-1\n    Pod web-5d9c7-2\n    Pod web-5d9c7-3\n    ConfigMap web-settings\n",
        "2. Finished Jobs and their TTL (ttl-after-finished-controller, gc-controller)",
        "no container runs",
        "Job report\n",
        "Job training\n",
        "1. deleted   Job ",
        "its TTL of 10 s expired at",
        "deleted   Pod ",
        "released  Job ",
        "The controllers: 6 objects, ",
        "3. Terminated and stranded Pods (pod-garbage-collector-controller, garbage-collector-controller)",
        "1. deleted   Pod short-1 ",
        "2. deleted   Pod short-2 ",
        "The controllers: 2 objects, 2 requests",
        "$ kubectl delete node rack-7",
        "1. deleted   Lease rack-7 ",
        "2. marked    Pod stranded ",
        "its Node rack-7 is gone: ",
        "3. deleted   Pod stranded ",
        "The controllers: 2 objects, ",
        "4. CronJobs of Volcano (cronjob-controller/volcano)",
        "1. created   Job train-",
        "2. created   Job train-",
        "3. deleted   Job train-",
        "only 1 successful Job of its CronJob is kept",
        "5. CronJobs of Kubernetes (cronjob-controller/batch)",
        "1. created   Job report-",
        "2. deleted   Job report-",
        "the concurrency policy is Replace",
        "3. created   Job report-",
    ] {
        let Some((_, after)) = rest.split_once(expected) else {
            panic!("{expected:?} is missing or out of order:\n{text}");
        };
        rest = after;
    }
    assert!(text.is_ascii(), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_write_fails_the_demo() {
    let output = OutputBuffer::default();
    let mut cluster = DemoCluster::start(DriverMode::DryRun).await.unwrap();
    let shown = cluster.show(&mut output.printer(), &chapters()).await;
    assert_eq!(
        format!("{:#}", shown.unwrap_err()),
        "chapter 1, garbage-collector-controller: \
         0 of 1 expected writes to ReplicaSet web-5d9c7 (OwnerAbsent) within 15 s"
    );
}

#[test]
fn the_script_names_every_controller() {
    let chapters = chapters();
    let shown: Vec<&str> = chapters
        .iter()
        .flat_map(|chapter| chapter.controllers.split(", "))
        .collect();
    let all = ControllerFlags::quiet(&[]).running();
    assert!(all.iter().all(|name| shown.contains(name)), "{shown:?}");
}
