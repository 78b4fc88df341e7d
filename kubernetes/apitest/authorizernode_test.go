package apitest_test

import (
	"encoding/json"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/authorizers"
)

func commit(t *testing.T, st *store.Store, resource string, obj metav1.Object) {
	t.Helper()
	op := store.Op{Key: store.Key{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		Expect: store.AnyRevision}
	if obj.GetDeletionTimestamp() == nil {
		var err error
		op.Data, err = json.Marshal(obj)
		require.NoError(t, err)
	}
	_, err := st.Commit(t.Context(), op)
	require.NoError(t, err)
}

// A node may read what the pods that are bound to it use, and no longer when the pod ends. Other
// nodes, and users outside of the group of nodes, may not.
func TestNode(t *testing.T) {
	st := storetest.New(t, store.Config{})
	a := authorizers.Node(st)
	asked := func(name string, groups []string, q authorizer.AttributesRecord, allowed bool) {
		t.Helper()
		q.User, q.ResourceRequest = &user.DefaultInfo{Name: name, Groups: groups}, true
		if decision, reason, err := a.Authorize(t.Context(), q); (decision == authorizer.DecisionAllow) != allowed ||
			decision == authorizer.DecisionDeny || err != nil {
			t.Errorf("%s %s %s/%s: %v %q %v", name, q.Verb, q.Resource, q.Name, decision, reason, err)
		}
	}
	nodes := []string{user.NodesGroup, user.AllAuthenticated}
	node := func(name string, q authorizer.AttributesRecord, allowed bool) {
		t.Helper()
		asked("system:node:"+name, nodes, q, allowed)
	}
	secret := authorizer.AttributesRecord{Verb: "get", Namespace: "x", APIVersion: "v1", Resource: "secrets", Name: "s"}
	list := secret
	list.Name, list.Verb = "", "list"
	config := authorizer.AttributesRecord{Verb: "get", Namespace: "x", APIVersion: "v1", Resource: "configmaps",
		Name: "c"}
	token := authorizer.AttributesRecord{Verb: "create", Namespace: "x", APIVersion: "v1", Resource: "serviceaccounts",
		Subresource: "token", Name: "robot"}
	volume := authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "persistentvolumes", Name: "pv"}
	attachment := authorizer.AttributesRecord{Verb: "get", APIGroup: "storage.k8s.io", APIVersion: "v1",
		Resource: "volumeattachments", Name: "va"}
	all := []authorizer.AttributesRecord{secret, config, token, volume, attachment}
	for _, q := range all {
		node("n1", q, false)
	}

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}, Spec: corev1.PodSpec{
		ServiceAccountName: "robot",
		Volumes: []corev1.Volume{
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
			{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc"}}},
		},
	}}
	commit(t, st, "pods", pod)
	node("n1", secret, false)
	pod.Spec.NodeName = "n1"
	commit(t, st, "pods", pod)
	commit(t, st, "persistentvolumes", &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "x", Name: "pvc"}},
	})
	commit(t, st, "volumeattachments.storage.k8s.io", &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"},
	})
	for _, q := range all {
		node("n1", q, true)
		node("n2", q, false)
		asked("system:node:n1", nil, q, false) // without the group, the user is not a node
		asked("ann", nodes, q, false)
	}
	node("n1", list, false)
	node("n1", authorizer.AttributesRecord{Verb: "create", APIVersion: "v1", Resource: "nodes"}, true)
	node("n1", authorizer.AttributesRecord{Verb: "delete", APIVersion: "v1", Resource: "namespaces", Name: "x"}, false)

	now := metav1.Now()
	pod.DeletionTimestamp = &now
	commit(t, st, "pods", pod)
	for _, q := range []authorizer.AttributesRecord{secret, config, token, volume} {
		node("n1", q, false)
	}
	node("n1", attachment, true)
	if _, _, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "system:node:n1", Groups: nodes},
		"x"); !incomplete || err == nil {
		t.Error("want an error when the rules of a node are listed")
	}
	if _, _, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "ann"}, "x"); incomplete || err != nil {
		t.Error(incomplete, err)
	}
}

// Reports of a pod's status change the rights of its node only if they name resource claims. New
// containers of the pod change them, too.
func TestNodeAfterReports(t *testing.T) {
	st := storetest.New(t, store.Config{})
	a := authorizers.Node(st)
	asked := func(group, version, resource string, allowed bool) {
		t.Helper()
		q := authorizer.AttributesRecord{Verb: "get", ResourceRequest: true, Namespace: "x", APIGroup: group,
			APIVersion: version, Resource: resource, Name: "a",
			User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}}
		decision, reason, err := a.Authorize(t.Context(), q)
		if (decision == authorizer.DecisionAllow) != allowed || err != nil {
			t.Errorf("%s: %v %q %v", resource, decision, reason, err)
		}
	}
	template := "t"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p", UID: "u"}, Spec: corev1.PodSpec{
		NodeName: "n1",
		Volumes: []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}},
	}}
	commit(t, st, "pods", pod)
	asked("", "v1", "configmaps", true)
	asked("resource.k8s.io", "v1", "resourceclaims", false)
	pod.Status.Phase = corev1.PodRunning
	commit(t, st, "pods", pod)
	asked("", "v1", "configmaps", true)
	claim := "a"
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claim}}
	commit(t, st, "pods", pod)
	asked("resource.k8s.io", "v1", "resourceclaims", true)
	pod.Status.ResourceClaimStatuses = nil
	commit(t, st, "pods", pod)
	asked("resource.k8s.io", "v1", "resourceclaims", false)
	asked("", "v1", "secrets", false)
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}}}}
	commit(t, st, "pods", pod)
	asked("", "v1", "secrets", true)
}

// A node can request the certificates of its pods, and can read only its own requests.
func TestNodeAndPodCertificates(t *testing.T) {
	st := storetest.New(t, store.Config{})
	a := authorizers.Node(st)
	const group, plural = "certificates.k8s.io", "podcertificaterequests"
	asked := func(node string, q authorizer.AttributesRecord, allowed bool) {
		t.Helper()
		q.User = &user.DefaultInfo{Name: "system:node:" + node,
			Groups: []string{user.NodesGroup, user.AllAuthenticated}}
		q.ResourceRequest, q.APIGroup, q.APIVersion, q.Resource, q.Namespace = true, group, "v1", plural, "x"
		if decision, reason, err := a.Authorize(t.Context(), q); (decision == authorizer.DecisionAllow) != allowed ||
			err != nil {
			t.Errorf("%s %s %s: %v %q %v", node, q.Verb, q.Name, decision, reason, err)
		}
	}
	get, create := authorizer.AttributesRecord{Verb: "get", Name: "r"}, authorizer.AttributesRecord{Verb: "create"}
	status, list := authorizer.AttributesRecord{Verb: "update", Name: "r", Subresource: "status"},
		authorizer.AttributesRecord{Verb: "list"}
	asked("n1", get, false)
	asked("n1", create, true)
	asked("n1", list, false)
	list.FieldSelectorRequirements = fields.OneTermEqualSelector("spec.nodeName", "n1").Requirements()
	asked("n1", list, true)
	asked("n2", list, false)

	request := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "r"},
		Spec: certificatesv1.PodCertificateRequestSpec{NodeName: "n1"}}
	commit(t, st, plural+"."+group, request)
	asked("n1", get, true)
	asked("n2", get, false)
	asked("n1", status, false)
	now := metav1.Now()
	request.DeletionTimestamp = &now
	commit(t, st, plural+"."+group, request)
	asked("n1", get, false)
}
