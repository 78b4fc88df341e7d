//go:build linux

package node_test

import (
	"bufio"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/process"
)

// newProcessFixture returns a control plane that runs pods as processes with their own root
// directories.
func newProcessFixture(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t, controlplane.Config{
		Node: controlplane.Processes{Dir: t.TempDir(), Server: "127.0.0.1:6443"}, RootCA: []byte("the certificate"),
	})
	if c := w.plane.PodConfinement(); c != process.ConfinedRoot {
		t.Skipf("SKIPPED: this system confines pods by %q only", c)
	}
	return w
}

// follow returns the lines of app's log as they are written, after waiting for the container.
func (w *fixture) follow() *bufio.Scanner {
	w.t.Helper()
	w.until("the container runs", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].ContainerID != ""
	})
	r, err := w.logs.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { r.Close() })
	return bufio.NewScanner(r)
}

// until waits for a state of the pod, following its changes.
func (w *fixture) until(what string, ok func(p *corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	changes, err := w.logs.CoreV1().Pods("default").Watch(w.t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=p"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer changes.Stop()
	late := time.After(time.Minute)
	if p := w.get(); ok(p) {
		return p
	}
	for {
		select {
		case e := <-changes.ResultChan():
			if p, isPod := e.Object.(*corev1.Pod); isPod && ok(p) {
				return p
			}
		case <-late:
			w.t.Fatalf("not after a minute: %s; the pod is %+v, events %q", what, w.get(), w.events())
		}
	}
}

func wantLine(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() || lines.Text() != want {
		t.Fatalf("the container printed %q (%v), want %q", lines.Text(), lines.Err(), want)
	}
}

// A process sees its pod's volumes at their mount paths, and their updates.
func TestProcessVolumes(t *testing.T) {
	w := newProcessFixture(t)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "config"},
		Data: map[string]string{"version": "1"}}
	w.create(config)
	p := pod("Never", map[string]string{"note": "a \"quoted\" one"}, "sh", "-c", `
		cat /all/keys/password /all/labels; echo; cat /info/memory; echo; cat /info/notes | grep note; echo "$(ls /scratch)"
		echo ready; until test "$(cat /config/version)" = 2; do :; done; echo version 2
		until grep -q later /all/labels; do :; done; cat /all/labels; echo`)
	p.Labels = map[string]string{"b": "2", "a": "1"}
	c := &p.Spec.Containers[0]
	for name, path := range map[string]string{"config": "/config", "all": "/all", "info": "/info",
		"scratch": "/scratch"} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
	}
	field := func(path string) *corev1.ObjectFieldSelector { return &corev1.ObjectFieldSelector{FieldPath: path} }
	p.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "memory", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "app",
				Resource: "limits.memory"}},
			{Path: "notes", FieldRef: field("metadata.annotations")},
		}}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"},
				Items: []corev1.KeyToPath{{Key: "p", Path: "keys/password"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: field("metadata.labels")}}}},
		}}}},
	}
	w.create(p)
	// The pod waits for the missing secret.
	w.waitEvent("FailedMount", `MountVolume.SetUp failed for volume "all" : secret "keys" not found`)
	if s := w.get().Status; s.Phase != corev1.PodPending ||
		s.ContainerStatuses[0].State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("status without the secret: %+v", s)
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keys"},
		StringData: map[string]string{"p": "hunter2\n", "other": "x"}})
	lines := w.follow()
	for _, want := range []string{"hunter2", `a="1"`, `b="2"`, "68719476736", `note="a \"quoted\" one"`, "", "ready"} {
		wantLine(t, lines, want)
	}
	config.Data["version"] = "2"
	if err := w.client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	wantLine(t, lines, "version 2")
	p = w.get()
	p.Labels = map[string]string{"c": "later"}
	if err := w.client.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	wantLine(t, lines, `c="later"`)
	w.until("the pod succeeds", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
}

// A process finds the API server like a pod in a cluster, and the addresses of the Services that
// exist before it.
func TestProcessServiceLinks(t *testing.T) {
	w := newProcessFixture(t)
	w.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "my-db"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.77", Ports: []corev1.ServicePort{{Name: "sql-tcp", Port: 5432},
				{Name: "admin", Port: 80}}}})
	p := pod("Never", nil, "sh", "-c", "env | grep -E '^(KUBERNETES|MY_DB|OWN)_' | sort; echo over")
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "OWN_URL", Value: "sql://$(MY_DB_SERVICE_HOST)"},
		{Name: "MY_DB_PORT", Value: "own"}}
	w.create(p)
	w.until("the pod succeeds", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	want := `KUBERNETES_PORT=tcp://127.0.0.1:6443
KUBERNETES_PORT_6443_TCP=tcp://127.0.0.1:6443
KUBERNETES_PORT_6443_TCP_ADDR=127.0.0.1
KUBERNETES_PORT_6443_TCP_PORT=6443
KUBERNETES_PORT_6443_TCP_PROTO=tcp
KUBERNETES_SERVICE_HOST=127.0.0.1
KUBERNETES_SERVICE_PORT=6443
KUBERNETES_SERVICE_PORT_HTTPS=6443
MY_DB_PORT=own
MY_DB_PORT_5432_TCP=tcp://10.0.0.77:5432
MY_DB_PORT_5432_TCP_ADDR=10.0.0.77
MY_DB_PORT_5432_TCP_PORT=5432
MY_DB_PORT_5432_TCP_PROTO=tcp
MY_DB_PORT_80_TCP=tcp://10.0.0.77:80
MY_DB_PORT_80_TCP_ADDR=10.0.0.77
MY_DB_PORT_80_TCP_PORT=80
MY_DB_PORT_80_TCP_PROTO=tcp
MY_DB_SERVICE_HOST=10.0.0.77
MY_DB_SERVICE_PORT=5432
MY_DB_SERVICE_PORT_ADMIN=80
MY_DB_SERVICE_PORT_SQL_TCP=5432
OWN_URL=sql://10.0.0.77
over
`
	if got := w.log(corev1.PodLogOptions{}); got != want {
		t.Errorf("the environment:\n%s\nwant\n%s", got, want)
	}
}

// Volumes of types that the node can't mount are refused with an event.
func TestUnsupportedVolume(t *testing.T) {
	w := newProcessFixture(t)
	p := pod("Never", nil, "true")
	p.Spec.Volumes = []corev1.Volume{{Name: "share",
		VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}}}
	w.create(p)
	w.waitEvent("FailedMount", `MountVolume.SetUp failed for volume "share" : this node does not support volumes of this type`)
}
