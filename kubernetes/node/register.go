package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"runtime"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/strategic"
)

// statusEvery is how often the agent updates the Node's status, if it has a lease. It is the
// kubelet's default.
const statusEvery = 5 * time.Minute

// errNodeGone means that a Node that another client creates does not exist.
var errNodeGone = errors.New("the node is gone")

// register creates or updates the Node, and retries until it succeeds. It returns false if ctx ends
// first, or if the Node must exist already and does not.
func (a *Agent) register(ctx context.Context) bool {
	var attempts retries
	for {
		end := a.config.Backlog.join(ctx)
		err := a.putNode(ctx)
		end()
		if err == nil {
			a.events.recorder.Event(a.ref(), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
			return true
		}
		if ctx.Err() != nil || errors.Is(err, errNodeGone) {
			return false
		}
		attempts.failed(time.Now(), 100*time.Millisecond, 7*time.Second)
		a.log.Warn("register node", "error", err, "retry", attempts.delay)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(attempts.delay):
		}
	}
}

// ref returns the node as the involved object of events. Like kubelets, it uses the name as uid.
func (a *Agent) ref() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.config.Name, UID: types.UID(a.config.Name)}}
}

// putNode creates the Node or updates an existing one, and writes its status.
func (a *Agent) putNode(ctx context.Context) error {
	wanted := a.node()
	node := wanted.DeepCopy()
	exists := a.config.Writes != WritesNode
	if !exists {
		err := a.client.Create(ctx, node)
		if exists = apierrors.IsAlreadyExists(err); err != nil && !exists {
			return fmt.Errorf("put node: %w", err)
		}
	}
	if exists {
		var err error
		node, err = client.Get[corev1.Node](ctx, a.client, client.KeyOf(wanted))
		switch {
		case a.config.Writes != WritesNode && apierrors.IsNotFound(err):
			return errNodeGone
		case err != nil:
			return fmt.Errorf("get node: %w", err)
		}
		patch := strategic.MergeFrom(node)
		node.Labels = a.mergeLabels(node.Labels, wanted.Labels)
		if err := a.client.Patch(ctx, node, patch); err != nil {
			return fmt.Errorf("put node: %w", err)
		}
	}
	if err := a.putDrivers(ctx, node); err != nil || a.config.Writes > WritesStatus {
		return err
	}
	if err := a.putNodeStatus(ctx, node); err != nil || a.config.KeepTaints {
		return err
	}
	return a.untaint(ctx, node)
}

// mergeLabels returns the labels of an existing Node and those of the agent. If both have a label,
// the agent's value is used only if the Node is the agent's own.
func (a *Agent) mergeLabels(existing, own map[string]string) map[string]string {
	low, high := existing, own
	if a.config.Writes != WritesNode {
		low, high = own, existing
	}
	merged := make(map[string]string, len(low)+len(high))
	maps.Copy(merged, low)
	maps.Copy(merged, high)
	return merged
}

// putDrivers creates the CSINode or adds the agent's drivers to it.
func (a *Agent) putDrivers(ctx context.Context, node *corev1.Node) error {
	if len(a.config.Drivers) == 0 {
		return nil
	}
	drivers := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}}
	for _, name := range a.config.Drivers {
		drivers.Spec.Drivers = append(drivers.Spec.Drivers, storagev1.CSINodeDriver{Name: name, NodeID: node.Name})
	}
	err := a.client.Create(ctx, drivers.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("create CSINode: %w", err)
		}
		return nil
	}
	found, err := client.Get[storagev1.CSINode](ctx, a.client, client.KeyOf(drivers))
	if err != nil {
		return fmt.Errorf("get CSINode: %w", err)
	}
	patch := strategic.MergeFrom(found)
	found.OwnerReferences = drivers.OwnerReferences
	for _, driver := range drivers.Spec.Drivers {
		if !slices.ContainsFunc(found.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
			return d.Name == driver.Name
		}) {
			found.Spec.Drivers = append(found.Spec.Drivers, driver)
		}
	}
	if err := a.client.Patch(ctx, found, patch); err != nil {
		return fmt.Errorf("update CSINode: %w", err)
	}
	return nil
}

// untaint removes the not-ready taint, which admission adds to every new node. In a cluster, the
// node lifecycle controller removes it when the node reports that it is ready.
func (a *Agent) untaint(ctx context.Context, node *corev1.Node) error {
	notReady := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady }
	if !slices.ContainsFunc(node.Spec.Taints, notReady) {
		return nil
	}
	patch := strategic.MergeFrom(node)
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, notReady)
	if err := a.client.Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("remove taint: %w", err)
	}
	return nil
}

// putNodeStatus writes the node's status.
func (a *Agent) putNodeStatus(ctx context.Context, node *corev1.Node) error {
	patch := strategic.MergeFrom(node)
	addresses := node.Status.Addresses
	a.setNodeStatus(&node.Status, time.Now())
	if a.config.ExternalCloud { // the manager sets the others
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: a.config.Name}}
		if node.Spec.ProviderID != "" {
			node.Status.Addresses = addresses
		}
	}
	if err := a.client.Subresource("status").Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("write node status: %w", err)
	}
	return nil
}

// node returns the Node to register.
func (a *Agent) node() *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   a.config.Name,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, a.config.Labels)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: a.config.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: a.config.Taints},
	}
	if a.config.ExternalCloud {
		node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: a.config.Address}
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints),
			corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true",
				Effect: corev1.TaintEffectNoSchedule})
	}
	return node
}

// setNodeStatus sets the parts of the status that the agent reports, and leaves the others.
func (a *Agent) setNodeStatus(status *corev1.NodeStatus, now time.Time) {
	info := a.config.Runtime.Info()
	given := corev1.NodeStatus{}
	if a.config.Writes != WritesNode {
		given = *status
	}
	status.Capacity, status.Allocatable = a.config.Capacity, a.config.Capacity
	if len(given.Capacity) > 0 {
		status.Capacity, status.Allocatable = given.Capacity, given.Capacity
	}
	if a.config.Writes != WritesNode {
		status.Phase = corev1.NodeRunning // KWOK's Stages select it
	}
	if len(given.Allocatable) > 0 {
		status.Allocatable = given.Allocatable
	}
	status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: a.config.Address},
		{Type: corev1.NodeHostName, Address: a.config.Name},
	}
	if len(given.Addresses) > 0 {
		status.Addresses = given.Addresses
	}
	status.NodeInfo = corev1.NodeSystemInfo{
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
		KubeletVersion: a.config.Version, ContainerRuntimeVersion: info.Name + "://" + info.Version,
		OSImage: "Kelson (" + info.Name + ")", MachineID: a.config.Name, SystemUUID: a.config.Name,
	}
	for field, value := range map[*string]string{
		&status.NodeInfo.OperatingSystem:         given.NodeInfo.OperatingSystem,
		&status.NodeInfo.Architecture:            given.NodeInfo.Architecture,
		&status.NodeInfo.KubeletVersion:          given.NodeInfo.KubeletVersion,
		&status.NodeInfo.ContainerRuntimeVersion: given.NodeInfo.ContainerRuntimeVersion,
		&status.NodeInfo.OSImage:                 given.NodeInfo.OSImage,
	} {
		*field = cmp.Or(value, *field)
	}
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "kubelet is posting ready status"},
	} {
		setNodeCondition(status, c, now)
	}
}

func setNodeCondition(status *corev1.NodeStatus, c corev1.NodeCondition, now time.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = metaTime(now), metaTime(now)
	for i := range status.Conditions {
		if old := &status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}

// heartbeat renews the node's lease until ctx ends, and its status less often.
func (a *Agent) heartbeat(ctx context.Context) {
	if a.config.LeaseDuration < 0 {
		return
	}
	every := a.config.LeaseDuration / 4
	// The second heartbeat comes earlier, so that those of many nodes that start together do not
	// all come at the same time.
	timer := time.NewTimer(phase(a.config.Name, every))
	defer timer.Stop()
	// A kubelet also shifts its next report by up to half of the period after its status has
	// changed. Otherwise, nodes that joined together would report together from then on.
	statusAt := time.Now().Add(statusEvery/2 + phase(a.config.Name, statusEvery))
	var lease *coordinationv1.Lease
	renew := func() {
		var err error
		if lease, err = a.renew(ctx, lease); err != nil && ctx.Err() == nil {
			a.log.Warn("renew node lease", "error", err)
		}
	}
	end := a.config.Backlog.join(ctx)
	renew()
	end()
	for {
		if now := time.Now(); !now.Before(statusAt) && a.config.Writes <= WritesStatus {
			statusAt = now.Add(statusEvery)
			node, err := client.Get[corev1.Node](ctx, a.client, client.Key{Name: a.config.Name})
			if err == nil {
				err = a.putNodeStatus(ctx, node)
			}
			if err != nil && ctx.Err() == nil {
				a.log.Warn("report node status", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(every)
		}
		renew()
	}
}

// phase returns a part of a period, which depends on a node's name.
func phase(name string, period time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(name))
	return time.Duration(float64(period) * float64(h.Sum32()) / (1 << 32))
}

// renew sets the lease's renewal time to now. lease is the result of the previous call, or nil.
func (a *Agent) renew(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := metav1.NowMicro()
	if lease != nil && a.config.Renew != nil && a.config.Renew(ctx, a.config.Name, now.Time) {
		lease.ResourceVersion = "" // unknown
		return lease, nil
	}
	if lease != nil && lease.ResourceVersion != "" {
		lease.Spec.RenewTime = &now
		err := a.client.Update(ctx, lease)
		if err == nil {
			return lease, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("update lease: %w", err) // the next call reads the lease again
		}
	}
	seconds := int32(max(a.config.LeaseDuration/time.Second, 1))
	node, err := client.Get[corev1.Node](ctx, a.client, client.Key{Name: a.config.Name})
	if err != nil {
		return nil, fmt.Errorf("get node: %w", err)
	}
	lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: a.config.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &a.config.Name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	err = a.client.Create(ctx, lease)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return nil, fmt.Errorf("create lease: %w", err)
		}
		return lease, nil
	}
	found, err := client.Get[coordinationv1.Lease](ctx, a.client, client.KeyOf(lease))
	if err != nil {
		return nil, fmt.Errorf("get lease: %w", err)
	}
	found.Spec, found.OwnerReferences = lease.Spec, lease.OwnerReferences
	if err := a.client.Update(ctx, found); err != nil {
		return nil, fmt.Errorf("update lease: %w", err)
	}
	return found, nil
}
