package controlplane

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// leaseName is the Lease that control planes with a shared state compete for. Its holder runs the
// controllers.
const leaseName = "kelson-controllers"

// renewDeadline is how long the holder tries to renew the Lease before it gives up.
const renewDeadline = 10 * time.Second

// whileLeading runs the components that only one control plane may run. A control plane with its
// own store runs them immediately. With a shared store, it runs them while it holds the Lease,
// until resign is called. The function run starts the components, which end with its context.
func (p *ControlPlane) whileLeading(ctx context.Context, run func(ctx context.Context, parts *parts) error) error {
	if !p.store.Follows() {
		return run(ctx, &p.parts)
	}
	config := p.serverConfig()
	// As in Kubernetes' components, one request without a response does not lose the Lease.
	config.Timeout = renewDeadline / 2
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create the lease client: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "kelson"
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	p.resign = p.goUntil(ctx, "leader election", func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := p.lead(ctx, lock, run); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// lead waits for the Lease and calls run. When the Lease is lost or ctx ends, it waits for all
// started components to end and releases the Lease.
func (p *ControlPlane) lead(ctx context.Context, lock resourcelock.Interface,
	run func(context.Context, *parts) error) error {
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaseName, ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: renewDeadline, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { elected <- leading },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(klog.NewContext(electing, logr.FromSlogHandler(p.log.Handler())))
	}()
	defer func() { <-ended }()
	defer release()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
		return nil
	case leading := <-elected:
		running, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(leading, cancel)()
		started := parts{log: p.log}
		err := run(running, &started)
		if err != nil {
			cancel()
		}
		<-running.Done()
		started.Wait()
		return err
	}
}
