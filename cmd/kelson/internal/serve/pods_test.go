package serve

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Pods of users other than the administrator run as processes only with consent, for every setting
// or binding that admits these users.
func TestPodsOfOtherUsersNeedConsent(t *testing.T) {
	const loopback = "127.0.0.1"
	binding := func(labels, subject string) *store.Store {
		s := storetest.New(t, store.Config{})
		data := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":"n","labels":{` + labels + `}},"subjects":[` + subject + `]}`
		key := store.Key{Resource: "rolebindings." + rbacv1.GroupName, Namespace: "n", Name: "b"}
		_, err := s.Commit(t.Context(), store.Op{Key: key, Data: []byte(data)})
		require.NoError(t, err)
		return s
	}
	for name, test := range map[string]struct {
		address string
		change  func(*controlplane.Config)
		want    string
	}{
		"the administrator alone": {loopback, func(*controlplane.Config) {}, ""},
		"localhost":               {"localhost", func(*controlplane.Config) {}, ""},
		"IPv6":                    {"::1", func(*controlplane.Config) {}, ""},
		"other machines":          {"0.0.0.0", func(*controlplane.Config) {}, "--bind-address 0.0.0.0"},
		"tokens": {loopback, func(c *controlplane.Config) {
			c.Authentication.TokenFile = "f"
		}, "--token-auth-file"},
		"certificates": {loopback, func(c *controlplane.Config) {
			c.Authentication.ClientCAFile = "f"
		}, "--client-ca-file"},
		"everyone": {loopback, func(c *controlplane.Config) {
			c.Authorization.Modes = []string{"AlwaysAllow"}
		}, "--authorization-mode AlwaysAllow"},
		"RBAC": {loopback, func(c *controlplane.Config) {
			c.Authorization.Modes = []string{"Node", "RBAC"}
		}, ""},
		"a user": {loopback, func(c *controlplane.Config) {
			c.Store = binding("", `{"kind":"User","name":"ann"}`)
		}, "RoleBinding n/b"},
		"all users": {loopback, func(c *controlplane.Config) {
			c.Store = binding("", `{"kind":"Group","name":"system:authenticated"}`)
		}, "RoleBinding n/b"},
		"an operator": {loopback, func(c *controlplane.Config) {
			c.Store = binding("", `{"kind":"ServiceAccount","name":"operator"}`)
		}, ""},
		"Kubernetes' own": {loopback, func(c *controlplane.Config) {
			c.Store = binding(`"kubernetes.io/bootstrapping":"rbac-defaults"`,
				`{"kind":"User","name":"system:kube-scheduler"}`)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg controlplane.Config
			test.change(&cfg)
			others := otherUsers(&Options{bindAddress: test.address}, &cfg)
			assert.Equalf(t, strings.Join(others, ","), test.want, "others %v", others)
			err := (&podFlags{}).check(controlplane.Processes{}, others)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), "--"+usersFlag) {
				t.Errorf("without consent: %v", err)
			}
			err = (&podFlags{users: true}).check(controlplane.Processes{}, others)
			assert.NoErrorf(t, err, "with consent")
			assert.NoErrorf(t, (&podFlags{}).check(controlplane.Simulated{}, others), "simulated")
		})
	}
	if err := (&podFlags{users: true}).check(controlplane.Simulated{}, nil); err == nil {
		t.Error("a flag without effect is accepted")
	}
}
