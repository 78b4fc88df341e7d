package builtin

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

// pair returns two servers over one log. Each server reads the log only when it must.
func pair(t *testing.T, cfg Config) (a, b *server) {
	t.Helper()
	log := storetest.NewLog()
	open := func() *server {
		st, err := store.Open(store.Config{Shared: log.Shared(true)})
		require.NoError(t, err)
		cfg.Store = st
		return serveStore(t, cfg, st)
	}
	return open(), open()
}

// Two servers allocate each address and port of the ranges at most once, and again after one of
// them has released it.
func TestServicesOfSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, Config{ServiceRange: "10.0.0.0/29", NodePorts: "30000-30005"})
		servers := []*server{a, b}
		created := make([]*unstructured.Unstructured, 6)
		var all sync.WaitGroup
		for i := range created {
			all.Go(func() {
				created[i] = servers[i%2].do(201, "POST", servicePath,
					fmt.Sprintf(`{metadata: {name: n%d}, spec: {type: NodePort, ports: [{port: 80}]}}`, i))
			})
		}
		all.Wait()
		ips, ports := map[string]bool{}, map[string]bool{}
		for _, svc := range created {
			ips[str(svc, "spec", "clusterIP")] = true
			ports[str(svc, "spec", "ports")] = true
		}
		if len(ips) != 6 || len(ports) != 6 {
			t.Errorf("six services have the addresses %v and the ports %v", ips, ports)
		}
		taken := str(created[0], "spec", "clusterIP")
		for _, s := range servers {
			s.refused(500, "InternalError", "POST", servicePath,
				`{metadata: {name: full}, spec: {ports: [{port: 80}]}}`)
			want(t, "taken address", s.refused(422, "Invalid", "POST", servicePath,
				`{metadata: {name: x}, spec: {clusterIP: `+taken+`, ports: [{port: 80}]}}`),
				`Service "x" is invalid: spec.clusterIPs: Invalid value: ["`+taken+`"]: failed to allocate IP `+taken+
					`: provided IP is already allocated`)
		}

		// An address that one server released is available to the other. A dry run does not
		// allocate an address.
		a.do(200, "DELETE", servicePath+"/n1", "")
		full := `{metadata: {name: full}, spec: {type: NodePort, ports: [{port: 80}]}}`
		b.do(201, "POST", servicePath+"?dryRun=All", full)
		again := b.do(201, "POST", servicePath, full)
		want(t, "address", str(again, "spec", "clusterIP"), str(created[1], "spec", "clusterIP"))
		want(t, "ports", str(again, "spec", "ports"), str(created[1], "spec", "ports"))

		// A port that an update on one server releases is available to an update on the other.
		b.do(200, "PATCH", servicePath+"/full", `{"spec":{"type":"ClusterIP"}}`)
		a.refused(422, "Invalid", "POST", servicePath, `{metadata: {name: x}, spec: {clusterIP: `+taken+
			`, ports: [{port: 80}]}}`)
		a.do(200, "PATCH", servicePath+"/n0", `{"metadata":{"labels":{"a":"b"}}}`) // keeps its port
		a.do(200, "PATCH", servicePath+"/n0", `{"spec":{"type":"ClusterIP"}}`)
		a.do(200, "PATCH", servicePath+"/n0", `{"spec":{"type":"NodePort"}}`)
		b.do(200, "PATCH", servicePath+"/full", `{"spec":{"type":"NodePort"}}`)
		a.do(200, "PATCH", servicePath+"/n2", `{"spec":{"type":"ClusterIP"}}`)
		b.do(200, "PATCH", servicePath+"/full", `{"spec":{"ports":[{"port":80,"name":"x"},{"port":81,"name":"y"}]}}`)
		a.refused(500, "InternalError", "PATCH", servicePath+"/n2", `{"spec":{"type":"NodePort"}}`)
	})
}

// Writes are checked against the current state, not against the state that the server last read.
func TestWritesOfSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/api/v1/namespaces/default/configmaps"
		a, b := pair(t, Config{})
		created := a.do(201, "POST", path, `{metadata: {name: x}, data: {by: a}}`)
		created.Object["data"] = map[string]any{"by": "b"}
		// only server a has read this revision
		updated := b.do(200, "PUT", path+"/x", mustJSON(t, created.Object))
		a.refused(409, "Conflict", "PUT", path+"/x", mustJSON(t, created.Object))
		want(t, "read at the other", str(a.do(200, "GET", path+"/x", ""), "metadata", "resourceVersion"),
			str(updated, "metadata", "resourceVersion"))
		a.do(200, "DELETE", path+"/x", "")
		b.do(201, "POST", path, `{metadata: {name: x}, data: {by: b}}`)
		a.refused(409, "AlreadyExists", "POST", path, `{metadata: {name: x}}`)
		a.do(200, "PATCH", path+"/x", `{"data":{"by":"a"}}`)
		b.do(200, "PATCH", path+"/x", `{"data":{"by":"b"}}`) // equals the state that b read last
		want(t, "the last write", str(a.do(200, "GET", path+"/x", ""), "data", "by"), "b")
		a.do(200, "DELETE", path+"/x", "")
		b.refused(404, "NotFound", "DELETE", path+"/x", "")
	})
}
