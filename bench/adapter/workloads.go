package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// workload is a program and the objects that it reconciles.
type workload struct {
	name        string // name of its file in test/adapter/projects
	title, noun string
	definitions string            // folder with its definitions, in its source
	labels      map[string]string // of the definitions
	count       int
	objects     func(i int) []*unstructured.Unstructured
	args        func(flags) []string
	config      func(flags) string // content of flags.config; nil: no file
	secure      bool               // metrics are served with TLS, to users who may read them
}

// flags are the arguments that a program needs. The ports are on the loopback interface.
type flags struct {
	kubeconfig, certs, config string // files; certs is a folder with a certificate for webhooks
	metrics, health, webhook  string // ports
}

var workloads = []workload{
	{
		name: "cluster-api", title: "Cluster API's core manager", noun: "Clusters", count: 300,
		definitions: "core/config/crd/bases",
		// Cluster API's kustomization adds this label, for its contract of versions
		labels:  map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"},
		objects: clusters,
		args: func(f flags) []string {
			return []string{"--kubeconfig", f.kubeconfig, "--diagnostics-address", "127.0.0.1:" + f.metrics,
				"--insecure-diagnostics",
				"--health-addr", "127.0.0.1:" + f.health, "--webhook-port", f.webhook, "--webhook-cert-dir", f.certs,
				"--skip-crd-migration-phases", "StorageVersionMigration,CleanupManagedFields"}
		},
	},
	{
		name: "cainjector", title: "cert-manager's CA injectors", noun: "webhook configurations and Secrets",
		count: 300, definitions: "deploy/crds",
		objects: injectables,
		args: func(f flags) []string {
			return []string{"--kubeconfig", f.kubeconfig, "--metrics-bind-address", "127.0.0.1:" + f.metrics}
		},
	},
	{
		name: "jobset", title: "JobSet's manager", noun: "JobSets with two Jobs of one Pod each", count: 300,
		definitions: "config/components/crd/bases",
		objects:     jobSets, args: configFile, secure: true,
		config: func(f flags) string { return configOf("config.jobset.x-k8s.io/v1alpha1", f) },
	},
	{
		name: "lws", title: "LeaderWorkerSet's manager",
		noun: "LeaderWorkerSets without groups, each with a StatefulSet and a Service", count: 300,
		definitions: "config/crd/bases",
		objects:     leaderWorkerSets, args: configFile, secure: true,
		config: func(f flags) string { return configOf("config.lws.x-k8s.io/v1alpha1", f) },
	},
}

func configFile(f flags) []string {
	return []string{"--kubeconfig", f.kubeconfig, "--config", f.config}
}

func configOf(apiVersion string, f flags) string {
	return fmt.Sprintf(`apiVersion: %s
kind: Configuration
metrics: {bindAddress: "127.0.0.1:%s"}
health: {healthProbeBindAddress: "127.0.0.1:%s"}
webhook: {port: %s, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`, apiVersion, f.metrics, f.health, f.webhook, f.certs)
}

// object returns an object in the namespace default. Its name contains the number i.
func object(apiVersion, kind string, i int, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
	o.SetNamespace("default")
	o.SetName(fmt.Sprintf("bench-%04d", i))
	return o
}

func clusters(i int) []*unstructured.Unstructured {
	cluster := object("cluster.x-k8s.io/v1beta2", "Cluster", i, map[string]any{
		"clusterNetwork":       map[string]any{"pods": map[string]any{"cidrBlocks": []any{"10.0.0.0/16"}}},
		"controlPlaneEndpoint": map[string]any{"host": "example.com", "port": int64(6443)},
	})
	cluster.SetLabels(map[string]string{"team": fmt.Sprintf("team-%d", i%20)})
	return []*unstructured.Unstructured{cluster}
}

// injectables returns a webhook configuration and the Secret whose CA it gets.
func injectables(i int) []*unstructured.Unstructured {
	secret := object("v1", "Secret", i, nil)
	delete(secret.Object, "spec")
	secret.SetAnnotations(map[string]string{"cert-manager.io/allow-direct-injection": "true"})
	secret.Object["stringData"] = map[string]any{"ca.crt": fmt.Sprintf("certificate %d", i),
		"tls.crt": fmt.Sprintf("%04000d", i)}
	configuration := object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", i, nil)
	delete(configuration.Object, "spec")
	configuration.SetNamespace("")
	configuration.SetAnnotations(map[string]string{"cert-manager.io/inject-ca-from-secret": "default/" +
		secret.GetName()})
	configuration.Object["webhooks"] = []any{map[string]any{
		"name": "bench.example.com", "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
		"clientConfig": map[string]any{"service": map[string]any{"namespace": "default", "name": "none"}},
	}}
	return []*unstructured.Unstructured{secret, configuration}
}

func podSpec(restartPolicy string) map[string]any {
	return map[string]any{"restartPolicy": restartPolicy,
		"containers": []any{map[string]any{"name": "main", "image": "example.com/main"}}}
}

// jobSets returns a JobSet with the defaults that its webhook would set.
func jobSets(i int) []*unstructured.Unstructured {
	jobs := func(name string) map[string]any {
		return map[string]any{"name": name, "groupName": "default", "replicas": int64(1),
			"template": map[string]any{"spec": map[string]any{
				"completionMode": "Indexed", "completions": int64(1), "parallelism": int64(1),
				"template": map[string]any{"spec": podSpec("OnFailure")},
			}}}
	}
	return []*unstructured.Unstructured{object("jobset.x-k8s.io/v1alpha2", "JobSet", i, map[string]any{
		"replicatedJobs": []any{jobs("leader"), jobs("workers")},
		"network":        map[string]any{"enableDNSHostnames": true, "publishNotReadyAddresses": true},
		"startupPolicy":  map[string]any{"startupPolicyOrder": "AnyOrder"},
		"successPolicy":  map[string]any{"operator": "All"},
	})}
}

// leaderWorkerSets returns a LeaderWorkerSet with the defaults that its webhook would set.
func leaderWorkerSets(i int) []*unstructured.Unstructured {
	return []*unstructured.Unstructured{object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", i, map[string]any{
		"replicas":      int64(0),
		"startupPolicy": "LeaderCreated",
		"networkConfig": map[string]any{"subdomainPolicy": "Shared"},
		"leaderWorkerTemplate": map[string]any{
			"size": int64(1), "restartPolicy": "RecreateGroupOnPodRestart",
			"workerTemplate": map[string]any{"spec": podSpec("Always")},
		},
		"rolloutStrategy": map[string]any{
			"type": "RollingUpdate",
			"rollingUpdateConfiguration": map[string]any{"partition": int64(0), "maxUnavailable": int64(1),
				"maxSurge": int64(0)},
		},
	})}
}
