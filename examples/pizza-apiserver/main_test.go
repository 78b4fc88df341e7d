package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/pki"
	"kelson.dev/lab/testenv"

	"kelson.dev/examples/pizza-apiserver/restaurant"
)

// serve runs the server with arguments until the test ends and returns its URL.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, to := io.Pipe()
	ended := make(chan error, 1)
	defaults := []string{"--secure-port=0", "--bind-address=127.0.0.1"}
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--authority-secret=") }) {
		defaults = append(defaults, "--cert-dir="+filepath.Join(t.TempDir(), "certs"))
	}
	args = append(defaults, args...)
	go func() {
		err := apiserver.Serve(ctx, args, to, restaurant.API())
		to.CloseWithError(fmt.Errorf("ended: %w", err))
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if url := regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(lines.Text()); url != nil {
			go io.Copy(io.Discard, log)
			return url[1]
		}
	}
	t.Fatalf("no URL in the log: %v", lines.Err())
	return ""
}

// kubectl runs the real kubectl in this process.
func kubectl(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(fmt.Sprintf("exit %d: %s", code, message)) })
	defer cmdutil.DefaultBehaviorOnFatal()
	func() {
		defer func() {
			if r := recover(); r != nil {
				fmt.Fprintln(&out, r)
			}
		}()
		all := append([]string{"kubectl", "--kubeconfig", kubeconfig, "--cache-dir", t.TempDir()}, args...)
		c := cmd.NewKubectlCommand(cmd.KubectlOptions{
			Arguments: all, ConfigFlags: genericclioptions.NewConfigFlags(true),
			IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out},
		})
		c.SetArgs(all[1:])
		c.SetOut(&out)
		c.SetErr(&out)
		if err := c.Execute(); err != nil {
			fmt.Fprintln(&out, err)
		}
	}()
	return out.String()
}

// The standalone server starts with an empty folder, serves kubectl get pizzas, and keeps its state
// over a restart.
func TestStandalone(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	kubeconfig, state := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "state")
	t.Run("first", func(t *testing.T) {
		serve(t, "--standalone", "--write-kubeconfig="+kubeconfig, "--data-dir="+state)
		for _, step := range []struct{ args, want string }{
			{"apply --server-side -f config/toppings.yaml",
				"topping.restaurant.programming-kubernetes.info/salami serverside-applied"},
			{"apply -f config/pizzas.yaml", "pizza.restaurant.programming-kubernetes.info/margherita created"},
			{"apply -f config/pizzas.yaml", "pizza.restaurant.programming-kubernetes.info/margherita unchanged"},
			{"get pizzas", "NAME         TOPPINGS   COST   AGE\nmargherita   2          0"},
			{"get pizzas.v1alpha1.restaurant.programming-kubernetes.info margherita -o jsonpath={.spec.toppings}",
				`["tomato","mozzarella"]`},
			{"explain pizza.spec.toppings --api-version=restaurant.programming-kubernetes.info/v1beta1",
				"quantity\t<integer>"},
			{"delete topping tomato", "pizza default/margherita has this topping"},
			{"create -f config/hawaii.yaml", `spec.toppings[0].name: Not found: "pineapple"`},
		} {
			if got := kubectl(t, kubeconfig, strings.Fields(step.args)...); !strings.Contains(got, step.want) {
				t.Errorf("kubectl %s:\n%s\nwant %s", step.args, got, step.want)
			}
		}
	})
	serve(t, "--standalone", "--write-kubeconfig="+kubeconfig, "--data-dir="+state)
	if got := kubectl(t, kubeconfig, "get", "pizzas", "-o",
		"name"); got != "pizza.restaurant.programming-kubernetes.info/margherita\n" {
		t.Errorf("after a restart: %s", got)
	}
}

// cluster is a control plane with a front proxy's authority.
type cluster struct {
	env   *testenv.Env
	kube  kubernetes.Interface
	proxy *pki.Authority
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	env := testenv.New(t)
	kube, err := kubernetes.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := pki.NewAuthority("front-proxy")
	if err != nil {
		t.Fatal(err)
	}
	trust := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
		Name: "extension-apiserver-authentication"}, Data: map[string]string{
		"requestheader-client-ca-file": string(proxy.PEM), "requestheader-allowed-names": `["aggregator"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}}
	if _, err := kube.CoreV1().ConfigMaps("kube-system").Create(t.Context(), trust,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return &cluster{env, kube, proxy}
}

// token returns a token of a service account that may read pizzas, but not toppings.
func (c *cluster) token(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	if _, err := c.kube.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "guest"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"restaurant.programming-kubernetes.info"}, Resources: []string{"pizzas"},
				Verbs: []string{"list", "create"}},
		}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "guest"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "guest"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "guest"},
			{Kind: "User", Name: "alice", APIGroup: "rbac.authorization.k8s.io"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "guest"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	issued, err := c.kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, "guest",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return issued.Status.Token
}

// The cluster authenticates and authorizes: tokens, the front proxy's headers, permissions,
// namespaces.
func TestDelegated(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	c := newCluster(t)
	url := serve(t, "--kubeconfig="+c.env.Kubeconfig(t))
	token := c.token(t)
	client := func(pair *tls.Certificate) *http.Client {
		// the authority of the server is in its own directory
		config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec
		if pair != nil {
			config.Certificates = []tls.Certificate{*pair}
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: time.Minute}
	}
	identity := func(authority *pki.Authority, name string) *tls.Certificate {
		pair, err := authority.Client(name)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
		if err != nil {
			t.Fatal(err)
		}
		return &loaded
	}
	other, err := pki.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	const base = "/apis/restaurant.programming-kubernetes.info/v1beta1/"
	alice := map[string]string{"X-Remote-User": "alice"}
	bearer := map[string]string{"Authorization": "Bearer " + token}
	pizza := `{"apiVersion":"restaurant.programming-kubernetes.info/v1beta1","kind":"Pizza","metadata":{"name":"a"}}`
	for _, test := range []struct {
		name, method, path string
		pair               *tls.Certificate
		header             map[string]string
		code               int
		want               string
	}{
		{"health", "GET", "/readyz", nil, nil, 200, "ok"},
		{"anonymous", "GET", base + "pizzas", nil, nil, 403,
			`User \"system:anonymous\" cannot list resource \"pizzas\"`},
		{"token", "GET", base + "pizzas", nil, bearer, 200, "PizzaList"},
		{"token without permission", "DELETE", base + "namespaces/default/pizzas/a", nil, bearer, 403,
			"system:serviceaccount:default:guest"},
		{"wrong token", "GET", base + "pizzas", nil, map[string]string{"Authorization": "Bearer wrong"}, 401,
			"Unauthorized"},
		{"front proxy", "GET", base + "pizzas", identity(c.proxy, "aggregator"), alice, 200, "PizzaList"},
		{"headers with another name", "GET", base + "pizzas", identity(c.proxy, "mallory"), alice, 401, "Unauthorized"},
		// Clients do not send certificates of authorities that the server does not announce.
		{"headers of another authority", "GET", base + "pizzas", identity(other, "aggregator"), alice, 403,
			"system:anonymous"},
		{"headers alone", "GET", base + "pizzas", nil, alice, 403, "system:anonymous"},
		{"missing namespace", "POST", base + "namespaces/nowhere/pizzas", nil, bearer, 404,
			`namespaces \"nowhere\" not found`},
		{"namespace", "POST", base + "namespaces/default/pizzas", nil, bearer, 422, "spec.toppings[0].name: Not found"},
	} {
		var body io.Reader
		if test.method == "POST" {
			body = strings.NewReader(pizza)
		}
		req, err := http.NewRequestWithContext(t.Context(), test.method, url+test.path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for name, value := range test.header {
			req.Header.Set(name, value)
		}
		resp, err := client(test.pair).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != test.code || !strings.Contains(string(data), test.want) {
			t.Errorf("%s: %s, %v: %s; want %d, %s", test.name, resp.Status, err, data, test.code, test.want)
		}
	}
}

// Flags that contradict each other, or would be ignored, are errors.
func TestFlags(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for args, want := range map[string]string{
		"":                                    "no cluster: set --kubeconfig, or --standalone",
		"--standalone --kubeconfig=x":         "exclude each other",
		"--kubeconfig=x --write-kubeconfig=y": "--write-kubeconfig needs --standalone",
		"--standalone --tls-cert-file=x":      "belong together",
		"--standalone --data-dir=x --etcd-servers=http://y": "exclude each other",
		"--standalone --encryption-provider-config=x":       "needs --data-dir or --etcd-servers",
		"--standalone --etcd-cafile=x":                      "need --etcd-servers",
		"--standalone extra":                                `unexpected argument "extra"`,
		"--nonsense":                                        "unknown flag",
	} {
		if err := apiserver.Serve(t.Context(), strings.Fields(args), io.Discard, restaurant.API()); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
