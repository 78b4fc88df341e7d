package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
	"kelson.dev/test/child"
)

// auditPolicy records watches, and the bodies of writes.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [get, list, watch]}
- {level: RequestResponse}
`

// startKubeAPIServer starts the real kube-apiserver and etcd of bin/peers with an audit log. The
// test is skipped if they were not built.
func startKubeAPIServer(t *testing.T, dir, policy, log string) *server {
	t.Helper()
	peers, err := filepath.Abs("../../bin/peers")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(peers, "kube-apiserver")); err != nil {
		t.Skip("SKIPPED: needs bin/peers/kube-apiserver: make peers")
	}
	port := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return port
	}
	authority, err := pki.NewAuthority("why-test")
	require.NoError(t, err)
	serving, err := authority.Server("127.0.0.1")
	require.NoError(t, err)
	admin, err := authority.Client("admin", "system:masters")
	require.NoError(t, err)
	file := func(name string) string { return filepath.Join(dir, name) }
	_, err = pki.OpenKey(file("sa.key"))
	require.NoError(t, err)
	for name, data := range map[string][]byte{"ca.crt": authority.PEM, "server.crt": serving.CertPEM,
		"server.key": serving.KeyPEM} {
		require.NoError(t, os.WriteFile(file(name), data, 0o600))
	}
	start := func(program string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(peers, program), args...)
		var out output
		cmd.Stdout, cmd.Stderr = &out, &out
		child.EndWithParent(cmd)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				text := out.String()
				t.Logf("%s: %s", program, text[max(0, len(text)-2000):])
			}
		})
	}
	etcd, secure := "http://127.0.0.1:"+port(), port()
	start("etcd", "--data-dir", file("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+port(), "--log-level", "error", "--unsafe-no-fsync")
	start("kube-apiserver", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", secure,
		"--authorization-mode", "RBAC",
		"--tls-cert-file", file("server.crt"), "--tls-private-key-file", file("server.key"), "--client-ca-file",
		file("ca.crt"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", file("sa.key"),
		"--service-account-signing-key-file", file("sa.key"),
		"--audit-policy-file", policy, "--audit-log-path", log)
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: "https://127.0.0.1:" + secure, CertificateAuthorityData: authority.PEM}
	config.AuthInfos["u"] = &api.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM}
	config.Contexts["c"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	s := &server{kubeconfig: file("kubeconfig")}
	require.NoError(t, clientcmd.WriteToFile(*config, s.kubeconfig))
	return s
}

// kelson why explains what a program without a trace wrote, from the audit log of the real
// kube-apiserver and of Kelson.
func TestWhyFromAnAuditLog(t *testing.T) {
	require.Long(t, "takes seconds")
	for _, test := range []struct {
		name  string
		user  string
		start func(t *testing.T, dir, policy, log string) *server
	}{
		{"kube-apiserver", "admin", startKubeAPIServer},
		{"kelson", "kelson-admin", func(t *testing.T, dir, policy, log string) *server {
			return startServer(t, "--in-memory", "--kubeconfig", filepath.Join(dir, "kubeconfig"),
				"--audit-policy-file", policy, "--audit-log-path", log)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
			require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
			s := test.start(t, dir, policy, log)
			env := []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + dir}
			kubectl := built(t, kubectlBinary)
			require.Eventually(t, "the server is ready", func() bool {
				return command(t, env, kubectl, "get", "namespace", "default").code == 0
			})
			must := func(args ...string) string {
				t.Helper()
				got := command(t, env, kubectl, args...)
				require.Equalf(t, got.code, 0, "kubectl %v: %+v", args, got)
				return got.stdout
			}
			must("apply", "-f", cnat+"/config/crd/bases")
			must("wait", "crd/ats.cnat.programming-kubernetes.info", "--for=condition=Established", "--timeout=30s")
			trace := filepath.Join(dir, "operator.trace")
			operator := exec.Command(built(t, example))
			operator.Env = append(os.Environ(), append(env, "KELSON_TRACE=file:"+trace)...)
			var out output
			operator.Stdout, operator.Stderr = &out, &out
			require.NoError(t, operator.Start())
			defer func() {
				operator.Process.Signal(syscall.SIGTERM)
				operator.Wait()
				if t.Failed() {
					t.Logf("operator: %s", out.String())
				}
			}()
			for _, name := range []string{"other", "wanted"} {
				at := filepath.Join(dir, name+".yaml")
				err := os.WriteFile(at, []byte(
					"apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata: {name: "+name+
						"}\nspec: {schedule: \"2020-01-02T03:04:05Z\", command: echo YAY}\n"), 0o600)
				require.NoError(t, err)
				must("create", "-f", at)
			}
			var pod string
			require.Eventually(t, "the operator has created the pod", func() bool {
				pod = strings.TrimSpace(must("get", "pods", "-o",
					`jsonpath={.items[?(@.metadata.ownerReferences[0].name=="wanted")].metadata.name}`))
				return pod != ""
			})
			why := func(args ...string) string {
				t.Helper()
				var got outcome
				// The log is written in the background.
				require.Eventually(t, "the log has the write", func() bool {
					got = command(t, env, built(t, binary),
						append([]string{"why", "pod/" + pod, "--audit-log", log}, args...)...)
					return got.code == 0
				})
				return got.stdout
			}
			// Traces of earlier tests have no effect, because the folder of the kubeconfig has no
			// trace.
			guess := why()
			wantContains(t, "why", guess, "Pod default/"+pod, "applied by cnat ("+test.user+")",
				"probably because At default/wanted",
				"evidence: cnat received it: it watches ats.cnat.programming-kubernetes.info",
				"At default/wanted is the owner of Pod default/"+pod, "created by kubectl ("+test.user+")",
				"first cause: a request of "+test.user)
			if strings.Contains(guess, "At default/other") {
				t.Errorf("the other At is no cause:\n%s", guess)
			}
			exact := why("--trace", trace)
			wantContains(t, "why with a trace", exact, "applied by controller at (", "because At default/wanted")
			if first, _, _ := strings.Cut(exact, "first cause"); strings.Contains(first, "probably because At") {
				t.Errorf("the answer is recorded, and not exact:\n%s", exact)
			}
			json := why("-o", "json")
			wantContains(t, "JSON", json, `"probably"`, `"evidence"`, `"first": "a request of `+test.user+`"`)
			got := command(t, env, built(t, binary), "why", "pod/absent", "--audit-log", log)
			if got.code != 1 || !strings.Contains(got.stderr, "has no successful write of pod/absent") {
				t.Errorf("an absent object: %+v", got)
			}
		})
	}
}

// Chains run through Kubernetes' own controllers and the garbage collector to a person.
func TestWhyThroughKubernetesControllers(t *testing.T) {
	require.Long(t, "takes seconds")
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	s := startServer(t, "--in-memory", "--node=simulated", "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--audit-policy-file", policy, "--audit-log-path", log)
	kubectl := kubectlOf(t, s)
	kubectl("create", "deployment", "web", "--image=nginx")
	kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=30s")
	pod := strings.TrimSpace(kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"))
	kubectl("delete", "deployment", "web")
	require.Eventually(t, "the garbage collector has deleted the pod", func() bool {
		return command(t, []string{"KUBECONFIG=" + s.kubeconfig}, built(t, kubectlBinary), "get", "pod", pod).code != 0
	})
	var got outcome
	require.Eventually(t, "the log has the deletion", func() bool {
		got = command(t, nil, built(t, binary), "why", "pod/"+pod, "--audit-log", log, "--last=50")
		return got.code == 0 && strings.Contains(got.stdout, "deleted by")
	})
	t.Log(got.stdout)
	wantContains(t, "why", got.stdout, "probably because ReplicaSet default/",
		"probably because Deployment default/web", "was deleted by kubectl", "first cause: a request of")
}
