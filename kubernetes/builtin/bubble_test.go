package builtin

import (
	"testing"
	"testing/synctest"
	"time"
)

// The process shares some state of the kinds. One synctest bubble creates it, and later bubbles and
// code outside of bubbles use it. So it must not contain channels or timers of a bubble.
func TestInBubbles(t *testing.T) {
	story := func(t *testing.T) {
		s := serve(t, Config{})
		created := s.do(201, "POST", podPath, podManifest)
		stamp, err := time.Parse(time.RFC3339, str(created, "metadata", "creationTimestamp"))
		if err != nil || time.Since(stamp) > time.Minute {
			t.Errorf("created at %s, now %s", stamp, time.Now())
		}
		s.do(201, "POST", servicePath, `{metadata: {name: a}, spec: {type: NodePort, ports: [{port: 80}]}}`)
		s.do(200, "DELETE", servicePath+"/a", "")
		s.do(201, "APPLY", "/api/v1/namespaces/default/configmaps/c",
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}`)
		s.do(200, "PATCH", podPath+"/p/status", `{"status":{"phase":"Running"}}`)
		s.do(201, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{spec: {resourceAttributes: {verb: get, resource: pods}}}`)
	}
	for range 2 {
		synctest.Test(t, story)
	}
	story(t)
}
