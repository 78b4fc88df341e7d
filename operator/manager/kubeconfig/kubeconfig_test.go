package kubeconfig_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/manager/kubeconfig"
	"kelson.dev/operator/reconcile"
)

var must = require.NoError

// An operator that works in every cluster with a kubeconfig in a Secret of the namespace fleet.
func Example() {
	fleet := operator.Provider(func(operator.Deps) manager.Provider {
		return kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet"})
	})
	operator.Main(operator.For(newVisitor), fleet)
}

func newVisitor(operator.Client) visitor { return visitor{} }

// visitor records the requests and clusters that it reconciles.
type visitor struct {
	mu   *sync.Mutex
	seen map[string]bool
}

func (v visitor) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen[reconcile.Cluster(ctx)+":"+cm.Name] = true
	return operator.Result{}, nil
}

func (v visitor) visits() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := slices.Sorted(maps.Keys(v.seen))
	clear(v.seen)
	return seen
}

// internet finds the servers by the host in their kubeconfig.
type internet map[string]*apitest.Server

func (i internet) RoundTrip(r *http.Request) (*http.Response, error) {
	if s := i[r.URL.Host]; s != nil {
		return s.RoundTrip(r)
	}
	return nil, fmt.Errorf("no route to host %s", r.URL.Host)
}

const config = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
 "clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":%s}]}`

func secret(name, host, user string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name,
			Labels: map[string]string{kubeconfig.DefaultLabel: "true"}},
		Data: map[string][]byte{kubeconfig.DefaultKey: fmt.Appendf(nil, config, host, user)},
	}
}

// Clusters are engaged and disengaged with their Secrets.
func TestFromSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := internet{}
		for _, host := range []string{"own", "one", "two"} {
			hosts[host] = apitest.New()
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + host}}
			must(t, newClient(t, hosts[host]).Create(t.Context(), cm))
		}
		own := newClient(t, hosts["own"])
		east := secret("east", "http://one", `{"token":"t"}`)
		must(t, own.Create(t.Context(), east)) // before the operator runs
		v := visitor{new(sync.Mutex), map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- operator.Run(ctx, operator.Config{REST: hosts["own"].REST(),
				Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, operator.Name("test"),
				operator.For(func(operator.Client) visitor { return v }),
				operator.Provider(func(operator.Deps) manager.Provider {
					return kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet",
						Change: func(_ string, cfg *rest.Config) error {
							cfg.Transport = hosts
							return nil
						}})
				}))
		}()
		expect := func(what string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			assert.Slicef(t, v.visits(), want, "%s", what)
		}
		expect("at the start", ":on-own", "east:on-one")

		other := secret("other", "http://two", `{}`)
		other.Labels = nil
		must(t, own.Create(t.Context(), other))
		elsewhere := secret("elsewhere", "http://two", `{}`)
		elsewhere.Namespace = "default"
		must(t, own.Create(t.Context(), elsewhere))
		expect("Secrets without label, or elsewhere")

		east.Annotations = map[string]string{"changed": "yes"}
		must(t, own.Update(t.Context(), east))
		expect("a change outside of the kubeconfig")

		broken := secret("west", "http://two", `{}`)
		broken.Data[kubeconfig.DefaultKey] = []byte("{")
		must(t, own.Create(t.Context(), broken))
		expect("an invalid kubeconfig")
		broken.Data = secret("west", "http://two", `{}`).Data
		must(t, own.Update(t.Context(), broken))
		expect("and is corrected", "west:on-two")

		east.Data = nil
		must(t, own.Update(t.Context(), east))
		must(t, newClient(t, hosts["one"]).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}))
		expect("no kubeconfig any longer: the cluster stays", "east:new")
		east.Data = map[string][]byte{kubeconfig.DefaultKey: []byte(
			strings.Replace(fmt.Sprintf(config, "https://two", `{"token":"t"}`), `"server":`,
				`"certificate-authority-data":"Z2FyYmFnZQ==","server":`, 1))}
		must(t, own.Update(t.Context(), east))
		synctest.Wait()
		must(t, newClient(t, hosts["one"]).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "newer"}}))
		expect("a certificate authority that is not usable: the cluster stays", "east:newer")
		east.Data = secret("east", "http://two", `{}`).Data
		must(t, own.Update(t.Context(), east))
		expect("another server", "east:on-two")

		broken.Labels = nil
		must(t, own.Update(t.Context(), broken))
		must(t, own.Delete(t.Context(), east))
		time.Sleep(time.Second)
		must(t, newClient(t, hosts["two"]).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}}))
		expect("all are gone")
		cancel()
		must(t, <-ended)
	})
}

// A kubeconfig from a Secret does not make the operator run programs or read its own files.
func TestUntrusted(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("t"), 0o600))
	for what, user := range map[string]string{
		"a program": `{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh","interactiveMode":"Never"}}`,
		"a token":   `{"tokenFile":"` + token + `"}`,
		"a key":     `{"client-certificate":"` + token + `","client-key":"` + token + `"}`,
	} {
		for _, trusted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				must(t, newClient(t, s).Create(t.Context(), secret("east", "https://nowhere", user)))
				var asked bool
				var log strings.Builder
				m, err := manager.New(manager.Config{REST: s.REST(), Name: "test",
					Log: slog.New(slog.NewTextHandler(&log, nil))})
				must(t, err)
				m.AddProvider(kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet", Trusted: trusted,
					Change: func(string, *rest.Config) error {
						asked = true
						return fmt.Errorf("enough")
					}}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				must(t, m.Run(ctx))
				if asked != trusted || !strings.Contains(log.String(), "secret=east") {
					t.Errorf("%s, trusted %v: used %v\n%s", what, trusted, asked, &log)
				}
			})
		}
	}
}

// A missing namespace is an error; without permission to read Secrets, the operator is not ready.
func TestUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		s.SetFaults(apitest.Faults{Fail: func(_, path string) (int, metav1.StatusReason) {
			if strings.Contains(path, "/secrets") {
				return http.StatusForbidden, metav1.StatusReasonForbidden
			}
			return 0, ""
		}})
		for namespace, want := range map[string]string{"": "set Config.Namespace", "fleet": "on secrets is missing"} {
			m, err := manager.New(manager.Config{REST: s.REST(), Name: "test", Log: slog.New(slog.DiscardHandler)})
			must(t, err)
			m.AddProvider(kubeconfig.FromSecrets(kubeconfig.Config{Namespace: namespace}))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			time.Sleep(time.Second)
			if namespace == "" {
				assert.ErrorContains(t, <-ended, want)
			} else {
				w := httptest.NewRecorder()
				r, err := http.NewRequest(http.MethodGet, "/readyz", nil)
				must(t, err)
				m.HealthHandler().ServeHTTP(w, r)
				if w.Code != 500 || !strings.Contains(w.Body.String(), want) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				cancel()
				must(t, <-ended)
			}
			cancel()
		}
	})
}

func newClient(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	return c
}
