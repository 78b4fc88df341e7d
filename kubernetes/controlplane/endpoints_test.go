package controlplane

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"kelson.dev/internal/require"
)

func addressesOf(t *testing.T, plane *ControlPlane) (endpoints, slice []string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(plane.RESTConfig())
	if e, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err == nil { //nolint:staticcheck
		for _, s := range e.Subsets {
			for _, a := range s.Addresses {
				endpoints = append(endpoints, a.IP)
			}
		}
	}
	if s, err := client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes",
		metav1.GetOptions{}); err == nil {
		for _, e := range s.Endpoints {
			slice = append(slice, e.Addresses...)
		}
	}
	return endpoints, slice
}

// The Service "kubernetes" has the address of the server, even after a client changed it.
func TestEndpointsOfKubernetes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := Start(context.Background(),
			Config{Endpoints: Endpoints{Address: netip.MustParseAddrPort("192.0.2.7:6443")}})
		require.NoError(t, err)
		defer plane.Stop()
		time.Sleep(time.Second)
		want := []string{"192.0.2.7"}
		if endpoints, slice := addressesOf(t, plane); !slices.Equal(endpoints, want) || !slices.Equal(slice, want) {
			t.Fatalf("endpoints %v, slice %v", endpoints, slice)
		}
		client := kubernetes.NewForConfigOrDie(plane.RESTConfig())
		service, err := client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes",
			metav1.GetOptions{})
		if err != nil || service.Labels[discoveryv1.LabelServiceName] != "kubernetes" ||
			*service.Ports[0].Port != 6443 {
			t.Errorf("%v %+v", err, service)
		}
		wrong := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}}                                      //nolint:staticcheck
		if _, err := client.CoreV1().Endpoints("default").Update(t.Context(), wrong, metav1.UpdateOptions{}); err != nil { //nolint:staticcheck
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if endpoints, slice := addressesOf(t, plane); !slices.Equal(endpoints, want) || !slices.Equal(slice, want) {
			t.Errorf("restored: endpoints %v, slice %v", endpoints, slice)
		}
	})
}

// A server whose lease is not renewed is not among the live servers.
func TestServerLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := Start(context.Background(), Config{})
		require.NoError(t, err)
		defer plane.Stop()
		leases := &serverLeases{client: kubernetes.NewForConfigOrDie(plane.RESTConfig()).CoordinationV1().
			Leases("kube-system")}
		live := func(want ...string) {
			t.Helper()
			got, err := leases.ListLeases()
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("live %v, want %v: %v", got, want, err)
			}
		}
		renew := func(ips ...string) {
			for _, ip := range ips {
				require.NoError(t, leases.UpdateLease(ip))
			}
		}
		renew("192.0.2.1", "2001:db8::1")
		live("192.0.2.1", "2001:db8::1")
		time.Sleep(10 * time.Second)
		renew("192.0.2.1")
		time.Sleep(10 * time.Second)
		live("192.0.2.1")
		leases.client = misledLeases{leases.client}
		if err := leases.RemoveLease("192.0.2.1"); err == nil {
			t.Error("the 404 of another object counts as the removal")
		}
		leases.client = leases.client.(misledLeases).LeaseInterface
		for range 2 {
			require.NoError(t, leases.RemoveLease("192.0.2.1"))
		}
		live()
	})
}

// misledLeases answers deletions with 404 for another object, as admission can.
type misledLeases struct{ coordination.LeaseInterface }

func (misledLeases) Delete(context.Context, string, metav1.DeleteOptions) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "")
}

// A server whose clock is wrong, or is set, is among the live servers as long as it renews its
// lease.
func TestServerLeasesWhenTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := Start(context.Background(), Config{})
		require.NoError(t, err)
		defer plane.Stop()
		client := kubernetes.NewForConfigOrDie(plane.RESTConfig()).CoordinationV1().Leases("kube-system")
		first, second := &serverLeases{client: client}, &serverLeases{client: client}
		const ip = "192.0.2.2"
		renew := func(clock time.Duration) {
			require.NoError(t, second.UpdateLease(ip))
			lease, err := client.Get(t.Context(), leaseOf(ip), metav1.GetOptions{})
			require.NoError(t, err)
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(clock)}
			_, err = client.Update(t.Context(), lease, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		for _, clock := range []time.Duration{0, -time.Hour, time.Hour, -10 * 365 * 24 * time.Hour, 24 * time.Hour} {
			renew(clock)
			if live, err := first.ListLeases(); err != nil || !slices.Equal(live, []string{ip}) {
				t.Errorf("clock of the other server %s ahead: live %v: %v", clock, live, err)
			}
			time.Sleep(endpointsEvery)
		}
		time.Sleep(endpointsEvery)
		if live, err := first.ListLeases(); err != nil || len(live) != 0 {
			t.Errorf("ended with a renewal in the future: live %v: %v", live, err)
		}
	})
}
