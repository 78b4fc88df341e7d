package controlplane_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

const (
	serviceKubernetes = "/api/v1/namespaces/default/services/kubernetes"
	firstIPAddress    = "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1"
	serviceCIDR       = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"
	nodeLeases        = "/api/v1/namespaces/kube-node-lease"
	trustedCAs        = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
)

// do sends a request that must succeed.
func do(t *testing.T, plane *controlplane.ControlPlane, method, path string, body any) {
	t.Helper()
	_, err := (inprocess.Call{Method: method, Path: path, Body: body}).Do(t.Context(),
		plane.Transport())
	require.NoErrorf(t, err, "%s %s", method, path)
}

// A running server restores the objects that every cluster has after clients deleted them.
func TestInitialObjectsAreRestored(t *testing.T) {
	ca := newAuthority(t, "ca")
	server := controlplane.Endpoints{Address: netip.MustParseAddrPort("192.0.2.1:6443")}
	for name, cfg := range map[string]controlplane.Config{
		"with controllers": {ClientCAs: ca.Pool(), RootCA: ca.PEM},
		"kube-apiserver":   {ClientCAs: ca.Pool(), RootCA: ca.PEM, Controllers: controlplane.NoControllers{}, Endpoints: server},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plane := start(t, cfg)
				synctest.Wait()
				revision := plane.Store().Snapshot().Revision()
				time.Sleep(time.Minute)
				if changed := plane.Store().Changed("services", "namespaces", "configmaps"); changed > revision {
					t.Error("the server wrote although no object was missing")
				}
				do(t, plane, http.MethodDelete, firstIPAddress, nil)
				synctest.Wait()
				if code, body := get(t, plane, firstIPAddress); code != http.StatusOK {
					t.Errorf("IP address: %d %s", code, body)
				}
				objects := []string{serviceKubernetes, nodeLeases, trustedCAs}
				for _, path := range objects {
					do(t, plane, http.MethodDelete, path, nil)
				}
				// Running controllers finalize the namespace and keep the ServiceCIDR themselves.
				if cfg.Controllers != nil {
					do(t, plane, http.MethodPut, nodeLeases+"/finalize",
						map[string]any{"metadata": map[string]any{"name": "kube-node-lease"}})
					do(t, plane, http.MethodDelete, serviceCIDR, nil)
					objects = append(objects, serviceCIDR)
				}
				synctest.Wait()
				for _, path := range objects {
					if code, body := get(t, plane, path); code != http.StatusNotFound {
						t.Errorf("%s exists: %d %s", path, code, body)
					}
				}
				time.Sleep(11 * time.Second)
				synctest.Wait()
				for _, path := range append(objects, firstIPAddress) {
					if code, body := get(t, plane, path); code != http.StatusOK {
						t.Errorf("%s: %d %s", path, code, body)
					}
				}
				if _, body := get(t, plane, serviceKubernetes); !strings.Contains(body, `"clusterIP":"10.0.0.1"`) {
					t.Errorf("Service: %s", body)
				}
				if _, body := get(t, plane, serviceCIDR); !strings.Contains(body, `"status":"True"`) {
					t.Errorf("ServiceCIDR: %s", body)
				}
			})
		})
	}
}

// While another Service has the address of the Service "kubernetes", the server tries again.
func TestRestorationIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{})
		do(t, plane, http.MethodDelete, serviceKubernetes, nil)
		services := strings.TrimSuffix(serviceKubernetes, "/kubernetes")
		do(t, plane, http.MethodPost, services, map[string]any{
			"metadata": map[string]any{"name": "other"},
			"spec":     map[string]any{"clusterIP": "10.0.0.1", "ports": []any{map[string]any{"port": 80}}},
		})
		time.Sleep(time.Minute)
		if code, body := get(t, plane, serviceKubernetes); code != http.StatusNotFound {
			t.Errorf("%d %s", code, body)
		}
		do(t, plane, http.MethodDelete, services+"/other", nil)
		time.Sleep(11 * time.Second)
		if code, body := get(t, plane, serviceKubernetes); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	})
}

// A control plane that serves a past state, without controllers, does not change it.
func TestPastStatesAreNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
		do(t, plane, http.MethodDelete, serviceKubernetes, nil)
		revision := plane.Store().Snapshot().Revision()
		time.Sleep(time.Hour)
		synctest.Wait()
		if now := plane.Store().Snapshot().Revision(); now != revision {
			t.Errorf("revision %d, want %d", now, revision)
		}
	})
}
