"""An operator of kopf: a Shelf gets a ConfigMap with its books; both go together."""

import kopf
from kubernetes import client, config

config.load_kube_config()
core = client.CoreV1Api()


@kopf.on.create("kopf.example.com", "v1", "shelves")
def create(spec, name, namespace, **_):
    body = {"metadata": {"name": name}, "data": {"books": str(spec.get("books", 0))}}
    kopf.adopt(body)
    core.create_namespaced_config_map(namespace, body)
    return {"made": name}


@kopf.on.update("kopf.example.com", "v1", "shelves")
def update(spec, name, namespace, **_):
    core.patch_namespaced_config_map(name, namespace, {"data": {"books": str(spec.get("books", 0))}})


@kopf.on.delete("kopf.example.com", "v1", "shelves")
def delete(name, **_):
    pass
