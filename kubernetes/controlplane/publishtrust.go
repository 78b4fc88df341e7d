package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// publishTrust merges the authorities that this control plane trusts into the ConfigMap, next to
// those that other servers wrote. It writes nothing if there are none.
func (p *ControlPlane) publishTrust(ctx context.Context, own []byte) error {
	data := p.identify.Published(own)
	if len(data) == 0 {
		return nil
	}
	for range 20 { // conflicts come from other servers that start at the same time
		there, err := derived.Get[corev1.ConfigMap](p.store.Snapshot(), "configmaps", metav1.NamespaceSystem, trustName)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		now := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
		}
		method, path := http.MethodPost, "/api/v1/namespaces/"+metav1.NamespaceSystem+"/configmaps"
		if there != nil {
			now, method, path = there.DeepCopy(), http.MethodPut, path+"/"+trustName
			now.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		}
		now.Data = authn.JoinPublished(now.Data, data)
		if there != nil && maps.Equal(now.Data, there.Data) {
			return nil
		}
		switch conflict, err := p.put(ctx, method, path, now); {
		case err != nil:
			return err
		case !conflict:
			return nil
		}
		select { // with etcd, this server sees the other's write after a short delay
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("too many conflicting writes by other servers")
}

// put writes an object as an administrator and reports whether another client's write conflicted.
func (p *ControlPlane) put(ctx context.Context, method, path string, obj any) (conflict bool, err error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://kelson.in-process"+path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "kube-apiserver") // the manager of the object's fields
	resp, err := p.Transport().RoundTrip(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch answer, err := io.ReadAll(resp.Body); {
	case err != nil:
		return false, err
	case resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusNotFound:
		return true, ctx.Err()
	case resp.StatusCode >= 300:
		return false, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return false, nil
}
