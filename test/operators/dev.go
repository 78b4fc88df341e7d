package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// operator is a public project whose operator kelson dev runs.
type operator struct {
	repo, commit, version, layout string
	// until is the state of a sample after the operator has reconciled it, in the form of kelson
	// dev --until.
	until string
	// sample is applied instead of the project's samples; "" means the project's samples.
	sample string
	// note describes the state, or why it is not reached.
	note string
}

var operators = []operator{
	{"kubernetes-sigs/jobset", "08dfbdfd682714a9ab929633eca8dc95315187e7", "v0.13.0-devel-43", "kubebuilder v4, config/components", "jobset/simple:{.status.replicatedJobsStatus[0].active}=1", `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: simple}
spec:
  replicatedJobs:
  - name: workers
    template:
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: work, image: busybox, command: [sleep, "100"]}]}}}
`,
		"own certificate controller; webhooks for Jobs and Pods; the project's sample is empty"},
	{"kubernetes-sigs/lws", "060ab4da17eea1f0865fcbd3236bb1075e2cea32", "v0.10.0-11", "kubebuilder v4",
		"leaderworkerset/leaderworkerset-sample:{.status.readyReplicas}=3", "",
		"own certificate controller; configuration file"},
	{"rabbitmq/cluster-operator", "06cda8e8e1a927a652dda20a1b169fe7667f4916", "v2.22.3-29", "kubebuilder v4",
		"rabbitmq-system/statefulset/sample-server:{.status.readyReplicas}=1", "",
		"certificates of cert-manager; build tags; it then runs a program in its pod, which is simulated"},
	{"fluxcd/notification-controller", "2e46958a67f3af0e3e755a4fcaf7397d5803725e", "v1.9.0-37",
		"PROJECT of version 2, API module", `receiver/receiver-sample:{.status.conditions[?(@.type=="Ready")].status}=True`, "",
		"three kinds of samples"},
	{"fluxcd/kustomize-controller", "186fb3b29138ce82ff61ba1a9370b96a3dd598fe", "v1.9.0-36",
		"PROJECT of version 2, API module", `kustomization/webapp-dev:{.status.conditions[?(@.type=="Ready")].reason}=ArtifactFailed`, "",
		"definitions of its sources from the API module's Go types; without source-controller there is no artifact"},
	{"fluxcd/source-controller", "39b711b111fa906c3db0a424e252a5d12e48646d", "v1.9.0-13",
		"PROJECT of version 2, API module", `gitrepository/gitrepository-sample:{.status.conditions[?(@.type=="Ready")].reason}=GitOperationFailed`, "",
		"without a network, cloning fails; with one, use Succeeded"},
	{"kubernetes-sigs/cluster-api-operator", "46918b657109212410b71c7e0401f63b0198406d", "v0.28.0-2", "kubebuilder v4", "capi-system/coreprovider/cluster-api:{.metadata.finalizers[0]}=provider.cluster.x-k8s.io", `
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: CoreProvider
metadata: {name: cluster-api, namespace: capi-system}
spec: {version: v1.12.0}
`, "certificates of cert-manager; the project has no samples; it then downloads the provider, which needs a network"},
	{"redhat-cop/namespace-configuration-operator", "8eaa74be68e8a1489757ed50d41c2dfdfb95c988", "v1.2.6-7",
		"operator-sdk v1, go.kubebuilder.io/v3",
		`namespaceconfig/test-namespaceconfig:{.status.conditions[0].type}=ReconcileSuccess`, "",
		"its service account is created by OLM"},
	{"hashicorp/vault-secrets-operator", "9b840a5a0c3455278d580418d6336f2011cf8574", "v1.4.1",
		"operator-sdk v1, go.kubebuilder.io/v3", "tenant-1/vaultauth/vaultauth-sample:{.status.valid}=true", "",
		"downward API in environment and volumes; ten samples"},
	{"backube/snapscheduler", "a257a21c972c3b103775f7d7999b18f58b3a03d2", "2026-08-18",
		"operator-sdk v1, go.kubebuilder.io/v4", "snapshotschedule/daily:{.status.conditions[0].type}=Reconciled", "",
		"kube-rbac-proxy beside the manager"},
	{"kube-green/kube-green", "1045c7062173af5b204863ccd533567aa0492584", "2026-06-02", "operator-sdk v1, go.kubebuilder.io/v4", "sleepinfo/always:{.status.operation}=SLEEP", `
apiVersion: kube-green.com/v1alpha1
kind: SleepInfo
metadata: {name: always}
spec: {weekdays: "*", sleepAt: "*:*"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
`, "certificates of cert-manager; the project's sample acts at night, this one within a minute"},
	{"cloudnative-pg/cloudnative-pg", "a95a534dbe0854495b863bbc1b7651f74d310916", "v1.30.0-86", "kubebuilder v4", `cluster/example:{.status.instances}=3`, `
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
metadata: {name: example}
spec: {instances: 3, storage: {size: 1Gi}}
`, "its image has a second copy of the program, which kelson dev lacks"},
}

// runDev runs the operators that match an expression and writes the table. For the others, the
// table has the results of earlier runs.
func runDev(ctx context.Context, kelson, docs, sources, work string, only *regexp.Regexp) error {
	kelson, err := filepath.Abs(kelson)
	if err != nil {
		return err
	}
	var table strings.Builder
	reached, total := 0, 0
	for _, o := range operators {
		dir := filepath.Join(work, filepath.Base(o.repo))
		result, err := os.ReadFile(dir + ".result")
		if only.MatchString(o.repo) {
			if result, err = o.measure(ctx, kelson, sources, dir); ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				err = os.WriteFile(dir+".result", result, 0o644)
			}
			fmt.Printf("%-45s %s\n", o.repo, result)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // not run now or earlier
		}
		if err != nil {
			return err
		}
		total++
		if string(result) != notReached {
			reached++
		}
		samples := "the project's"
		if o.sample != "" {
			samples = "one of ours"
		}
		fmt.Fprintf(&table, "| [%s](https://github.com/%s) %s | %s | %s | `%s` | %s | %s |\n",
			o.repo, o.repo, o.version, o.layout, samples, strings.ReplaceAll(o.until, "|", `\|`), result, o.note)
	}
	fmt.Printf("%d of %d operators reconciled a sample\n", reached, total)
	if docs != "" {
		return os.WriteFile(docs, fmt.Appendf(nil, devPage, reached, total, table.String()), 0o644)
	}
	return nil
}

// notReached is the result of an operator that did not reconcile a sample in time.
const notReached = "not reached"

// measure clones the project unless it exists, and returns how long kelson dev took.
func (o operator) measure(ctx context.Context, kelson, sources, dir string) ([]byte, error) {
	if err := clone(ctx, project{repo: o.repo, commit: o.commit}, sources, dir); err != nil {
		return nil, fmt.Errorf("clone %s: %w", o.repo, err)
	}
	took, err := o.run(ctx, kelson, dir)
	if err != nil {
		return []byte(notReached), nil
	}
	return fmt.Appendf(nil, "%.0f s", took.Seconds()), nil
}

// run builds the operator, then runs kelson dev until the sample is reconciled. The output is in a
// file next to the clone.
func (o operator) run(ctx context.Context, kelson, dir string) (time.Duration, error) {
	log, err := os.Create(dir + ".log")
	if err != nil {
		return 0, err
	}
	defer log.Close()
	command := func(args ...string) error {
		cmd := exec.CommandContext(ctx, kelson, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
		cmd.Stdout, cmd.Stderr = log, log
		return cmd.Run()
	}
	program := dir + ".program"
	defer os.Remove(program)
	if program, err = filepath.Abs(program); err != nil {
		return 0, err
	}
	if err := command("build", ".", "-o", program); err != nil {
		return 0, err
	}
	args := []string{"dev", ".", "--until", o.until, "--timeout", "100s"}
	if o.sample != "" {
		name, err := filepath.Abs(dir + ".sample.yaml")
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(name, []byte(o.sample), 0o644); err != nil {
			return 0, err
		}
		args = append(args, "--samples", name)
	}
	begin := time.Now()
	err = command(args...)
	return time.Since(begin), err
}

const devPage = `<!-- Written by test/operators (make operators-dev). DO NOT EDIT. -->

# Public operators in kelson dev

` + "`make operators-dev`" + ` clones public projects at fixed commits and runs ` + "`kelson dev`" + ` in each, without
other preparation, until the operator has reconciled a sample. Kelson runs the operator as its
config/default deploys it ([existing projects](../guides/existing-projects.md)). In %d of %d
projects, the operator does so.

The time is that of the command after the operator was built once, until the sample has the state:
it includes the generators, a build without changes, the control plane, and the time that the
operator itself takes. The first build also downloads the operator's modules and compiles them,
which took from one to ten minutes on two busy cores.

| project | layout | samples | reconciled when | time | |
|---|---|---|---|---|---|
%s`
