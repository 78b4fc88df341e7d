package kubernetes_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/loadbalancer"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

func balanced(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

// ingressOf returns the addresses in the status of a Service.
func ingressOf(t *testing.T, env *testenv.Env, name string) string {
	t.Helper()
	env.Settle(t)
	s := balanced(name, nil)
	env.Get(t, s)
	var all []string
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		all = append(all, ingress.IP)
	}
	return strings.Join(all, ",")
}

func removeBalanced(t *testing.T, env *testenv.Env, name string) {
	t.Helper()
	require.NoError(t, env.Client().Delete(t.Context(), balanced(name, nil)))
	env.Settle(t)
}

// Services get different addresses of the pool, keep them, and free them when they are deleted or
// change their type. If the pool is exhausted, a Service waits for an address.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.LoadBalancers("192.0.2.0/29")) // .1 to .6
		for _, name := range []string{"a", "b", "c"} {
			env.Create(t, balanced(name, nil))
		}
		env.Create(t, balanced("asks", func(s *corev1.ServiceSpec) { s.LoadBalancerIP = "192.0.2.6" }))
		env.Create(t, balanced("other", func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("example.com/lb") }))
		env.Create(t, balanced("inside", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP }))
		for name, want := range map[string]string{"asks": "192.0.2.6", "other": "", "inside": ""} {
			assert.Equalf(t, ingressOf(t, env, name), want, "%s", name)
		}
		got := []string{ingressOf(t, env, "a"), ingressOf(t, env, "b"), ingressOf(t, env, "c")}
		if slices.Sort(got); !slices.Equal(got, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}) {
			t.Errorf("addresses %v", got)
		}
		for _, name := range []string{"d", "e", "f"} {
			env.Create(t, balanced(name, nil))
			env.Settle(t)
		}
		require.Equalf(t, ingressOf(t, env, "f"), "", "from an empty pool")
		freed := ingressOf(t, env, "a")
		removeBalanced(t, env, "a")
		if got := ingressOf(t, env, "f"); got != freed {
			t.Errorf("after %s was freed: %q", freed, got)
		}
		b := balanced("b", nil)
		env.Get(t, b)
		b.Spec.Type = corev1.ServiceTypeClusterIP
		require.NoError(t, env.Client().Update(t.Context(), b))
		assert.Equalf(t, ingressOf(t, env, "b"), "", "without the type")
		env.Get(t, b)
		assert.Lenf(t, b.Finalizers, 0, "finalizers")
		events, err := client.List[corev1.Event](t.Context(), env.Client())
		require.NoError(t, err)
		found := map[string]bool{}
		for _, e := range events {
			found[e.InvolvedObject.Name+" "+e.Reason] = true
		}
		for _, want := range []string{"a EnsuringLoadBalancer", "a EnsuredLoadBalancer", "a DeletedLoadBalancer",
			"f SyncLoadBalancerFailed"} {
			if !found[want] {
				t.Errorf("no Event %q in %v", want, found)
			}
		}
	})
}

// Without a pool, an external manager assigns the addresses.
func TestWithoutPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		env.Create(t, balanced("a", nil))
		assert.Equalf(t, ingressOf(t, env, "a"), "", "address")
	})
}

func TestParsePool(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.0/24": "", "192.0.2.0/24,2001:db8::/64": "", "192.0.2.7/32": "",
		"192.0.2.1/24": "must be 192.0.2.0/24", "x": "must be a CIDR", "": "must be a CIDR",
		"192.0.2.0/25,192.0.2.128/25": "one CIDR for each IP family",
	} {
		if _, err := loadbalancer.ParsePool(text); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
