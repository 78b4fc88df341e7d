package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// throwaway is a client of a server's /planes.
type throwaway struct {
	t      *testing.T
	url    string
	client *http.Client
}

type thrown struct{ ID, Path, URL, Kubeconfig string }

// file writes the kubeconfig to a file.
func (p *thrown) file(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(p.Kubeconfig), 0o600))
	return file
}

func newThrowaway(t *testing.T, s *server) *throwaway {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	return &throwaway{t, s.url, client}
}

func (w *throwaway) do(method, path, body string, want int) (answer thrown) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	resp, err := w.client.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != want {
		w.t.Fatalf("%s %s: %s, want %d\n%s", method, path, resp.Status, want, data)
	}
	_ = json.Unmarshal(data, &answer) // DELETE has no body
	return answer
}

func clientOf(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	require.NoError(t, err)
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return clients
}

// client-go and kubectl work below a path, over TLS.
func TestPlanesOverTheNetwork(t *testing.T) {
	s := startServer(t, "--in-memory", "--node=none", "--planes=3", "--planes-idle=1h")
	w := newThrowaway(t, s)
	plane := w.do("POST", "/planes", "", 201)
	assert.Equalf(t, plane.URL, s.url+"/planes/"+plane.ID, "url")
	clients := clientOf(t, plane.Kubeconfig)
	maps := clients.CoreV1().ConfigMaps("default")
	watch, err := maps.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	event := <-watch.ResultChan()
	assert.Equalf(t, event.Object.(*corev1.ConfigMap).Name, "a", "event %v", event)
	// The server's own control plane does not have the objects of the plane.
	if _, err := newWriter(t, s).client.CoreV1().ConfigMaps("default").Get(t.Context(), "a",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("on the server itself: %v", err)
	}

	w.do("PUT", "/planes/bases/prepared", `{"plane":"`+plane.ID+`"}`, 200)
	prepared := w.do("POST", "/planes", `{"base":"prepared"}`, 201)
	_, err = clientOf(t, prepared.Kubeconfig).CoreV1().ConfigMaps("default").Get(t.Context(), "a",
		metav1.GetOptions{})
	assert.NoErrorf(t, err, "plane created from a base")
	w.do("POST", "/planes", "", 201)
	w.do("POST", "/planes", "", 429)

	s.kubeconfig = plane.file(t)
	kubectl := kubectlOf(t, s)
	wantContains(t, "create", kubectl("create", "-f", "../../lab/testenv/testdata/ships.yaml"),
		"ships.sea.example.com created")
	wantContains(t, "wait", kubectl("wait", "--for=condition=Established", "crd/ships.sea.example.com"),
		"condition met")
	wantContains(t, "explain", kubectl("explain", "ship.spec"), "masts")
	wantContains(t, "get", kubectl("get", "cm"), "a ")
	wantContains(t, "api-resources", kubectl("api-resources"), "ships")
	ship := filepath.Join(t.TempDir(), "ship.yaml")
	err = os.WriteFile(ship, []byte("apiVersion: sea.example.com/v1\nkind: Ship\nmetadata: {name: argo}\nspec: {masts: 2}\n"), 0o600)
	require.NoError(t, err)
	// kubectl validates with the OpenAPI document of the plane
	wantContains(t, "apply", kubectl("apply", "-f", ship), "ship.sea.example.com/argo created")
	wantContains(t, "wait", kubectl("wait", "--for=jsonpath={.spec.masts}=2", "ship/argo"), "condition met")

	// Deleting a plane ends its watches quickly.
	begin := time.Now()
	w.do("DELETE", plane.Path, "", 204)
	for range watch.ResultChan() {
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list on a deleted plane: %v", err)
	}

	// A request without a certificate is anonymous.
	anonymous := rest.AnonymousClientConfig(&rest.Config{Host: s.url,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	client, err := rest.HTTPClientFor(anonymous)
	require.NoError(t, err)
	resp, err := client.Post(s.url+"/planes", "application/json", nil)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equalf(t, resp.StatusCode, http.StatusForbidden, "anonymous POST: %s", resp.Status)
}

// Only the plane itself accepts its credential; neither the server nor another plane does. A plane
// does not accept the server's credentials.
func TestPlanesTrustOnlyTheirOwnAdministrator(t *testing.T) {
	s := startServer(t, "--in-memory", "--node=none", "--planes=5")
	w := newThrowaway(t, s)
	own, err := os.ReadFile(s.kubeconfig)
	require.NoError(t, err)
	one := w.do("POST", "/planes", "", 201)
	two := w.do("POST", "/planes", `{"fork":"`+one.ID+`"}`, 201)
	w.do("PUT", "/planes/bases/b", `{"plane":"`+one.ID+`"}`, 200)
	three := w.do("POST", "/planes", `{"base":"b"}`, 201)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"p": "secret"}}
	planes := map[string]string{"server": s.url, "one": one.URL, "two": two.URL, "three": three.URL}
	kubeconfigs := map[string]string{"server": string(own), "one": one.Kubeconfig, "two": two.Kubeconfig,
		"three": three.Kubeconfig}
	robots := map[string]string{}
	for name, kubeconfig := range kubeconfigs {
		client := clientOf(t, kubeconfig).CoreV1()
		_, err := client.Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
		assert.NoErrorf(t, err, "%s", name)
		_, err = client.ServiceAccounts("default").Create(t.Context(), account,
			metav1.CreateOptions{})
		assert.NoErrorf(t, err, "%s", name)
		token, err := client.ServiceAccounts("default").CreateToken(t.Context(), "robot",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(t, err)
		robots[name] = token.Status.Token
	}
	at := func(config *rest.Config, url string) *kubernetes.Clientset {
		config.Host, config.APIPath = url, ""
		return kubernetes.NewForConfigOrDie(config)
	}
	for from, kubeconfig := range kubeconfigs {
		for to, url := range planes {
			config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
			require.NoError(t, err)
			_, err = at(config, url).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
			if refused := apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err); refused == (from == to) ||
				!refused && err != nil {
				t.Errorf("the administrator of %s reads a Secret of %s: %v", from, to, err)
			}
			config = rest.AnonymousClientConfig(config)
			config.BearerToken = robots[from]
			if _, err = at(config, url).Discovery().ServerVersion(); apierrors.IsUnauthorized(err) == (from == to) {
				t.Errorf("a service account of %s asks %s: %v", from, to, err)
			}
		}
	}
	// The administrator of a plane cannot create, list, save or delete planes.
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(one.Kubeconfig))
	require.NoError(t, err)
	w.client, err = rest.HTTPClientFor(config)
	require.NoError(t, err)
	w.do("POST", "/planes", "", 401)
	w.do("GET", "/planes", "", 401)
	w.do("PUT", "/planes/bases/c", `{"plane":"`+one.ID+`"}`, 401)
	w.do("DELETE", one.Path, "", 401)
}

// The requests that manage planes pass the server's pipeline: impersonation and roles decide about
// them, tokens identify their users, and audit records them.
func TestPlanesBehindThePipeline(t *testing.T) {
	dir := t.TempDir()
	policy, tokens, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "tokens.csv"),
		filepath.Join(dir, "audit.log")
	for file, text := range map[string]string{
		policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, nonResourceURLs: [\"/planes*\"]}, {level: None}]\n",
		tokens: "t-maker,maker,1,makers\nt-root,root,2,system:masters\nt-other,other,3\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	s := startServer(t, "--in-memory", "--node=none", "--planes=5", "--token-auth-file="+tokens,
		"--audit-policy-file="+policy, "--audit-log-path="+log)
	kubectl := kubectlOf(t, s)
	kubectl("create", "clusterrole", "makers", "--verb=get,post,put,delete", "--non-resource-url=/planes,/planes/*")
	kubectl("create", "clusterrolebinding", "makers", "--clusterrole=makers", "--group=makers")
	w := newThrowaway(t, s)
	admin, token := w.client.Transport, func(bearer string) http.RoundTripper {
		return transport.NewBearerAuthRoundTripper(bearer,
			&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}})
	}
	as := func(name string, groups ...string) http.RoundTripper {
		return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: name, Groups: groups},
			admin)
	}
	for _, test := range []struct {
		who     string
		through http.RoundTripper
		may     bool
	}{
		{"the administrator", admin, true}, {"a member of system:masters with a token", token("t-root"), true},
		{"a user with a role", token("t-maker"), true},
		{"a user without a role", token("t-other"), false}, {"--as guest", as("guest"), false},
		{"--as a user with the role", as("someone", "makers"), true},
	} {
		w.client = &http.Client{Transport: admin}
		one := w.do("POST", "/planes", "", 201)
		w.client = &http.Client{Transport: test.through}
		code := func(allowed int) int {
			if !test.may {
				return 403
			}
			return allowed
		}
		t.Log(test.who)
		w.do("GET", "/planes", "", code(200))
		made := w.do("POST", "/planes", "", code(201))
		w.do("PUT", "/planes/bases/b", `{"plane":"`+one.ID+`"}`, code(200))
		w.do("DELETE", "/planes/bases/b", "", code(204))
		w.do("DELETE", one.Path, "", code(204))
		w.client = &http.Client{Transport: admin}
		for _, left := range []string{one.Path, made.Path} {
			if test.may == (left == made.Path) && left != "" {
				w.do("DELETE", left, "", 204)
			}
		}
	}
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	for _, want := range []string{
		`"requestURI":"/planes","verb":"post","user":{"username":"maker"`, `"impersonatedUser":{"username":"guest"`,
		`"requestURI":"/planes/bases/b","verb":"put","user":{"username":"root"`,
		`"authorization.k8s.io/decision":"forbid"`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, data)
		}
	}
}

// Every path of the port passes the pipeline: a user without roles may get only those that
// Kubernetes gives to every user.
func TestListedPathsNeedRights(t *testing.T) {
	s := startServer(t, "--in-memory", "--node=none", "--planes=1")
	w := newThrowaway(t, s)
	get := func(path string, through http.RoundTripper) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		require.NoError(t, err)
		resp, err := through.RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, data
	}
	_, data := get("/", w.client.Transport)
	var index struct{ Paths []string }
	if err := json.Unmarshal(data, &index); err != nil || !slices.Contains(index.Paths, "/planes") {
		t.Fatalf("%v: %s", err, data)
	}
	guest := transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: "guest"},
		w.client.Transport)
	public := regexp.MustCompile(`^/(healthz|livez|readyz|version/?)$|^/(api|apis|openapi)(/|$)`)
	for _, path := range append(index.Paths, "/planes/", "/planes/bases/a", "/backup", "/debug/pprof/", "/nothing") {
		if code, _ := get(path, guest); code != http.StatusForbidden && !public.MatchString(path) {
			t.Errorf("GET %s as a user without roles: %d", path, code)
		}
	}
}

func TestPlanesAreOffByDefault(t *testing.T) {
	s := startServer(t, "--in-memory", "--node=none")
	newThrowaway(t, s).do("POST", "/planes", "", 404)
	for _, flag := range []string{"--planes=-1", "--planes-idle=-1s"} {
		if got := command(t, nil, built(t, binary), "serve", "--in-memory", "--secure-port=0", flag); got.code != 1 ||
			!strings.Contains(got.stderr, "must not be negative") {
			t.Errorf("%s: exit %d, %s", flag, got.code, got.stderr)
		}
	}
}

// The server exits cleanly when the other end of its standard input is closed, even after a
// SIGKILL.
func TestExitsWithStdin(t *testing.T) {
	cmd := exec.Command(built(t, binary), "serve", "--in-memory", "--node=none", "--secure-port=0", "--planes=1",
		"--exit-with-stdin")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("the server exited while stdin was open: %v\n%s", err, &out)
	case <-time.After(300 * time.Millisecond):
	}
	stdin.Close()
	select {
	case err := <-ended:
		assert.NoErrorf(t, err, "\n%s", &out)
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Error("the server keeps running after stdin is closed")
	}
}
