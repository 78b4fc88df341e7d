package controlplane_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/cachesync"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
)

// A scheduler or controller that reads kinds that the server does not serve never starts. The log
// and /readyz name it and the kinds. Controllers that do not read these kinds work.
func TestCachesThatDoNotFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apis, err := builtin.ParseAPIs(map[string]string{"storage.k8s.io/v1": "false", "apps/v1": "false"})
		require.NoError(t, err)
		var log bytes.Buffer
		plane := start(t, controlplane.Config{
			APIs: apis, Controllers: controlplane.AllControllers{Selection: workloads.Selection{"*", "-simulated-volumes"}},
			Node: controlplane.Simulated{Lease: controlplane.NodeLease},
			Log:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
		synctest.Wait()
		if code, answer := ask(t, plane, root, "GET", "/readyz?verbose", ""); code != http.StatusOK ||
			!strings.Contains(answer, "[+]informer-sync ok\n") {
			t.Errorf("before: %d %s", code, answer)
		}
		for path, body := range map[string]string{
			"/api/v1/namespaces/default/pods": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
			"/api/v1/namespaces/default/replicationcontrollers": `{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"r"},
				"spec":{"selector":{"a":"b"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
			"/apis/batch/v1/namespaces/default/jobs": `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},
				"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`,
		} {
			if code, answer := ask(t, plane, root, "POST", path, body); code != http.StatusCreated {
				t.Fatalf("%s: %d %s", path, code, answer)
			}
		}
		time.Sleep(cachesync.Patience + time.Second)
		synctest.Wait()
		if code, answer := ask(t, plane, root, "GET", "/readyz?verbose", ""); code != http.StatusInternalServerError ||
			!strings.Contains(answer, "[-]informer-sync failed") {
			t.Errorf("after: %d %s", code, answer)
		}
		_, answer := ask(t, plane, root, "GET", "/readyz/informer-sync", "")
		for component, caches := range map[string]string{
			"scheduler": "*v1.CSIDriver, *v1.CSINode, *v1.CSIStorageCapacity, *v1.ReplicaSet, *v1.StatefulSet, *v1.StorageClass, *v1.VolumeAttachment, all kinds",
			"deployment-controller, replicaset-controller, replicationcontroller-controller": "*v1.Deployment, *v1.ReplicaSet",
			"node-lifecycle-controller": "*v1.DaemonSet",
		} {
			if want := component + " waits for " + caches; !strings.Contains(answer, want) {
				t.Errorf("no %q in %s", want, answer)
			}
			if !strings.Contains(log.String(), component) || !strings.Contains(log.String(), caches) {
				t.Errorf("%s is not in the log: %s", component, log.String())
			}
		}
		if strings.Count(log.String(), "caches are not filled") != 3 {
			t.Errorf("not one error for each component: %s", log.String())
		}
		if code, answer := ask(t, plane, root, "GET", "/livez", ""); code != http.StatusOK {
			t.Errorf("/livez: %d %s", code, answer)
		}
		if _, answer := ask(t, plane, root, "GET", "/api/v1/namespaces/default/pods", ""); !strings.Contains(answer,
			`"generateName":"j-"`) {
			t.Errorf("the job controller reads no kind that is not served, but has created no pod: %s", answer)
		}
	})
}
