package controlplane

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/store/derived"
)

// trustName is the ConfigMap in kube-system that tells extension API servers which authorities this
// server trusts.
const trustName = "extension-apiserver-authentication"

// trustCheck is how often the files of authorities are checked, as in kube-apiserver.
const trustCheck = time.Minute

// keepTrust publishes the authorities again when their files have changed, until ctx ends.
func (p *ControlPlane) keepTrust(ctx context.Context, rootCA []byte) error {
	var published map[string]string // unknown, because the first attempt may have failed
	check := time.NewTicker(trustCheck)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C:
		}
		now := p.identify.Published(rootCA)
		if maps.Equal(now, published) {
			continue
		}
		if err := p.publishTrust(ctx, rootCA); err != nil {
			p.log.Error("publish the trusted authorities: trying again in a minute", "configmap", trustName, "err", err)
			continue
		}
		published = now
	}
}

// publishTrust merges the authorities that this control plane trusts into the ConfigMap, next to
// those that other servers wrote. It writes nothing if there are none.
func (p *ControlPlane) publishTrust(ctx context.Context, rootCA []byte) error {
	data := p.identify.Published(rootCA)
	if len(data) == 0 {
		return nil
	}
	for range 20 { // conflicts come from other servers that start at the same time
		stored, err := derived.Get[corev1.ConfigMap](p.store.Snapshot(), "configmaps", metav1.NamespaceSystem,
			trustName)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		now := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
		}
		method, path := http.MethodPost, "/api/v1/namespaces/"+metav1.NamespaceSystem+"/configmaps"
		if stored != nil {
			now, method, path = stored.DeepCopy(), http.MethodPut, path+"/"+trustName
			now.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		}
		now.Data = authn.JoinPublished(now.Data, data)
		if stored != nil && maps.Equal(now.Data, stored.Data) {
			return nil
		}
		_, err = writeAsServer(method, path, now).Do(ctx, p.serverTransport())
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
		select { // with etcd, this server sees the other's write after a short delay
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("too many conflicting writes by other servers")
}
