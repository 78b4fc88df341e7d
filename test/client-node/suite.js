// Tests of @kubernetes/client-node, the JavaScript client, against a control plane. Run one test by its name:
//
//	KUBECONFIG=... node suite.js NAME
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { createRequire } from 'node:module';

// Load the client from the folder into which npm has installed it.
const require = createRequire(process.cwd() + '/');
const k8s = await import(require.resolve('@kubernetes/client-node'));

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = 'default';

const as = (type) => k8s.setHeaderOptions('Content-Type', type);
const map = (name, data) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels: { app: 'suite' } }, data });

// eventually waits until a condition holds, which a callback makes true.
async function eventually(what, holds) {
	const deadline = Date.now() + 20_000;
	while (!(await holds())) {
		assert.ok(Date.now() < deadline, `not seen: ${what}`);
		await new Promise((done) => setTimeout(done, 20));
	}
}

const refused = (code, part) => (err) => {
	assert.equal(err.code, code);
	assert.match(JSON.stringify(err.body), part);
	return true;
};

const tests = {
	async crud() {
		const created = await core.createNamespacedConfigMap({ namespace, body: map('crud', { a: '1' }) });
		assert.ok(created.metadata.creationTimestamp instanceof Date);
		await assert.rejects(core.createNamespacedConfigMap({ namespace, body: map('crud') }), refused(409, /AlreadyExists/));
		const stale = structuredClone(created);
		created.data.b = '2';
		const replaced = await core.replaceNamespacedConfigMap({ namespace, name: 'crud', body: created });
		assert.deepEqual(replaced.data, { a: '1', b: '2' });
		await assert.rejects(core.replaceNamespacedConfigMap({ namespace, name: 'crud', body: stale }), refused(409, /has been modified/));
		const { items } = await core.listNamespacedConfigMap({ namespace, labelSelector: 'app=suite' });
		assert.deepEqual(items.map((m) => m.metadata.name), ['crud']);
		await core.deleteNamespacedConfigMap({ namespace, name: 'crud' });
		await assert.rejects(core.readNamespacedConfigMap({ namespace, name: 'crud' }), refused(404, /NotFound/));
		await assert.rejects(
			core.createNamespacedPod({ namespace, body: { metadata: { name: 'Not_A_Name' }, spec: { containers: [] } } }), refused(422, /Invalid/));
	},

	async patch() {
		await core.createNamespacedConfigMap({ namespace, body: map('patched', { a: '1' }) });
		const patch = (type, body) => core.patchNamespacedConfigMap({ namespace, name: 'patched', body }, as(type));
		await patch(k8s.PatchStrategy.MergePatch, { data: { b: '2' } });
		await patch(k8s.PatchStrategy.StrategicMergePatch, { data: { c: '3' } });
		const got = await patch(k8s.PatchStrategy.JsonPatch, [{ op: 'remove', path: '/data/a' }]);
		assert.deepEqual(got.data, { b: '2', c: '3' });
		await assert.rejects(patch(k8s.PatchStrategy.JsonPatch, [{ op: 'test', path: '/data/b', value: 'x' }]), refused(422, /Invalid/));
		await core.deleteNamespacedConfigMap({ namespace, name: 'patched' });
	},

	async apply() {
		const apply = (fieldManager, value, force) => core.patchNamespacedConfigMap(
			{ namespace, name: 'applied', fieldManager, force, body: map('applied', { v: value }) }, as(k8s.PatchStrategy.ServerSideApply));
		const got = await apply('one', '1');
		assert.deepEqual(got.metadata.managedFields.map((m) => [m.manager, m.operation]), [['one', 'Apply']]);
		await assert.rejects(apply('two', '2'), refused(409, /conflict with \\*"one/));
		assert.equal((await apply('two', '2', true)).data.v, '2');
		await core.deleteNamespacedConfigMap({ namespace, name: 'applied' });
	},

	async objects() { // kinds for which the client has no class
		const objects = k8s.KubernetesObjectApi.makeApiClient(config);
		const schema = { type: 'object', properties: { spec: { type: 'object', properties: { size: { type: 'integer' } } } } };
		await objects.create({
			apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: 'toys.example.com' },
			spec: {
				group: 'example.com', scope: 'Namespaced', names: { kind: 'Toy', plural: 'toys' },
				versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
			},
		});
		const toy = { apiVersion: 'example.com/v1', kind: 'Toy', metadata: { name: 'bear', namespace } };
		await objects.create({ ...toy, spec: { size: 1 } });
		await assert.rejects(objects.create({ ...toy, metadata: { name: 'bad', namespace }, spec: { size: 'big' } }), refused(422, /must be of type integer/));
		const patched = await objects.patch({ ...toy, spec: { size: 2 } }, undefined, undefined, undefined, undefined, k8s.PatchStrategy.MergePatch);
		assert.equal(patched.spec.size, 2);
		assert.deepEqual((await objects.list('example.com/v1', 'Toy', namespace)).items.map((t) => t.spec.size), [2]);
		await objects.delete(toy);
		await assert.rejects(objects.read(toy), refused(404, /NotFound/));
	},

	async informer() {
		const told = [];
		await core.createNamespacedConfigMap({ namespace, body: map('before') });
		const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`,
			() => core.listNamespacedConfigMap({ namespace, labelSelector: 'app=suite' }), 'app=suite');
		for (const verb of ['add', 'update', 'delete']) informer.on(verb, (m) => told.push(`${verb} ${m.metadata.name} ${m.data?.v ?? ''}`.trim()));
		let connected = false;
		informer.on('connect', () => { connected = true; });
		await informer.start();
		await eventually('the watch', () => connected);
		const made = await core.createNamespacedConfigMap({ namespace, body: map('during', { v: '1' }) });
		await core.replaceNamespacedConfigMap({ namespace, name: 'during', body: { ...made, data: { v: '2' } } });
		await core.deleteNamespacedConfigMap({ namespace, name: 'during' });
		const want = ['add before', 'add during 1', 'update during 2', 'delete during 2'];
		await eventually(want.join(), () => told.length >= want.length);
		assert.deepEqual(told, want);
		assert.deepEqual(informer.list(namespace).map((m) => m.metadata.name), ['before']);
		await informer.stop();
		await core.deleteNamespacedConfigMap({ namespace, name: 'before' });
	},

	async exec() {
		await run('shell', ['sleep', '60']);
		const stdin = new PassThrough(), stdout = new PassThrough(), stderr = new PassThrough();
		const said = Promise.all([text(stdout), text(stderr)]);
		const status = await new Promise((done, fail) => {
			new k8s.Exec(config).exec(namespace, 'shell', 'main', ['sh', '-c', 'read line; echo "got $line"; echo oops >&2; exit 3'],
				stdout, stderr, stdin, false, done).catch(fail);
			stdin.write('a line\n');
		});
		stdout.end();
		stderr.end();
		assert.deepEqual(await said, ['got a line\n', 'oops\n']);
		assert.equal(status.status, 'Failure');
		assert.deepEqual(status.details.causes.map((c) => [c.reason, c.message]), [['ExitCode', '3']]);
		await core.deleteNamespacedPod({ namespace, name: 'shell', gracePeriodSeconds: 0 });
	},

	async logs() {
		await run('talker', ['sh', '-c', 'echo one; echo two; sleep 60']);
		await eventually('the log', async () => (await core.readNamespacedPodLog({ namespace, name: 'talker' })) === 'one\ntwo\n');
		await core.deleteNamespacedPod({ namespace, name: 'talker', gracePeriodSeconds: 0 });
	},

	async portforward() {
		// Find a free port for the process of the pod.
		const probe = net.createServer().listen(0, '127.0.0.1');
		await once(probe, 'listening');
		const { port } = probe.address();
		await once(probe.close(), 'close');
		await run('echo', [process.execPath, '-e',
			`require("net").createServer((c) => c.on("data", (d) => c.end("echo " + d))).listen(${port}, "127.0.0.1", () => console.log("listening"))`]);
		await eventually('the server in the pod', async () => (await core.readNamespacedPodLog({ namespace, name: 'echo' })) === 'listening\n');
		const forward = new k8s.PortForward(config);
		const server = net.createServer((socket) => { forward.portForward(namespace, 'echo', [port], socket, null, socket); }).listen(0, '127.0.0.1');
		await once(server, 'listening');
		const client = net.connect(server.address().port, '127.0.0.1');
		client.write('hello');
		const [answer] = await once(client, 'data');
		assert.equal(String(answer), 'echo hello');
		client.destroy();
		server.close();
		await core.deleteNamespacedPod({ namespace, name: 'echo', gracePeriodSeconds: 0 });
	},
};

// run creates a pod and waits until it runs.
async function run(name, command) {
	const body = { metadata: { name }, spec: { containers: [{ name: 'main', image: 'none', command }] } };
	await core.createNamespacedPod({ namespace, body });
	await eventually(`${name} runs`, async () => (await core.readNamespacedPod({ namespace, name })).status.phase === 'Running');
}

await tests[process.argv[2]]();
process.exit(0);
