package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/process"
)

// Users beside the administrator need consent, whatever lets them in.
func TestPodsOfOthersNeedConsent(t *testing.T) {
	const loopback = "127.0.0.1"
	binding := func(labels, subject string) *store.Store {
		s, err := store.Open(store.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		data := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b","namespace":"n","labels":{` + labels + `}},"subjects":[` + subject + `]}`
		key := store.Key{Resource: "rolebindings." + rbacv1.GroupName, Namespace: "n", Name: "b"}
		if _, err := s.Commit(t.Context(), store.Op{Key: key, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
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
		"tokens":                  {loopback, func(c *controlplane.Config) { c.Authentication.TokenFile = "f" }, "--token-auth-file"},
		"certificates":            {loopback, func(c *controlplane.Config) { c.Authentication.ClientCAFile = "f" }, "--client-ca-file"},
		"everyone":                {loopback, func(c *controlplane.Config) { c.Authorization.Modes = []string{"AlwaysAllow"} }, "--authorization-mode AlwaysAllow"},
		"RBAC":                    {loopback, func(c *controlplane.Config) { c.Authorization.Modes = []string{"Node", "RBAC"} }, ""},
		"a user":                  {loopback, func(c *controlplane.Config) { c.Store = binding("", `{"kind":"User","name":"ann"}`) }, "RoleBinding n/b"},
		"all users":               {loopback, func(c *controlplane.Config) { c.Store = binding("", `{"kind":"Group","name":"system:authenticated"}`) }, "RoleBinding n/b"},
		"an operator":             {loopback, func(c *controlplane.Config) { c.Store = binding("", `{"kind":"ServiceAccount","name":"operator"}`) }, ""},
		"Kubernetes' own": {loopback, func(c *controlplane.Config) {
			c.Store = binding(`"kubernetes.io/bootstrapping":"rbac-defaults"`, `{"kind":"User","name":"system:kube-scheduler"}`)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg controlplane.Config
			test.change(&cfg)
			others := acceptsOthers(&serveOptions{bindAddress: test.address}, &cfg)
			if strings.Join(others, ",") != test.want {
				t.Errorf("others %v, want %q", others, test.want)
			}
			err := (&podFlags{}).check(controlplane.NodeProcess, others)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), "--"+usersFlag) {
				t.Errorf("without consent: %v", err)
			}
			if err := (&podFlags{users: true}).check(controlplane.NodeProcess, others); err != nil {
				t.Errorf("with consent: %v", err)
			}
			if err := (&podFlags{}).check(controlplane.NodeSimulated, others); err != nil {
				t.Errorf("where nothing runs: %v", err)
			}
		})
	}
	if err := (&podFlags{users: true}).check(controlplane.NodeSimulated, nil); err == nil {
		t.Error("a flag without a meaning is accepted")
	}
}

// A pod on a server with a data directory reads neither the authority's key nor the kubeconfig, and no user does by its help.
func TestPodsReadNothingOfTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	base := t.TempDir()
	data := filepath.Join(base, "data")
	kubeconfig := filepath.Join(base, "kubeconfig")
	s := startServer(t, "--data-dir", data, "--node=process", "--kubeconfig", kubeconfig)
	kubectl := kubectlOf(t, s)
	if _, err := os.Stat(filepath.Join(data, "pki", "ca.key")); err != nil {
		t.Fatal(err)
	}
	kubectl("run", "thief", "--image=none", "--restart=Never", "--command", "--", "sh", "-c",
		"for f in $(find "+data+"/pki "+data+"/*.log "+kubeconfig+" 2>/dev/null); do cat $f && echo STOLEN; done; cat "+data+"/pki/ca.key "+kubeconfig+"; find / -name ca.key 2>/dev/null; echo over")
	kubectl("wait", "pod/thief", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s")
	log := kubectl("logs", "thief")
	if !strings.Contains(log, "over") || strings.Contains(log, "STOLEN") || strings.Contains(log, "PRIVATE KEY") || strings.Contains(log, "certificate-authority-data") {
		t.Errorf("the pod says %s", log)
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d\n%s", code, s.stderr)
	}
	if !slices.Contains(strings.Split(s.stderr.String(), "\n"), podWarning(process.ConfinedRoot)) && os.Geteuid() == 0 {
		t.Errorf("the start does not say that pods run here: %s", s.stderr)
	}
}
