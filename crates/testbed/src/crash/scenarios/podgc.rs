//! Small scenarios for crashes of Pod GC: each of its four sweeps, and a Node that comes back in time.

use std::time::Duration;

use caretaker_controllers::podgc::NAME;
use futures::FutureExt as _;
use serde_json::json;

use super::{Scenario, scenario};
use crate::objects::mk_pod;
use crate::suites::Checked;
use crate::suites::podgc::{held, node, on, out_of_service, pod, terminated};
use crate::suites::stage::{Made, Stage};

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    scenario!(terminated_pods, &[]),
    scenario!(a_node_out_of_service, &[]),
    scenario!(a_node_that_goes, &[]),
    scenario!(a_pod_never_bound, &[]),
    scenario!(a_node_that_comes_back, &[]),
];

/// Two Pods on a Node that is first: one held, one not.
async fn pods_on(stage: &Stage, made: Made) -> Checked<Vec<Made>> {
    let first = pod(stage, on(made.name(), mk_pod("free")), "Running").await?;
    let second = pod(stage, on(made.name(), held(mk_pod("held"))), "Running").await?;
    Ok(vec![made, first, second])
}

mod terminated_pods {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        terminated(stage, &json!({"phase": "Succeeded"})).await
    }

    /// There are too many already.
    pub(super) async fn act(_: &Stage, _: &[Made]) -> Checked {
        Ok(())
    }
}

mod a_node_out_of_service {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let made = node(stage, "node", "False", json!([])).await?;
        pods_on(stage, made).await
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        for pod in &made[1..] {
            let options = json!({"gracePeriodSeconds": 300});
            stage.delete(pod, options).await?;
        }
        let taints = out_of_service("NoExecute");
        let patch = json!({"spec": {"taints": taints}});
        stage.change(&made[0], patch).await
    }
}

mod a_node_that_goes {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let made = node(stage, "node", "True", json!([])).await?;
        pods_on(stage, made).await
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        stage.delete(&made[0], json!({})).await
    }
}

mod a_pod_never_bound {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        Ok(vec![pod(stage, held(mk_pod("held")), "Pending").await?])
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        stage.delete(&made[0], json!({})).await
    }
}

mod a_node_that_comes_back {
    use super::*;

    pub(super) async fn make(stage: &Stage) -> Checked<Vec<Made>> {
        let made = node(stage, "node", "True", json!([])).await?;
        let made = pods_on(stage, made).await?;
        pod(stage, on("never-there", mk_pod("orphan")), "Running").await?;
        Ok(made)
    }

    pub(super) async fn act(stage: &Stage, made: &[Made]) -> Checked {
        stage.delete(&made[0], json!({})).await?;
        tokio::time::sleep(Duration::from_secs(30)).await;
        node(stage, "node", "True", json!([])).await.map(|_| ())
    }
}
