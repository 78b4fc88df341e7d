package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// Endpoints configures the endpoints of the Service "kubernetes", which point at the servers.
type Endpoints struct {
	// Address is where clients reach this server; the zero value publishes none. Endpoints must not
	// contain loopback addresses.
	Address netip.AddrPort
	// Servers is how many servers write to the same endpoints without leases; 0 means that the
	// servers of a shared store find each other through leases.
	Servers int
}

const (
	// endpointsEvery is how often a server renews its lease and checks the endpoints, as in
	// kube-apiserver.
	endpointsEvery = 10 * time.Second
	// endpointsLife is how long a server stays in the endpoints after the last renewal of its lease
	// that another server saw.
	endpointsLife = 15 * time.Second
	// endpointsLabel selects the leases of servers in kube-system; its value is the address.
	endpointsLabel = "kelson.dev/server-address"
)

// endpointsTimeout bounds each request for the endpoints, so that a store that does not answer
// cannot keep a server from ending.
const endpointsTimeout = 5 * time.Second

// withoutRetry is a transport that prevents clients from repeating refused requests. When a server
// refuses a request during its shutdown, client-go would repeat the request ten times, once a
// second.
type withoutRetry struct{ http.RoundTripper }

func (t withoutRetry) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Header.Del("Retry-After")
	}
	return resp, err
}

// maintainEndpoints keeps the address of this server in the endpoints of the Service "kubernetes"
// until ctx ends, and then removes it. Kubernetes' own reconcilers do the work.
func (p *ControlPlane) maintainEndpoints(ctx context.Context, cfg Endpoints) error {
	config := p.serverConfig()
	config.Transport, config.Timeout = withoutRetry{config.Transport}, endpointsTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create the client of endpoints: %w", err)
	}
	adapter := reconcilers.NewEndpointsAdapter(client.CoreV1(), client.DiscoveryV1())
	reconciler := reconcilers.NewMasterCountEndpointReconciler(max(cfg.Servers, 1), adapter)
	if p.store.Follows() && cfg.Servers == 0 {
		reconciler = reconcilers.NewLeaseEndpointReconciler(adapter,
			&serverLeases{client: client.CoordinationV1().Leases(metav1.NamespaceSystem)})
	}
	ip := net.IP(cfg.Address.Addr().AsSlice())
	if err := reconciler.ValidateIP(ip); err != nil {
		return fmt.Errorf("endpoints of the Service kubernetes: %w", err)
	}
	ports := []corev1.EndpointPort{{Name: "https", Port: int32(cfg.Address.Port()), Protocol: corev1.ProtocolTCP}}
	for ctx.Err() == nil {
		revision := p.store.Snapshot().Revision()
		if err := reconciler.ReconcileEndpoints("kubernetes", ip, ports, true); err != nil && ctx.Err() == nil {
			p.log.Warn("write the endpoints of the Service kubernetes", "err", err)
		} else if !p.store.Follows() {
			// No other server writes the endpoints, so they are correct until a client changes
			// them.
			_ = p.store.Await(ctx, max(revision, p.store.Changed("endpoints", endpointSlices)), "endpoints",
				endpointSlices)
		}
		select {
		case <-ctx.Done():
		case <-time.After(endpointsEvery):
		}
	}
	reconciler.StopReconciling()
	// Servers that stop at the same moment update the same object.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return reconciler.RemoveEndpoints("kubernetes", ip, ports)
	})
	if err != nil {
		p.log.Warn("remove this server from the endpoints of the Service kubernetes", "err", err)
	}
	return nil
}

const endpointSlices = "endpointslices.discovery.k8s.io"

// serverLeases keeps the addresses of live servers in Leases of kube-system. It implements
// reconcilers.Leases.
//
// A lease is live if it changed within endpointsLife on this server's monotonic clock. Its
// renewTime has no effect, because clocks of servers differ and can be set.
type serverLeases struct {
	client coordination.LeaseInterface
	seen   map[string]renewal // by name; guarded by the reconciler
}

// renewal is the last change of a lease that this server saw.
type renewal struct {
	revision string
	at       time.Time
}

func leaseOf(ip string) string { return "kelson-server-" + strings.ReplaceAll(ip, ":", "-") }

func (l *serverLeases) ListLeases() ([]string, error) {
	list, err := l.client.List(context.Background(), metav1.ListOptions{LabelSelector: endpointsLabel})
	if err != nil {
		return nil, err
	}
	var live []string
	seen := make(map[string]renewal, len(list.Items))
	for i := range list.Items {
		lease := &list.Items[i]
		if lease.Spec.HolderIdentity == nil {
			continue
		}
		last, known := l.seen[lease.Name]
		if !known || last.revision != lease.ResourceVersion {
			last = renewal{lease.ResourceVersion, time.Now()}
		}
		if time.Since(last.at) < endpointsLife {
			seen[lease.Name] = last
			live = append(live, *lease.Spec.HolderIdentity)
		} else if err := l.remove(lease.Name); err != nil {
			return nil, err
		}
	}
	l.seen = seen
	return live, nil
}

func (l *serverLeases) UpdateLease(ip string) error {
	now, seconds := metav1.NowMicro(), int32(endpointsLife/time.Second)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &ip, RenewTime: &now, LeaseDurationSeconds: &seconds}
	lease, err := l.client.Get(context.Background(), leaseOf(ip), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = l.client.Create(context.Background(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: leaseOf(ip),
				Labels: map[string]string{endpointsLabel: strings.ReplaceAll(ip, ":", "-")}}, Spec: spec,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = l.client.Update(context.Background(), lease, metav1.UpdateOptions{})
	return err
}

func (l *serverLeases) RemoveLease(ip string) error { return l.remove(leaseOf(ip)) }

func (l *serverLeases) remove(name string) error {
	err := l.client.Delete(context.Background(), name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	// The error can come from admission and name another object.
	if _, absent := l.client.Get(context.Background(), name, metav1.GetOptions{}); apierrors.IsNotFound(absent) {
		return nil
	}
	return err
}

// Destroy has nothing to release.
func (l *serverLeases) Destroy() {}
