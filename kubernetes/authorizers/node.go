package authorizers

import (
	"bytes"
	"context"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

const (
	pods              = "pods"
	volumes           = "persistentvolumes"
	volumeAttachments = "volumeattachments.storage.k8s.io"
	podCertificates   = "podcertificaterequests.certificates.k8s.io"
)

// related are the resources that relate nodes to the objects that they may read.
var related = []string{pods, volumes, volumeAttachments, podCertificates}

// NodeAuthorizer allows nodes only the requests that the pods bound to them need.
type NodeAuthorizer struct {
	*derived.Fold
	identifier nodeidentifier.NodeIdentifier
	graph      *node.Graph
	decides    *node.NodeAuthorizer
}

// Node returns a NodeAuthorizer over the pods, volumes, volume attachments and
// PodCertificateRequests in a store.
func Node(st *store.Store) *NodeAuthorizer {
	n := &NodeAuthorizer{identifier: nodeidentifier.NewDefaultNodeIdentifier()}
	n.Fold = derived.NewFold(st, n.begin, n.take, related...)
	return n
}

// Authorize decides the requests of nodes, and has no opinion on others.
func (n *NodeAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u := a.GetUser(); u == nil || !n.isNode(u) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if err := n.RLock(); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	defer n.RUnlock()
	return n.decides.Authorize(ctx, a)
}

func (n *NodeAuthorizer) isNode(u user.Info) bool {
	_, isNode := n.identifier.NodeIdentity(u)
	return isNode
}

// ConditionsAwareAuthorize calls Authorize: the rights of nodes have no conditions.
func (n *NodeAuthorizer) ConditionsAwareAuthorize(ctx context.Context,
	a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(n.Authorize(ctx, a))
}

// EvaluateConditions returns an error: the rights of nodes have no conditions.
func (n *NodeAuthorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision,
	authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor returns an error for nodes, because their rights depend on the graph.
func (n *NodeAuthorizer) RulesFor(_ context.Context, u user.Info,
	_ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if n.isNode(u) {
		return nil, nil, true, errors.New("node authorizer does not support user rule resolution")
	}
	return nil, nil, false, nil
}

func (n *NodeAuthorizer) begin(sn *store.Snapshot) {
	n.graph = node.NewGraph()
	n.decides = node.NewAuthorizer(n.graph, n.identifier, bootstrappolicy.NodeRules())
	for _, resource := range related {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			n.add(obj)
		}
	}
}

func (n *NodeAuthorizer) take(e *store.Event) {
	if e.Type != store.Deleted {
		if !keepsRelations(e) {
			n.add(e.Object)
		}
		return
	}
	switch key := e.Object.Key; key.Resource {
	case pods:
		n.graph.DeletePod(key.Name, key.Namespace)
	case volumes:
		n.graph.DeletePV(key.Name)
	case volumeAttachments:
		n.graph.DeleteVolumeAttachment(key.Name)
	case podCertificates:
		n.graph.DeletePodCertificateRequest(&certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	}
}

// keepsRelations reports whether an update of a pod certainly does not change which objects the pod
// uses: its specification is the same, and it has no status of resource claims. Most updates of
// pods are reports of agents. Requests of nodes wait for the graph, so it must not decode them.
func keepsRelations(e *store.Event) bool {
	return e.Type == store.Modified && e.Object.Key.Resource == pods && e.Object.Head.UID == e.Prev.Head.UID &&
		bytes.Equal(e.Object.Member("spec"), e.Prev.Member("spec")) && !hasClaims(e.Object) && !hasClaims(e.Prev)
}

// hasClaims reports whether a pod may have a status of resource claims.
func hasClaims(pod *store.Object) bool {
	return bytes.Contains(pod.Data, []byte(`"resourceClaimStatuses"`)) ||
		bytes.Contains(pod.Data, []byte(`"extendedResourceClaimStatus"`))
}

// add adds an object's relations to the graph. It ignores objects that it can't decode. The graph
// does not keep the objects, so caching their decoded form would be useless.
func (n *NodeAuthorizer) add(obj *store.Object) {
	switch obj.Key.Resource {
	case pods:
		if pod, err := derived.DecodeLean[corev1.Pod](obj); err == nil && pod.Spec.NodeName != "" {
			n.graph.AddPod(pod)
		}
	case volumes:
		if volume, err := derived.DecodeLean[corev1.PersistentVolume](obj); err == nil {
			n.graph.AddPV(volume)
		}
	case volumeAttachments:
		if attachment, err := derived.DecodeLean[storagev1.VolumeAttachment](obj); err == nil {
			n.graph.AddVolumeAttachment(attachment.Name, attachment.Spec.NodeName)
		}
	case podCertificates:
		if request, err := derived.DecodeLean[certificatesv1.PodCertificateRequest](obj); err == nil {
			n.graph.AddPodCertificateRequest(request)
		}
	}
}
