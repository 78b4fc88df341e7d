package cluster

import (
	"testing"

	"kelson.dev/internal/assert"
)

// Writes are recorded under the field manager that a server takes from the user agent.
func TestFieldOwner(t *testing.T) {
	for agent, want := range map[string]string{
		"manager/v1.2.3 (linux/amd64) kubernetes/abc": "manager", "plain": "plain", "bell\x07/1": "bell", "": "",
	} {
		assert.Equalf(t, fieldOwner(agent), want, "%q", agent)
	}
}

// Rate limits apply per resource, to all namespaces and objects together.
func TestResourceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods": "api/v1/pods",
		"/api/v1/namespaces/default/pods/web/status":       "api/v1/pods",
		"/api/v1/namespaces/default":                       "api/v1/namespaces",
		"/apis/apps/v1/namespaces/default/deployments/web": "apis/apps/v1/deployments",
		"/prefix/apis/apps/v1/deployments":                 "apis/apps/v1/deployments",
		"/version":                                         "",
		"/apis":                                            "apis",
	} {
		assert.Equalf(t, resourceOf(path), want, "%s", path)
	}
}
