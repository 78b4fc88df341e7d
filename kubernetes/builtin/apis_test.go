package builtin

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// served returns the served group/version/resource strings.
func served(t *testing.T, pairs map[string]string) map[string]bool {
	t.Helper()
	apis, err := ParseAPIs(pairs)
	require.NoErrorf(t, err, "%v", pairs)
	list, err := Resources(Config{APIs: apis})
	require.NoError(t, err)
	out := map[string]bool{}
	for _, r := range list {
		for _, v := range r.Versions {
			out[r.Group+"/"+v.Name+"/"+r.Plural] = true
		}
	}
	return out
}

// Without a configuration, only stable versions are served. Settings of all versions, of one
// version and of one resource add and remove others.
func TestParseAPIs(t *testing.T) {
	stableKinds, err := Resources(Config{})
	require.NoError(t, err)
	for _, r := range stableKinds {
		for _, v := range r.Versions {
			if strings.Contains(v.Name, "alpha") || strings.Contains(v.Name, "beta") {
				t.Errorf("%s %s is served by default", r.GroupResource(), v.Name)
			}
		}
	}
	for _, c := range []struct {
		pairs             map[string]string
		served, notServed []string
	}{
		{map[string]string{"api/all": "true"},
			[]string{"/v1/pods", "resource.k8s.io/v1alpha3/devicetaintrules",
				"coordination.k8s.io/v1beta1/leasecandidates", "internal.apiserver.k8s.io/v1alpha1/storageversions"},
			[]string{"scheduling.k8s.io/v1beta1/workloads"}}, // its feature gate is off
		{map[string]string{"api/beta": "true"}, []string{"resource.k8s.io/v1beta1/resourceclaims", "/v1/pods"},
			[]string{"resource.k8s.io/v1alpha3/devicetaintrules"}},
		{map[string]string{"api/alpha": "true"},
			[]string{"admissionregistration.k8s.io/v1alpha1/mutatingadmissionpolicies"},
			[]string{"resource.k8s.io/v1beta1/resourceclaims"}},
		{map[string]string{"api/ga": "false", "/v1": "true"}, []string{"/v1/pods"}, []string{"apps/v1/deployments"}},
		{map[string]string{"apps/v1": "false"}, []string{"/v1/pods", "batch/v1/jobs"}, []string{"apps/v1/deployments"}},
		{map[string]string{"batch/v1/jobs": "false"}, []string{"batch/v1/cronjobs"}, []string{"batch/v1/jobs"}},
		{map[string]string{"resource.k8s.io/v1alpha3/devicetaintrules": "true"},
			[]string{"resource.k8s.io/v1alpha3/devicetaintrules"},
			[]string{"resource.k8s.io/v1alpha3/resourcepoolstatusrequests"}},
		{map[string]string{"storagemigration.k8s.io/v1beta1": ""},
			[]string{"storagemigration.k8s.io/v1beta1/storageversionmigrations"}, nil},
	} {
		got := served(t, c.pairs)
		for _, name := range c.served {
			if !got[name] {
				t.Errorf("%v: %s is not served", c.pairs, name)
			}
		}
		for _, name := range c.notServed {
			if got[name] {
				t.Errorf("%v: %s is served", c.pairs, name)
			}
		}
	}
}

// The errors are kube-apiserver's.
func TestParseAPIsRefuses(t *testing.T) {
	for pairs, want := range map[string]string{
		"api/all=false":                     "invalid runtime-config with only api/all=false",
		"api/all=maybe":                     "invalid value api/all=maybe",
		"v1=true":                           "runtime-config invalid key v1",
		"example.com/v1=true":               "unknown api groups example.com/v1",
		"apps/v7=true":                      "group version apps/v7 that has not been registered",
		"apps/v1=perhaps":                   "invalid value of apps/v1: perhaps",
		"apps/v1/Deployments=false":         "resource is always lowercase plural",
		"apps/v1/deployments/status=false":  "runtime-config invalid key apps/v1/deployments/status",
		"apiextensions.k8s.io/v1beta2=true": "group version apiextensions.k8s.io/v1beta2 that has not been registered",
	} {
		key, value, _ := strings.Cut(pairs, "=")
		_, err := ParseAPIs(map[string]string{key: value})
		assert.ErrorContainsf(t, err, want, "%s", pairs)
	}
	if apis, err := ParseAPIs(map[string]string{"apiextensions.k8s.io/v1": "false"}); err != nil ||
		ServesDefinitions(apis) || !ServesDefinitions(nil) {
		t.Errorf("definitions are served: %v", err)
	}
}

// A beta version that is enabled on request serves the same objects as the stable version.
func TestVersionsOnRequest(t *testing.T) {
	apis, err := ParseAPIs(map[string]string{"api/beta": "true", "resource.k8s.io/v1alpha3": "true"})
	require.NoError(t, err)
	s := serve(t, Config{APIs: apis})
	const rule = `{metadata: {name: r}, spec: {deviceSelector: {driver: a.example.com}, taint: {key: a.example.com/t, effect: NoSchedule}}}`
	const v1, beta, alpha = "/apis/resource.k8s.io/v1/devicetaintrules",
		"/apis/resource.k8s.io/v1beta2/devicetaintrules", "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
	s.do(201, "POST", alpha, rule)
	want(t, "driver", str(s.do(200, "GET", v1+"/r", ""), "spec", "deviceSelector", "driver"), "a.example.com")
	// As in kube-apiserver, DELETE returns a Status in v1, and the object in the other versions.
	want(t, "kind", str(s.do(200, "DELETE", v1+"/r", ""), "kind"), "Status")
	s.do(201, "POST", v1, rule)
	want(t, "kind", str(s.do(200, "DELETE", beta+"/r", ""), "kind"), "DeviceTaintRule")

	// v1beta1 has different fields; the server converts them.
	s.do(201, "POST", "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims",
		`{metadata: {name: c}, spec: {devices: {requests: [{name: r, deviceClassName: d}]}}}`)
	claim := s.do(200, "GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c", "")
	if requests := str(claim, "spec", "devices", "requests"); !strings.Contains(requests,
		`"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"d"}`) {
		t.Errorf("requests %s", requests)
	}
}
