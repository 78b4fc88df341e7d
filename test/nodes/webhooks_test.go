package nodes_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// An operator with defaulting, validating and conversion webhooks runs as two pods: the API server
// calls the webhooks by their Service, one pod leads, metrics need permissions, and kelson undeploy
// deletes everything.
func TestOperatorWithWebhooks(t *testing.T) { operatorWithWebhooks(start(t)) }

const (
	cronjobProject   = "../../examples/cronjob"
	cronjobNamespace = "cronjob-system"
	cronjobManager   = "cronjob-controller-manager"
)

// cronjob is a CronJob with a job that this machine's images can run.
const cronjob = `apiVersion: batch.demo.welcome.domain/v1
kind: CronJob
metadata: {name: every-minute, namespace: default}
spec:
  schedule: "*/1 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers:
          - {name: hello, image: "busybox:test", command: [echo, hello]}
`

func operatorWithWebhooks(c *cluster) {
	c.Helper()
	before := c.objects()
	c.kelsonOn("deploy", "--generate=false", "--load", "--containerd",
		containerdSocket(c.T, filepath.Dir(c.kubeconfig)))
	in := func(args ...string) string { return c.try(append([]string{"-n", cronjobNamespace}, args...)...) }
	ready := func(replicas string) {
		c.Helper()
		c.eventually(replicas+" replicas of the operator are ready", 3*time.Minute, func() bool {
			return in("get", "deployment", cronjobManager, "-o", "jsonpath={.status.readyReplicas}") == replicas
		})
	}
	ready("1")

	c.eventually("a CronJob is admitted by the webhooks", 3*time.Minute, func() bool {
		_, err := c.run(cronjob, "apply", "-f", "-")
		return err == nil
	})
	c.wants("the defaults", c.kubectl("get", "cronjobs.v1.batch.demo.welcome.domain", "every-minute", "-o",
		"jsonpath={.spec.concurrencyPolicy} {.spec.schedule}"), "Allow */1 * * * *")
	c.wants("version v2", c.kubectl("get", "cronjobs.v2.batch.demo.welcome.domain", "every-minute", "-o",
		"jsonpath={.apiVersion} {.spec.schedule.minute}"),
		"batch.demo.welcome.domain/v2 */1")
	out, err := c.run(strings.Replace(cronjob, "*/1 * * * *", "every full moon", 1), "apply", "-f", "-")
	if err == nil || !strings.Contains(out, `spec.schedule: Invalid value: "every full moon"`) {
		c.Errorf("a wrong schedule: %v: %s", err, out)
	}

	c.kubectl("-n", cronjobNamespace, "scale", "deployment", cronjobManager, "--replicas=2")
	ready("2")
	holder := func() string {
		name, _, _ := strings.Cut(in("get", "leases", "-o", "jsonpath={.items[0].spec.holderIdentity}"), "_")
		return name
	}
	leader := ""
	c.eventually("one of the pods leads", 3*time.Minute, func() bool {
		leader = holder()
		return slices.Contains(strings.Fields(in("get", "pods", "-o", "jsonpath={.items[*].metadata.name}")), leader)
	})
	c.metrics(leader)
	c.kubectl("-n", cronjobNamespace, "delete", "pod", leader, "--wait=false")
	c.eventually("another pod leads", 3*time.Minute, func() bool { now := holder(); return now != "" && now != leader })
	c.eventually("the leader runs the job, and its pod completes", 3*time.Minute, func() bool {
		return strings.Contains(c.try("get", "jobs.batch", "-o", "jsonpath={.items[*].status.conditions[*].type}"),
			"Complete")
	})

	c.kelsonOn("undeploy")
	var left []string
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		left = slices.DeleteFunc(c.objects(), func(name string) bool { return slices.Contains(before, name) })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("kelson undeploy leaves %v", left)
		}
	}
}

// kelsonOn runs kelson deploy or undeploy on the project and the cluster.
func (c *cluster) kelsonOn(args ...string) {
	c.Helper()
	out, err := exec.Command(c.kelson, append(args, cronjobProject, "--kubeconfig", c.kubeconfig)...).CombinedOutput()
	if err != nil {
		c.Fatalf("kelson %v: %v\n%s", args, err, out)
	}
}

// metrics reads the metrics of a pod. Requests without a token or without the right are refused;
// requests with the right of the operator's role metrics-reader succeed.
func (c *cluster) metrics(pod string) {
	c.Helper()
	address := c.kubectl("-n", cronjobNamespace, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
	client := &http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	read := func(token string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, "https://"+address+":8443/metrics", nil)
		require.NoError(c, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err.Error()
		}
		return resp.StatusCode, string(body)
	}
	token := strings.TrimSpace(c.kubectl("-n", cronjobNamespace, "create", "token", "default"))
	c.eventually("metrics without a token get 401", 3*time.Minute, func() bool {
		code, _ := read("")
		return code == http.StatusUnauthorized
	})
	c.eventually("metrics without the right get 403", 3*time.Minute, func() bool {
		code, _ := read(token)
		return code == http.StatusForbidden
	})
	c.kubectl("create", "clusterrolebinding", "cronjob-test-metrics", "--clusterrole=cronjob-metrics-reader",
		"--serviceaccount="+cronjobNamespace+":default")
	// The operator keeps a refusal of a token for a minute.
	token = strings.TrimSpace(c.kubectl("-n", cronjobNamespace, "create", "token", "default"))
	c.eventually("metrics with the right", 3*time.Minute, func() bool {
		code, body := read(token)
		return code == http.StatusOK && strings.Contains(body, "controller_runtime_reconcile_total")
	})
	c.kubectl("delete", "clusterrolebinding", "cronjob-test-metrics")
}

// objects lists every object of the cluster as RESOURCE NAMESPACE/NAME, except those that a running
// cluster creates by itself at any time.
func (c *cluster) objects() []string {
	c.Helper()
	var names []string
	for _, resource := range strings.Fields(c.kubectl("api-resources", "--verbs=list", "-o", "name")) {
		switch resource {
		case "events", "events.events.k8s.io", "certificatesigningrequests.certificates.k8s.io",
			"leases.coordination.k8s.io", "componentstatuses",
			"pods.metrics.k8s.io", "nodes.metrics.k8s.io":
			continue
		}
		out, err := c.run("", "get", resource, "-A", "-o",
			`jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)
		if err != nil {
			// The definition of the resource may have been deleted in the meantime.
			c.Logf("list %s: %v: %s", resource, err, out)
			continue
		}
		for _, name := range strings.Fields(out) {
			names = append(names, fmt.Sprint(resource, " ", name))
		}
	}
	return names
}
