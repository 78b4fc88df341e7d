package builtin

import (
	"bytes"
	"maps"
	"testing"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

// The fields of a stored pod are those of the decoded pod, with and without a node and addresses. A
// pod that lacks a value that decoding adds must be decoded.
func TestStoredPodFields(t *testing.T) {
	pods := resources(t, Config{})("", "pods")
	const spec = `restartPolicy: Always, schedulerName: default-scheduler, serviceAccountName: default, ` +
		`containers: [{name: c, image: i, env: [{name: nodeName, value: "}\" nodeName"}]}]`
	for _, test := range []struct {
		body string
		fast bool
	}{
		{`{metadata: {name: p, namespace: ns}, spec: {` + spec + `}, status: {phase: Pending}}`, true},
		{`{metadata: {name: p, namespace: ns}, spec: {nodeName: node, ` + spec + `}, status: {phase: Running,
			podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}], nominatedNodeName: "a\"\u00e9<b"}}`, true},
		{`{metadata: {name: p, namespace: ns}, spec: {hostNetwork: true, ` + spec + `}, status: {phase: Failed}}`, true},
		{`{metadata: {name: p, namespace: ns}, spec: {containers: [{name: c, image: i}]}}`, false},
	} {
		stored, err := pods.Codec.Store(decode(t, pods, "v1", resource.MediaYAML, []byte(test.body)))
		require.NoError(t, err)
		hub, err := pods.Codec.Load(stored)
		require.NoError(t, err)
		got, ok := pods.StoredFields(stored)
		require.Equal(t, ok, test.fast)
		if want := pods.Fields(hub); ok {
			got["metadata.name"], got["metadata.namespace"] = want["metadata.name"], want["metadata.namespace"]
			if !maps.Equal(got, want) {
				t.Errorf("fields %v of %s, want %v", got, stored, want)
			}
		}
	}
}

// A stored pod with values that Kelson does not write must be decoded.
func TestStoredPodFieldsUnusual(t *testing.T) {
	pods := resources(t, Config{})("", "pods")
	usual, err := pods.Codec.Store(decode(t, pods, "v1", resource.MediaJSON, sample(t, "", "v1", "Pod", "json")))
	require.NoError(t, err)
	_, ok := pods.StoredFields(usual)
	require.Equal(t, ok, true)
	for _, change := range [][2]string{
		{`"podIP":"podIPValue"`, `"podIP":"other"`},
		{`"podIP":"podIPValue",`, ``},
		{`"phase":"phaseValue",`, ``},
		{`"schedulerName":"schedulerNameValue"`, `"schedulerName":1`},
		{`"hostNetwork":true`, `"hostNetwork":"true"`},
	} {
		changed := bytes.Replace(usual, []byte(change[0]), []byte(change[1]), 1)
		if _, ok := pods.StoredFields(changed); ok || bytes.Equal(changed, usual) {
			t.Errorf("with %s instead of %s, the pod is not decoded", change[1], change[0])
		}
	}
}
