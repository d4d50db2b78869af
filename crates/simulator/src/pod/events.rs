//! The Events that a kubelet emits about a Pod and its containers, `pkg/kubelet`, 1.36.
//!
//! An image with the pull policy `Always` counts as pulled while the Pod starts; all others as present on the Node.

use caretaker_controllers::runtime::controller::{EventNote, EventSeverity};
use serde_json::Value;

use crate::cache::{ObjectCache, ObjectSnapshot};
use crate::events::{identity, reported_by};

/// The name under which kubelets report Events.
const KUBELET: &str = "kubelet";
/// The lists of containers in the spec of a Pod.
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// The images of a starting Pod are being pulled.
pub(super) fn pulling(cache: &ObjectCache, pod: &ObjectSnapshot) -> Vec<EventNote> {
    let pulled = containers(pod).filter(|(_, container)| is_pulled(container));
    let events = pulled.map(|(list, container)| {
        let message = format!("Pulling image {}", container["image"]);
        of_container(cache, pod, list, container, ("Pulling", message))
    });
    events.collect()
}

/// The containers of a Pod have been created and started, `secs` after it was bound.
pub(super) fn started(cache: &ObjectCache, pod: &ObjectSnapshot, secs: i64) -> Vec<EventNote> {
    let events = containers(pod).flat_map(|(list, container)| {
        let image = &container["image"];
        let pulled = match is_pulled(container) {
            true => format!(
                "Successfully pulled image {image} in {secs}s ({secs}s including waiting). Image size: 0 bytes."
            ),
            false => present(container),
        };
        let texts = [
            ("Pulled", pulled),
            ("Created", "Container created".to_owned()),
            ("Started", "Container started".to_owned()),
        ];
        texts.map(|text| of_container(cache, pod, list, container, text))
    });
    events.collect()
}

/// The containers of a Pod have been created and started again. Their images are there.
pub(super) fn restarted(cache: &ObjectCache, pod: &ObjectSnapshot) -> Vec<EventNote> {
    let containers = containers(pod).filter(|(list, _)| *list == "containers");
    let events = containers.flat_map(|(list, container)| {
        let texts = [
            ("Pulled", present(container)),
            ("Created", "Container created".to_owned()),
            ("Started", "Container started".to_owned()),
        ];
        texts.map(|text| of_container(cache, pod, list, container, text))
    });
    events.collect()
}

/// The containers of a Pod have failed, and wait to be restarted.
pub(super) fn backed_off(cache: &ObjectCache, pod: &ObjectSnapshot) -> Vec<EventNote> {
    let containers = containers(pod).filter(|(list, _)| *list == "containers");
    let events = containers.map(|(list, container)| {
        let (name, pod_name) = (
            container["name"].as_str().unwrap_or_default(),
            long_name(pod),
        );
        let message = format!("Back-off restarting failed container {name} in pod {pod_name}");
        EventNote {
            severity: EventSeverity::Warning,
            ..of_container(cache, pod, list, container, ("BackOff", message))
        }
    });
    events.collect()
}

/// A Pod as a kubelet names it: `name_namespace(uid)`.
pub(super) fn long_name(pod: &ObjectSnapshot) -> String {
    let meta = pod.meta();
    format!("{}_{}({})", meta.name, meta.namespace, meta.uid)
}

/// The containers of a deleted Pod are being stopped.
pub(super) fn stopping(cache: &ObjectCache, pod: &ObjectSnapshot) -> Vec<EventNote> {
    let running = containers(pod).filter(|(list, _)| *list == "containers");
    let events = running.map(|(list, container)| {
        let name = container["name"].as_str().unwrap_or_default();
        let message = format!("Stopping container {name}");
        of_container(cache, pod, list, container, ("Killing", message))
    });
    events.collect()
}

/// The containers in the order in which they start, each with the name of its list.
fn containers(pod: &ObjectSnapshot) -> impl Iterator<Item = (&'static str, &Value)> {
    LISTS.into_iter().flat_map(|list| {
        let all = pod.items(&format!("/spec/{list}")).iter();
        all.map(move |container| (list, container))
    })
}

fn is_pulled(container: &Value) -> bool {
    container["imagePullPolicy"] == "Always"
}

fn present(container: &Value) -> String {
    let image = &container["image"];
    format!("Container image {image} already present on machine and can be accessed by the pod")
}

fn of_container(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    list: &str,
    container: &Value,
    (reason, message): (&'static str, String),
) -> EventNote {
    let name = container["name"].as_str().unwrap_or_default();
    let note = EventNote {
        field_path: format!("spec.{list}{{{name}}}"),
        ..EventNote::normal(identity(cache, pod), reason, message)
    };
    reported_by(KUBELET, pod.text("/spec/nodeName"), note)
}
