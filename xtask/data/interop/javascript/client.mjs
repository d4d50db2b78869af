// Steps of the JavaScript client: each prints a line, and the first that fails ends the run.
import * as k8s from "@kubernetes/client-node";

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const namespace = "javascript";
const patienceMs = 60_000;

const check = (condition, why) => {
  if (!condition) throw new Error(why);
};

const until = async (what, ask) => {
  const deadline = Date.now() + patienceMs;
  while (!(await ask())) {
    check(Date.now() < deadline, `${what}: not within ${patienceMs} ms`);
    await new Promise((done) => setTimeout(done, 100));
  }
};

const refused = async (code, call) => {
  try {
    await call();
  } catch (error) {
    check(error.code === code, `${error.code} for ${code}`);
    return true;
  }
  return false;
};

const seen = [];
let informer;

const steps = [
  ["create a Namespace", () => core.createNamespace({ body: { metadata: { name: namespace } } })],
  ["start an informer", async () => {
    const list = () => core.listNamespacedConfigMap({ namespace });
    informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
    for (const event of ["add", "update", "delete"]) {
      informer.on(event, (object) => seen.push(`${event} ${object.metadata.name}`));
    }
    await informer.start();
  }],
  ["create, replace and delete a ConfigMap", async () => {
    const made = await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: "a" }, data: { k: "v" } } });
    made.data.k = "w";
    const replaced = await core.replaceNamespacedConfigMap({ namespace, name: "a", body: made });
    check(replaced.data.k === "w", "the data stayed");
    check(await refused(409, () => core.replaceNamespacedConfigMap({ namespace, name: "a", body: made })), "no conflict");
    await core.deleteNamespacedConfigMap({ namespace, name: "a" });
    check(await refused(404, () => core.readNamespacedConfigMap({ namespace, name: "a" })), "still there");
  }],
  ["the informer saw it all", () =>
    until("its events", () => ["add a", "update a", "delete a"].every((event) => seen.includes(event)))],
  ["patch with the object client", async () => {
    const body = { apiVersion: "v1", kind: "Secret", metadata: { name: "s", namespace } };
    await objects.create(body);
    const patch = { ...body, stringData: { word: "open" } };
    await objects.patch(patch, undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
    const read = await core.readNamespacedSecret({ namespace, name: "s" });
    check(Buffer.from(read.data.word, "base64").toString() === "open", "the data is missing");
  }],
  ["a Deployment becomes available and is scaled", async () => {
    const labels = { app: "web" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "nginx" }] } };
    const spec = { replicas: 1, selector: { matchLabels: labels }, template };
    await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: "web" }, spec } });
    const read = () => apps.readNamespacedDeployment({ namespace, name: "web" });
    await until("one replica", async () => (await read()).status.availableReplicas === 1);
    const scale = await apps.readNamespacedDeploymentScale({ namespace, name: "web" });
    scale.spec.replicas = 2;
    await apps.replaceNamespacedDeploymentScale({ namespace, name: "web", body: scale });
    await until("two replicas", async () => (await read()).status.availableReplicas === 2);
  }],
  ["delete the Namespace and see it go", async () => {
    await informer.stop();
    await core.deleteNamespace({ name: namespace });
    await until("its end", () => refused(404, () => core.readNamespace({ name: namespace })));
  }],
];

for (const [name, run] of steps) {
  try {
    await run();
  } catch (error) {
    console.log(`FAILED ${name}: ${String(error.message ?? error).replaceAll("\n", " ")}`);
    process.exit(1);
  }
  console.log(`ok ${name}`);
}
console.log(`steps ${steps.length}`);
process.exit(0);
