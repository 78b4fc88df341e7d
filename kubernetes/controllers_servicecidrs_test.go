package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

func service(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, change := range change {
		change(&s.Spec)
	}
	return s
}

func at(ip string) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.ClusterIP = ip }
}

func cidr(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func address(name string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// holder returns the parent of an IPAddress as NAMESPACE/NAME, or "" if there is no IPAddress.
func holder(t *testing.T, env *testenv.Env, name string) string {
	t.Helper()
	ip := address(name)
	err := env.Client().Get(t.Context(), client.KeyOf(ip), ip)
	if apierrors.IsNotFound(err) {
		return ""
	}
	require.NoError(t, err)
	return ip.Spec.ParentRef.Namespace + "/" + ip.Spec.ParentRef.Name
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	assert.Equalf(t, got, want, "%s", what)
}

func remove(t *testing.T, env *testenv.Env, obj client.Object) {
	t.Helper()
	require.NoError(t, env.Client().Delete(t.Context(), obj))
}

// Each cluster IP has an IPAddress as soon as the write of its Service is acknowledged, and until
// the Service is deleted or releases the address. Services can't get an address for which a client
// created an IPAddress.
func TestAddressesOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		kube := service("kubernetes")
		env.Get(t, kube)
		want(t, "the API's address", holder(t, env, kube.Spec.ClusterIP), "default/kubernetes")

		a := service("a")
		env.Create(t, a)
		want(t, "a", holder(t, env, a.Spec.ClusterIP), "default/a")
		remove(t, env, service("a"))
		want(t, "a, deleted", holder(t, env, a.Spec.ClusterIP), "")

		external := func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}
		b := service("b", external)
		env.Create(t, b)
		b.Spec.Type, b.Spec.ExternalName, b.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "", "10.0.0.99"
		require.NoError(t, env.Client().Update(t.Context(), b))
		want(t, "b", holder(t, env, "10.0.0.99"), "default/b")
		external(&b.Spec)
		b.Spec.ClusterIP, b.Spec.ClusterIPs = "", nil
		require.NoError(t, env.Client().Update(t.Context(), b))
		want(t, "b, external", holder(t, env, "10.0.0.99"), "")

		gateway := address("10.0.0.98")
		gateway.Spec.ParentRef = &networkingv1.ParentReference{Group: "example.com", Resource: "gateways",
			Namespace: "x", Name: "y"}
		env.Create(t, gateway)
		err := env.Client().Create(t.Context(), service("c", at("10.0.0.98")))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
			"failed to allocate IP 10.0.0.98: provided IP is already allocated") {
			t.Errorf("an address with a client's IPAddress: %v", err)
		}
		for _, edge := range []string{"10.0.0.0", "10.0.0.255"} {
			err := env.Client().Create(t.Context(), service("c", at(edge)))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
				"is not in the valid range. The range of valid IPs is 10.0.0.0/24") {
				t.Errorf("%s: %v", edge, err)
			}
		}
	})
}

// A ServiceCIDR adds addresses as soon as it is ready, and stays as long as a Service needs it.
func TestServiceCIDRs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		err := env.Client().Create(t.Context(), service("a", at("192.168.7.7")))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(),
			"the provided network does not match the current range") {
			t.Errorf("without the ServiceCIDR: %v", err)
		}
		more := cidr("more", "192.168.7.0/28")
		env.Create(t, more)
		env.Settle(t)
		env.Get(t, more)
		if !apimeta.IsStatusConditionTrue(more.Status.Conditions, "Ready") || len(more.Finalizers) != 1 {
			t.Errorf("conditions %v, finalizers %v", more.Status.Conditions, more.Finalizers)
		}
		env.Create(t, service("a", at("192.168.7.7")))
		// The default range has 254 addresses, of which the API has one; the other range has 14.
		for i := range 253 + 13 {
			env.Create(t, service(fmt.Sprint("n", i)))
		}
		if err := env.Client().Create(t.Context(), service("full")); !apierrors.IsInternalError(err) ||
			!strings.Contains(err.Error(), "range is full") {
			t.Errorf("all addresses taken: %v", err)
		}
		for i := range 253 + 13 {
			remove(t, env, service(fmt.Sprint("n", i)))
		}

		remove(t, env, cidr("more"))
		env.Settle(t)
		env.Get(t, more)
		if c := apimeta.FindStatusCondition(more.Status.Conditions, "Ready"); c == nil ||
			c.Status != metav1.ConditionFalse || c.Reason != "Terminating" {
			t.Errorf("deleted but needed: %v", more.Status.Conditions)
		}
		if err := env.Client().Create(t.Context(), service("b", at("192.168.7.8"))); !apierrors.IsInvalid(err) {
			t.Errorf("an address of a ServiceCIDR that is being deleted: %v", err)
		}
		remove(t, env, service("a"))
		time.Sleep(11 * time.Second)
		env.Settle(t)
		if err := env.Client().Get(t.Context(), client.KeyOf(more), more); !apierrors.IsNotFound(err) {
			t.Errorf("deleted and not needed: %v", err)
		}
	})
}

// IPAddresses that users delete or invent are repaired.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		env.Create(t, service("a", at("10.0.0.50")))
		remove(t, env, address("10.0.0.50"))
		env.Settle(t)
		want(t, "deleted by a user", holder(t, env, "10.0.0.50"), "default/a")

		stray := address("10.0.0.51")
		stray.Labels = map[string]string{"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
			"ipaddress.kubernetes.io/ip-family": "IPv4"}
		stray.Spec.ParentRef = &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "gone"}
		env.Create(t, stray)
		time.Sleep(30 * time.Second)
		env.Settle(t)
		want(t, "of no Service, new", holder(t, env, "10.0.0.51"), "default/gone")
		time.Sleep(31 * time.Second)
		env.Settle(t)
		want(t, "of no Service", holder(t, env, "10.0.0.51"), "")
	})
}
