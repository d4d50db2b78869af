"""Steps of the Python client: each prints a line, and the first that fails ends the run."""

import sys
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core, apps, batch = client.CoreV1Api(), client.AppsV1Api(), client.BatchV1Api()
custom, definitions = client.CustomObjectsApi(), client.ApiextensionsV1Api()
SPACE = "python"
PATIENCE_SECS = 60
steps = []


def step(name):
    def register(run):
        steps.append((name, run))
        return run

    return register


def until(what, ask):
    deadline = time.monotonic() + PATIENCE_SECS
    while not ask():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE_SECS} s")
        time.sleep(0.1)


def refused(code, call):
    try:
        call()
    except ApiException as error:
        assert error.status == code, error
        return
    raise AssertionError(f"not refused with {code}")


def gone(read):
    try:
        read()
    except ApiException as error:
        return error.status == 404
    return False


@step("create a Namespace")
def _():
    core.create_namespace({"metadata": {"name": SPACE}})


@step("create, replace and patch a ConfigMap; an old resourceVersion is a conflict")
def _():
    made = core.create_namespaced_config_map(SPACE, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    made.data["k"] = "w"
    core.replace_namespaced_config_map("a", SPACE, made)
    refused(409, lambda: core.replace_namespaced_config_map("a", SPACE, made))
    core.patch_namespaced_config_map("a", SPACE, {"data": {"l": "m"}})
    assert core.read_namespaced_config_map("a", SPACE).data == {"k": "w", "l": "m"}


@step("watch events")
def _():
    seen = []
    version = core.list_namespaced_config_map(SPACE).metadata.resource_version
    core.create_namespaced_config_map(SPACE, {"metadata": {"name": "b"}})
    core.delete_namespaced_config_map("b", SPACE)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, SPACE, resource_version=version, timeout_seconds=20,
        field_selector="metadata.name=b",
    )
    for event in stream:
        seen.append(event["type"])
        if event["type"] == "DELETED":
            break
    assert seen == ["ADDED", "DELETED"], seen


@step("list in pages")
def _():
    for number in range(5):
        core.create_namespaced_secret(SPACE, {"metadata": {"name": f"s-{number}", "labels": {"p": "y"}}})
    names, more = [], None
    while True:
        page = core.list_namespaced_secret(SPACE, label_selector="p=y", limit=2, _continue=more)
        names += [item.metadata.name for item in page.items]
        more = page.metadata._continue
        if not more:
            break
    assert names == [f"s-{number}" for number in range(5)], names


@step("delete a collection")
def _():
    core.delete_collection_namespaced_secret(SPACE, label_selector="p=y")
    assert not core.list_namespaced_secret(SPACE, label_selector="p=y").items


@step("a Deployment becomes available and is scaled")
def _():
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    apps.create_namespaced_deployment(SPACE, {"metadata": {"name": "web"}, "spec": spec})

    def available():
        return apps.read_namespaced_deployment("web", SPACE).status.available_replicas or 0

    until("one replica", lambda: available() == 1)
    assert apps.read_namespaced_deployment_scale("web", SPACE).spec.replicas == 1
    apps.patch_namespaced_deployment_scale("web", SPACE, {"spec": {"replicas": 2}})
    until("two replicas", lambda: available() == 2)


@step("evict a Pod")
def _():
    name = core.list_namespaced_pod(SPACE, label_selector="app=web").items[0].metadata.name
    core.create_namespaced_pod_eviction(name, SPACE, client.V1Eviction(metadata=client.V1ObjectMeta(name=name)))
    until("its end", lambda: gone(lambda: core.read_namespaced_pod(name, SPACE)))


@step("a Job completes and goes after its TTL")
def _():
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    job = {"metadata": {"name": "once"}, "spec": {"ttlSecondsAfterFinished": 1, "template": {"spec": spec}}}
    batch.create_namespaced_job(SPACE, job)
    until("its end", lambda: gone(lambda: batch.read_namespaced_job("once", SPACE)))


@step("foreground deletion removes dependents first")
def _():
    apps.delete_namespaced_deployment("web", SPACE, propagation_policy="Foreground")
    until("its end", lambda: gone(lambda: apps.read_namespaced_deployment("web", SPACE)))
    assert not apps.list_namespaced_replica_set(SPACE).items


@step("a custom kind is defined and used, also by the dynamic client")
def _():
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    names = {"plural": "snakes", "singular": "snake", "kind": "Snake"}
    definition = {"metadata": {"name": "snakes.python.example.com"}, "spec": {
        "group": "python.example.com", "scope": "Namespaced", "names": names, "versions": versions}}
    definitions.create_custom_resource_definition(definition)

    def served():
        try:
            custom.list_namespaced_custom_object("python.example.com", "v1", SPACE, "snakes")
        except ApiException as error:
            assert error.status == 404, error
            return False
        return True

    until("the kind", served)
    body = {"apiVersion": "python.example.com/v1", "kind": "Snake", "metadata": {"name": "one"}, "spec": {"length": 3}}
    custom.create_namespaced_custom_object("python.example.com", "v1", SPACE, "snakes", body)
    snakes = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="python.example.com/v1", kind="Snake")
    assert snakes.get(name="one", namespace=SPACE).spec.length == 3
    definitions.delete_custom_resource_definition("snakes.python.example.com")


@step("ask for rights")
def _():
    attributes = {"namespace": SPACE, "verb": "create", "resource": "pods"}
    review = client.AuthorizationV1Api().create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})
    assert review.status.allowed, review


@step("delete the Namespace and see it go")
def _():
    core.delete_namespace(SPACE)
    until("its end", lambda: gone(lambda: core.read_namespace(SPACE)))


for name, run in steps:
    try:
        run()
    except Exception as error:
        print(f"FAILED {name}: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
        sys.exit(1)
    print(f"ok {name}", flush=True)
print(f"steps {len(steps)}")
